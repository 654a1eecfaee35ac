"""Requests become files that a run reads; files of all servers become lines again."""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa

from nearcast.model.codec import message_to_json
from nearcast.model.message import Message
from nearcast.server.durable.log import DiskFull, sync_folder
from nearcast.server.durable.operations import Json, Part, plain_row

MESSAGES, SUBSCRIPTIONS = "messages", "subscriptions"
_OF_SUBSCRIPTIONS = ("subscribe", "unsubscribe", "move")


def lines_of(part: Part) -> list[Json]:
    """A part of a request as event lines; of messages the event is not named."""
    if not part.is_messages:
        return [dict(line) for line in part.content]
    if isinstance(part.content, pa.Table):
        return [plain_row(row) for row in part.content.to_pylist()]
    return [
        message_to_json(each) if isinstance(each, Message) else plain_row(msgspec.to_builtins(each))
        for each in part.content
    ]


class Inbox:
    """The folder that a run reads, and all its servers write."""

    def __init__(self, folder: Path) -> None:
        self._folders = {name: folder / name for name in (MESSAGES, SUBSCRIPTIONS)}
        for each in self._folders.values():
            each.mkdir(parents=True, exist_ok=True)
        self._name = secrets.token_hex(6)  # of this server, since its start
        self._number = 0
        self._seen: dict[Path, int] = {}  # files that were read, and when they were changed

    def write(self, lines: Sequence[Json]) -> None:
        """Put lines where the run finds them; they are on disk afterwards.

        Raises
        ------
        DiskFull
            If they cannot be written; the run sees nothing of them.
        """
        split: dict[str, list[bytes]] = {}
        for line in lines:
            name = SUBSCRIPTIONS if line.get("event") in _OF_SUBSCRIPTIONS else MESSAGES
            split.setdefault(name, []).append(msgspec.json.encode(line))
        for name in (SUBSCRIPTIONS, MESSAGES):
            if name in split:
                self._write(self._folders[name], b"\n".join(split[name]) + b"\n")

    def _write(self, folder: Path, content: bytes) -> None:
        self._number += 1
        path = folder / f"{time.time_ns():020d}-{self._name}-{self._number:08d}.jsonl"
        beside = path.with_suffix(".jsonl.tmp")
        try:
            with beside.open("wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            beside.unlink(missing_ok=True)
            raise DiskFull(f"there is no room for {len(content)} bytes in {folder}: {error}") from error
        self._seen[path] = 0
        os.replace(beside, path)
        sync_folder(folder)

    def first(self, age_s: float | None) -> list[Json]:
        """The lines of all files that are there: all of subscriptions, and of messages those that may still be live."""
        since = 0 if age_s is None else time.time_ns() - int((age_s + 3_600) * 1e9)  # clocks of messages lag behind
        lines: list[Json] = []
        for name in (SUBSCRIPTIONS, MESSAGES):
            files = self._new(name)
            for path, changed in files:
                self._seen[path] = changed
            lines += _read(path for path, changed in files if name == SUBSCRIPTIONS or changed >= since)
        return lines

    def new(self) -> list[Json]:
        """The lines of files that others have written since."""
        lines: list[Json] = []
        for name in (SUBSCRIPTIONS, MESSAGES):
            files = self._new(name)
            self._seen |= dict(files)
            lines += _read(path for path, _ in files)
        return lines

    def _new(self, name: str) -> list[tuple[Path, int]]:
        with os.scandir(self._folders[name]) as entries:
            found = [Path(entry.path) for entry in entries if entry.name.endswith(".jsonl")]
        new = [(path, path.stat().st_mtime_ns) for path in found if path not in self._seen]
        return sorted(new, key=lambda pair: (pair[1], pair[0]))


def _read(paths: Iterable[Path]) -> list[Json]:
    """Lines that are objects; what is none is the run's to refuse."""
    lines: list[Json] = []
    for path in paths:
        for line in path.read_bytes().splitlines():
            try:
                found: Any = msgspec.json.decode(line)
            except (msgspec.DecodeError, UnicodeDecodeError):
                continue
            lines += [found] if isinstance(found, dict) else []
    return lines
