"""The log of inputs: frames in segments that are allocated ahead, so that a full disk is known before anything happens.

A segment is named by the number of its first event. Its first line says which version and processor wrote it. What
follows the last frame is zeros. A torn tail is cut off when the log is opened, and zeros are put in its place: a frame
that is written later must not be followed by an old one that happens to fit.
"""

from __future__ import annotations

import itertools
import mmap
import os
import platform
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from nearcast import __version__
from nearcast.errors import NearcastError
from nearcast.server.durable import frames

SEGMENT_BYTES = 64 * 2**20
_MAGIC = b"nearcast log 1\n"
HEAD_BYTES = 256


class DiskFull(NearcastError, OSError):
    """There is no room for the next segment; nothing was changed."""

    code = "disk-full"


class DamagedLog(NearcastError, ValueError):
    """The log has a hole, or a segment that is none."""

    code = "damaged-log"


class Logged(NamedTuple):
    """One frame of the log."""

    event: int
    payload: bytes


def writer_mark() -> str:
    """What decides whether a replay gives the same updates: version, and processor (it decides about rounding)."""
    return f"{__version__} {platform.machine()} {platform.python_implementation()}"


def segments(folder: Path) -> list[tuple[int, Path]]:
    """The segments of a folder by their first events."""
    found = [(int(path.stem), path) for path in folder.glob("*.log") if path.stem.isdigit()]
    return sorted(found)


def read_segment(path: Path) -> tuple[str, Iterator[frames.Frame]]:
    """The mark of a segment, and its frames."""
    with path.open("rb") as file:
        if os.fstat(file.fileno()).st_size < HEAD_BYTES:
            return "", iter(())
        content = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    if content[: len(_MAGIC)] != _MAGIC:
        if any(content[:HEAD_BYTES]):
            raise DamagedLog(f"{path} is not a segment of a log")
        return "", iter(())
    mark = content[len(_MAGIC) : HEAD_BYTES].rstrip(b"\0").decode()
    return mark, frames.read(memoryview(content), HEAD_BYTES)


def replay(folder: Path, after: int, before_segment: int | None = None) -> Iterator[Logged]:
    """Every event after `after`, in order, up to the segment that starts at `before_segment`.

    Raises
    ------
    DamagedLog
        If an event is missing between two others.
    """
    listed = segments(folder)
    expected = after + 1
    for number, (first, path) in enumerate(listed):
        if before_segment is not None and first >= before_segment:
            return
        if number + 1 < len(listed) and listed[number + 1][0] <= expected:
            continue  # all of it is older
        for frame in read_segment(path)[1]:
            if frame.event < expected:
                continue
            if frame.event > expected:
                raise DamagedLog(f"{path} goes on with event {frame.event}; event {expected} is missing")
            yield Logged(frame.event, bytes(frame.payload))
            expected += 1
        if number + 1 < len(listed) and listed[number + 1][0] > expected:
            raise DamagedLog(f"{path} is damaged after event {expected - 1}, and another segment follows")


class Log:
    """The log of a folder, open for appending."""

    def __init__(self, folder: Path, segment_bytes: int = SEGMENT_BYTES, after: int = 0) -> None:
        self.folder = folder
        self._segment_bytes = segment_bytes
        folder.mkdir(parents=True, exist_ok=True)
        self.last = after  # the number of the last event
        self._file = -1
        self._at = 0
        self._size = 0
        self.first = 0  # event of the segment that is being written
        self._open_last()

    def _open_last(self) -> None:
        """Go to the end of the last segment and cut what is torn."""
        listed = segments(self.folder)
        if not listed:
            return
        first, path = listed[-1]
        mark, content = read_segment(path)
        end = HEAD_BYTES
        last = first - 1
        for frame in content:
            if frame.event != last + 1:
                break
            last, end = frame.event, frame.end
        if not mark or (last < first and mark != writer_mark()):
            path.unlink()  # made, but nothing was written
            self._open_last()
            return
        self.last = max(self.last, last)
        self._file = os.open(path, os.O_RDWR)
        size = os.fstat(self._file).st_size
        os.ftruncate(self._file, end)
        if mark == writer_mark():
            _allocate(self._file, end, max(size, end))
            self._size = max(size, end)
        else:
            self._size = end  # another version goes on in another segment
        os.fsync(self._file)
        self._at, self.first = end, first

    def reserve(self, size: int) -> None:
        """Make sure that `size` bytes of frames can be written.

        Raises
        ------
        DiskFull
            If they cannot; nothing was changed.
        """
        if self._file >= 0 and self._at + size <= self._size:
            return
        self._begin(max(self._segment_bytes, HEAD_BYTES + size))

    def seal(self) -> int:
        """Begin another segment, unless this one is empty; returns the first event of the one being written."""
        if self._file < 0 or self.first <= self.last:
            self._begin(self._segment_bytes)
        return self.first

    def _begin(self, size: int) -> None:
        path = self.folder / f"{self.last + 1:020d}.log"
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600)
        try:
            _allocate(file, 0, size)
            os.pwrite(file, (_MAGIC + writer_mark().encode()).ljust(HEAD_BYTES, b"\0"), 0)
            os.fsync(file)
            sync_folder(self.folder)
        except OSError as error:
            os.close(file)
            path.unlink(missing_ok=True)
            raise DiskFull(f"there is no room for a segment of {size} bytes in {self.folder}: {error}") from error
        if self._file >= 0:
            if self._at < self._size:
                os.ftruncate(self._file, self._at)
            os.fsync(self._file)
            os.close(self._file)
        self._file, self._at, self._size, self.first = file, HEAD_BYTES, size, self.last + 1

    def append(self, payloads: list[bytes]) -> None:
        """Write frames, for which room was reserved; they are not synced yet."""
        content = b"".join(frames.encode(self.last + 1 + n, payload) for n, payload in enumerate(payloads))
        self.reserve(len(content))
        write_all(self._file, content, self._at)
        self._at += len(content)
        self.last += len(payloads)

    def sync(self) -> None:
        """Wait until the disk has all that was appended."""
        if self._file >= 0:
            os.fdatasync(self._file)

    def close(self) -> None:
        """Close the segment."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def drop_before(self, event: int) -> None:
        """Remove segments that hold nothing after `event`."""
        listed = segments(self.folder)
        for (_, path), (following, _) in itertools.pairwise(listed):
            if following <= event + 1:
                path.unlink()


def _allocate(file: int, start: int, end: int) -> None:
    if end > start:
        os.posix_fallocate(file, start, end - start)


def write_all(file: int, content: bytes, at: int) -> None:
    """Write every byte, or raise."""
    left = memoryview(content)
    while left:
        written = os.pwrite(file, left, at)
        left, at = left[written:], at + written


def sync_folder(folder: Path) -> None:
    """Make names in a folder durable."""
    file = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(file)
    finally:
        os.close(file)
