"""Events go through the subscription index into the results: the kernel of `TopKSkype`."""

from __future__ import annotations

from nearcast.engines.kept.engine import (
    DONE,
    FIND_ROOM,
    FINDING,
    LEAVING,
    PHASE,
    STEP,
    end_event,
    keep_found,
    leave_expired,
    note_found,
)
from nearcast.engines.kept.layout import MOVED, N_TOUCHED
from nearcast.engines.topk.groups import refile
from nearcast.engines.topk.keys import floor_of
from nearcast.engines.topk.match import find
from nearcast.jit import NEED_ROOM, kernel


@kernel
def refile_many(index, subscriptions, idf, slots, buffers, shape):
    """File subscriptions under the floors that their buffers have now, where these have moved in this event."""
    for slot in slots:
        if buffers[slot].touched & MOVED == 0:
            continue
        floor = floor_of(buffers[slot].floor)
        if index.faces[slot].floor != floor:
            refile(index, subscriptions, idf, slot, floor, shape)


@kernel
def take_events(filed, steps, cursor, tables, where, words, room, kept):
    """Take events from the cursor on into the results, until DONE or something is missing; then call again.

    `filed` is the index and its shape, `tables` are messages and subscriptions, `words` as `find` wants them, `room` is
    for finding, `kept` are the results and their policy.
    """
    index, shape = filed
    messages, subscriptions = tables
    probe, found = room
    results, policy = kept
    while cursor[STEP] < steps.arrivals.size:
        event = cursor[STEP]
        if cursor[PHASE] == LEAVING:
            code = leave_expired(steps, cursor, messages, subscriptions, results, policy)
            if code != DONE:
                return code
        if cursor[PHASE] == FINDING:
            n = 0
            if steps.arrivals[event] >= 0:
                arrival = (steps.arrivals[event], steps.clocks[event])
                n = find(index, arrival, messages, subscriptions, where, words, probe, found)
                if n == NEED_ROOM:
                    return FIND_ROOM
            note_found(cursor, n)
        code = keep_found(steps, cursor, messages, found, results, policy)
        if code != DONE:
            return code
        touched = results.touched[: results.counters[N_TOUCHED]]
        refile_many(index, subscriptions, words[0], touched, results.buffers, shape)
        end_event(cursor, results)
    return DONE
