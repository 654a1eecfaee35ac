"""Floors of subscriptions whose scores fade, as the filter can use them: kernels.

The floor of such a buffer is a key without a clock. Which score a message needs to reach it depends on its `ts`: the
newer it is, the less. So the floor is filed as the score that suffices **until** some time ahead, which holds for every
message that is not newer: it may be too low for the filter, never too high. When the clock has passed that time the
floor is **due**, and filed again before another message is looked up. A queue says whose is next.

Filing far ahead prunes less, filing too often costs more than it prunes. How far ahead is up to each subscription: each
time that its floor is due it looks twice as far ahead, each time that the floor moves anyway half as far. So neither
happens much more often than the other.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from nearcast.columns.arena import Array, Longs, record
from nearcast.jit import kernel
from nearcast.window.index.heaps import pop, push
from nearcast.window.recency import score_of_key

DUE = record(
    ("until", "i8"),  # messages up to this `ts` need no less than the floor that is filed
    ("queued", "f8"),  # its time in the queue, infinite if it is not there; any other entry of it is outdated
    ("level", "i8"),  # how far ahead it is filed: doubles with each
)

_SHARE = 16  # of a half-life that floors are filed ahead, at least
MOST_LEVEL = 14  # a thousand half-lives
_LONGEST = 2**47  # milliseconds ahead at level 0
_BLUR = 1e-9  # a score that comes from a key is off by less than this share of it


class Floors(NamedTuple):
    """Where the floors of buffers stand, and the clock as of which they are filed."""

    buffers: Array  # BUFFER[n_slots]
    fading: Array  # FADING[n_slots], or nothing
    clock: int


@kernel
def current_floor(dues: Array, floors: Floors, slot: int) -> Any:
    """The score that a message must have to reach the floor of a buffer, or less."""
    buffer = floors.buffers[slot]
    if buffer.fades == 0 or buffer.floor <= 0.0:
        return buffer.floor
    own = floors.fading[slot]
    return score_of_key(own.floor, buffer.floor, dues[slot].until, own.half_life) * (1.0 - _BLUR)


@kernel
def requeue(dues: Array, queue: Array) -> Any:
    """Fill the queue from nothing; returns its length."""
    n = 0
    for slot in range(dues.size):
        if dues[slot].queued != np.inf:
            n = push(queue, n, dues[slot].queued, 0, slot)
    return n


@kernel
def put_off(dues: Array, queue: Array, counts: Longs, floors: Floors, slot: int) -> None:
    """Choose until when the floor of a subscription that fades is filed next, and queue it; its level is set."""
    due = dues[slot]
    if floors.buffers[slot].floor <= 0.0:  # holds for ever
        due.queued = np.inf
        return
    step = min(max(np.int64(1), floors.fading[slot].half_life // _SHARE), np.int64(_LONGEST))
    due.until = floors.clock + (step << due.level)
    if float(due.until) < due.queued:
        if counts[0] == queue.size:
            counts[0] = requeue(dues, queue)
        due.queued = float(due.until)
        counts[0] = push(queue, counts[0], due.queued, 0, slot)


@kernel
def start_due(dues: Array, queue: Array, counts: Longs, floors: Floors, slot: int) -> None:
    """A subscription is filed: from now on its floor is due, if it fades."""
    if floors.buffers[slot].fades:
        dues[slot].level, dues[slot].queued = 0, np.inf
        put_off(dues, queue, counts, floors, slot)


@kernel
def end_due(dues: Array, slot: int) -> None:
    """A subscription is taken out."""
    if slot < dues.size:
        dues[slot].queued = np.inf


@kernel
def follow_floor(dues: Array, queue: Array, counts: Longs, floors: Floors, slot: int) -> None:
    """The floor of a buffer has moved."""
    if floors.buffers[slot].fades:
        dues[slot].level = max(dues[slot].level - 1, 0)
        put_off(dues, queue, counts, floors, slot)


@kernel
def next_due(dues: Array, queue: Array, counts: Longs, floors: Floors) -> Any:
    """A subscription whose floor must be filed again before a message of this clock is looked up, or -1."""
    while counts[0] > 0 and queue[0].bound <= floors.clock:
        slot, bound = int(queue[0].node), queue[0].bound
        counts[0] = pop(queue, counts[0])
        due = dues[slot]
        if due.queued != bound:
            continue
        due.queued = np.inf
        if due.until > floors.clock:
            due.queued = float(due.until)
            counts[0] = push(queue, counts[0], due.queued, 0, slot)
            continue
        due.level = min(due.level + 1, MOST_LEVEL)
        put_off(dues, queue, counts, floors, slot)
        return slot
    return -1
