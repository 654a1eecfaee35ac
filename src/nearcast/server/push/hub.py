"""From updates to those who are attached: every event is looked at once, and each follower gets its rows.

Bodies are read once an event, for all followers together. A follower is a connection or a webhook; what it does with
its rows is its own affair, and costs the others nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any, Protocol

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from nearcast.server.durable.bodies import Id
from nearcast.server.durable.state import State
from nearcast.server.durable.updates import Told
from nearcast.server.push.net_change import Row


class Follower(Protocol):
    """Somebody who is attached."""

    def tell(self, event: int, rows: list[Row], bodies: dict[Id, msgspec.Raw]) -> None:
        """An event's updates of its subscriptions."""

    def end(self, event: int, id: Id, reason: str) -> None:
        """A subscription ended; whoever does not detach follows the next one of that id."""


class Hub:
    """Who follows what."""

    def __init__(self) -> None:
        self._followers: dict[Id, list[Follower]] = {}
        self.state: State | None = None
        self.loudest: dict[Id, int] = {}  # updates of each followed subscription

    def attach(self, id: Id, follower: Follower) -> None:
        """Tell `follower` of all later updates of a subscription."""
        own = self._followers.setdefault(id, [])
        if follower not in own:
            own.append(follower)

    def detach(self, id: Id, follower: Follower) -> None:
        """Tell it no more."""
        own = self._followers.get(id, [])
        if follower in own:
            own.remove(follower)
        if not own:
            self._followers.pop(id, None)
            self.loudest.pop(id, None)

    def told(self, told: Told) -> None:
        """Hand the updates of an event on."""
        if not self._followers:
            return
        state = self.state
        assert state is not None
        if told.updates.num_rows:
            self._hand_on(told, state)
        for id, reason in told.ended:
            for follower in list(self._followers.get(id, ())):
                follower.end(told.event, id, reason)

    def _hand_on(self, told: Told, state: State) -> None:
        column = told.updates.column("subscription")
        followed = [id for id in pc.unique(column).to_pylist() if id in self._followers]
        if not followed:
            return
        chosen = told.updates
        if len(followed) < 50:  # else most of it is somebody's
            chosen = chosen.filter(pc.is_in(column, pa.array(followed, column.type)))
        rows = rows_of(chosen)
        bodies = bodies_of(state, rows)
        by_follower: dict[int, tuple[Follower, list[Row]]] = {}
        for row in rows:
            followers = self._followers.get(row[0])
            if followers is None:
                continue
            self.loudest[row[0]] = self.loudest.get(row[0], 0) + 1
            for follower in followers:
                by_follower.setdefault(id(follower), (follower, []))[1].append(row)
        for follower, own in by_follower.values():
            follower.tell(told.event, own, bodies)


def rows_of(updates: Any) -> list[Row]:
    """Updates in the short form of frames: subscription, sign, message, score, ts."""
    columns = (updates.column(name).to_pylist() for name in ("subscription", "sign", "message", "score", "ts"))
    return [list(row) for row in zip(*columns, strict=True)]


def bodies_of(state: State, rows: Iterable[Row]) -> dict[Id, msgspec.Raw]:
    """The bodies of messages that enter, as JSON."""
    entering: Collection[Id] = dict.fromkeys(row[2] for row in rows if row[1] == "+")
    return {id: msgspec.Raw(msgspec.json.encode(body)) for id, body in state.bodies.messages.get(entering).items()}
