"""The log and what follows from it: written, cut, read again."""

from __future__ import annotations

import asyncio
import os
import resource
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from nearcast.server.durable import log as logs
from nearcast.server.durable.log import DamagedLog, DiskFull, Log
from nearcast.server.durable.operations import MESSAGES, Answer, Part, line_parts
from nearcast.server.durable.recovery import Settings, settle, write_snapshot
from nearcast.server.durable.state import UnknownEpoch
from nearcast.server.durable.updates import Told, Trimmed, UpdateLog
from nearcast.server.embedded import Embedded
from nearcast.server.metrics import Metrics
from server.serving import running

SETTINGS = Settings((0.0, 0.0, 10.0, 10.0), "euclidean", window_count=5)
SMALL = 4096


def messages(first: int, n: int = 1, **more: Any) -> list[Part]:
    rows = [
        {"id": f"m{first + i}", "lon": 1.0 + (first + i) % 7, "lat": 1.0, "text": "tram", "ts": first + i, **more}
        for i in range(n)
    ]
    return [Part(pa.Table.from_pylist(rows, MESSAGES), n)]


def lines(*events: dict[str, Any]) -> list[Part]:
    return line_parts(list(events), range(len(events)))


NEAREST = {"event": "subscribe", "id": "ann", "kind": "nearest", "lon": 1, "lat": 1, "keywords": "tram", "k": 2}
WITHIN = {"event": "subscribe", "id": "bob", "kind": "within", "region": [0, 0, 5, 5], "keywords": "tram"}


class Life:
    """A backend that is started again and again over one folder."""

    def __init__(self, folder: Path, settings: Settings = SETTINGS, segment_bytes: int = SMALL) -> None:
        self.folder = folder
        self.settings = settings
        self._segment_bytes = segment_bytes
        self.threads = 1
        self.backend = self._new()

    def _new(self) -> Embedded:
        return Embedded(self.folder, self.settings, Metrics(), segment_bytes=self._segment_bytes, threads=self.threads)

    async def __aenter__(self) -> Life:
        await self.backend.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.backend.stop()

    async def send(self, parts: list[Part], key: str = "", digest: bytes = b"") -> Answer:
        return await self.backend.submit(parts, [], key, digest)

    def told(self, after: int = 0) -> list[Any]:
        assert self.backend.state.updates is not None
        found = self.backend.state.updates.read(after, self.backend.state.event, {"ann", "bob", "cy"})
        return [(told.event, told.updates.to_pylist(), told.ended) for told in found]

    async def results(self, id: str) -> list[Any]:
        return list((await self.backend.ask(lambda broker: broker.results(id)))[0])

    async def again(self) -> None:
        await self.backend.stop()
        self.backend = self._new()
        await self.backend.start()


def test_a_log_gives_back_what_was_appended(tmp_path: Path) -> None:
    log = Log(tmp_path, SMALL)
    for n in range(40):
        log.append([b"x" * 300, b"y" * n + b"z"])
    log.sync()
    assert log.last == 80
    assert len(logs.segments(tmp_path)) > 2
    again = Log(tmp_path, SMALL)
    assert again.last == 80
    again.append([b"after"])
    found = list(logs.replay(tmp_path, 10))
    assert [event for event, _ in found] == list(range(11, 82))
    assert found[-1].payload == b"after"
    again.drop_before(40)
    assert [event for event, _ in logs.replay(tmp_path, 40)] == list(range(41, 82))


@pytest.mark.parametrize("cut", [1, 5, 17, 30])
def test_a_torn_tail_is_cut_and_what_follows_is_zeros(tmp_path: Path, cut: int) -> None:
    log = Log(tmp_path, SMALL)
    log.append([b"one" * 5, b"two" * 5, b"three" * 5])
    log.close()
    path = logs.segments(tmp_path)[0][1]
    end = max(frame.end for frame in logs.read_segment(path)[1])
    with path.open("r+b") as file:
        file.seek(end - 15 - 16 - 15 - 16 + 16 + 2)
        file.write(b"?")  # the second payload is damaged, the third is whole
    log = Log(tmp_path, SMALL)
    assert log.last == 1
    log.append([b"new" * 5])
    assert [payload for _, payload in logs.replay(tmp_path, 0)] == [b"one" * 5, b"new" * 5]
    log.close()
    end = max(frame.end for frame in logs.read_segment(path)[1])
    with path.open("r+b") as file:
        file.truncate(end - cut)
    assert Log(tmp_path, SMALL).last == 1


def test_a_hole_in_the_log_is_told(tmp_path: Path) -> None:
    log = Log(tmp_path, SMALL)
    for _ in range(40):
        log.append([b"x" * 300])
    logs.segments(tmp_path)[1][1].unlink()
    with pytest.raises(DamagedLog, match="and another segment follows"):
        list(logs.replay(tmp_path, 0))


@contextmanager
def files_no_larger_than(size: int) -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


async def test_a_full_disk_refuses_before_anything_is_matched(tmp_path: Path) -> None:
    async with Life(tmp_path) as life:
        await life.send(lines(WITHIN))
        with files_no_larger_than(SMALL - 1):
            sent = [life.send(messages(n * 10, 10)) for n in range(50)]
            answers = await asyncio.gather(*sent, return_exceptions=True)
        refused = [answer for answer in answers if isinstance(answer, DiskFull)]
        assert "there is no room" in str(refused[0])
        assert all(isinstance(answer, Answer | DiskFull) for answer in answers)
        before = life.backend.state.event
        assert (await life.send(messages(1001))).cursor == life.backend.state.cursor(before + 1)
        assert (await life.results("bob"))[0] == ("m1001", None)
        told = life.told()
        await life.again()
        assert life.told() == told


async def test_nothing_is_told_before_its_sync(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Answers and pushes wait for the fdatasync that began after their event was written, and ended."""
    trace: list[tuple[str, int]] = []
    sync = os.fdatasync
    async with Life(tmp_path, segment_bytes=2**20) as life:
        writer = life.backend.writer
        assert writer is not None

        def synced(file: int) -> None:
            upto = writer.log.last
            time.sleep(0.005)  # as a slow disk
            sync(file)
            trace.append(("synced", upto))

        monkeypatch.setattr(logs.os, "fdatasync", synced)
        life.backend.listeners.append(lambda told: trace.append(("pushed", told.event)))

        async def send(parts: list[Part]) -> None:
            answer = await life.send(parts)
            trace.append(("answered", int(answer.cursor.partition(".")[2])))

        await send(lines(WITHIN))
        for round_ in range(10):
            await asyncio.gather(*(send(messages(100 * round_ + 10 * n, 1 + n)) for n in range(6)))
    durable, told = 0, 0
    for what, event in trace:
        if what == "synced":
            durable = max(durable, event)
        else:
            assert event <= durable, (what, event, durable)
            told += what == "answered"
    assert told == 61
    assert sum(what == "synced" for what, _ in trace) < 61, "requests that came together are synced together"


@contextmanager
def small_disk(folder: Path, size: str) -> Iterator[Path]:
    """A file system of its own that is soon full."""
    folder.mkdir()
    words = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)]
    if os.geteuid() or subprocess.run(words, capture_output=True, check=False).returncode:
        pytest.skip("only root may mount a file system")
    try:
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], check=True)


def test_a_full_file_system_is_a_507_and_loses_nothing(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", "1m") as disk:
        options: dict[str, Any] = {"segment_bytes": 128 * 1024, "updates_bytes": 2**20, "window_count": 5_000}
        taken: list[str] = []
        with running(disk / "data", **options) as server:
            server.put("w", {"kind": "within", "region": [0, 0, 9, 9], "keywords": "tram"})
            for number in range(2_000):
                body = {"id": f"m{number}", "lon": 1, "lat": 1, "text": "tram " + "x" * 2_000, "ts": number}
                answer = server.http.post("/v1/messages", json=body)
                if answer.status_code != 202:
                    break
                taken.append(body["id"])
            assert (answer.status_code, answer.json()["code"]) == (507, "disk-full"), answer.text
            assert "there is no room" in answer.json()["detail"]
            found = server.http.get("/v1/subscriptions/w/results").json()["results"]
            assert {message for message, _ in found} == set(taken)
            subprocess.run(["mount", "-o", "remount,size=8m", str(disk)], check=True)
            assert server.http.post("/v1/messages", json=body).status_code == 202
            taken.append(body["id"])
        with running(disk / "data", **options) as server:
            found = server.http.get("/v1/subscriptions/w/results").json()["results"]
            assert {message for message, _ in found} == set(taken)


async def test_a_restart_gives_the_same_updates_under_the_same_cursors(tmp_path: Path) -> None:
    async with Life(tmp_path) as life:
        await life.send(lines(NEAREST, WITHIN, {**WITHIN, "id": "cy", "expires": 25}))
        await asyncio.gather(*(life.send(messages(n)) for n in range(30)))
        await life.send(lines({"event": "move", "id": "ann", "lon": 5, "lat": 1}))
        await life.send(messages(100, 20))
        await life.send(lines({"event": "unsubscribe", "id": "bob"}))
        told, results, cursor = life.told(), await life.results("ann"), life.backend.state.cursor()
        assert told[-1][2] == [("bob", "deleted")]
        assert life.backend.state.bodies.subscriptions.get("bob") is None
        body = life.backend.state.bodies.subscriptions.get("ann")
        assert body is not None
        assert body["lon"] == 5.0
        await life.again()
        assert life.told() == told
        assert (await life.results("ann"), life.backend.state.cursor()) == (results, cursor)
        assert life.backend.state.bodies.subscriptions.get("ann") == body


async def test_a_snapshot_and_the_log_after_it_give_the_same(tmp_path: Path) -> None:
    async with Life(tmp_path) as life:
        await life.send(lines(NEAREST, WITHIN), key="k", digest=b"1")
        for n in range(20):
            await life.send(messages(n))
        event = await life.backend.snapshot()
        assert event == life.backend.state.event
        await life.send(messages(50, 5))
        told, results = life.told(), await life.results("ann")
        bodies = life.backend.state.bodies.messages.get([f"m{n}" for n in range(60)])
        assert list(bodies) == [f"m{n}" for n in range(50, 55)]
        await life.again()
        assert (tmp_path / "snapshots" / str(event)).exists()
        assert life.backend.metrics.replayed.collect()[0].samples[0].value == 1
        assert life.told() == told
        assert await life.results("ann") == results
        assert life.backend.state.bodies.messages.get(bodies) == bodies
        before = life.backend.state.cursor()
        again = await life.send(lines(NEAREST, WITHIN), key="k", digest=b"1")
        assert again.cursor.endswith(".1")
        assert life.backend.state.cursor() == before


async def test_a_snapshot_that_was_whole_when_the_server_was_killed_counts_later(tmp_path: Path) -> None:
    async with Life(tmp_path) as life:
        await life.send(lines(NEAREST, WITHIN))
        for n in range(20):
            await life.send(messages(n))
        writer = life.backend.writer
        assert writer is not None
        first, _ = await life.backend.ask(lambda _: writer.log.seal())
        event = await asyncio.to_thread(write_snapshot, tmp_path, first)  # as its process does; nobody counts it
        await life.send(messages(50, 5))
        (tmp_path / "snapshots" / f"9.{2**30}.part").mkdir()  # of a process that is gone
        told, results = life.told(), await life.results("ann")
        for replayed in (event + 1, 1):
            await life.again()
            assert [path.name for path in (tmp_path / "snapshots").iterdir()] == [str(event)]
            assert life.backend.metrics.replayed.collect()[0].samples[0].value == replayed
            assert life.told() == told
            assert await life.results("ann") == results


async def test_the_number_of_threads_changes_no_answer(tmp_path: Path) -> None:
    async with Life(tmp_path) as life:
        await life.send(lines(NEAREST, WITHIN))
        await life.send(messages(1, 20))
        for threads in (3, 2):
            life.threads = threads
            told, results = life.told(), await life.results("ann")
            await life.again()
            assert (await life.backend.ask(lambda broker: broker.threads))[0] == threads
            assert (life.told(), await life.results("ann")) == (told, results)
            await life.send(messages(20 * threads, 20))
            await life.backend.snapshot()
    async with Life(tmp_path) as life:
        assert len(await life.results("ann")) == 2
        assert (await life.backend.ask(lambda broker: broker.threads))[0] == 1


async def test_a_key_is_answered_once(tmp_path: Path) -> None:
    async with Life(tmp_path) as life:
        await life.send(lines(WITHIN))
        first, second = await asyncio.gather(*(life.send(messages(1, 3), "k", b"body") for _ in range(2)))
        assert first == second
        assert first.accepted == 3
        await life.again()
        assert await life.send(messages(1, 3), "k", b"body") == first
        with pytest.raises(Exception, match="another request"):
            await life.send(messages(1, 3), "k", b"other")
        assert life.backend.state.event == 2


async def test_rows_that_are_refused_are_told_by_the_request_s_own_rows(tmp_path: Path) -> None:
    async with Life(tmp_path) as life:
        answers = await asyncio.gather(
            life.send(messages(1, 2)), life.send(messages(2, 2)), life.send(messages(9, 1, expires=3))
        )
        assert [answer.accepted for answer in answers] == [2, 1, 0]
        assert [[reject["row"] for reject in answer.rejects] for answer in answers] == [[], [0], []]
        assert [late["row"] for late in answers[2].late] == [0]


async def test_settings_stay(tmp_path: Path) -> None:
    async with Life(tmp_path):
        pass
    with pytest.raises(ValueError, match=r"window_count must be 5, which .* was made with, got 6"):
        Life(tmp_path, Settings((0.0, 0.0, 10.0, 10.0), "euclidean", window_count=6))
    with pytest.raises(ValueError, match=r"stemmer must be None, which .* was made with, got 'english'"):
        settle(tmp_path, Settings((0.0, 0.0, 10.0, 10.0), "euclidean", window_count=5, stemmer="english"))


async def test_another_version_starts_another_history(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with Life(tmp_path) as life:
        await life.send(lines(WITHIN))
        await life.send(messages(1, 3))
        cursor, results = life.backend.state.cursor(), await life.results("bob")
        monkeypatch.setattr(logs, "writer_mark", lambda: "another")
        await life.again()
        with pytest.raises(UnknownEpoch):
            life.backend.state.event_of(cursor)
        assert await life.results("bob") == results
        kept = life.backend.state.cursor()
        await life.send(messages(11, 3))
        told = life.told(life.backend.state.event_of(kept))
        await life.again()
        assert life.told(life.backend.state.event_of(kept)) == told
        with pytest.raises(Trimmed):
            life.told(0)


def test_old_updates_are_trimmed_and_damage_is_never_silence(tmp_path: Path) -> None:
    table = pa.table({"subscription": ["ann"] * 4000, "message": ["m" * 20] * 4000})
    log = UpdateLog(tmp_path, kept_bytes=20_000_000)
    log.open(0, 0)
    for event in range(1, 400):
        log.append(Told(event, table, []))
    assert log.trimmed > 0
    with pytest.raises(Trimmed, match="is before that"):
        next(log.read(log.trimmed - 1, 400, {"ann"}))
    found = [told.event for told in log.read(log.trimmed, 400, {"ann"})]
    assert found == list(range(log.trimmed + 1, 400))
    log.sync()
    log.close()
    again = UpdateLog(tmp_path, kept_bytes=20_000_000)
    again.open(390, 0)
    assert [told.event for told in again.read(log.trimmed, 400, {"ann"})] == list(range(log.trimmed + 1, 391))
    again.close()
    newest = sorted(tmp_path.glob("*.updates"))[-1]
    os.truncate(newest, newest.stat().st_size - 3)
    damaged = UpdateLog(tmp_path, kept_bytes=20_000_000)
    damaged.open(390, 0)
    assert damaged.trimmed == 390
