"""The pipeline on a real Spark: the answers of one broker, in batch and streaming, through kills and restarts."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import nearcast as nc
from cluster.processes import python_workers
from cluster.scenes import SPACE, WINDOW, answer, events, read_rejects, read_updates, write_lines
from nearcast.cluster.pipeline import Options, Result, run
from nearcast.cluster.progress import read_totals
from nearcast.cluster.sources import Input
from nearcast.cluster.store import DRAFT, Store, read_json, write_json
from nearcast.errors import InvalidInput
from nearcast.partition.partition import shard_key, spark_partition

STREAM = events(11, 900)
EXPECTED = answer(STREAM)


def options(folder: Path, **changes: Any) -> Options:
    given: dict[str, Any] = {
        "inputs": (Input(str(folder / "in"), "events"),),
        "out": folder / "out",
        "space": SPACE,
        "window": WINDOW,
        "shards": 2,
        "batch_rows": 150,
        "snapshot_every": 2,
        "partition": "hash",
    }
    return Options(**{**given, **changes})


def check(folder: Path, result: Result) -> None:
    """The output is that of an undisturbed broker, and every row is accounted for."""
    assert read_updates(folder / "out") == EXPECTED.told
    assert len(read_rejects(folder / "out")) == EXPECTED.n_rejects + EXPECTED.n_late
    counts = result.totals.counts
    assert result.totals.rows == len(STREAM) == result.totals.accepted + counts["late"] + counts["rejects"]
    assert (counts["late"], counts["rejects"]) == (EXPECTED.n_late, EXPECTED.n_rejects)
    assert result.totals.updates == sum(map(len, EXPECTED.told.values()))


def wait_for(condition: Callable[[], Any], seconds: float = 300.0) -> Any:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        found = condition()
        if found:
            return found
        time.sleep(0.02)
    raise AssertionError("it did not happen in time")


def test_keys_go_to_the_partitions_that_spark_sends_them_to(spark: Any) -> None:
    keys = [0, 1, -1, 7, 2**31 - 1, -(2**31)]
    said = spark.sql(f"SELECT pmod(hash(k), 5) FROM VALUES {', '.join(f'({k})' for k in keys)} AS t(k)").collect()
    assert [row[0] for row in said] == [spark_partition(key, 5) for key in keys]
    assert [spark_partition(shard_key(i, 5), 5) for i in range(5)] == list(range(5))


def test_batch_gives_the_answers_of_one_broker_and_then_has_nothing_to_do(spark: Any, tmp_path: Path) -> None:
    write_lines(tmp_path / "in" / "b.jsonl", STREAM[400:])
    write_lines(tmp_path / "in" / "a.jsonl", STREAM[:400])
    seen = []
    result = run(options(tmp_path), lambda stage, totals, head: seen.append((stage, totals.rows, head.rows)))
    check(tmp_path, result)
    assert result.totals.next_batch == 6
    assert seen[0] == ("start", 0, 0)
    assert seen[-1] == ("run", 900, 900)
    assert result.totals.counts["restores"] == 0
    again = run(options(tmp_path))
    check(tmp_path, again)
    assert again.before.rows == 900
    assert not again.stopped


def test_listeners_and_lines_tell_the_same(spark: Any, tmp_path: Path) -> None:
    from pyspark.sql.streaming.listener import StreamingQueryListener

    told: list[Any] = []

    class Listener(StreamingQueryListener):
        def onQueryStarted(self, event: Any) -> None: ...
        def onQueryIdle(self, event: Any) -> None: ...
        def onQueryTerminated(self, event: Any) -> None: ...
        def onQueryProgress(self, event: Any) -> None:
            told.append(event.progress.observedMetrics.get("nearcast"))

    listener = Listener()
    write_lines(tmp_path / "in" / "a.jsonl", STREAM[:300])
    spark.streams.addListener(listener)
    try:
        run(options(tmp_path))
        seen = wait_for(lambda: len(found := [row for row in told if row and row.rows is not None]) == 2 and found)
    finally:
        spark.streams.removeListener(listener)
    lines = [json.loads(line) for line in (tmp_path / "out" / "metrics.jsonl").read_text().splitlines()]
    for row, line in zip(seen, lines, strict=True):
        assert (row.rows, row.updates, row.lag_rows) == (line["rows"], line["updates"], line["lag_rows"])
        assert row.shard_seconds == pytest.approx(line["shard_seconds"], abs=1e-5)
        assert row.imbalance == pytest.approx(line["imbalance"], abs=1e-3)
    assert [row.lag_rows for row in seen] == [150, 0]


def test_following_a_folder_equals_batch_and_a_lost_worker_loses_nothing(spark: Any, tmp_path: Path) -> None:
    stream = sorted(STREAM, key=lambda event: event["ts"])
    cuts = [i for i in range(1, 900) if stream[i]["ts"] != stream[i - 1]["ts"]]
    first, second = cuts[len(cuts) // 3], cuts[2 * len(cuts) // 3]
    store = Store(tmp_path / "out" / "_checkpoint")
    jvm = spark.sparkContext._gateway.proc.pid

    def rows_done() -> int:
        return read_totals(store).rows

    def produce() -> None:
        write_lines(tmp_path / "in" / "1.jsonl", stream[:first])
        wait_for(lambda: rows_done() == first)
        workers = python_workers([jvm])
        assert workers
        for pid in workers:  # idle between two batches: the shards are gone
            os.kill(pid, signal.SIGKILL)
        write_lines(tmp_path / "in" / "2.jsonl", stream[first:second])
        wait_for(lambda: rows_done() > first)
        for pid in python_workers([jvm]):  # in the middle of the work
            os.kill(pid, signal.SIGKILL)
        wait_for(lambda: rows_done() == second)
        write_lines(tmp_path / "in" / "3.jsonl", stream[second:])
        wait_for(lambda: rows_done() == 900)

    problems: list[BaseException] = []

    def produce_and_stop() -> None:
        try:
            produce()
        except BaseException as error:
            problems.append(error)
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    (tmp_path / "in").mkdir()
    threading.Thread(target=produce_and_stop).start()
    result = run(options(tmp_path, follow=True))
    assert not problems
    assert result.stopped
    check(tmp_path, result)
    assert result.totals.counts["restores"] > 0


def test_a_killed_driver_is_gone_on_from(spark: Any, tmp_path: Path) -> None:
    """SIGKILL for the whole process group in mid-stream; that process has no Java of its own to start with."""
    write_lines(tmp_path / "in" / "a.jsonl", STREAM)
    command = [sys.executable, "-m", "nearcast.cli.main", "run", "--events", str(tmp_path / "in"), "--shards", "2"]
    command += [
        "--out",
        str(tmp_path / "out"),
        "--space",
        "-10,-10,10,10",
        "--batch-rows",
        "100",
        "--master",
        "local[1,8]",
    ]
    command += ["--window-count", "60", "--window-age", "120", "--max-ahead", "3600", "--snapshot-every", "2"]
    environ = {name: value for name, value in os.environ.items() if name not in ("JAVA_HOME", "SPARK_LOCAL_IP")}
    environ["PATH"] = str(_without_java(tmp_path / "bin"))
    process = subprocess.Popen(command, env=environ, start_new_session=True, stderr=subprocess.PIPE, text=True)
    store = Store(tmp_path / "out" / "_checkpoint")
    try:
        wait_for(lambda: process.poll() is not None or read_totals(store).rows >= 200)
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        said = process.communicate()[1]
    before = read_totals(store)
    assert 200 <= before.rows < 900, said
    assert read_updates(tmp_path / "out") != EXPECTED.told
    for folder in (tmp_path / "out" / "updates", store.intake, store.checkpoint):
        (folder / f"{DRAFT}0-left").write_text("half")
    store.staged.mkdir(exist_ok=True)
    with open(tmp_path / "out" / "metrics.jsonl", "a") as metrics:
        metrics.write('{"turn": 7, "ba')
    result = run(options(tmp_path, shards=3, balance=0.0, balance_after=0.01))
    check(tmp_path, result)
    assert result.before.rows >= 200
    assert result.n_shards == 3
    assert not [*(tmp_path / "out").rglob(f"{DRAFT}*")]
    assert not store.staged.exists()
    lines = [json.loads(line) for line in (tmp_path / "out" / "metrics.jsonl").read_text().splitlines()]
    assert [line["batch"] for line in lines] == sorted(line["batch"] for line in lines)
    assert {len(line["shard_work"]) for line in lines} == {2, 3}
    assert lines[-1]["lag_rows"] == 0


def _without_java(folder: Path) -> Path:
    """A folder with every program of the system but Java."""
    folder.mkdir()
    for program in (*Path("/usr/bin").iterdir(), *Path("/bin").iterdir()):
        if not program.name.startswith("java") and not (folder / program.name).is_symlink():
            (folder / program.name).symlink_to(program)
    return folder


def test_a_checkpoint_holds_to_its_options(tmp_path: Path) -> None:
    write_lines(tmp_path / "in" / "a.jsonl", [])
    result = run(options(tmp_path))
    assert (result.totals.rows, result.head.files) == (0, 1)
    for changes, field in (
        ({"window": None}, "window"),
        ({"space": nc.Space((0, 0, 1, 1), metric="euclidean")}, "space"),
        ({"updates_format": "jsonl"}, "updates_format"),
    ):
        with pytest.raises(InvalidInput, match=rf"{field} must stay .* for this checkpoint"):
            run(options(tmp_path, **changes))
    (tmp_path / "out" / "updates" / "part-0.parquet").touch()
    with pytest.raises(InvalidInput, match="out must be an empty folder, or have the checkpoint"):
        run(options(tmp_path, checkpoint=tmp_path / "other"))
    with pytest.raises(InvalidInput, match="partition must be one of dkm, keyword, space, hash, got 'x'"):
        run(options(tmp_path, partition="x"))
    store = Store(tmp_path / "out" / "_checkpoint")
    write_json(store.run, {**read_json(store.run), "version": 1})
    with pytest.raises(InvalidInput, match="checkpoint was made by another version of Nearcast"):
        run(options(tmp_path))


def test_weights_come_from_the_corpus_and_stay(spark: Any, tmp_path: Path) -> None:
    texts = [{"text": "fire"}] * 5 + [{"text": "ramen smoke road"}] * 40 + [{"text": "sushi music"}] * 9
    write_lines(tmp_path / "corpus.jsonl", texts)
    write_lines(tmp_path / "in" / "a.jsonl", STREAM[:300])
    corpus = (Input(str(tmp_path / "corpus.jsonl"), "messages"),)
    result = run(options(tmp_path, corpus=corpus, batch_rows=1_000))
    expected = answer(STREAM[:300], weights=nc.Weights.fit([row["text"] for row in texts]))
    assert read_updates(tmp_path / "out") == expected.told != answer(STREAM[:300]).told
    assert result.totals.next_batch == 1
    write_lines(tmp_path / "empty.jsonl", ["{}"])
    with pytest.raises(InvalidInput, match="corpus must hold texts"):
        run(options(tmp_path / "x", inputs=corpus, corpus=(Input(str(tmp_path / "empty.jsonl"), "corpus"),)))
    with pytest.raises(InvalidInput, match="corpus must be a file or folder that exists"):
        run(options(tmp_path / "x", inputs=corpus, corpus=(Input(str(tmp_path / "nope.jsonl"), "corpus"),)))
