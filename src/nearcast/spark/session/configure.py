"""`configure` looks at a session and says what it lacks. It changes nothing: the session is its owner's."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from typing import Any

_ROCKS = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
_STATE = "spark.sql.streaming.stateStore"
_THREADS = ("NUMBA_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS")


def configure(spark: Any) -> list[str]:
    """What a session lacks, a sentence each, what streams cannot do without first; none if all is well.

    Examples
    --------
    >>> for sentence in ns.configure(spark): print(sentence)  # doctest: +SKIP
    """

    def get(name: str, default: str = "") -> str:
        return str(spark.conf.get(name, default))

    found = [
        f"{module} is not installed here, and must be on every host: pip install 'nearcast[spark]'."
        for module in ("pandas", "pyarrow", "google.protobuf")
        if not _is_installed(module)
    ]
    if get("spark.master").startswith("local"):
        found += _lacking(getattr(getattr(spark, "sparkContext", None), "pythonExec", sys.executable))
    if get(f"{_STATE}.providerClass") != _ROCKS:
        found.append(f"Streams cannot run without the state store RocksDB: set {_STATE}.providerClass to {_ROCKS}.")
    if get("spark.executor.pyspark.memory"):
        found.append("Snapshots cannot be mapped into memory: unset spark.executor.pyspark.memory.")
    if get("spark.python.worker.reuse", "true") != "true":
        found.append("Shards are restored in every batch: set spark.python.worker.reuse to true.")
    slots = get("spark.executor.cores", "1")
    if not get("spark.master").startswith("local") and slots != "1":
        found.append(
            f"An executor with {slots} slots has several Python workers, between which shards change places, and each "
            "change costs a restore: set spark.executor.cores to 1."
        )
    if get("spark.locality.wait", "3s") != "0s":
        found.append("A lost shard waits before it moves to another host: set spark.locality.wait to 0s.")
    if get("spark.speculation", "false") == "true":
        found.append("Speculation makes shards do their work twice: set spark.speculation to false.")
    n_partitions = get("spark.sql.shuffle.partitions", "200")
    if int(n_partitions) > 64:
        found.append(
            f"spark.sql.shuffle.partitions is {n_partitions}: every batch of a stream opens a state store for each. "
            "Choose a few more than there will ever be shards, before a checkpoint is begun."
        )
    if get(f"{_STATE}.rocksdb.changelogCheckpointing.enabled", "false") != "true":
        found.append(f"Batches commit faster with {_STATE}.rocksdb.changelogCheckpointing.enabled set to true.")
    unset = [name for name in _THREADS if get(f"spark.executorEnv.{name}") != "1"]
    if unset:
        found.append(
            f"Tasks may take more cores than they are given: set spark.executorEnv.{unset[0]} to 1, and the like."
        )
    return found


def _lacking(python: str) -> list[str]:
    """What the Python lacks that runs tasks on this machine, if it is another than this one."""
    look = "from importlib.util import find_spec; raise SystemExit(find_spec('nearcast') is None)"
    try:
        lacks = python != sys.executable and subprocess.run([python, "-c", look], check=False).returncode != 0
    except OSError:
        lacks = True
    if not lacks:
        return []
    return [
        f"Tasks run {python}, which has no nearcast: set the variable PYSPARK_PYTHON to {sys.executable} before the "
        "session starts."
    ]


def _is_installed(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:
        return False
