"""A data folder becomes a broker and its state: the last snapshot, then the log after it, replayed.

    DATA/settings.json        space, window and analyzer, fixed when the folder is made
    DATA/epoch                the name of this history
    DATA/log/*.log            inputs
    DATA/updates/*.updates    updates, a cache
    DATA/snapshots/EVENT/     broker and bodies as of an event; EVENT.new until the updates up to it are synced, and
                              EVENT.PROCESS.part while a process writes it

Run as a program it writes a snapshot: it replays the segments that are sealed, in a process of its own, while the
server goes on.
"""

from __future__ import annotations

import fcntl
import gc
import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pyarrow.compute as pc

from nearcast.broker import Broker
from nearcast.errors import InvalidInput, SetupError, SnapshotError
from nearcast.model.analyzer import Analyzer
from nearcast.server.durable import log as logs
from nearcast.server.durable.apply import Outcome, apply, publish_together
from nearcast.server.durable.operations import Run, decode
from nearcast.server.durable.state import State, new_epoch
from nearcast.server.durable.updates import KEPT_BYTES, UpdateLog
from nearcast.space.space import Space
from nearcast.window.window import Window

_TOGETHER = 4_096  # messages that are replayed at a time
_KEPT_SNAPSHOTS = 2


class Settings(msgspec.Struct, frozen=True):
    """What decides about answers, and so cannot change under a log."""

    bounds: tuple[float, float, float, float]
    metric: str = "haversine"
    max_distance: float | None = None
    window_count: int | None = None
    window_age: float | None = None
    max_ahead: float | None = None
    stop_words: str | None = None
    stemmer: str | None = None
    accents: str = "keep"
    cjk: str = "whole"

    def space(self) -> Space:
        """The space of the broker."""
        return Space(self.bounds, self.metric, self.max_distance)

    def window(self) -> Window | None:
        """The window of the broker; None if nothing bounds it."""
        if self.window_count is None and self.window_age is None:
            return None
        return Window(self.window_count, self.window_age, self.max_ahead)

    def analyzer(self) -> Analyzer:
        """What becomes of words."""
        return Analyzer(self.stop_words, self.stemmer, self.accents, self.cjk)


def settle(data: Path, wanted: Settings | None) -> Settings:
    """The settings of a data folder; those wanted, if it is new.

    Raises
    ------
    InvalidInput
        If it was made with others.
    """
    data.mkdir(parents=True, exist_ok=True)
    path = data / "settings.json"
    if not path.exists():
        if wanted is None:
            raise InvalidInput("--data", str(data), "must be a folder that nearcast serve has made")
        beside = path.with_suffix(".tmp")
        beside.write_bytes(msgspec.json.format(msgspec.json.encode(wanted)))
        os.replace(beside, path)
        logs.sync_folder(data)
        return wanted
    settings = msgspec.json.decode(path.read_bytes(), type=Settings)
    if wanted is not None and wanted != settings:
        for name in Settings.__struct_fields__:
            given, kept = getattr(wanted, name), getattr(settings, name)
            if given != kept:
                raise InvalidInput(name, given, f"must be {kept!r}, which {data} was made with")
    return settings


class Lock:
    """One server a data folder."""

    def __init__(self, data: Path) -> None:
        data.mkdir(parents=True, exist_ok=True)
        self._file = os.open(data / "lock", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(self._file)
            raise SetupError(f"another process serves {data}") from None

    def release(self) -> None:
        """Let another one in."""
        os.close(self._file)


class Recovered(msgspec.Struct):
    """A broker and its state, ready to go on."""

    broker: Any
    state: Any
    log: Any
    replayed: int


@contextmanager
def _hardly_garbage() -> Iterator[None]:
    """While much is read that stays, to look for garbage would take a third of the time."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


@_hardly_garbage()
def recover(
    data: Path,
    settings: Settings,
    segment_bytes: int = logs.SEGMENT_BYTES,
    kept_bytes: int = KEPT_BYTES,
    threads: int = 1,
) -> Recovered:
    """Bring a data folder back to where it was when the last event was acknowledged."""
    updates = UpdateLog(data / "updates", kept_bytes)
    broker, state = _last_snapshot(data, settings, updates, threads)
    log = logs.Log(data / "log", segment_bytes, after=state.event)
    state.epoch, start, same = _epoch(data, state.event, log.last)
    if same:
        updates.open(state.event, start)
    else:
        updates.clear(start)
    first = state.event
    for outcome in replayed(broker, state, logs.replay(data / "log", state.event)):
        state.follow(outcome)
    log.last = max(log.last, state.event)
    _count_finished(data, state.event, updates)
    return Recovered(broker, state, log, state.event - first)


def _last_snapshot(data: Path, settings: Settings, updates: UpdateLog | None, threads: int) -> tuple[Broker, State]:
    """The newest snapshot that this version can read, or an empty broker."""
    unread: SnapshotError | None = None
    for _, folder in reversed(snapshots(data)):
        try:
            broker = Broker.restore(folder / "broker", threads=threads)
        except SnapshotError as error:
            unread = error
            continue
        state = State(broker.window, updates)
        state.read(folder)
        return broker, state
    oldest = logs.segments(data / "log")
    if unread is not None and not (oldest and oldest[0][0] == 1):
        raise unread  # the log begins after it
    broker = Broker(settings.space(), settings.window(), analyzer=settings.analyzer(), threads=threads)
    return broker, State(broker.window, updates)


def _epoch(data: Path, after: int, last: int) -> tuple[str, int, bool]:
    """The name of the history, the event it begins after, and whether it goes on with what follows `after`.

    Another version, or another processor, may round differently: what it replays is another history.
    """
    path = data / "epoch"
    listed = logs.segments(data / "log")
    name, start = "", 0
    if path.exists():
        name, _, number = path.read_text().partition(" ")
        start = int(number)
    marks = [
        logs.read_segment(segment)[0]
        for number, (first, segment) in enumerate(listed)
        if first > start and (number + 1 == len(listed) or listed[number + 1][0] > after + 1)
    ]
    if name and all(mark == logs.writer_mark() for mark in marks if mark):
        return name, start, True
    name, start = new_epoch(), last
    beside = path.with_suffix(".tmp")
    beside.write_text(f"{name} {start}")
    with beside.open() as file:
        os.fsync(file.fileno())
    os.replace(beside, path)
    logs.sync_folder(data)
    return name, start, False


def replayed(broker: Broker, state: State, logged: Iterator[logs.Logged]) -> Iterator[Outcome]:
    """What the broker does with logged events; messages are taken together where nothing tells the difference."""
    waiting: list[Run] = []
    first, n_rows = 0, 0

    def flush() -> Iterator[Outcome]:
        nonlocal waiting, n_rows
        runs, waiting, n_rows = waiting, [], 0
        if len(runs) == 1:
            yield apply(broker, first, runs[0])
        elif runs:
            yield from publish_together(broker, first, runs)

    for event, payload in logged:
        run = decode(payload)
        if not run.is_messages or _may_end(state, run):
            yield from flush()
            yield apply(broker, event, run)
            continue
        n = run.content.num_rows
        if waiting and (n_rows + n > _TOGETHER or waiting[-1].content.schema != run.content.schema):
            yield from flush()
        if not waiting:
            first = event
        waiting.append(run)
        n_rows += n
    yield from flush()


def _may_end(state: State, run: Run) -> bool:
    """Whether a subscription may expire: its end belongs to one event, which a larger batch would not tell."""
    soonest = state.bodies.subscriptions.soonest
    if soonest is None:
        return False
    column = run.content.column("ts") if "ts" in run.content.schema.names else None
    latest = None if column is None else pc.max(column).as_py()
    return not isinstance(latest, int) or latest >= soonest


# Snapshots


def snapshots(data: Path) -> list[tuple[int, Path]]:
    """Those that count, by their events."""
    return sorted((int(path.name), path) for path in (data / "snapshots").glob("*") if path.name.isdigit())


@_hardly_garbage()
def write_snapshot(data: Path, before_segment: int, threads: int = 1) -> int:
    """Replay the segments before this one into a snapshot that does not count yet; returns its event."""
    settings = settle(data, None)
    broker, state = _last_snapshot(data, settings, None, threads)
    state.epoch = (data / "epoch").read_text().partition(" ")[0]
    before = state.event
    for outcome in replayed(broker, state, logs.replay(data / "log", state.event, before_segment)):
        state.follow(outcome)
    if state.event == before:
        return before
    # The process of a server that was killed goes on and may be at the same event: each has a folder of its own.
    folder = data / "snapshots" / f"{state.event}.{os.getpid()}.part"
    folder.mkdir(parents=True)
    broker.snapshot(folder / "broker")
    state.write(folder)
    logs.sync_folder(folder)
    _name(folder, data / "snapshots" / f"{state.event}.new")
    return state.event


def _name(folder: Path, final: Path) -> None:
    """Give a folder its name, unless there is one of that name, which then is equal."""
    try:
        os.replace(folder, final)
    except OSError:
        if not final.exists():
            raise
        shutil.rmtree(folder)
    logs.sync_folder(final.parent)


def count_snapshot(data: Path, event: int) -> None:
    """Let a snapshot count, once the updates up to it are synced; the oldest ones go."""
    new = data / "snapshots" / f"{event}.new"
    if new.exists():
        _name(new, data / "snapshots" / str(event))
    for _, folder in snapshots(data)[:-_KEPT_SNAPSHOTS]:
        shutil.rmtree(folder)


def _count_finished(data: Path, last: int, updates: UpdateLog) -> None:
    """Let a snapshot count that was whole when the server was killed: else one that is killed soon after each start
    would have more to replay each time. What is left of others goes."""
    folder = data / "snapshots"
    finished = sorted(int(path.stem) for path in folder.glob("*.new") if int(path.stem) <= last)
    if finished:
        updates.sync()
        count_snapshot(data, finished[-1])
    for path in (*folder.glob("*.new"), *folder.glob("*.part")):
        if path.suffix == ".new" or not _is_running(int(path.stem.partition(".")[2])):
            shutil.rmtree(path, ignore_errors=True)


def _is_running(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # somebody else's
        return True
    return True


def main() -> None:
    """`python -m nearcast.server.durable.recovery DATA SEGMENT THREADS`: prints the event of the snapshot it wrote."""
    print(write_snapshot(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])))


if __name__ == "__main__":
    main()
