"""A run of operations goes through the broker: what it changed, who ended, what was refused."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa

from nearcast.broker import Broker
from nearcast.columns.updates import Updates
from nearcast.errors import InvalidInput, UnknownId
from nearcast.model.codec import message_from_json, move_from_json, subscription_from_json
from nearcast.model.message import Message
from nearcast.model.update import Reject
from nearcast.server.durable.operations import MESSAGE_COLUMNS, Json, Run

EXPIRED, DELETED = "expired", "deleted"


class Outcome(msgspec.Struct):
    """What one event did."""

    event: int
    run: Run
    updates: pa.Table
    ended: list[tuple[Any, str]]  # subscriptions, and why
    rejects: list[Reject]
    late: list[Reject]
    done: list[int] = []  # of event lines: the rows that took effect


def apply(broker: Broker, event: int, run: Run) -> Outcome:
    """Let the broker live through a run."""
    return _publish(broker, event, run) if run.is_messages else _lines(broker, event, run)


def _publish(broker: Broker, event: int, run: Run) -> Outcome:
    table = run.content
    try:
        updates = broker.publish(_single(table) if table.num_rows == 1 else table)
        rejects = updates.rejects
    except Exception as error:
        updates, rejects = Updates.none(), [refused(broker, row, error) for row in range(table.num_rows)]
    ended = [(id, EXPIRED) for id in updates.ended]
    return Outcome(event, run, updates.to_arrow(), ended, rejects, updates.late)


def refused(broker: Broker, row: int, error: Exception) -> Reject:
    """A row that raised. It is in the log, and must not stop a replay: the broker is as it was, or it is broken.

    Raises
    ------
    BrokenBroker
        If the event was half applied.
    """
    if isinstance(error, InvalidInput):
        return Reject(row, error.field, str(error))
    with contextlib.suppress(UnknownId):
        broker.results("")
    return Reject(row, "row", f"row could not be taken: {type(error).__name__}: {error}")


def _single(table: pa.Table) -> Any:
    """The only row, for the broker's short way, if it can take it."""
    if table.schema.names != list(MESSAGE_COLUMNS):
        return table
    given = [column[0].as_py() for column in table.columns]
    if given[-1] is not None:
        given[-1] = msgspec.json.decode(given[-1])
    return Message(*given)


def publish_together(broker: Broker, first: int, runs: Sequence[Run]) -> list[Outcome]:
    """Several runs of messages as one batch, which gives what they give one by one: updates are told apart by rows."""
    sizes = np.array([run.content.num_rows for run in runs])
    starts = np.concatenate([[0], np.cumsum(sizes)])
    together = Run(pa.concat_tables([run.content for run in runs]), [])
    updates = broker.publish(together.content)
    assert not updates.ended, "the caller sees to it that no subscription ends"
    causes = np.searchsorted(starts, updates.event, side="right") - 1
    outcomes = []
    for number, run in enumerate(runs):
        chosen = np.flatnonzero(causes == number)
        own = updates.to_arrow().take(pa.array(chosen, pa.int64()))
        start, end = int(starts[number]), int(starts[number + 1])
        rejects, late = (
            [Reject(reject.row - start, reject.field, reject.reason) for reject in rows if start <= reject.row < end]
            for rows in (updates.rejects, updates.late)
        )
        outcomes.append(Outcome(first + number, run, own, [], rejects, late))
    return outcomes


def _lines(broker: Broker, event: int, run: Run) -> Outcome:
    steps = _Lines(broker)
    waiting: list[tuple[int, Json]] = []
    for row, line in enumerate(run.content):
        if line["event"] == "subscribe" and not line.get("replace"):
            waiting.append((row, line))
            continue
        steps.subscribe(waiting)
        waiting = []
        steps.take(row, line)
    steps.subscribe(waiting)
    updates = Updates.concat(steps.updates or [Updates.none()])
    done = sorted(set(range(len(run.content))) - {reject.row for reject in steps.rejects})
    return Outcome(event, run, updates.to_arrow(), steps.ended, steps.rejects, [], done)


class _Lines:
    """Event lines, one after another."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self.updates: list[Updates] = []
        self.ended: list[tuple[Any, str]] = []
        self.rejects: list[Reject] = []

    def take(self, row: int, line: Json) -> None:
        """One line; what cannot be honoured is a reject."""
        try:
            self._note(getattr(self, f"_{line['event']}")(line))
        except Exception as error:
            self.rejects.append(refused(self._broker, row, error))

    def _note(self, updates: Updates) -> None:
        self.updates.append(updates)
        self.ended += [(id, EXPIRED) for id in updates.ended]

    def subscribe(self, lines: list[tuple[int, Json]]) -> None:
        """Many new subscriptions at once."""
        if not lines:
            return
        given = self._broker.subscribe_many([subscription_from_json(subscription_of(line)) for _, line in lines])
        self.rejects += [Reject(lines[reject.row][0], reject.field, reject.reason) for reject in given.rejects]
        self._note(given)

    def _subscribe(self, line: Json) -> Updates:
        subscription = subscription_from_json(subscription_of(line))
        return self._broker.subscribe(subscription.id, subscription.query, subscription.expires, replace=True)

    def _unsubscribe(self, line: Json) -> Updates:
        updates = self._broker.unsubscribe(line["id"])
        self.ended.append((line["id"], DELETED))
        return updates

    def _move(self, line: Json) -> Updates:
        move = move_from_json(line)
        return self._broker.move(move.id, move.lon, move.lat, move.region)

    def _update(self, line: Json) -> Updates:
        return self._broker.update(message_from_json(message_of(line)))

    def _retract(self, line: Json) -> Updates:
        return self._broker.retract(line["id"])

    def _advance(self, line: Json) -> Updates:
        return self._broker.advance(line["ts"])


def message_of(line: Json) -> Json:
    """The JSON form of the message in a line."""
    return {name: value for name, value in line.items() if name != "event"}


def subscription_of(line: Json) -> Json:
    """The JSON form of the subscription in a line."""
    return {name: value for name, value in line.items() if name not in ("event", "replace", "ts")}
