"""Takes events through the subscription index into the results: the kernel of `TopKSkype`."""

from __future__ import annotations

from typing import Any, NamedTuple

from nearcast.columns.arena import Floats, Ints, Longs
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
from nearcast.engines.kept.skyband import Policy
from nearcast.engines.topk.dues import Floors, current_floor, follow_floor, next_due
from nearcast.engines.topk.groups import refile
from nearcast.engines.topk.keys import floor_of
from nearcast.engines.topk.layout import Shape, SubscriptionLayout
from nearcast.engines.topk.match import Probe, find
from nearcast.held import opened
from nearcast.jit import NEED_ROOM, kernel


@kernel
def refile_one(index: Any, subscriptions: Any, idf: Floats, slot: int, floors: Floors, shape: Any) -> None:
    """File a subscription under the floor that its buffer has now."""
    floor = floor_of(current_floor(index.dues, floors, slot))
    if index.faces[slot].floor != floor:
        refile(index, subscriptions, idf, slot, floor, shape)


@kernel
def refile_many(index: Any, subscriptions: Any, idf: Floats, slots: Ints, floors: Floors, shape: Any) -> None:
    """File subscriptions under the floors that their buffers have now, where these have moved in this event."""
    for slot in slots:
        if floors.buffers[slot].touched & MOVED != 0:
            follow_floor(index.dues, index.due_queue, index.due_count, floors, slot)
            refile_one(index, subscriptions, idf, slot, floors, shape)


@kernel
def refile_due(index: Any, subscriptions: Any, idf: Floats, floors: Floors, shape: Any) -> None:
    """File floors again that are no longer low enough for messages of this clock."""
    while True:
        slot = next_due(index.dues, index.due_queue, index.due_count, floors)
        if slot < 0:
            return
        refile_one(index, subscriptions, idf, slot, floors, shape)


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
            if index.due_count[0] > 0:
                floors = Floors(results.buffers, results.fading, batch.steps.clocks[cursor[STEP]])
                refile_due(index, batch.subscriptions, batch.idf, floors, shape)
            n = find(index, batch, cursor[STEP], message_of(batch, cursor), shape.prune_groups, probe, found)
            if n == NEED_ROOM:
                return FIND_ROOM
            note_found(cursor, n)
        elif task == FOLLOW:
            touched = results.touched[: results.counters[N_TOUCHED]]
            floors = Floors(results.buffers, results.fading, batch.steps.clocks[cursor[STEP]])
            refile_many(index, batch.subscriptions, batch.idf, touched, floors, shape)
        else:
            return task


class EventCall(NamedTuple):
    """All that `take_events` reads and writes."""

    skype: SubscriptionLayout
    shape: Shape
    batch: BatchInput
    cursor: Longs
    probe: Probe
    found: Found
    results: ResultLayout
    policy: Policy


@kernel
def take_held(held: Any) -> int:
    """`take_events` for a `Held` call."""
    call = opened(held)
    return take_events(
        call.skype, call.shape, call.batch, call.cursor, call.probe, call.found, call.results, call.policy
    )
