"""Takes events through the subscription index into the results: the kernel of `TopKSkype`."""

from __future__ import annotations

from typing import Any

from nearcast.columns.arena import Array, Floats, Ints, Longs
from nearcast.engines.kept.engine import (
    FIND,
    FIND_ROOM,
    FOLLOW,
    STEP,
    BatchInput,
    Found,
    message_of,
    note_found,
    run_events,
)
from nearcast.engines.kept.layout import MOVED, N_TOUCHED, ResultLayout
from nearcast.engines.topk.groups import refile
from nearcast.engines.topk.keys import floor_of
from nearcast.engines.topk.match import Probe, find
from nearcast.jit import NEED_ROOM, kernel


@kernel
def refile_many(index: Any, subscriptions: Any, idf: Floats, slots: Ints, buffers: Array, shape: Any) -> None:
    """File subscriptions under the floors that their buffers have now, where these have moved in this event."""
    for slot in slots:
        if buffers[slot].touched & MOVED == 0:
            continue
        floor = floor_of(buffers[slot].floor)
        if index.faces[slot].floor != floor:
            refile(index, subscriptions, idf, slot, floor, shape)


@kernel
def take_events(
    index: Any,
    shape: Any,
    batch: BatchInput,
    cursor: Longs,
    probe: Probe,
    found: Found,
    results: ResultLayout,
    policy: Any,
) -> int:
    """Take events from the cursor on into the results, until DONE or something is missing; then call again."""
    while True:
        task = run_events(batch, batch.steps.arrivals.size, cursor, found, results, policy)
        if task == FIND:
            n = find(index, batch, cursor[STEP], message_of(batch, cursor), shape.prune_groups, probe, found)
            if n == NEED_ROOM:
                return FIND_ROOM
            note_found(cursor, n)
        elif task == FOLLOW:
            touched = results.touched[: results.counters[N_TOUCHED]]
            refile_many(index, batch.subscriptions, batch.idf, touched, results.buffers, shape)
        else:
            return task
