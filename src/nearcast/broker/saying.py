"""Changes of all engines become updates: in the order of events, with the ids that callers know."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from nearcast.broker.registry import Registry
from nearcast.columns.arena import Longs
from nearcast.columns.messages import MessageTable
from nearcast.columns.subscriptions import PointTable, WithinTable
from nearcast.columns.updates import Updates
from nearcast.engines.contract import Changes
from nearcast.model.update import Reject

NEARER_IS_BETTER = {"nearest"}


def to_updates(
    said: Sequence[tuple[str, WithinTable | PointTable, Changes]],
    clocks: Longs,
    registry: Registry,
    messages: MessageTable,
    rejects: Sequence[Reject] = (),
) -> Updates:
    """Updates of changes by (kind, table, changes); `clocks` has the clock after each event.

    One subscription's updates of one event: ``-`` before ``+``, each best first, then newest first.
    """
    said = [entry for entry in said if entry[2].slots.size]
    if not said:
        return Updates.none(rejects, registry.ids.arrow_type, messages.ids.arrow_type)
    numbers = np.concatenate([table.rows["number"][changes.slots] for _, table, changes in said])
    events, _, slots, signs, scores = (np.concatenate(column) for column in zip(*(c for _, _, c in said), strict=True))
    ranks = np.concatenate([-c.scores if kind in NEARER_IS_BETTER else c.scores for kind, _, c in said])
    newest = messages.layout.rows["sequence"][slots]
    order = np.lexsort((-newest, -np.nan_to_num(ranks), signs, numbers, events))
    return Updates.of(
        registry.ids.to_arrow(numbers[order].astype(np.int32)),
        messages.ids.to_arrow(slots[order].astype(np.int32)),
        signs[order],
        scores[order],
        clocks[events[order]],
        rejects,
    )
