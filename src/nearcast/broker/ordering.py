"""Changes of all engines become updates: in the order of events, with the ids that callers know."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from nearcast.broker.registry import Registry
from nearcast.columns.arena import Floats, Ints, Longs, ranges
from nearcast.columns.message_table import MessageTable
from nearcast.columns.subscription_tables import PointTable, WithinTable
from nearcast.columns.updates import Origin, Updates
from nearcast.engines.contract import Changes, together
from nearcast.jit import kernel
from nearcast.model.kinds import Kind
from nearcast.model.update import Reject
from nearcast.window.recency import faded_rows, order_numbers

NEARER_IS_BETTER = {Kind.NEAREST}


@kernel
def sort_groups(starts: Longs, signs: Ints, ranks: Floats, sequences: Longs, order: Longs) -> None:
    """Sort the rows order[starts[g]:starts[g + 1]] of every group: lower sign, higher rank, higher sequence first.

    A shell sort, since groups are short. A rank that is NaN is neither higher nor lower than any other.
    """
    for group in range(starts.size - 1):
        lo, hi = starts[group], starts[group + 1]
        gap = 1
        while gap < (hi - lo) // 3:
            gap = 3 * gap + 1
        while gap > 0:
            for i in range(lo + gap, hi):
                row = order[i]
                j = i
                while j >= lo + gap:
                    other = order[j - gap]
                    if signs[row] != signs[other]:
                        first = signs[row] < signs[other]
                    elif ranks[row] > ranks[other] or ranks[row] < ranks[other]:
                        first = ranks[row] > ranks[other]
                    else:
                        first = sequences[row] > sequences[other]
                    if not first:
                        break
                    order[j] = other
                    j -= gap
                order[j] = row
            gap //= 3


def in_order(
    kind: Kind, table: WithinTable | PointTable, changes: Changes, messages: MessageTable, clocks: Longs | int
) -> Changes:
    """Changes of one kind in the order of updates: event, slot, ``-`` before ``+``, each best first.

    Scores fade to what they are at these clocks, one for each change or one for all.

    Of equals the newer is first. Slots are given to subscriptions by events alone, whatever engines do with them, so
    that the order between subscriptions is the same however events are cut into batches. Engines mostly emit what
    belongs together in one go, so that whole runs are put in order, and rows only within them.
    """
    n = changes.slots.size
    if n == 0:
        return changes
    ranks = -changes.scores if kind in NEARER_IS_BETTER else changes.scores
    if isinstance(table, PointTable) and table.fades:
        half_lives, ts = table.half_lives_of(changes.slots), messages.layout.rows["ts"][changes.messages]
        ranks = order_numbers(changes.scores, ts, half_lives)
        changes = changes._replace(scores=faded_rows(changes.scores, ts, clocks, half_lives))
    if n == 1:
        return changes
    keys = changes.events.astype(np.int64) << 32 | changes.slots
    steps = np.diff(keys)
    if (steps > 0).all():
        return changes
    runs = np.append(0, np.flatnonzero(steps) + 1)
    if runs.size == n:
        order = np.argsort(keys)
        keys = keys[order]
        if (np.diff(keys) > 0).all():  # each subscription hears of one message in each event
            return changes.take(order)
        runs = np.append(0, np.flatnonzero(np.diff(keys)) + 1)
    elif (np.diff(keys[runs]) <= 0).any():
        by_key = np.argsort(keys[runs])
        order = ranges(runs[by_key], np.diff(runs, append=n)[by_key])
        runs = np.append(0, np.flatnonzero(np.diff(keys[order])) + 1)
    else:
        order = np.arange(n)
    sequences = messages.layout.rows["sequence"][changes.messages]
    sort_groups(np.append(runs, n), changes.signs, ranks, sequences, order)
    return changes.take(order)


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
        order = np.argsort(changes.events, kind="stable")  # runs that are in order already: a merge
        numbers, changes = numbers[order], changes.take(order)
    return Updates.of(
        registry.ids.to_arrow(numbers),
        messages.ids.to_arrow(changes.messages),
        changes.signs,
        changes.scores,
        clocks.take(changes.events),
        rejects,
        Origin(
            changes.events.astype(np.int64) if rows is None else rows.take(changes.events),
            messages.layout.rows["sequence"][changes.messages],  # `take` would copy the whole column first
        ),
    )
