"""A Spark session for the pipeline: finds Java, sets what the pipeline relies on, keeps Spark's talk in a log file."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from nearcast.errors import SetupError
from nearcast.spark.session.java import find_java
from nearcast.spark.session.master import check_master

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TASK_FAILURES = 8  # attempts of one task before the run gives up
_EXECUTOR_MB = 1024
_OWN = "WORKERS_OF"  # a variable of the environment of workers that hold shards: it sets them apart
# Java does little here but start: the simple compiler and collector take 25 s of processor time for a small run, the
# default ones 43 s (2026-11, two busy cores).
SMALL_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"

_LOGGING = """rootLogger.level = error
rootLogger.appenderRef.stderr.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{yy/MM/dd HH:mm:ss} %p %c{1}: %m%n%ex
"""


def embedded_master(n_shards: int) -> str:
    """The master for a Spark inside this machine.

    Beside one shard there is a second thread, so that two tasks read at a time. More shards run in one executor of one
    core each: Spark then sends a shard to the same executor every time.
    """
    return f"local[2,{TASK_FAILURES}]" if n_shards == 1 else f"local-cluster[{n_shards},1,{_EXECUTOR_MB}]"


@contextlib.contextmanager
def own_workers(spark: SparkSession) -> Iterator[None]:
    """Functions that are given to Spark inside run in Python workers of their own.

    An executor takes whichever worker is idle, so that a shard could meet one that does not hold it, and each such
    meeting costs a restore. With workers of its own there is only one that can be idle.
    """
    context, before = spark.sparkContext, spark.sparkContext.environment
    context.environment = {**before, _OWN: "shards"}  # another one, since other threads may be reading this one
    try:
        yield
    finally:
        context.environment = before


def start_session(master: str, n_shards: int, folder: Path) -> SparkSession:
    """Start Spark, or take the session that this process already has.

    Parameters
    ----------
    master
        Any Spark master; `embedded_master` names one inside this machine.
    n_shards
        Partitions of the shuffle.
    folder
        Where Spark lives on one machine, and where its log and scratch files go.

    Raises
    ------
    SetupError
        PySpark or Java is missing, nobody answers at the master's address, or Spark does not start.
    """
    for module in ("pyspark", "pandas", "google.protobuf"):
        if not _installed(module):
            raise SetupError(f"{module} is not installed. Run: pip install 'nearcast[spark]'")
    from pyspark.sql import SparkSession

    running = SparkSession.getActiveSession()
    if running is not None:
        running.conf.set("spark.sql.shuffle.partitions", n_shards)
        return running
    check_master(master)
    shutil.rmtree(folder / "scratch", ignore_errors=True)  # what a Spark that was killed left behind
    folder.mkdir(parents=True, exist_ok=True)
    java = find_java()
    os.environ["JAVA_HOME"] = str(java.home)
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    on_this_machine = master.startswith("local")
    if on_this_machine:
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    logging = folder / "log4j2.properties"
    logging.write_text(_LOGGING)
    builder = SparkSession.builder.master(master).appName("nearcast")
    for name, value in _settings(n_shards, folder, on_this_machine).items():
        builder = builder.config(name, value)
    flags = f"-Dlog4j2.configurationFile={logging.absolute().as_uri()}" + (f" {SMALL_JAVA}" if on_this_machine else "")
    for where in ("driver", "executor"):
        builder = builder.config(f"spark.{where}.extraJavaOptions", flags)
    log = folder / "spark.log"
    try:
        with _stderr_to(log), _living_in(folder / "home") if on_this_machine else contextlib.nullcontext():
            session = builder.getOrCreate()
    except Exception as error:
        first = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise SetupError(f"Spark did not start on {master}: {first} (see {log})") from error
    session.sparkContext.setLogLevel("ERROR")
    return session


def make_home(home: Path) -> None:
    """Make a home for Spark that is the installed one but for its Python files, in place of one that is there.

    Spark has its Python files in an archive, too, which every process that it starts prefers to the installed ones, and
    compiles again: 1 s of processor time each (2026-11). It also writes logs of executors to its home.
    """
    from pyspark.find_spark_home import _find_spark_home

    shutil.rmtree(home, ignore_errors=True)
    home.mkdir(parents=True)
    for part in Path(_find_spark_home()).iterdir():
        if part.name not in ("python", "work"):
            (home / part.name).symlink_to(part)


@contextlib.contextmanager
def _living_in(home: Path) -> Iterator[None]:
    """Have the Java process that is started inside live in this home, unless the user has named another."""
    if "SPARK_HOME" in os.environ:
        yield
        return
    make_home(home)
    os.environ["SPARK_HOME"] = str(home.absolute())
    try:
        yield
    finally:
        del os.environ["SPARK_HOME"]


def _settings(n_shards: int, folder: Path, on_this_machine: bool) -> dict[str, str]:
    streaming = "org.apache.spark.sql.execution.streaming"
    settings = {
        "spark.sql.shuffle.partitions": str(n_shards),
        "spark.sql.adaptive.enabled": "false",
        "spark.locality.wait": "0s",
        "spark.speculation": "false",
        "spark.task.maxFailures": str(TASK_FAILURES),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.python.daemon.module": "nearcast.spark.session.daemon",
        "spark.sql.streaming.stateStore.providerClass": f"{streaming}.state.RocksDBStateStoreProvider",
        "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
        "spark.sql.streaming.minBatchesToRetain": "10",
        "spark.sql.streaming.pollingDelay": "50ms",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
    }
    if on_this_machine:
        # Only for local files; saves some 100 ms a batch.
        manager = f"{streaming}.checkpointing.FileSystemBasedCheckpointFileManager"
        settings["spark.sql.streaming.checkpointFileManagerClass"] = manager
        settings["spark.driver.host"] = settings["spark.driver.bindAddress"] = "127.0.0.1"
        settings["spark.executor.cores"] = "1"
        settings["spark.executor.memory"] = f"{_EXECUTOR_MB}m"
        settings["spark.local.dir"] = str(folder / "scratch")
    for name in ("NUMBA_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "ARROW_NUM_THREADS"):
        settings[f"spark.executorEnv.{name}"] = "1"
    return settings


@contextlib.contextmanager
def _stderr_to(log: Path) -> Iterator[None]:
    """Point file descriptor 2 at `log`, for the Java process that is started inside and writes there ever after."""
    sys.stderr.flush()
    saved = os.dup(2)
    with open(log, "ab") as file:
        os.dup2(file.fileno(), 2)
    try:
        yield
    finally:
        sys.stderr.flush()
        os.dup2(saved, 2)
        os.close(saved)


def _installed(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:
        return False
