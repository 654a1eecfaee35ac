"""A shard: a broker with one part of the subscriptions; blocks of events go in, answers and counts come out.

Plain Python, nothing of Spark. Every shard sees every message of a batch and puts them in the same order, so sequence,
clock, late messages and duplicates are the same in all of them; `REPORTING_SHARD` alone tells of these. The owner of a
subscription tells of its events.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

import nearcast as nc
from nearcast.columns.arena import State
from nearcast.columns.updates import Updates
from nearcast.errors import InvalidInput
from nearcast.model.update import Reject
from nearcast.spark.answer_rows import answer_columns, answer_table, refused_columns
from nearcast.spark.events import ADVANCE, ASSIGN, EVENTS, MOVE, PUBLISH, RETRACT, SUBSCRIBE, UNSUBSCRIBE, UPDATE
from nearcast.spark.shards.blocks import Controls, Messages, with_lists
from nearcast.spark.shards.places import Places
from nearcast.spark.spec import Spec

REPORTING_SHARD = 0
PIECE = 100_000  # updates that are held at a time, or somewhat more
_FIRST_ROWS, _MOST_ROWS = 4_096, 65_536  # events given to the broker at once: at the start of a batch, and at most
_OWN = ("event", "ts", "position", "tie", "source", "shard")  # columns of the frame, not of a subscription


class Stretch(NamedTuple):
    """Events of one sort that stand together, as the broker takes them."""

    rows: Messages | Controls
    first: int
    last: int

    @property
    def table(self) -> pa.Table:
        """Control events: the columns that any of them has."""
        table = with_lists(self.rows.rows.slice(self.first, self.last - self.first))
        return table.drop_columns([n for n in table.column_names if n in _OWN or (n != "id" and not _has(table, n))])

    @property
    def ids(self) -> pa.Array:
        return self.rows.rows.column("id").slice(self.first, self.last - self.first).combine_chunks()

    @property
    def messages(self) -> Any:
        assert isinstance(self.rows, Messages)
        return self.rows.spelled(self.first, self.last)


def _has(table: pa.Table, name: str) -> bool:
    return bool(table.column(name).null_count < table.num_rows)


def _advance(broker: nc.Broker, stretch: Stretch) -> Updates:
    """Every step of the clock is an event of its own."""
    return Updates.concat([broker.advance(ts) for ts in stretch.rows.ts[stretch.first : stretch.last].tolist()])


def _update(broker: nc.Broker, stretch: Stretch) -> Updates:
    try:
        return broker.update(stretch.messages)
    except InvalidInput as error:  # there is no window
        return Updates.none([Reject(row, error.field, str(error)) for row in range(stretch.last - stretch.first)])


def _retract(broker: nc.Broker, stretch: Stretch) -> Updates:
    """Every message that is withdrawn is an event of its own."""
    told: list[Updates] = []
    rejects: list[Reject] = []
    for row, id in enumerate(stretch.ids.to_pylist()):
        try:
            told.append(broker.retract(id))
        except InvalidInput as error:
            rejects.append(Reject(row, error.field, str(error)))
    return Updates.concat(told, rejects)


# What the broker does with events of one sort.
ACTIONS: dict[int, Callable[[nc.Broker, Stretch], Updates]] = {
    ADVANCE: _advance,
    ASSIGN: lambda broker, stretch: Updates.none(),
    MOVE: lambda broker, stretch: broker.move_many(stretch.table),
    PUBLISH: lambda broker, stretch: broker.publish(stretch.messages),
    RETRACT: _retract,
    SUBSCRIBE: lambda broker, stretch: broker.subscribe_many(stretch.table),
    UNSUBSCRIBE: lambda broker, stretch: broker.unsubscribe_many(stretch.ids),
    UPDATE: _update,
}


class Shard:
    """One part of the subscriptions, and the broker that answers them."""

    def __init__(self, index: int, spec: Spec, broker: nc.Broker | None = None, places: pa.Table | None = None) -> None:
        self.index = index
        self.spec = spec
        self.broker = spec.broker() if broker is None else broker
        self.places = Places(spec.shards, places)
        self.counts: Counter[str] = Counter()  # since `begin`
        self._schema = answer_columns(spec)
        self._batch = 0
        self._seq = 0

    def begin(self, batch: int) -> None:
        """What follows belongs to this batch."""
        self._batch, self._seq = batch, 0
        self.counts = Counter()

    def own(self, controls: list[pa.Table]) -> Controls | None:
        """Those control events of some blocks that this shard takes, in order."""
        if not controls:
            return None
        if self.spec.placed and self.spec.shards > 1:
            controls = [self._own_of(block) for block in controls]
        rows = Controls(controls)
        return rows if len(rows) else None

    def _own_of(self, block: pa.Table) -> pa.Table:
        """Those rows of a block that this shard takes."""
        events = block.column("event").to_numpy()
        taken = events == ADVANCE
        if self.index == REPORTING_SHARD:
            taken |= events == ASSIGN
        named = np.flatnonzero((events != ADVANCE) & (events != ASSIGN))
        ids = block.column("id").combine_chunks().take(pa.array(named))
        taken[named] = self.places.of(ids) == self.index
        return block.filter(pa.array(taken))

    def give(self, ids: pa.Array) -> State:
        """Drop subscriptions, and return all that is theirs; ids that nobody has are passed over."""
        copied = self.broker.export_subscriptions(ids)
        self.broker.unsubscribe_many(ids)
        return copied

    def apply(self, messages: Messages | None, controls: Controls | None) -> Iterator[pa.Table]:
        """Process events in order, control events before messages of the same ts; answers come as they arise.

        The more answers there are, the fewer events the broker is given at a time. Each event must be taken: nothing is
        processed until the iterator is read.
        """
        n_messages = 0 if messages is None else len(messages)
        if controls is None:
            yield from self._take(messages, 0, n_messages)
            return
        before = np.zeros(len(controls), np.int64)
        if messages is not None:
            before = np.searchsorted(messages.ts, controls.ts, side="left")
        cuts = np.flatnonzero(np.diff(before)) + 1
        at = 0
        for first, last in zip([0, *cuts.tolist()], [*cuts.tolist(), len(controls)], strict=True):
            yield from self._take(messages, at, int(before[first]))
            at = int(before[first])
            yield from self._take(controls, first, last)
        yield from self._take(messages, at, n_messages)

    def _take(self, rows: Messages | Controls | None, first: int, last: int) -> Iterator[pa.Table]:
        """Rows first to last, event by event."""
        if rows is None or first == last:
            return
        at_once = _FIRST_ROWS
        for start, end in rows.stretches(first, last):
            at = start
            while at < end:
                stretch = Stretch(rows, at, min(at + at_once, end))
                event = int(rows.events[at])
                updates = ACTIONS[event](self.broker, stretch)
                yield from self._told(updates, event, stretch)
                n = stretch.last - at
                at = stretch.last
                at_once = max(1, min(PIECE * n // max(1, len(updates)), 2 * at_once, _MOST_ROWS))

    def _told(self, updates: Updates, event: int, stretch: Stretch) -> Iterator[pa.Table]:
        n = stretch.last - stretch.first
        if (isinstance(stretch.rows, Controls) and event != ADVANCE) or self.index == REPORTING_SHARD:
            n_refused = len(updates.rejects) + len(updates.late)
            self.counts["rows"] += n
            self.counts["assigned"] += n if event == ASSIGN else 0
            self.counts["messages" if isinstance(stretch.rows, Messages) else "events"] += n - n_refused
            for outcome, told in (("reject", updates.rejects), ("late", updates.late)):
                if told:
                    yield self._refused(outcome, told, event, stretch)
        if len(updates):
            table = updates.to_arrow()
            n_added = int(np.count_nonzero(table.column("sign").to_numpy() == "+"))
            self.counts.update(added=n_added, removed=table.num_rows - n_added)
            columns = {name: table.column(name) for name in ("subscription", "message", "sign", "score", "ts")}
            yield self._labelled("update", columns, table.num_rows)

    def _refused(self, outcome: str, told: list[Any], event: int, stretch: Stretch) -> pa.Table:
        """Rows that the broker refused, as answers."""
        rows = stretch.rows.rows.take(pa.array([stretch.first + one.row for one in told]))
        shown = [
            json.dumps({k: v for k, v in row.items() if v is not None and (k not in _OWN or k == "ts")}, default=str)
            for row in rows.to_pylist()
        ]
        of = "message" if isinstance(stretch.rows, Messages) else "subscription"
        columns = {
            of: rows.column("id"),
            "ts": rows.column("ts"),
            "event": pa.array([EVENTS[event]] * len(told)),
            "field": pa.array([one.field for one in told]),
            "reason": pa.array([one.reason for one in told]),
            "row": pa.array(shown),
            "position": rows.column("position"),
        }
        if "source" in rows.column_names:
            columns["source"] = rows.column("source")
        return self._labelled(outcome, columns, len(told))

    def refuse(self, told: pa.Table, of: str) -> pa.Table:
        """Rows that were refused before they came here, as answers; `of` says whose ids they have."""
        self.counts["rows"] += told.num_rows
        return self._labelled("reject", refused_columns(self._schema, told, of), told.num_rows)

    def _labelled(self, outcome: str, columns: dict[str, Any], n: int) -> pa.Table:
        if outcome != "update":
            self.counts["late" if outcome == "late" else "rejects"] += n
        place = {
            "batch": pa.array(np.full(n, self._batch)),
            "shard": pa.array(np.full(n, self.index)),
            "seq": pa.array(np.arange(self._seq, self._seq + n)),
        }
        self._seq += n
        return answer_table(self._schema, outcome, columns | place, n)


def drained(tables: Iterator[pa.Table]) -> None:
    """Have everything processed, and listen to nothing."""
    for _ in tables:
        pass


def check_counts(counts: Counter[str]) -> None:
    """Rows that came in must have come out as accepted, late or refused."""
    told = counts["messages"] + counts["events"] + counts["late"] + counts["rejects"]
    assert counts["rows"] == told, f"{counts['rows']} rows came in, {told} were accounted for"
