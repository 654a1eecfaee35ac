"""Changes of all engines become updates: in the order of events, with the ids that callers know."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from nearcast.broker.registry import Registry
from nearcast.columns.arena import Array, Longs
from nearcast.columns.message_table import MessageTable
from nearcast.columns.subscription_tables import PointTable, WithinTable
from nearcast.columns.updates import Origin, UpdateColumns, Updates
from nearcast.engines.change_order import (
    DISTINCT,
    ORDERED,
    SEVERAL,
    order_found,
    rows_by_event_and_slot,
    scratch_of,
    sort_slots,
)
from nearcast.engines.contract import Changes, together
from nearcast.jit import kernel
from nearcast.model.kinds import Kind
from nearcast.model.update import Reject
from nearcast.window.recency import faded_rows, order_numbers

NEARER_IS_BETTER = {Kind.NEAREST}
_FEW = 4096  # changes of one event that one kernel orders


class ChangeRows(NamedTuple):
    """What the order of changes depends on besides events and slots."""

    changes: Changes
    stored: Array  # MESSAGE[]: rows of messages
    rank: float  # +1.0 if a higher score is better, -1.0 if a lower one is


@kernel
def is_before(given: ChangeRows, row: int, other: int) -> Any:
    """Of one subscription in one event: lower sign, better score, higher sequence first.

    A score that is NaN is neither better nor worse than any other.
    """
    changes = given.changes
    if changes.signs[row] != changes.signs[other]:
        return changes.signs[row] < changes.signs[other]
    a, b = given.rank * changes.scores[row], given.rank * changes.scores[other]
    if a > b or a < b:
        return a > b
    return given.stored[changes.messages[row]].sequence > given.stored[changes.messages[other]].sequence


@kernel
def sort_groups(given: ChangeRows, order: Longs) -> None:
    """Sort the rows of every group, which is a subscription in an event: they stand side by side in `order`.

    A shell sort, since groups are short.
    """
    events, slots, lo, n = given.changes.events, given.changes.slots, 0, order.size
    while lo < n:
        row, hi = order[lo], lo + 1
        while hi < n and slots[order[hi]] == slots[row] and events[order[hi]] == events[row]:
            hi += 1
        gap = 1
        while gap < (hi - lo) // 3:
            gap = 3 * gap + 1
        while gap > 0 and hi > lo + 1:
            for i in range(lo + gap, hi):
                row = order[i]
                j = i
                while j >= lo + gap and is_before(given, row, order[j - gap]):
                    order[j] = order[j - gap]
                    j -= gap
                order[j] = row
            gap //= 3
        lo = hi


@kernel
def sort_one_event(given: ChangeRows, order: Longs, spare: Longs, counts: Longs) -> int:
    """Write rows in order if they are of one event; DISTINCT if that is the order they have, SEVERAL of more events."""
    found = sort_slots(given.changes.events, given.changes.slots, order, spare, counts)
    if found != DISTINCT and found != SEVERAL:
        sort_groups(given, order)
    return found


def in_order(
    kind: Kind, table: WithinTable | PointTable, changes: Changes, messages: MessageTable, clocks: Longs | int
) -> Changes:
    """Changes of one kind in the order of updates: event, slot, ``-`` before ``+``, each best first.

    Scores fade to what they are at these clocks, one for each change or one for all.

    Of equals the newer is first. Slots are given to subscriptions by events alone, whatever engines do with them, so
    that the order between subscriptions is the same however events are cut into batches.
    """
    n = changes.slots.size
    if n == 0:
        return changes
    told = changes
    if isinstance(table, PointTable) and table.fades:
        half_lives, ts = table.half_lives_of(changes.slots), messages.rows["ts"][changes.messages]
        told = changes._replace(scores=faded_rows(changes.scores, ts, clocks, half_lives))
        changes = changes._replace(scores=order_numbers(changes.scores, ts, half_lives))
    if n == 1:
        return told
    given = ChangeRows(changes, messages.rows, -1.0 if kind in NEARER_IS_BETTER else 1.0)
    if n <= _FEW:
        order, spare, counts = scratch_of(n)
        found = sort_one_event(given, order, spare, counts)
        if found != SEVERAL:
            return told if found == DISTINCT else told.in_order(order)
    found = order_found(changes.events, changes.slots)
    if found == DISTINCT:
        return told
    rows = np.arange(n) if found == ORDERED else rows_by_event_and_slot(changes)
    sort_groups(given, rows)
    return told.in_order(rows)


def to_updates(
    emitted: Iterable[tuple[WithinTable | PointTable, Changes]],
    clocks: Longs,
    registry: Registry,
    messages: MessageTable,
    rejects: Sequence[Reject] = (),
    rows: Longs | None = None,
) -> Updates:
    """Updates of changes, each in the order of events; `clocks` has the clock after each event.

    `rows` has the row of the batch that caused each event; without it events are rows.
    """
    emitting = [(table, changes) for table, changes in emitted if changes.slots.size]
    if not emitting:
        return Updates.none(rejects, registry.ids.arrow_type, messages.ids.arrow_type)
    numbers, changes = emitting[0][0].numbers.take(emitting[0][1].slots), emitting[0][1]
    if len(emitting) > 1:
        numbers = np.concatenate([table.numbers.take(them.slots) for table, them in emitting])
        changes = together([them for _, them in emitting])
        if clocks.size > 1:
            order = np.argsort(changes.events, kind="stable")  # runs that are in order already: a merge
            numbers, changes = numbers[order], changes.take(order)
    told = UpdateColumns(
        registry.ids.column(numbers),
        messages.ids.column(changes.messages),
        changes.signs,
        changes.scores,
        clocks.take(changes.events),
    )
    origin = Origin(
        changes.events.astype(np.int64) if rows is None else rows.take(changes.events),
        messages.rows["sequence"][changes.messages],  # `take` would copy the whole column first
    )
    return Updates(told, rejects, origin=origin)
