"""Settings of every run."""

from __future__ import annotations

import os

import numpy as np
import pytest
from hypothesis import settings

settings.register_profile("nearcast", deadline=None)  # the first call of a kernel compiles it
settings.load_profile("nearcast")

if os.environ.get("NUMBA_DISABLE_JIT", "0") != "0":
    np.seterr(
        over="ignore", invalid="ignore"
    )  # compiled kernels let infinities pass without a word, and so must plain ones


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What looks at the kernels that a run compiled comes last."""
    items.sort(key=lambda item: item.path.name == "test_signatures.py")
