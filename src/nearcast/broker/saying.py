"""Changes of all engines become updates: in the order of events, with the ids that callers know."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from nearcast.broker.registry import Registry
from nearcast.columns.arena import Longs
from nearcast.columns.messages import MessageTable
from nearcast.columns.subscriptions import PointTable, WithinTable
from nearcast.columns.updates import Updates
from nearcast.engines.contract import Changes, together
from nearcast.model.update import Reject

NEARER_IS_BETTER = {"nearest"}


def best_first(kind: str, changes: Changes, messages: MessageTable) -> Changes:
    """One subscription's changes of one event in the order that they are told: ``-`` before ``+``, each best first.

    Of equals the newer is first. What a notifier says of arrivals needs none of this: each subscription is told of
    one message in each event.
    """
    if changes.slots.size < 2:
        return changes
    newest = messages.layout.rows["sequence"][changes.messages]
    ranks = -changes.scores if kind in NEARER_IS_BETTER else changes.scores
    order = np.lexsort((-newest, -np.nan_to_num(ranks), changes.signs, changes.slots, changes.events))
    return changes.take(order)


def to_updates(
    said: Iterable[tuple[WithinTable | PointTable, Changes]],
    clocks: Longs,
    registry: Registry,
    messages: MessageTable,
    rejects: Sequence[Reject] = (),
) -> Updates:
    """Updates of changes, each in the order of events; `clocks` has the clock after each event."""
    spoken = [(table, changes) for table, changes in said if changes.slots.size]
    if not spoken:
        return Updates.none(rejects, registry.ids.arrow_type, messages.ids.arrow_type)
    numbers, changes = spoken[0][0].numbers.take(spoken[0][1].slots), spoken[0][1]
    if len(spoken) > 1:
        numbers = np.concatenate([table.numbers.take(them.slots) for table, them in spoken])
        changes = together([them for _, them in spoken])
        order = np.argsort(changes.events, kind="stable")  # runs that are in order already: a merge
        numbers, changes = numbers[order], changes.take(order)
    return Updates.of(
        registry.ids.to_arrow(numbers),
        messages.ids.to_arrow(changes.messages),
        changes.signs,
        changes.scores,
        clocks.take(changes.events),
        rejects,
    )
