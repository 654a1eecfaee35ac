"""The backend in front of a run on Spark: it writes into the run's input, and tails what the run tells."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from nearcast.broker import Broker
from nearcast.errors import InvalidInput, NearcastError
from nearcast.model.codec import message_from_json, subscription_from_json, subscription_to_json
from nearcast.server.backend import Backend, Rejects, nothing_taken
from nearcast.server.durable import recovery
from nearcast.server.durable.answers import Remembered
from nearcast.server.durable.apply import subscription_of
from nearcast.server.durable.operations import Answer, Forms, Json, Part
from nearcast.server.durable.state import State
from nearcast.server.durable.updates import Told
from nearcast.server.logs import log
from nearcast.server.metrics import Metrics
from nearcast.server.pipeline.inbox import Inbox, lines_of
from nearcast.server.pipeline.results import Results, in_pipeline
from nearcast.server.pipeline.tail import NOTHING, Found, Tail
from nearcast.server.problems import Problem

_GATHER_S = 0.05  # requests of this time go into one file: a run lists all files that it has read
_LOOK_S = 0.1
_LOGGED_REJECTS = 20  # of a batch


class _Waiting(NamedTuple):
    lines: list[Json]
    done: asyncio.Future[None]


class Pipeline(Backend):
    """One of the servers in front of a run."""

    needs_kernels = False

    def __init__(
        self, data: Path, settings: recovery.Settings | None, metrics: Metrics, folder: Path, wall_clock: bool
    ) -> None:
        super().__init__(data, settings, metrics)
        self._wall_clock = wall_clock
        self._inbox = Inbox(folder / "inbox")
        self._tail = Tail(folder / "out")
        self._results = Results(self.state.bodies, None)
        self._waiting: list[_Waiting] = []
        self._wake = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self._lost = ""  # why the run can no longer be followed

    # Life

    async def start(self) -> None:
        """Read what is there, then follow."""
        window = self.settings.window()
        self.state = State(window, self._tail)
        self.state.epoch = await asyncio.to_thread(self._tail.epoch)
        self._results = Results(self.state.bodies, window)
        self._check_run()
        lines = await asyncio.to_thread(self._inbox.first, self.settings.window_age)
        await asyncio.to_thread(self._file, lines)
        await self._catch_up()
        self._tasks = [asyncio.create_task(self._follow()), asyncio.create_task(self._write())]

    async def stop(self) -> None:
        """Write what waits."""
        while self._waiting and not self._lost:
            await asyncio.sleep(_GATHER_S)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._lock.release()

    @property
    def is_ready(self) -> bool:
        """Whether it takes events."""
        return bool(self._tasks) and not self._lost

    @property
    def waiting(self) -> int:
        """Requests that wait for the next file."""
        return len(self._waiting)

    async def snapshot(self) -> int:
        """The run keeps its own checkpoint."""
        raise in_pipeline("a snapshot")

    def _check_run(self) -> bool:
        """Whether the run was started.

        Raises
        ------
        InvalidInput
            If it was, with another space or window.
        """
        asked = self._tail.asked()
        if asked is None:
            return False
        window = self.settings.window()
        for name, ours in (("space", str(self.settings.space())), ("window", str(window))):
            theirs = str(asked.get(name))
            if ours.partition(", max_ahead")[0] != theirs.partition(", max_ahead")[0]:
                raise InvalidInput(f"--{name}", ours, f"must be that of the run, {theirs}")
        return True

    # Requests become files

    async def _submit(self, parts: list[Part], rejects: Rejects, key: str, digest: str) -> Answer:
        if not self.is_ready:
            raise Problem(503, "starting", self._lost or "the server is starting", retry_after=1)
        if not parts:
            return nothing_taken(self.state, rejects)
        given = [line for part in parts for line in lines_of(part)]
        lines = [self._stamped(each) for line in given for each in self._said(line)]
        if lines:
            waiting = _Waiting(lines, asyncio.get_running_loop().create_future())
            self._waiting.append(waiting)
            self._wake.set()
            await waiting.done
        answer = nothing_taken(self.state, rejects)
        answer.accepted = len(given)
        if key:
            self.state.answers.remember(key, Remembered(digest, time.time(), answer, True))
        return answer

    def _said(self, line: Json) -> list[Json]:
        """What the run is told: to replace is to end and to begin, and nothing if nothing changes."""
        replaces = line.pop("replace", False)
        known = self.state.bodies.subscriptions.get(line.get("id", "")) if replaces else None
        if known is None:
            return [line]
        if known == {name: value for name, value in line.items() if name != "event"}:
            return []
        return [{"event": "unsubscribe", "id": line["id"]}, line]

    def _stamped(self, line: Json) -> Json:
        return {**line, "ts": int(time.time() * 1000)} if self._wall_clock and line.get("ts") is None else line

    async def _write(self) -> None:
        """One file after another, of all requests that wait."""
        while True:
            await self._wake.wait()
            await asyncio.sleep(_GATHER_S)
            self._wake.clear()
            taken, self._waiting = self._waiting, []
            lines = [line for each in taken for line in each.lines]
            error: NearcastError | None = None
            try:
                await asyncio.to_thread(self._inbox.write, lines)
            except NearcastError as full:
                error = full
            else:
                self._end(self._file(lines))
            for each in taken:
                if each.done.cancelled():
                    continue
                if error is None:
                    each.done.set_result(None)
                else:
                    each.done.set_exception(error)

    # Files become bodies

    def _file(self, lines: list[Json]) -> set[Any]:
        """File what lines say, as the run will; returns the subscriptions that are no more."""
        bodies, gone = self.state.bodies, set[Any]()
        messages = Forms()
        for line in lines:
            if line.get("event", "publish") == "publish" and line.get("kind") is None:
                messages += self._message(line)
                continue
            id: Any = line.get("id")
            if line.get("event") != "subscribe" and "kind" not in line:
                gone |= {id} if line["event"] == "unsubscribe" and id in bodies.subscriptions else set()
            elif id in bodies.subscriptions:
                continue  # the run refuses it
            try:
                bodies.take(_as_logged({"event": "subscribe", **line}))
            except (NearcastError, KeyError, TypeError):
                continue  # the run refuses it
        for whole in (False, True):
            own = Forms(each for each in messages if isinstance(each.id, int) == whole)
            if own:
                known = {row for row, each in enumerate(own) if each.id in bodies.messages}
                bodies.messages.add(own.to_table(), known)
        return {id for id in gone if id not in bodies.subscriptions}

    def _message(self, line: Json) -> list[Any]:
        try:
            return [message_from_json(line)]
        except NearcastError:
            return []

    def _end(self, ids: set[Any], reason: str = "deleted") -> None:
        if ids:
            self._tell(Told(self.state.event, NOTHING, [(id, reason) for id in sorted(ids, key=str)]))

    # Batches become events

    async def _follow(self) -> None:
        while not self._lost:
            try:
                await self._catch_up()
            except (NearcastError, OSError, pa.ArrowException) as error:
                self._lost = f"the run cannot be followed: {error}"
                log("pipeline", error=self._lost)
            await asyncio.sleep(_LOOK_S)

    async def _catch_up(self) -> None:
        """Take in all batches that were committed since."""
        until = await asyncio.to_thread(self._tail.committed)
        if until < self.state.event or not self._tail.is_same(self.state.epoch):
            raise InvalidInput("--pipeline", self.state.epoch, "must stay the folder of one run")
        if until == self.state.event:
            return
        if self.state.event == 0:
            self._check_run()
        self._end(self._file(await asyncio.to_thread(self._inbox.new)))
        batches = self._tail.look(self.state.event, until)
        while (found := await asyncio.to_thread(next, batches, None)) is not None:
            self._event(found)

    def _event(self, found: Found) -> None:
        told = found.told
        self._results.follow(told.updates)
        self.state.event = told.event
        self.metrics.updates.inc(told.updates.num_rows)
        self.metrics.rejects.inc(len(found.rejects))
        for row in found.rejects[:_LOGGED_REJECTS]:
            log("reject", **{name: row.get(name) for name in ("source", "row", "field", "reason")})
        self._tell(told)
        self._end(self._expired(), "expired")

    def _expired(self) -> set[Any]:
        subscriptions, clock = self.state.bodies.subscriptions, self._results.clock
        if clock is None or subscriptions.soonest is None or subscriptions.soonest > clock:
            return set()
        over = set(subscriptions.expired(clock))
        for id in over:
            subscriptions.remove(id)
        return over

    # Questions

    def ask_then(self, ask: Callable[[Broker], Any], then: Callable[[Any], None]) -> None:
        """Answer from what the run has told."""
        standing: Any = self._results
        try:
            answer = ask(standing)
        except (NearcastError, Problem) as error:
            answer = error
        asyncio.get_running_loop().call_soon(then, answer)


def _as_logged(line: Json) -> Json:
    """A line that anybody may have written, in the form that the server gives to its own."""
    if line["event"] != "subscribe":
        return line
    return {"event": "subscribe", **subscription_to_json(subscription_from_json(subscription_of(line)))}
