"""Entries of a real Redis stream become events once, and updates become entries once."""

from __future__ import annotations

import contextlib
import json
import shutil
import signal
import socket
import subprocess
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from cluster.scenes import SPACE, WINDOW, answer, events, read_updates, write_lines
from cluster.taking import read_alike, taken_once
from nearcast.cluster.intake import Head
from nearcast.cluster.outcome_files import updates_file
from nearcast.cluster.pipeline import Options, run
from nearcast.cluster.progress import Totals
from nearcast.cluster.redis_streams import RedisStream, enter_updates
from nearcast.cluster.sources import Input, find_files
from nearcast.cluster.store import Store
from nearcast.cluster.streams import Offset, stream_at
from nearcast.errors import InvalidInput, SetupError

redis = pytest.importorskip("redis", reason="the client is not installed: pip install 'nearcast[redis]'")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    program = shutil.which("redis-server")
    if program is None:
        pytest.skip("redis-server is not installed")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    words = ["--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir", str(tmp_path_factory.mktemp("redis"))]
    process = subprocess.Popen([program, *words], stdout=subprocess.DEVNULL)
    client = redis.Redis("127.0.0.1", port)
    try:
        for _ in range(600):
            try:
                client.ping()
                break
            except redis.ConnectionError:
                time.sleep(0.05)
        yield f"redis://127.0.0.1:{port}"
    finally:
        client.close()
        process.terminate()
        process.wait()


def client_of(server: str) -> Any:
    return redis.Redis("127.0.0.1", int(server.rsplit(":", 1)[1]))


def fill(server: str, name: str, rows: list[Any]) -> None:
    with client_of(server) as client, client.pipeline() as pipeline:
        for row in rows:
            pipeline.xadd(name, {"json": row if isinstance(row, str) else json.dumps(row)})
        pipeline.execute()


def test_each_entry_is_taken_once(server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given = Input(f"{server}/in", "events")
    stream = events(3, 60)
    fill(server, "in", stream[:40])
    with client_of(server) as client:
        client.xadd("in", {"other": "x"})
    fill(server, "in", ["{broken"])
    monkeypatch.setattr("nearcast.cluster.redis_streams.AT_ONCE", 7)
    streams = {given: stream_at(given.path)}
    rows = taken_once(Store(tmp_path), streams, lambda: fill(server, "in", stream[40:]), monkeypatch)
    refused = {row["row"]: row["reason"] for row in rows if row["reason"]}
    assert refused[41] == "json is required: the field that holds the row"
    assert refused[42].startswith("row must be JSON")
    assert len(refused) == 2


def test_files_and_streams_are_put_in_order_together(spark: Any, server: str, tmp_path: Path) -> None:
    made = events(7, 90)
    (tmp_path / "some.jsonl").write_text("".join(json.dumps(row) + "\n" for row in made[::3]))
    fill(server, "one", [*made[1::3], "{broken"])
    fill(server, "two", made[2::3])
    files = find_files([Input(str(tmp_path / "some.jsonl"), "events")])
    streams = [Input(f"{server}/{name}", "events") for name in ("one", "two")]
    table = read_alike(spark, tmp_path, files, {given: stream_at(given.path) for given in streams})
    assert table.num_rows == 91
    known = [ts for ts in table.column("ts").to_pylist() if ts is not None]
    assert known == sorted(known)
    assert table.column("file").unique().sort().to_pylist() == [0, 1, 2]


def test_a_run_from_stream_to_stream(spark: Any, server: str, tmp_path: Path) -> None:
    stream = events(5, 200)
    fill(server, "events", stream)
    asked = Options(
        (Input(f"{server}/events", "events"),), tmp_path / "out", space=SPACE, window=WINDOW, shards=2, batch_rows=120,
        updates_to=f"{server}/updates",
    )  # fmt: skip
    result = run(asked)
    assert result.totals.rows == 200
    assert run(asked).totals.rows == 200
    told = defaultdict(list)
    with client_of(server) as client:
        for _, fields in client.xrange("updates"):
            row = json.loads(fields[b"json"])
            told[row["subscription"]].append((row["message"], row["sign"], row["score"], row["ts"]))
        assert told == answer(stream).told
        n_entries = client.xlen("updates")
        sink = RedisStream(f"{server}/updates", "another run")
        enter_updates(sink, tmp_path / "out", 3)
        enter_updates(sink, tmp_path / "out", 3)
        assert client.xlen("updates") == 2 * n_entries


@pytest.mark.parametrize("form", ["parquet", "jsonl"])
def test_updates_are_entered_in_pieces_each_once_however_often_it_breaks(
    form: str, server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nearcast.cluster.redis_streams.AT_ONCE", 7)
    for batch, shard, n in ((0, 0, 30), (0, 1, 7), (2, 0, 1), (2, 1, 20)):
        rows = [{"subscription": shard, "message": f"{batch}-{number}", "batch": batch} for number in range(n)]
        with updates_file(tmp_path, batch, shard, form) as updates:
            updates.add(pa.Table.from_pylist(rows).drop_columns("batch"))
    name, n_tries = f"pieces-{form}", 0
    client = redis.client.Pipeline
    execute, sizes = client.execute, []

    def breaks(self: Any, *given: Any, **named: Any) -> Any:
        sizes.append(len(self.command_stack))
        if len(sizes) % 2 == 0:
            raise redis.ConnectionError("gone before")
        done = execute(self, *given, **named)
        if len(sizes) % 3 == 0:
            raise redis.ConnectionError("gone behind")
        return done

    monkeypatch.setattr(client, "execute", breaks)
    while RedisStream(f"{server}/{name}", "run").n_batches < 3:
        n_tries += 1
        with contextlib.suppress(SetupError):
            enter_updates(RedisStream(f"{server}/{name}", "run"), tmp_path, 3)
    assert n_tries > 5
    assert max(sizes) == 8  # 7 updates and their mark
    with client_of(server) as reader:
        rows = [json.loads(fields[b"json"]) for _, fields in reader.xrange(name)]
        keys = reader.keys(f"{name}*")
    found = [(row["subscription"], row["message"], row["batch"], row["seq"]) for row in rows]
    expected = [(s, f"{b}-{i}", b, i) for b, s, n in ((0, 0, 30), (0, 1, 7), (2, 0, 1), (2, 1, 20)) for i in range(n)]
    assert found == expected
    assert sorted(keys) == [name.encode(), f"{name}:nearcast:run".encode()]


def test_who_subscribes_in_a_file_sees_what_waits_in_a_stream(
    spark: Any, server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nearcast.cluster.staging.LARGE_ENTRIES", 10)
    made = sorted(events(6, 240), key=lambda event: event["ts"])
    cut = next(i for i in range(160, 240) if made[i]["ts"] != made[i - 1]["ts"])
    write_lines(tmp_path / "people.jsonl", [row for row in made[:cut] if row["event"] != "publish"])
    fill(server, "posts", [row for row in made[:cut] if row["event"] == "publish"])
    asked = Options(
        (Input(f"{server}/posts", "events"), Input(str(tmp_path / "people.jsonl"), "events")), tmp_path / "out",
        space=SPACE, window=WINDOW, shards=2, follow=True,
    )  # fmt: skip

    def watch(stage: str, totals: Totals, head: Head) -> None:
        if totals.rows == cut and head.rows == cut:
            fill(server, "posts", made[cut:])
        elif totals.rows == 240:
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    assert run(asked, watch).stopped
    assert read_updates(tmp_path / "out") == answer(made).told


def test_how_much_waits_is_known(server: str) -> None:
    fill(server, "some", [{}] * 9)
    stream = RedisStream(f"{server}/some")
    assert stream.n_behind(Offset()) == 9
    *_, (_, end) = stream.read("events", 0, Offset())
    assert stream.n_behind(end) == 0
    with client_of(server) as client:
        client.xtrim("some", maxlen=0, approximate=False)
    fill(server, "some", [{}] * 2)
    assert stream.n_behind(end) == 2
    assert RedisStream(f"{server}/none").n_behind(Offset()) == 0


def test_what_cannot_be_reached_is_named(server: str) -> None:
    with pytest.raises(InvalidInput, match=r"stream must be redis://HOST:PORT/NAME"):
        RedisStream(server)
    with pytest.raises(SetupError, match=r"Redis at redis://127.0.0.1:1/x"):
        RedisStream("redis://127.0.0.1:1/x")
