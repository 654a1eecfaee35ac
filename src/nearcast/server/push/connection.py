"""One connection: what waits for it, in order, and what becomes of that when it reads too slowly.

Frames go out one at a time. While one is on its way, rows gather; the next frame has them all. Past a bound of pending
bytes the backlog of `TopK` and `Nearest` becomes its net change, which is never more than 2 k rows a subscription, and
that of `Within` and `Similar` is dropped: the subscriber is told of the gap, and gets its result as of a later cursor.
Whatever was sent, the cursor of a frame says that everything up to it was.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

import msgspec

from nearcast.broker import Broker
from nearcast.errors import UnknownId
from nearcast.server.backend import Backend
from nearcast.server.durable.bodies import Id
from nearcast.server.durable.operations import Json
from nearcast.server.durable.state import UnknownEpoch
from nearcast.server.durable.updates import PastUpdates, Told, Trimmed
from nearcast.server.metrics import Metrics
from nearcast.server.problems import Problem, gone
from nearcast.server.push.delivery import Delivery, Pace
from nearcast.server.push.hub import Hub, bodies_of, rows_of
from nearcast.server.push.net_change import Row, net
from nearcast.server.push.waiting import Wake, Watch

_ROW_BYTES = 80  # of an update in a frame, about
_KEEPS = ("topk", "nearest")
_SHORT = 2_000  # events that are read at once, on the loop


class SlowConsumer(Exception):
    """Nothing was read for too long."""


class Connection:
    """What one listener is attached to, and what it must still be told."""

    def __init__(
        self,
        hub: Hub,
        backend: Backend,
        delivery: Delivery = Delivery(),  # noqa: B008  # frozen
        pending_bytes: int = 256 * 1024,
        name: str = "",
    ) -> None:
        self._hub = hub
        self._backend = backend
        self.delivery = delivery
        self._most = pending_bytes
        self.name = name
        self._pace = Pace(delivery)
        self.subscriptions: dict[Id, float] = {}  # and when each was last heard of
        self._quiet: set[Id] = set()  # those whose silence was told
        self._rows: list[Row] = []
        self._bodies: dict[Id, msgspec.Raw] = {}
        self._parts: list[Json] = []  # frames that go before the next rows
        self._gaps: dict[
            Id, int
        ] = {}  # subscriptions whose rows were dropped, and the event up to which they were told
        self._asking = False  # whether their results are on their way
        self._told_at = 0.0  # when the oldest row came
        self._since = backend.state.event  # everything up to here was taken for sending
        self._bytes = 0
        self._wake = Wake()
        self._watch = Watch()
        self.sending_since: float | None = None
        self.n_frames = 0

    # What the hub tells

    def tell(self, event: int, rows: list[Row], bodies: dict[Id, msgspec.Raw]) -> None:
        """Keep an event's updates for the next frame."""
        now = time.monotonic()
        kept = [row for row in rows if row[0] not in self._gaps]
        for row in rows:
            self.subscriptions[row[0]] = now
            self._quiet.discard(row[0])
        if not kept:
            return
        if not self._rows:
            self._told_at = now
        self._rows += kept
        for row in kept:
            if row[1] == "+" and row[2] in bodies:
                self._bodies[row[2]] = bodies[row[2]]
                self._bytes += len(bytes(bodies[row[2]]))
        self._bytes += _ROW_BYTES * len(kept)
        if self._bytes > self._most and (self.sending_since is not None or self.delivery.nets):
            self._conflate()
        self._wake.set()

    def end(self, event: int, id: Id, reason: str) -> None:
        """A subscription is no more."""
        self.detach([id])
        self._push({"end": id, "reason": reason})

    def _push(self, frame: Json) -> None:
        """A frame of its own, behind the rows that wait."""
        if self._rows:
            self._parts.append(self._take_rows())
        self._parts.append(frame)
        self._wake.set()

    def _conflate(self) -> None:
        """Replace what waits by its net change; where that is not bounded, by a gap."""
        subscriptions = self._backend.state.bodies.subscriptions
        kinds = {id: (subscriptions.get(id) or {}).get("kind") for id in {row[0] for row in self._rows}}
        self._rows = net(row for row in self._rows if kinds[row[0]] in _KEEPS)
        self._metrics.conflations.inc()
        for id, kind in kinds.items():
            if kind not in _KEEPS and id in self.subscriptions:
                self._gaps[id] = self._since
                self._metrics.gaps.inc()
        entering = {row[2] for row in self._rows if row[1] == "+"}
        self._bodies = {id: body for id, body in self._bodies.items() if id in entering}
        self._bytes = _ROW_BYTES * len(self._rows) + sum(len(bytes(body)) for body in self._bodies.values())

    @property
    def _metrics(self) -> Metrics:
        return self._backend.metrics

    @property
    def pending_bytes(self) -> int:
        """What waits, about."""
        return self._bytes

    # Attaching

    async def attach(self, names: list[str], after: str) -> None:
        """Follow subscriptions from a cursor on, from ``"now"``, or from their ``"results"``.

        After a cursor a subscription may have ended; that is told.

        Raises
        ------
        Problem
            404 for a subscription that is not there, 410 for a cursor of another history, or of updates that are gone.
        """
        ids: list[Id] = []
        for name in names:
            id = self._backend.state.bodies.subscriptions.named(name)
            if id is None and after in ("now", "results"):
                raise unknown(name)
            ids.append(name if id is None else id)
        if after == "results":
            await asyncio.gather(*(self._attach_with_result(id) for id in ids))
            return
        if after == "now":
            self._attached(ids)
            return
        try:
            await self._catch_up(ids, after)
        except (UnknownEpoch, Trimmed) as error:
            raise gone(error, names) from None

    def _attached(self, ids: Iterable[Id]) -> None:
        now = time.monotonic()
        named = list(ids)
        for id in named:
            self._hub.attach(id, self)
            self.subscriptions[id] = now
        if not self._rows and not self._parts:
            self._since = self._backend.state.event
        self._push({"attached": named, "cursor": self._backend.state.cursor()})

    async def _attach_with_result(self, id: Id) -> None:
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def then(answer: Any) -> None:
            if not done.cancelled():
                if isinstance(answer, BaseException):
                    done.set_exception(answer)
                    return
                self._attached([id])
                self._push(self._snapshot(id, answer))
                done.set_result(None)

        self._backend.ask_then(lambda broker: list(broker.results(id)), then)
        await done

    def _snapshot(self, id: Id, results: list[Any]) -> Json:
        state = self._backend.state
        bodies = state.bodies.messages.get(message for message, _ in results)
        return {
            "snapshot": id,
            "cursor": state.cursor(),
            "results": [list(pair) for pair in results],
            "messages": {str(message): body for message, body in bodies.items()},
        }

    async def _catch_up(self, ids: list[Id], after: str) -> None:
        """What was told since a cursor, then all that follows; in one frame if the connection follows others too."""
        state = self._backend.state
        updates = state.updates
        assert updates is not None
        at, missed = state.event_of(after), list[Told]()
        begun, first = at, not self.subscriptions and not self.delivery.nets
        while state.event - at > _SHORT:
            until = state.event
            found = await asyncio.to_thread(_read, updates, at, until, set(ids))
            if first and not any(told.ended for told in found):
                for told in found:
                    self._push(self._missed([told], told.event))
            else:
                missed, first = missed + found, False
            at = until
        missed += updates.read(at, state.event, set(ids))
        ended = {id: reason for told in missed for id, reason in told.ended}
        there = [id for id in ids if id in state.bodies.subscriptions]
        for id in ids:
            if id not in there and id not in ended:
                raise unknown(id)
        self._attached(there)
        again = {
            id for id in there if id in ended
        }  # ended, and made again: what the subscriber knows is of the old one
        self._gaps |= dict.fromkeys(again, begun)
        rows = [row for told in missed for row in rows_of(told.updates) if row[0] not in again]
        if rows:
            self._push(self._frame(rows, state.event))
        for id, reason in ended.items():
            if id not in again:
                self._push({"end": id, "reason": reason})
        self._wake.set()

    def _missed(self, missed: list[Told], event: int) -> Json:
        return self._frame([row for told in missed for row in rows_of(told.updates)], event)

    def _frame(self, rows: list[Row], event: int) -> Json:
        state = self._backend.state
        rows = net(rows) if self.delivery.nets else rows
        bodies = bodies_of(state, rows)
        return {"u": rows, "c": state.cursor(event), "messages": {str(id): body for id, body in bodies.items()}}

    def detach(self, ids: Iterable[Id]) -> None:
        """Follow them no more."""
        for id in ids:
            self._forget(id)
            self._hub.detach(id, self)

    def _forget(self, id: Id) -> None:
        self.subscriptions.pop(id, None)
        self._gaps.pop(id, None)

    def close(self) -> None:
        """Follow nothing any more."""
        self._watch.close()
        self.detach(list(self.subscriptions))

    # Sending

    async def run(self, send: Callable[[Json], Awaitable[None]], heartbeat: float, unread: float) -> None:
        """Send frames as they come; what was sent is told at least every `heartbeat` seconds.

        Raises
        ------
        SlowConsumer
            If one frame is not taken within `unread` seconds.
        """
        while True:
            await self._wait(heartbeat)
            frames, told_at = self._next(), self._told_at
            for frame in frames:
                self.sending_since = time.monotonic()
                try:
                    await self._watch.within(unread, send(frame))
                except TimeoutError:
                    self._metrics.slow.inc()
                    raise SlowConsumer from None
                finally:
                    self.sending_since = None
                self.n_frames += 1
                self._metrics.frames.inc()
                if "u" in frame:
                    self._pace.sent(time.monotonic())
                    self._metrics.push.observe(time.monotonic() - told_at)

    async def _wait(self, heartbeat: float) -> None:
        """Until there is something to send and the pace allows it, or it is time for a sign of life."""
        until = time.monotonic() + min(heartbeat, self.delivery.quiet or heartbeat)
        while (left := until - time.monotonic()) > 0:
            if self._parts or (self._gaps and not self._asking):
                return
            if self._rows and not self._gaps:
                wait = self._pace.wait(time.monotonic())
                if wait <= 0:
                    return
                left = min(left, wait)
            await self._wake.wait(left)

    def _next(self) -> list[Json]:
        frames, self._parts = self._parts, []
        if self._gaps and not self._asking:
            self._resync()
        elif self._rows and not self._gaps and self._pace.wait(time.monotonic()) <= 0:
            frames.append(self._take_rows())
        frames += self._silences()
        if not frames and not self._rows and not self._gaps:
            self._since = self._backend.state.event
            frames.append({"progress": self._backend.state.cursor()})
        return frames

    def _take_rows(self) -> Json:
        rows = net(self._rows) if self.delivery.nets else self._rows
        bodies, self._rows, self._bodies, self._bytes = self._bodies, [], {}, 0
        self._since = self._backend.state.event
        entering = {row[2] for row in rows if row[1] == "+"}
        shown = {str(id): bodies[id] for id in entering if id in bodies}
        return {"u": rows, "c": self._backend.state.cursor(), "messages": shown}

    def _resync(self) -> None:
        """Ask for the results that close the gaps. Until they are there nothing is sent: its cursor would not hold."""
        ids = list(self._gaps)
        self._asking = True

        def ask(broker: Broker) -> dict[Id, list[Any]]:
            return {id: list(broker.results(id)) for id in ids if id in self._backend.state.bodies.subscriptions}

        def then(answer: Any) -> None:
            self._asking = False
            self._wake.set()
            if isinstance(answer, UnknownId) or self._gaps.keys() - set(ids):
                return  # one ended meanwhile, or there is a new gap: ask again
            gaps, self._gaps = self._gaps, {}
            state = self._backend.state
            for id, since in gaps.items():
                if id in answer:
                    self._push({"gap": id, "from": state.cursor(since), "to": state.cursor()})
                    self._push(self._snapshot(id, answer[id]))

        self._backend.ask_then(ask, then)

    def _silences(self) -> list[Json]:
        quiet = self.delivery.quiet
        if quiet is None:
            return []
        now = time.monotonic()
        silent = [id for id, heard in self.subscriptions.items() if now - heard >= quiet and id not in self._quiet]
        self._quiet.update(silent)
        return [{"quiet": id, "seconds": quiet} for id in silent]


def _read(updates: PastUpdates, after: int, until: int, ids: set[Id]) -> list[Told]:
    return list(updates.read(after, until, ids))


def unknown(name: Any) -> Problem:
    """The answer to a subscription that is not there."""
    return Problem(404, "unknown-id", f"there is no subscription {name!r}", field="attach", value=str(name))
