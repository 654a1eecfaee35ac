"""What Nearcast on Spark takes on one machine: `python -m bench.spark_bars [NAME ...]` measures, shows and records.

Every bar starts a Spark of its own. Its answers are counted against one broker's before anything is recorded. Besides
seconds it tells how many of them the Java process, the Python workers and this process computed, since a machine that
is shared makes seconds alone say little.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from bench.cases.messages import Stream
from bench.cases.within import STOP_WORDS
from bench.figure import SEED
from bench.record import RESULTS, append, surroundings
from nearcast import Broker, Space, Window
from nearcast.workload import subscriptions

Figures = dict[str, Any]

TWEETS = "tweets_2021_2022"
_TICKS = os.sysconf("SC_CLK_TCK")
_FILES = 20  # of a stream
_PARTS = ("addBatch", "walCommit", "commitOffsets", "latestOffset", "queryPlanning", "getBatch")  # of a micro-batch


class WrongAnswer(Exception):
    """Spark's answers are not those of one broker."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", choices=[*BARS, []], metavar="NAME", help=", ".join(BARS))
    parser.add_argument("--scale", type=float, default=1.0, help="a share of all numbers, to try it out")
    parser.add_argument("--dry", action="store_true", help="record nothing")
    parser.add_argument("--keep", type=Path, help="the folder to work in, which then stays")
    args = parser.parse_args()
    for name in args.names or BARS:
        with _folder(args.keep) as folder:
            bar, found = BARS[name](folder, args.scale)
        line = {"figure": "spark_bars", "x": name, "bar": bar, "scale": args.scale, **found}
        line |= {"load": round(os.getloadavg()[0], 2), **surroundings()}
        print(json.dumps({"bar": name, "wanted": bar, **found, "load": line["load"]}), flush=True)
        if not args.dry:
            append(line, RESULTS / "spark_bars.jsonl")


@contextlib.contextmanager
def _folder(kept: Path | None) -> Iterator[Path]:
    made = kept or Path(tempfile.mkdtemp(prefix="nearcast-bars-"))
    made.mkdir(exist_ok=True)
    try:
        yield made
    finally:
        if kept is None:
            shutil.rmtree(made, ignore_errors=True)


class Data:
    """Messages and `Within` subscriptions, as files."""

    def __init__(self, folder: Path, n_messages: int, n_subscriptions: int, name: str = TWEETS, files: int = 1) -> None:
        stream = Stream(name, SEED)
        self.space: Space = stream.space
        self.source = stream.source
        self.messages = stream.take(n_messages)
        drawn = subscriptions.Source.of(self.messages.slice(0, 200_000), STOP_WORDS.split())
        made = subscriptions.within(drawn, n_subscriptions, SEED, bounds=self.space.bounds)
        self.asked = pa.concat_tables(made).select(
            ["id", "kind", "keywords", "min_lon", "min_lat", "max_lon", "max_lat"]
        )
        self.told_at, self.asked_at = folder / "messages", folder / "subscriptions"
        for place, table, n in ((self.told_at, self.messages, files), (self.asked_at, self.asked, 1)):
            place.mkdir()
            size = -(-table.num_rows // n)
            for i in range(n):
                pq.write_table(table.slice(i * size, size), place / f"part-{i:05d}.parquet", row_group_size=50_000)

    def updates(self, window: Window | None) -> tuple[int, float]:
        """How many updates one broker gives, and the seconds that it computes."""
        broker = Broker(self.space, window)
        broker.subscribe_many(self.asked)
        began, n = time.process_time(), 0
        for at in range(0, self.messages.num_rows, 20_000):
            n += len(broker.publish(self.messages.slice(at, 20_000)))
        return n, time.process_time() - began


def session(folder: Path, master: str = "local[2,8]", **settings: str) -> Any:
    """A Spark as `nearcast run` starts it, warm: kernels are compiled and a worker has used them."""
    from nearcast.spark.session.session import start_session
    from nearcast.spark.session.warm import compile_aside

    compile_aside()
    spark = start_session(master, 1, folder / "session")
    for name, value in settings.items():
        spark.conf.set(name, value)
    return spark


class Spent:
    """CPU seconds of this process, of Java and of Python workers, between the start and the end of a block."""

    def __enter__(self) -> Spent:
        self._before, self._began = _cpu(os.getpid()), time.perf_counter()
        return self

    def __exit__(self, *_: object) -> None:
        self.seconds = time.perf_counter() - self._began
        after = _cpu(os.getpid())
        self.cpu = {name: round(after[name] - self._before.get(name, 0.0), 2) for name in after}


def _cpu(root: int) -> dict[str, float]:
    """CPU seconds of a process and of all below it, by what they are; of those that have ended, too."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                parent = int((entry / "stat").read_text().rsplit(")", 1)[1].split()[1])
                children.setdefault(parent, []).append(int(entry.name))
    spent = {"driver": 0.0, "java": 0.0, "workers": 0.0}
    waiting = [(root, "driver")]
    while waiting:
        pid, kind = waiting.pop()
        with contextlib.suppress(OSError):
            words = (Path("/proc") / str(pid) / "stat").read_text().rsplit(")", 1)[1].split()
            if kind != "workers" and pid != root:
                line = (Path("/proc") / str(pid) / "cmdline").read_text()
                kind = "workers" if "daemon" in line and "python" in line.split("\0")[0] else "java"
            own, ended = sum(map(int, words[11:13])), sum(map(int, words[13:15]))
            spent[kind] += (own + (ended if kind == "workers" else 0)) / _TICKS
            waiting += [(child, kind) for child in children.get(pid, [])]
    return spent


def batch_frames(folder: Path, scale: float) -> tuple[str, Figures]:
    """200,000 tweets against 1,000 subscriptions, as batch frames in a warm session."""
    import nearcast.spark as ns

    data = Data(folder, int(200_000 * scale), int(1_000 * scale))
    expected, broker_s = data.updates(None)
    spark = session(folder)
    told, asked = (spark.read.parquet(str(place)) for place in (data.told_at, data.asked_at))
    runs = []
    for number in range(6):
        with Spent() as spent:
            answers = ns.answers(told, asked, space=data.space)
            answers.write.mode("overwrite").parquet(str(folder / "answers"))
        if number:  # the first warms
            runs.append(spent)
        _same(spark.read.parquet(str(folder / "answers")).count(), expected)
    spark.stop()
    return "at most 4 s", {"seconds": _median(runs), "cpu": runs[-1].cpu, "broker_cpu_s": round(broker_s, 2),
                           "updates": expected, "source": data.source}  # fmt: skip


def matching(folder: Path, scale: float) -> tuple[str, Figures]:
    """2,000,000 messages against 10,000 subscriptions by `ns.match`, on 2 cores."""
    import nearcast.spark as ns

    data = Data(folder, int(2_000_000 * scale), int(10_000 * scale), files=4)
    expected, broker_s = data.updates(None)
    spark = session(folder)
    told, asked = (spark.read.parquet(str(place)) for place in (data.told_at, data.asked_at))
    runs = []
    for number in range(3):
        with Spent() as spent:
            ns.match(told, asked, space=data.space).write.mode("overwrite").parquet(str(folder / "answers"))
        if number:
            runs.append(spent)
        _same(spark.read.parquet(str(folder / "answers")).count(), expected)
    spark.stop()
    rate = data.messages.num_rows / _median(runs)
    return "at least 200,000 rows/s", {"rows_per_s": round(rate), "cpu": runs[-1].cpu, "broker_cpu_s": broker_s,
                                       "updates": expected, "source": data.source}  # fmt: skip


def micro_batches(folder: Path, scale: float) -> tuple[str, Figures]:
    """Micro-batches of 20,000 messages against 10,000 subscriptions, from Parquet to Parquet, one shard."""
    import nearcast.spark as ns

    n = int(20_000 * scale)
    data = Data(folder, n * (_FILES + 2), int(10_000 * scale), files=_FILES + 2)
    expected, broker_s = data.updates(Window(count=100_000))
    spark = session(folder, "local[1,8]")
    messages = spark.readStream.schema(ns_messages()).option("maxFilesPerTrigger", 1).parquet(str(data.told_at))
    asked = spark.read.parquet(str(data.asked_at))
    store = (folder / "store").as_uri()
    answers = ns.answers(messages, asked, space=data.space, window=Window(count=100_000), store=store)
    writer = answers.writeStream.option("checkpointLocation", str(folder / "checkpoint")).format("parquet")
    with Spent() as spent:
        query = writer.trigger(availableNow=True).start(str(folder / "answers"))
        query.awaitTermination()
    _same(spark.read.parquet(str(folder / "answers")).count(), expected)
    times = [p["durationMs"]["triggerExecution"] for p in query.recentProgress if p["numInputRows"]][2:]
    told = [p["durationMs"] for p in query.recentProgress if p["numInputRows"]]
    parts = {name: statistics.median(part.get(name, 0) for part in told) for name in _PARTS}
    spark.stop()
    return "at most 1.5 times `nearcast run` at 4ddbeeb without its reading", {
        "median_ms": statistics.median(times), "parts_ms": parts, "batches": len(times), "cpu": spent.cpu,
        "seconds": round(spent.seconds, 2), "broker_cpu_s": round(broker_s, 2), "updates": expected,
        "source": data.source,
    }  # fmt: skip


def ns_messages() -> str:
    """The columns of stored messages."""
    return "id bigint, lon double, lat double, text string, ts bigint"


def backlog(folder: Path, scale: float) -> tuple[str, Figures]:
    """2,000,000 stored messages, 10,000 subscriptions, a window of 100,000: `nearcast run` from start to end."""
    data = Data(folder, int(2_000_000 * scale), int(10_000 * scale), files=4)
    expected, broker_s = data.updates(Window(count=100_000))
    bounds = ",".join(map(str, data.space.bounds))
    with Spent() as spent:
        told = _command(
            "run", "--messages", str(data.told_at), "--subscriptions", str(data.asked_at), f"--space={bounds}",
            "--window-count", "100000", "--out", str(folder / "out"),
        )  # fmt: skip
    summary = json.loads((folder / "out" / "summary.json").read_text())
    found = sum(pq.read_metadata(path).num_rows for path in (folder / "out" / "updates").glob("*.parquet"))
    _same(found, expected)
    assert told.returncode == 0
    rate = data.messages.num_rows / spent.seconds
    return "at least 80,000 rows/s", {
        "rows_per_s": round(rate), "seconds": round(spent.seconds, 2), "summary": summary,
        "broker_cpu_s": round(broker_s, 2), "updates": expected, "source": data.source,
    }  # fmt: skip


def driver_memory(folder: Path, scale: float) -> tuple[str, Figures]:
    """100,000 and 2,000,000 subscriptions, as a static frame and by `nearcast run`: what the driver holds."""
    numbers = [int(n * scale) for n in (100_000, 100_000, 2_000_000)]  # the first warms
    given = [Data(_inside(folder, str(at)), 1_000, n) for at, n in enumerate(numbers)]
    bounds = given[0].space
    for data in given:
        del data.asked, data.messages
    pa.default_memory_pool().release_unused()
    spark = session(folder)
    found: Figures = {"subscriptions": numbers[1:]}
    for name, answer in (("frame", _by_frame), ("run", _by_run)):
        held = []
        for at, data in enumerate(given):
            answer(spark, data, _inside(folder, f"{name}-{at}"), bounds)
            held.append(_driver_mb(spark))
        found |= {f"{name}_{part}_mb": [held[1][part], held[2][part]] for part in held[0]}
    spark.stop()
    return "grows by less than 100 MB", found


def _by_frame(spark: Any, data: Data, folder: Path, space: Space) -> None:
    import nearcast.spark as ns

    told = spark.readStream.schema(ns_messages()).parquet(str(data.told_at))
    asked = spark.read.parquet(str(data.asked_at))
    store = (folder / "store").as_uri()
    answers = ns.answers(told, asked, space=space, window=Window(count=100_000), store=store)
    writer = answers.writeStream.option("checkpointLocation", str(folder / "checkpoint"))
    writer.format("noop").trigger(availableNow=True).start().awaitTermination()


def _by_run(spark: Any, data: Data, folder: Path, space: Space) -> None:
    from nearcast.spark.run.files import Input
    from nearcast.spark.run.job import Options, run

    inputs = (Input(str(data.told_at), "messages"), Input(str(data.asked_at), "subscriptions"))
    run(Options(inputs, folder / "out", space=space, window=Window(count=100_000)))


def _driver_mb(spark: Any) -> dict[str, float]:
    """Megabytes of this process, and of what is in Java's heap after it was swept."""
    gc.collect()
    pa.default_memory_pool().release_unused()
    runtime = spark.sparkContext._jvm.java.lang.Runtime.getRuntime()
    for _ in range(3):
        runtime.gc()
    status = Path("/proc/self/status").read_text()
    java = (runtime.totalMemory() - runtime.freeMemory()) / 2**20
    return {"python": round(int(status.split("VmRSS:")[1].split()[0]) / 1024, 1), "java": round(java, 1)}


def restart(folder: Path, scale: float) -> tuple[str, Figures]:
    """`nearcast run` with 1,000,000 subscriptions is killed, and started again: how long until its next batch."""
    n = int(1_000_000 * scale)
    data = Data(folder, 400_000, n, files=4)
    words = [
        "run", "--messages", str(data.told_at), "--subscriptions", str(data.asked_at), "--batch-rows", "20000",
        f"--space={','.join(map(str, data.space.bounds))}", "--window-count", "100000", "--out", str(folder / "out"),
    ]  # fmt: skip
    told: list[tuple[float, str]] = []
    first = _watched(words, told)
    _until(lambda: len(_metrics(folder)) >= 12, first)
    first.kill()
    first.wait()
    n_before = len(_metrics(folder))
    told.clear()
    began = time.monotonic()
    second = _watched(words, told)
    _until(lambda: len(_metrics(folder)) > n_before, second)
    ready = time.monotonic()
    up = next((at for at, line in told if "reading" in line), began)
    second.kill()
    second.wait()
    line = _metrics(folder)[n_before]
    return "at most 20 s after Spark is up", {
        "seconds": round(ready - up, 2), "spark_up_s": round(up - began, 2), "restores": line["restores"],
        "shard_seconds": line["shard_seconds"], "subscriptions": n,
    }  # fmt: skip


def demo(folder: Path, scale: float) -> tuple[str, Figures]:
    """`nearcast demo`, warm: how long until its first batch is done, and all."""
    times = []
    for number in range(3):
        told: list[tuple[float, str]] = []
        began = time.monotonic()
        with Spent() as spent:
            made = _watched(["demo", "--out", str(folder / "demo")], told)
            made.wait()
        if made.returncode:
            raise WrongAnswer(str(told))
        first = next(at for at, line in told if " rows, batch 1/" in line)
        if number:
            times.append((first - began, spent.seconds))
    return "no slower than at 4ddbeeb", {
        "first_batch_s": round(min(first for first, _ in times), 2), "seconds": round(min(all for _, all in times), 2),
    }  # fmt: skip


def _inside(folder: Path, name: str) -> Path:
    (folder / name).mkdir()
    return folder / name


def _watched(words: list[str], told: list[tuple[float, str]]) -> subprocess.Popen[str]:
    """A command of ours under way; what it says goes to `told` with the time."""
    command = [sys.executable, "-m", "nearcast.cli.main", *words]
    made = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert made.stdout is not None
    lines = made.stdout

    def listen() -> None:
        told.extend((time.monotonic(), line) for line in lines)

    threading.Thread(target=listen, daemon=True).start()
    return made


def _metrics(folder: Path) -> list[dict[str, Any]]:
    place = folder / "out" / "metrics.jsonl"
    return [json.loads(line) for line in place.read_text().splitlines()] if place.exists() else []


def _until(holds: Callable[[], bool], process: subprocess.Popen[str]) -> None:
    while not holds():
        if process.poll() is not None:
            raise WrongAnswer(f"the run ended with code {process.returncode}")
        time.sleep(0.02)


def _command(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "nearcast.cli.main", *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise WrongAnswer(done.stderr[-2000:])
    return done


def _same(found: int, expected: int) -> None:
    if found != expected:
        raise WrongAnswer(f"{found:,} answers, and one broker gives {expected:,}")


def _median(runs: list[Spent]) -> float:
    return round(statistics.median(run.seconds for run in runs), 3)


BARS: dict[str, Callable[[Path, float], tuple[str, Figures]]] = {
    "batch": batch_frames,
    "match": matching,
    "micro": micro_batches,
    "backlog": backlog,
    "memory": driver_memory,
    "restart": restart,
    "demo": demo,
}

if __name__ == "__main__":
    main()
