"""Settings of every run, and the Spark that its tests share."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import settings

# No deadline: the first call of a kernel compiles it. The same examples in every run, unless HYPOTHESIS_EXPLORE is set.
settings.register_profile("nearcast", deadline=None, derandomize="HYPOTHESIS_EXPLORE" not in os.environ)
settings.load_profile("nearcast")

# Of tests/spark: modules that start Sparks of their own, or take as long as all others together.
OWN_SPARK = ("test_examples.py", "test_job.py", "test_kills.py", "test_hosts.py")

os.environ.setdefault("NUMBA_NUM_THREADS", "1")  # kernels have one; and no test starts a process that compiles ahead

if os.environ.get("NUMBA_DISABLE_JIT", "0") != "0":
    # Compiled kernels let infinities pass without a word, and so must plain ones.
    np.seterr(over="ignore", invalid="ignore")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark tests that ask for Spark: those of the quick run leave them out, -m 'not spark and not slow'.

    Modules with long tests come first, and the contract, the longest of all, so that in the end no core waits for the
    last of them.
    """
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.spark)
    long = {item.path for item in items if item.get_closest_marker("spark") or item.get_closest_marker("slow")}
    long |= {item.path for item in items if item.path.parent.name == "contract"}
    items.sort(key=lambda item: item.path not in long)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """By module, but all that share a Spark in one process: to start one takes 20 s of a core."""
    from xdist.scheduler import LoadScopeScheduling

    class OneSpark(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            module = nodeid.partition("::")[0]
            shared = module.startswith("tests/spark/") and not module.endswith(OWN_SPARK)
            return "spark" if shared else super()._split_scope(nodeid)

    return OneSpark(config, log) if config.option.dist == "loadscope" else None


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """An embedded Spark with one worker, for all tests of this process that do not start one of their own."""
    from nearcast.spark.session.session import embedded_master, start_session

    session = start_session(embedded_master(1), 1, tmp_path_factory.mktemp("spark"))
    yield session
    session.stop()
