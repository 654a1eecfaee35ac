"""What happens in a run of events, moment by moment, and to whom: keys that sort by subscription: kernels.

Subscriptions do not depend on one another, so that each can live through all events of a batch before the next one
does. What happens in an event is therefore cut into **moments**, which are numbered in their order, and whatever may
concern a subscription is a **key**: its slot, then the number of the moment. Keys in order are one subscription after
another, each with its moments in order, and memory is read from its beginning to its end.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from nearcast.columns.arena import Array, Ints, Longs, record
from nearcast.engines.kept.layout import FREE_WAITING, N_FREE_WAITING, ResultLayout
from nearcast.jit import kernel, prefetch

WITHDRAWN, LEFT, ARRIVED = range(3)  # kinds of moments, in the order that they have in an event
IN_MOMENT = 0xFFFFFFFF  # the bits of a key that are a moment

_TOGETHER = 16  # messages whose chains are followed at the same time

MOMENT = record(("event", "i4"), ("message", "i4"), ("kind", "i4"))


class Timeline(NamedTuple):
    """The moments of a run of events."""

    moments: Array  # MOMENT[n]
    starts: Ints  # int32[n_events + 1]: the first moment of each event of the run
    first: int  # event
    end: int  # the event after the last one


@kernel
def note_moment(moments: Array, n: int, event: int, message: int, kind: int) -> int:
    """Write a moment; returns the number of the next one."""
    moments[n].event, moments[n].message, moments[n].kind = event, message, kind
    return n + 1


@kernel
def list_moments(steps: Any, timeline: Timeline) -> int:
    """Write the moments of these events: what is withdrawn leaves first, then what expires, then one arrives.

    Returns how many there are. There must be room for whatever expires, and three more for each event.
    """
    moments, n = timeline.moments, 0
    for event in range(timeline.first, timeline.end):
        timeline.starts[event - timeline.first] = n
        if steps.withdrawn.size > 0 and steps.withdrawn[event] >= 0:
            n = note_moment(moments, n, event, steps.withdrawn[event], WITHDRAWN)
            n = note_moment(moments, n, event, steps.withdrawn[event], LEFT)
        for at in range(steps.expired_start[event], steps.expired_start[event + 1]):
            n = note_moment(moments, n, event, steps.expired[at], LEFT)
        if steps.arrivals[event] >= 0:
            n = note_moment(moments, n, event, steps.arrivals[event], ARRIVED)
    timeline.starts[timeline.end - timeline.first] = n
    return n


@kernel
def key_pairs(timeline: Timeline, kind: int, pairs: Longs) -> None:
    """Turn event << 32 | slot into keys: the moment is the arrival of the event, or what is withdrawn in it."""
    for i in range(pairs.size):
        event, slot = (pairs[i] >> 32) - timeline.first, pairs[i] & 0xFFFFFFFF
        at = timeline.starts[event + 1] - 1 if kind == ARRIVED else timeline.starts[event]
        pairs[i] = slot << 32 | at


@kernel
def key_waiting(results: ResultLayout, timeline: Timeline, at: int, keys: Longs, n: int) -> tuple[int, int]:
    """Write keys of those who wait for what leaves, from a moment on; they wait no longer.

    Returns the moment to go on with, and the number of keys with those before: it stops where there is no room.
    Chains of those who wait lie anywhere in memory, so that several are followed at the same time.
    """
    moments, heads, waiting, counters = timeline.moments, results.heads, results.waiting, results.counters
    while at < moments.size:
        end = min(at + _TOGETHER, moments.size)
        for later in range(end, min(end + _TOGETHER, moments.size)):
            prefetch(heads, moments[later].message)
        for here in range(at, end):
            if moments[here].kind == LEFT:
                prefetch(waiting, heads[moments[here].message] - 1)
        busy = True
        while busy:
            if n + _TOGETHER > keys.size:
                return at, n
            busy = False
            for here in range(at, end):
                message = moments[here].message
                if moments[here].kind != LEFT or heads[message] == 0:
                    continue
                node = heads[message]
                keys[n] = np.int64(waiting[node - 1].slot) << 32 | here
                n += 1
                heads[message] = waiting[node - 1].next
                prefetch(waiting, heads[message] - 1)
                waiting[node - 1].next = counters[FREE_WAITING]
                counters[FREE_WAITING] = node
                counters[N_FREE_WAITING] += 1
                busy = True
        at = end
    return at, n
