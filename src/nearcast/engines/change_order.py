"""Puts changes in order by event, then by slot, and merges those of several engines: kernels, and who calls them.

Slots are given to subscriptions by events alone, so that nobody sees in the order of updates how an engine found them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from nearcast.columns.arena import Ints, Longs
from nearcast.jit import kernel

UNORDERED, ORDERED, DISTINCT, SEVERAL = range(4)  # what is found of rows; distinct ones are ordered too

_FEW = 32  # rows of an event that are sorted one by one
_MANY = 512  # rows of an event from which on a pass sorts by more bits of a slot
_LEAST_BITS, _MOST_BITS = 8, 10
_ROW = 0xFFFFFFFF
_NO_COUNTS: Longs = np.zeros(0, np.int64)


@kernel
def order_found(events: Ints, slots: Ints) -> int:
    """Are these rows in order by event and slot, and each subscription in an event named once?"""
    found = DISTINCT
    for i in range(1, slots.size):
        if events[i] < events[i - 1] or (events[i] == events[i - 1] and slots[i] < slots[i - 1]):
            return UNORDERED
        if events[i] == events[i - 1] and slots[i] == slots[i - 1]:
            found = ORDERED
    return found


@kernel
def list_by_event(given: Any, firsts: Longs, ends: Longs, first_event: int, starts: Longs, keys: Longs) -> None:
    """Write slot << 32 | row of some runs of rows, by event.

    `starts` has a zero for each event from `first_event` on, and then where it begins.
    """
    events, slots, n_events = given.events, given.slots, starts.size
    for run in range(firsts.size):
        for row in range(firsts[run], ends[run]):
            starts[events[row] - first_event] += 1
    total = 0
    for event in range(n_events):
        count = starts[event]
        starts[event] = total
        total += count
    for run in range(firsts.size):
        for row in range(firsts[run], ends[run]):
            event = events[row] - first_event
            keys[starts[event]] = np.int64(slots[row]) << 32 | row
            starts[event] += 1
    first = np.int64(0)
    for event in range(n_events):
        first, starts[event] = starts[event], first


@kernel
def sort_few(keys: Longs, first: Any, end: Any) -> None:
    """Sort some keys, one by one."""
    for i in range(first + 1, end):
        key, j = keys[i], i
        while j > first and keys[j - 1] > key:
            keys[j] = keys[j - 1]
            j -= 1
        keys[j] = key


@kernel
def sort_by_digit(keys: Longs, out: Longs, first: Any, end: Any, shift: int, counts: Longs) -> None:
    """Copy some keys in the order of one digit, those that share it as they are; there is a count for each digit."""
    last = counts.size - 1
    counts[:] = 0
    for i in range(first, end):
        counts[keys[i] >> shift & last] += 1
    to = first
    for digit in range(counts.size):
        count = counts[digit]
        counts[digit] = to
        to += count
    for i in range(first, end):
        digit = keys[i] >> shift & last
        out[counts[digit]] = keys[i]
        counts[digit] += 1


@kernel
def sort_event(keys: Longs, spare: Longs, first: Any, end: Any, counts: Longs) -> None:
    """Let the keys of an event become its rows, by slot: the digits of slots one after another, the last first."""
    largest, n_falls = np.int64(0), 0
    for i in range(first, end):
        n_falls += 1 if i > first and keys[i] < keys[i - 1] else 0
        largest = max(largest, keys[i])
    if n_falls > 0 and end - first <= _FEW:
        sort_few(keys, first, end)
    elif n_falls > 0:
        shift, moved, bits = 32, False, _LEAST_BITS if end - first < _MANY else _MOST_BITS
        while largest >> shift > 0:
            digits = counts[: 1 << bits]
            sort_by_digit(spare if moved else keys, keys if moved else spare, first, end, shift, digits)
            shift, moved = shift + bits, not moved
        for i in range(first, end if moved else first):
            keys[i] = spare[i]
    for i in range(first, end):
        keys[i] &= _ROW


@kernel
def sort_events(starts: Longs, keys: Longs, spare: Longs, counts: Longs) -> None:
    """`sort_event` for every event; `starts` has where each begins."""
    for event in range(starts.size):
        end = starts[event + 1] if event + 1 < starts.size else np.int64(keys.size)
        sort_event(keys, spare, starts[event], end, counts)


@kernel
def sort_slots(events: Ints, slots: Ints, keys: Longs, spare: Longs, counts: Longs) -> int:
    """What `order_found` finds in rows of one event, `keys` being their numbers by slot unless they are distinct.

    SEVERAL, with nothing sorted, if they are not distinct and of more than one event.
    """
    found = order_found(events, slots)
    if found == DISTINCT:
        return found
    for row in range(slots.size):
        if events[row] != events[0]:
            return SEVERAL
        keys[row] = np.int64(slots[row]) << 32 | row
    sort_event(keys, spare, np.int64(0), np.int64(slots.size), counts)
    return found


def rows_by_event_and_slot(given: Any, runs: tuple[Longs, Longs] | None = None) -> Longs:
    """The numbers of rows by event and slot, those of one subscription in an event as they come.

    All rows, unless `runs` says where some begin and end; each of those is in the order of events.
    """
    if runs is None:
        firsts, ends = np.zeros(1, np.int64), np.array([given.slots.size])
        first, last = 0, int(given.events.max(initial=-1))
    else:
        firsts, ends = runs
        some = firsts < ends
        first = int(given.events[firsts[some]].min(initial=np.iinfo(np.int32).max))
        last = int(given.events[ends[some] - 1].max(initial=first - 1))
    n = int((ends - firsts).sum())
    (keys, spare, counts), starts = scratch_of(n), np.zeros(last + 1 - first, np.int64)
    list_by_event(given, firsts, ends, first, starts, keys)
    sort_events(starts, keys, spare, counts)
    return keys


def scratch_of(n: int) -> tuple[Longs, Longs, Longs]:
    """Room to sort this many rows in: keys, and what else many rows take."""
    keys = np.empty(n, np.int64)
    return (keys, keys, _NO_COUNTS) if n <= _FEW else (keys, np.empty(n, np.int64), np.empty(1 << _MOST_BITS, np.int64))


@kernel
def take_rows(given: Any, order: Longs, out: Any) -> None:
    """Copy the changes of these rows, column by column."""
    for to in range(order.size):
        out.events[to] = given.events[order[to]]
    for to in range(order.size):
        out.slots[to] = given.slots[order[to]]
    for to in range(order.size):
        out.messages[to] = given.messages[order[to]]
    for to in range(order.size):
        out.signs[to] = given.signs[order[to]]
    for to in range(order.size):
        out.scores[to] = given.scores[order[to]]
