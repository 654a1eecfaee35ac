"""Lets what happens in a batch happen to one subscription after another: kernels.

Everything that an event does to a buffer, and all that is emitted of it, depends on this subscription alone. So what is
emitted per event is the same whichever comes first, and to go by subscription means that buffers are read in order,
each once, far enough ahead. A buffer that is short is **put off**: it is evaluated again, as of its event, after all
others are done, and then lives through the rest of the batch by itself.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from nearcast.columns.arena import Array, Floats, Ints, Longs, record
from nearcast.engines.kept.buffers import emit_changes, has_room, n_pending, room_to_wait
from nearcast.engines.kept.engine import BatchInput
from nearcast.engines.kept.layout import MOVED, N_CHANGES, N_TOUCHED, AsOf, ResultLayout
from nearcast.engines.kept.skyband import Policy, is_short, offer, withdraw
from nearcast.engines.kept.watch import first_to_leave, wake, watches
from nearcast.engines.nearest.timeline import ARRIVED, IN_MOMENT, LEFT, WITHDRAWN, Timeline
from nearcast.engines.nearest.verify import LAST, NO_KEY, READ, VERIFIED, key_rest, verify_some
from nearcast.jit import NEED_ROOM, inlined, kernel

DONE = 0
NOBODY, NEVER = -1, 2**62
SLOT, TAKEN, EVENT, DUE, PUT_OFF, SHRANK = range(6)  # positions in `cursor`: the subscription at hand
N_MOVED, N_SHORT, N_RESUMED, N_LEFT = range(6, 10)  # and what was noted of others
N_CURSOR = 10

_AHEAD = 24  # keys that are verified, and whose buffers are read, ahead

SHORT = record(("event", "i4"), ("slot", "i4"))


class SlotWork(NamedTuple):
    """What is to happen, by subscription, and how far it has."""

    keys: Longs  # int64[n]: sorted, see timeline.py; those that are verified stand first
    ranks: Floats  # float64[n]: how the messages of those rank
    read: Longs  # int64[N_READ]: see verify.py
    cursor: Longs  # int64[N_CURSOR]: where the kernel goes on
    moved: Ints  # int32[]: subscriptions whose ranges have moved
    short: Array  # SHORT[]: those to be evaluated again, and as of when


@inlined
def begin_slot(work: SlotWork, slot: int, event: int, due: int) -> None:
    """Go on with a subscription: the event that is under way, and the next one in which a message leaves."""
    cursor = work.cursor
    cursor[SLOT], cursor[EVENT], cursor[DUE] = slot, event, due
    cursor[PUT_OFF] = cursor[SHRANK] = 0


@inlined
def end_slot(work: SlotWork) -> None:
    """A subscription has lived through the batch."""
    cursor = work.cursor
    if cursor[SHRANK] and not cursor[PUT_OFF]:
        work.moved[cursor[N_MOVED]] = cursor[SLOT]
        cursor[N_MOVED] += 1


@inlined
def end_event(work: SlotWork, results: ResultLayout) -> int:
    """Emit what an event has changed, or put the subscription off; NEED_ROOM if there is none, then call again."""
    cursor, counters = work.cursor, results.counters
    slot, event = cursor[SLOT], cursor[EVENT]
    if counters[N_TOUCHED] > 0:
        buffer = results.buffers[slot]
        if is_short(results, slot):
            put_off = work.short[cursor[N_SHORT]]
            put_off.event, put_off.slot = event, slot
            cursor[N_SHORT] += 1
            cursor[PUT_OFF], cursor[DUE] = 1, NEVER
            buffer.touched, counters[N_TOUCHED] = 0, 0
        elif counters[N_CHANGES] + n_pending(results) > results.changes.size:
            return NEED_ROOM
        else:
            cursor[SHRANK] |= buffer.touched & MOVED
            emit_changes(results, event)
    cursor[EVENT] = NEVER
    return DONE


@inlined
def next_event(work: SlotWork, timeline: Timeline) -> Any:
    """The next event for the subscription at hand, or NEVER."""
    cursor, event = work.cursor, np.int64(NEVER)
    if cursor[TAKEN] < work.read[VERIFIED]:
        key = work.keys[cursor[TAKEN]]
        if key >> 32 == cursor[SLOT]:
            event = np.int64(timeline.moments[key & IN_MOMENT].event)
    return min(event, cursor[DUE])


@inlined
def as_of_event(batch: BatchInput, event: int) -> AsOf:
    """The moment after an event."""
    return AsOf(event, batch.steps.lasts[event], batch.steps.clocks[event])


@inlined
def note_due(batch: BatchInput, timeline: Timeline, work: SlotWork, results: ResultLayout, policy: Policy) -> None:
    """Note in which event the next message of the buffer at hand leaves, if that is in this batch."""
    cursor, steps = work.cursor, batch.steps
    cursor[DUE], as_of, until = NEVER, as_of_event(batch, cursor[EVENT]), as_of_event(batch, timeline.end - 1)
    leaving = first_to_leave(results, batch.messages.rows, cursor[SLOT], as_of, until, policy)
    if leaving.last <= until.last or leaving.clock <= until.clock:
        event = cursor[EVENT] + 1
        while steps.lasts[event] < leaving.last and steps.clocks[event] < leaving.clock:
            event += 1
        cursor[DUE] = event


@inlined
def take_moment(batch: BatchInput, timeline: Timeline, work: SlotWork, results: ResultLayout, policy: Policy) -> None:
    """Let the next moment of the event under way happen to the subscription at hand; there must be room.

    A message that leaves is dropped, and the next one that does is noted if that is in this batch.
    """
    cursor, rows = work.cursor, batch.messages.rows
    slot, event, listed, at = cursor[SLOT], cursor[EVENT], False, cursor[TAKEN]
    kind: Any = LEFT
    message: Any = NOBODY
    if at < work.read[VERIFIED]:
        moment = timeline.moments[work.keys[at] & IN_MOMENT]
        listed = work.keys[at] >> 32 == slot and moment.event == event
        if listed:
            kind, message = np.int64(moment.kind), np.int64(moment.message)
    leaves = cursor[DUE] == event and kind != WITHDRAWN
    if listed and not leaves:
        cursor[TAKEN] += 1
        if kind == ARRIVED:
            offer(results, batch.messages, slot, message, work.ranks[at], event, policy)
        elif kind == WITHDRAWN:
            withdraw(results, rows, slot, message, event)
        leaves = kind != ARRIVED and watches(results, slot, message)
    if leaves:
        wake(results, batch.subscriptions, rows, slot, as_of_event(batch, event), policy)
    if leaves or (kind == ARRIVED and policy.spare and watches(results, slot, message)):
        note_due(batch, timeline, work, results, policy)


@inlined
def next_slot(work: SlotWork) -> bool:
    """Go on with the next subscription; False if there is none."""
    cursor = work.cursor
    end_slot(work)
    cursor[SLOT] = NOBODY
    if cursor[TAKEN] == work.read[VERIFIED]:
        return False
    begin_slot(work, work.keys[cursor[TAKEN]] >> 32, NEVER, NEVER)
    return True


@kernel
def take_slots(batch: BatchInput, timeline: Timeline, work: SlotWork, results: ResultLayout, policy: Policy) -> int:
    """Take one subscription after another through its moments; DONE, or NEED_ROOM, then call again."""
    cursor, read = work.cursor, work.read
    while True:
        if read[VERIFIED] - cursor[TAKEN] < _AHEAD and read[READ] < work.keys.size:
            verify_some(batch, timeline, work.keys, work.ranks, read, _AHEAD, results)
            continue
        event = next_event(work, timeline)
        if cursor[EVENT] != NEVER and event != cursor[EVENT]:
            if end_event(work, results) == NEED_ROOM:
                return NEED_ROOM
        elif event == NEVER:
            if not next_slot(work):
                return DONE
        elif cursor[PUT_OFF]:
            cursor[TAKEN] += 1
        elif has_room(results, cursor[SLOT]) and room_to_wait(results) >= 2:
            cursor[EVENT] = event
            take_moment(batch, timeline, work, results, policy)
        else:
            return NEED_ROOM


@kernel
def settle_waiting(batch: BatchInput, timeline: Timeline, keys: Longs, results: ResultLayout, policy: Policy) -> None:
    """End a batch: those who began to wait in it for what has left in it, and still do, wait for others from now on."""
    rows, as_of = batch.messages.rows, as_of_event(batch, timeline.end - 1)
    for key in keys:
        slot = key >> 32
        if watches(results, slot, timeline.moments[key & IN_MOMENT].message):
            wake(results, batch.subscriptions, rows, slot, as_of, policy)


@kernel
def take_rest(
    batch: BatchInput,
    timeline: Timeline,
    work: SlotWork,
    filed: Array,
    slots: Ints,
    event: int,
    results: ResultLayout,
    policy: Policy,
) -> bool:
    """Take subscriptions that were evaluated again, as of an event, through the rest of the batch.

    `work` has room for all moments. False if room is needed first; then call it again.
    """
    cursor, read = work.cursor, work.read
    while cursor[N_RESUMED] < slots.size:
        slot = slots[cursor[N_RESUMED]]
        if cursor[SLOT] == NOBODY:
            cursor[N_LEFT] = key_rest(batch, timeline, filed, slot, event, work.keys)
            read[READ], read[VERIFIED], read[LAST], cursor[TAKEN] = 0, 0, NO_KEY, 0
            begin_slot(work, slot, event, NEVER)
            if policy.spare:
                note_due(batch, timeline, work, results, policy)
        n = cursor[N_LEFT]
        own = SlotWork(work.keys[:n], work.ranks[:n], read, cursor, work.moved, work.short)
        if take_slots(batch, timeline, own, results, policy) == NEED_ROOM:
            return False
        cursor[N_MOVED] = 0
        cursor[N_RESUMED] += 1
    return True
