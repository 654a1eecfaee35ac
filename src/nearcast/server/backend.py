"""What routes and connections talk to: it takes requests, answers questions, and tells every event to its listeners."""

from __future__ import annotations

import asyncio
import hashlib
import time
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

from nearcast.broker import Broker
from nearcast.server.durable import recovery
from nearcast.server.durable.answers import Remembered
from nearcast.server.durable.operations import Answer, Part
from nearcast.server.durable.state import State
from nearcast.server.durable.updates import Told
from nearcast.server.metrics import Metrics
from nearcast.server.problems import Problem

T = TypeVar("T")
Rejects = list[tuple[int, str, str]]


class Backend(ABC):
    """A broker in this process, or a pipeline on Spark. All methods are for the event loop."""

    needs_kernels: bool

    def __init__(self, data: Path, settings: recovery.Settings | None, metrics: Metrics) -> None:
        self.data = data
        self._lock = recovery.Lock(data)
        self.settings = recovery.settle(data, settings)
        self.metrics = metrics
        self.state = State(None, None)
        self.listeners: list[Callable[[Told], None]] = []  # called after every event, when bodies are filed
        self._pending: dict[str, asyncio.Future[Answer]] = {}  # by idempotency key

    @abstractmethod
    async def start(self) -> None:
        """Find out where things stand, and begin to take requests."""

    @abstractmethod
    async def stop(self) -> None:
        """Finish what waits; the folder is free afterwards."""

    @property
    @abstractmethod
    def is_ready(self) -> bool:
        """Whether it takes events."""

    @property
    @abstractmethod
    def waiting(self) -> int:
        """Requests that wait."""

    @abstractmethod
    async def snapshot(self) -> int:
        """Write a snapshot of everything up to now; returns its event."""

    # Events

    async def submit(self, parts: list[Part], rejects: Rejects, key: str = "", digest: bytes = b"") -> Answer:
        """Take a request; the answer comes when it is durable.

        With a key the request is applied once: whoever sends it again gets the same answer.
        """
        if not key:
            return await self._submit(parts, rejects, "", "")
        hashed = hashlib.sha256(digest).hexdigest()[:32]
        known = self.state.answers.get(key, time.time())
        if known is not None:
            return _same(known, hashed)
        if key in self._pending:
            return await asyncio.shield(self._pending[key])
        future = self._pending[key] = asyncio.ensure_future(self._submit(parts, rejects, key, hashed))
        future.add_done_callback(lambda _: self._pending.pop(key, None))
        return await asyncio.shield(future)

    @abstractmethod
    async def _submit(self, parts: list[Part], rejects: Rejects, key: str, digest: str) -> Answer:
        """Take a request that was not taken before."""

    # Questions

    @abstractmethod
    def ask_then(self, ask: Callable[[Broker], Any], then: Callable[[Any], None]) -> None:
        """Ask the broker; `then` is called with the answer or the error when `state` is just as old as the answer."""

    def ask(self, ask: Callable[[Broker], T]) -> Awaitable[tuple[T, str]]:
        """Ask the broker: the answer, and the cursor that it is as of."""
        future: asyncio.Future[tuple[T, str]] = asyncio.get_running_loop().create_future()

        def then(answer: Any) -> None:
            if future.done():
                return
            if isinstance(answer, BaseException):
                future.set_exception(answer)
            else:
                future.set_result((answer, self.state.cursor()))

        self.ask_then(ask, then)
        return future

    def _tell(self, told: Told) -> None:
        for listener in self.listeners:
            listener(told)


def _same(known: Remembered, digest: str) -> Answer:
    if known.digest != digest:
        raise Problem(422, "idempotency-key", "the key was used for another request", field="Idempotency-Key")
    return known.answer


def nothing_taken(state: State, rejects: Rejects) -> Answer:
    """The answer to a request of which no row was taken."""
    refused = [{"row": row, "field": field, "reason": reason} for row, field, reason in rejects]
    return Answer(state.cursor(), 0, [], refused)
