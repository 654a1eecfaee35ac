"""What the system was asked to do, in order, shows whether every answer left after its fdatasync.

`strace` writes down when the server writes frames of its log, when a sync begins and ends, and when an answer with a
cursor is sent. The cursor names the last event that the answer stands for, so that each answer can be held against
the syncs that had ended before it began to be sent.
"""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path
from typing import Any

from bench.serve.server import KIND, Server, messages, subscribe
from bench.serve.wire import Http
from nearcast.server.durable import frames

TRACER = ("strace", "-D", "-f", "-xx", "-s", "1000000", "-e", "trace=pwrite64,fdatasync,write,writev,sendto,sendmsg")
_CALL = re.compile(r"^(\d+) +(?:<\.\.\. (\w+) resumed>|(\w+)\((\d+))(.*)$")
_TEXT = re.compile(r'"((?:\\x[0-9a-f]{2})*)"')
_CURSOR = re.compile(rb'"cursor":"[0-9a-f]+\.(\d+)"')


async def trace(folder: Path, n_requests: int = 600, n_connections: int = 16) -> dict[str, Any]:
    """Requests with one message and with ten, answered over many connections; then the order of the calls."""
    calls = folder.parent / "calls"
    with Server(folder, "--window-count", "1000", before=(*TRACER, "-o", str(calls))) as server:
        await server.ready()
        await subscribe(server.http(), 100)
        rows = iter(messages(n_requests * 6))
        bodies = [[next(rows) for _ in range(1 if number % 2 else 10)] for number in range(n_requests)]
        waiting = iter(bodies)

        async def work(http: Http) -> None:
            for body in waiting:
                lines = "\n".join(json.dumps(row) for row in body).encode()
                status, told = await http.ask("POST", "/v1/messages", lines, KIND)
                assert status == 202, told[:500]

        await asyncio.gather(*(work(server.http()) for _ in range(n_connections)))
    return judged(calls.read_text())


def judged(text: str) -> dict[str, Any]:
    """How many answers left after the sync of their events, and how many before, which must be none."""
    calls = _Calls()
    for line in text.splitlines():
        found = _CALL.match(line)
        if found is not None:
            thread, resumed, name, file, rest = found.groups()
            if name is not None:
                calls.begin(thread, name, int(file), rest)
            if resumed is not None or not rest.endswith("<unfinished ...>"):
                calls.end(thread, rest)
    figures = {"answers": calls.n_answers, "syncs": calls.n_syncs, "events": calls.synced}
    return {**figures, "answers_before_their_sync": len(calls.early)}


class _Calls:
    """What was written, synced and answered so far; a write counts when it ends, a sync for what was written before."""

    def __init__(self) -> None:
        self._logs: set[int] = set()  # files that are segments of the log
        self._under_way: dict[str, tuple[str, int]] = {}  # by thread: the call, and the last event that it is about
        self._written = self.synced = self.n_syncs = self.n_answers = 0
        self.early: list[int] = []

    def begin(self, thread: str, name: str, file: int, rest: str) -> None:
        """A call."""
        content = b"".join(bytes.fromhex(part.replace("\\x", "")) for part in _TEXT.findall(rest))
        event = 0
        if name == "pwrite64" and content.startswith(b"nearcast log"):
            self._logs.add(file)
        elif name == "pwrite64" and file in self._logs:
            event = _last_event(content)
        elif name == "fdatasync" and file in self._logs:
            event = self._written
        elif answer := _CURSOR.search(content):
            self.n_answers += 1
            if int(answer[1]) > self.synced:
                self.early.append(int(answer[1]))
        self._under_way[thread] = name, event

    def end(self, thread: str, rest: str) -> None:
        """It returned."""
        name, event = self._under_way.pop(thread, ("", 0))
        if name == "pwrite64":
            self._written = max(self._written, event)
        elif name == "fdatasync" and event and rest.endswith("= 0"):
            self.synced = max(self.synced, event)
            self.n_syncs += 1


def _last_event(content: bytes) -> int:
    """The event of the last frame that is written."""
    at = event = 0
    while at < len(content):
        length, _, event = frames.HEADER.unpack_from(content, at)
        at += frames.HEADER.size + length
    return event
