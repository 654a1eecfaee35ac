"""The updates of past events, for those who resume: a cache on disk of what a replay would give again.

Frames as in the log, but not synced: what a crash takes away is rebuilt from the log. Only events that told somebody
something have a frame. The oldest segments go when there are too many; a cursor before them is answered with `Trimmed`.
"""

from __future__ import annotations

import contextlib
import os
from abc import ABC, abstractmethod
from array import array
from bisect import bisect_right
from collections.abc import Iterator, Set
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pyarrow as pa

from nearcast.errors import NearcastError
from nearcast.server.durable import frames
from nearcast.server.durable.log import sync_folder, write_all
from nearcast.server.durable.operations import from_ipc, to_ipc

SEGMENT_BYTES = 16 * 2**20
KEPT_BYTES = 2**30
_ENDED = b"ended"
_NEWEST_BYTES = 32 * 2**20  # of tables that are kept in memory as well


class Trimmed(NearcastError, LookupError):
    """The updates after this cursor are no longer kept."""

    code = "trimmed"


class Told(NamedTuple):
    """What one event told."""

    event: int
    updates: pa.Table
    ended: list[tuple[Any, str]]


class _Segment:
    def __init__(self, path: Path) -> None:
        self.path = path
        self.events = array("q")
        self.offsets = array("q")  # of the frames of these events
        self.end = 0


class PastUpdates(ABC):
    """What was told in earlier events."""

    trimmed = 0  # updates of events up to this one are gone

    @abstractmethod
    def _read(self, after: int, until: int) -> Iterator[Told]:
        """What was told to anybody in the events after `after`, up to `until`, in order."""

    @abstractmethod
    def append(self, told: Told) -> None:
        """File what an event told, unless that is nothing."""

    @abstractmethod
    def close(self) -> None:
        """Close what is open."""

    def read(self, after: int, until: int, subscriptions: Set[Any]) -> Iterator[Told]:
        """What was told to these subscriptions in the events after `after`, up to `until`, in order.

        Raises
        ------
        Trimmed
            If some of it is gone.
        """
        if after < self.trimmed:
            raise Trimmed(f"updates are kept from event {self.trimmed + 1} on, and {after} is before that")
        for told in self._read(after, until):
            found = chosen(told, subscriptions)
            if found.updates.num_rows or found.ended:
                yield found

    def read_some(self, after: int, until: int, subscriptions: Set[Any], most: int) -> tuple[list[Told], bool]:
        """Whole events with at most `most` updates, at least one event; and whether there are more. For a thread."""
        found: list[Told] = []
        n_rows = 0
        for told in self.read(after, until, subscriptions):
            if found and n_rows + told.updates.num_rows > most:
                return found, True
            found.append(told)
            n_rows += told.updates.num_rows
        return found, False


class UpdateLog(PastUpdates):
    """The update log of a folder."""

    def __init__(self, folder: Path, kept_bytes: int = KEPT_BYTES) -> None:
        self._folder = folder
        self._kept_bytes = kept_bytes
        folder.mkdir(parents=True, exist_ok=True)
        self._segments: list[_Segment] = []
        self._file = -1
        self._newest: dict[int, Told] = {}
        self._newest_bytes = 0
        self._synced: set[Path] = set()

    def open(self, last: int, after: int) -> None:
        """Read what is there of events up to `last`; later ones are dropped. Before `after` nothing was ever told.

        If anything is damaged that was synced, nothing of it is used: a hole would be silence.
        """
        known, synced = self._folder / "trimmed", self._folder / "synced"
        self.trimmed = max(after, int(known.read_text()) if known.exists() else 0)
        name, _, end = synced.read_text().partition(" ") if synced.exists() else ("", "", "0")
        damaged = False
        for path in sorted(self._folder.glob("*.updates")):
            segment, is_later = self._read_segment(path, last)
            size = path.stat().st_size
            whole = size if path.name < name else int(end) if path.name == name else 0
            damaged |= not is_later and segment.end < whole
            if segment.events:
                os.truncate(path, segment.end)
                self._segments.append(segment)
            else:
                path.unlink()
        if damaged:
            self.clear(last)
        if self._segments:
            self._file = os.open(self._segments[-1].path, os.O_WRONLY)
            if name:
                self._note_synced(self._segments[-1], self._segments[-1].end)

    def _read_segment(self, path: Path, last: int) -> tuple[_Segment, bool]:
        """The frames of a segment up to an event, and whether a later one ended it."""
        segment = _Segment(path)
        for frame in frames.read(memoryview(path.read_bytes()), 0):
            if frame.event > last:
                return segment, True
            segment.events.append(frame.event)
            segment.offsets.append(segment.end)
            segment.end = frame.end
        return segment, False

    def clear(self, event: int) -> None:
        """Forget all; cursors start after `event`."""
        self.close()
        self._segments, self._newest, self._newest_bytes = [], {}, 0
        for path in (*self._folder.glob("*.updates"), self._folder / "synced"):
            path.unlink(missing_ok=True)
        self.trimmed = event
        with contextlib.suppress(OSError):  # without it they are rebuilt from the log, which does no harm
            self._note_trimmed(event)

    def append(self, told: Told) -> None:
        """File what an event told, unless that is nothing."""
        if told.event <= self.trimmed or not (told.updates.num_rows or told.ended):
            return
        table = told.updates.replace_schema_metadata({_ENDED: msgspec.json.encode(told.ended)} if told.ended else None)
        try:
            self._append(told, frames.encode(told.event, to_ipc(table)))
        except OSError:
            self.clear(told.event)  # it is a cache: whoever resumes from before is told that it is gone

    def _append(self, told: Told, frame: bytes) -> None:
        if self._file < 0 or self._segments[-1].end + len(frame) > SEGMENT_BYTES:
            self._begin(told.event)
        segment = self._segments[-1]
        write_all(self._file, frame, segment.end)
        segment.offsets.append(segment.end)
        segment.events.append(told.event)
        segment.end += len(frame)
        self._newest[told.event] = told
        self._newest_bytes += told.updates.nbytes
        while self._newest_bytes > _NEWEST_BYTES:
            oldest = self._newest.pop(next(iter(self._newest)))
            self._newest_bytes -= oldest.updates.nbytes

    def _begin(self, event: int) -> None:
        if self._file >= 0:
            os.close(self._file)
        segment = _Segment(self._folder / f"{event:020d}.updates")
        self._file = os.open(segment.path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        self._segments.append(segment)
        while sum(each.end for each in self._segments) > self._kept_bytes and len(self._segments) > 1:
            oldest = self._segments.pop(0)
            self._note_trimmed(oldest.events[-1])
            oldest.path.unlink()

    def _note_trimmed(self, event: int) -> None:
        self.trimmed = event
        (self._folder / "trimmed").write_text(str(event))

    def _read(self, after: int, until: int) -> Iterator[Told]:
        for segment in list(self._segments):
            if not segment.events or segment.events[-1] <= after:
                continue
            if segment.events[0] > until:
                return
            file = -1
            try:
                for at in range(bisect_right(segment.events, after), len(segment.events)):
                    event = segment.events[at]
                    if event > until:
                        return
                    kept = self._newest.get(event)
                    if kept is None:
                        file = os.open(segment.path, os.O_RDONLY) if file < 0 else file
                        kept = _told(file, segment.offsets[at])
                    yield kept
            finally:
                if file >= 0:
                    os.close(file)

    def sync(self) -> None:
        """Make all that was appended durable, before a snapshot counts."""
        ends = [(segment, segment.end) for segment in self._segments]
        for segment, _ in ends:
            if segment.path not in self._synced and segment.path.exists():
                file = os.open(segment.path, os.O_RDONLY)
                os.fsync(file)
                os.close(file)
                if segment is not ends[-1][0]:
                    self._synced.add(segment.path)
        sync_folder(self._folder)
        if ends:
            self._note_synced(*ends[-1])

    def _note_synced(self, newest: _Segment, end: int) -> None:
        beside = self._folder / "synced.tmp"
        beside.write_text(f"{newest.path.name} {end}")
        os.replace(beside, self._folder / "synced")

    def close(self) -> None:
        """Close the file."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


def _told(file: int, offset: int) -> Told:
    length, _, event = frames.HEADER.unpack(os.pread(file, frames.HEADER.size, offset))
    table = from_ipc(os.pread(file, length, offset + frames.HEADER.size))
    ended = msgspec.json.decode((table.schema.metadata or {}).get(_ENDED, b"[]"), type=list[tuple[Any, str]])
    return Told(event, table.replace_schema_metadata(None), ended)


def chosen(told: Told, subscriptions: Set[Any]) -> Told:
    """What concerns these subscriptions alone: an event has few rows, subscriptions may be many."""
    ended = [(id, reason) for id, reason in told.ended if id in subscriptions]
    updates = told.updates
    if updates.num_rows:
        updates = updates.filter(pa.array([id in subscriptions for id in updates.column("subscription").to_pylist()]))
    return Told(told.event, updates, ended)
