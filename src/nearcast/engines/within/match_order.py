"""Puts matches in the order of updates: by event, then by slot, however the tree found them: kernels.

Slots are given to subscriptions by events alone, so that nobody sees the shape of a tree in the order of updates.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from nearcast.columns.arena import Ints, with_room
from nearcast.jit import kernel

_DIGIT = 11  # bits of a slot that one pass sorts by
_FEW = 48  # matches that are sorted one by one


class Span(NamedTuple):
    """The events of some matches."""

    first: int
    end: int


class SortRoom(NamedTuple):
    """Room for matches in order, and scratch of sorting."""

    slots: Ints  # int32[]: as long as there are matches
    events: Ints  # int32[]: the same
    counts: Ints  # int32[]: for each digit, or event


def new_sort_room() -> SortRoom:
    """Room for few."""
    return SortRoom(np.zeros(64, np.int32), np.zeros(64, np.int32), np.zeros((1 << _DIGIT) + 1, np.int32))


def with_sort_room(room: SortRoom, n_matches: int, n_events: int) -> SortRoom:
    """Room for this many matches of this many events."""
    if n_matches <= room.slots.size and n_events < room.counts.size:
        return room
    slots, events = with_room(room.slots, n_matches), with_room(room.events, n_matches)
    return SortRoom(slots, events, with_room(room.counts, n_events + 1))


@kernel
def sort_few(slots: Ints, events: Ints, n: int) -> None:
    """Sort matches one by one."""
    for i in range(1, n):
        slot, event, j = slots[i], events[i], i
        while j > 0 and (events[j - 1] > event or (events[j - 1] == event and slots[j - 1] > slot)):
            slots[j], events[j] = slots[j - 1], events[j - 1]
            j -= 1
        slots[j], events[j] = slot, event


@kernel
def to_starts(counts: Ints, n: int) -> None:
    """Turn the counts of `n` values into where each begins."""
    start = np.int32(0)
    for i in range(n):
        count = counts[i]
        counts[i] = start
        start += count


@kernel
def pass_by_digit(slots: Ints, events: Ints, to_slots: Ints, to_events: Ints, n: int, shift: int, counts: Ints) -> None:
    """Copy matches in the order of one digit of their slots."""
    mask = (1 << _DIGIT) - 1
    counts[: mask + 1] = 0
    for i in range(n):
        counts[slots[i] >> shift & mask] += 1
    to_starts(counts, mask + 1)
    for i in range(n):
        digit = slots[i] >> shift & mask
        to_slots[counts[digit]], to_events[counts[digit]] = slots[i], events[i]
        counts[digit] += 1


@kernel
def pass_by_event(slots: Ints, events: Ints, to_slots: Ints, to_events: Ints, n: int, first: int, counts: Ints) -> None:
    """Copy matches in the order of their events, the first of which is `first`."""
    for i in range(n):
        counts[events[i] - first] += 1
    to_starts(counts, counts.size)
    for i in range(n):
        at = events[i] - first
        to_slots[counts[at]], to_events[counts[at]] = slots[i], events[i]
        counts[at] += 1


@kernel
def copy_matches(slots: Ints, events: Ints, n: int, room: SortRoom) -> None:
    """Copy the first `n` matches to `room`."""
    for i in range(n):
        room.slots[i], room.events[i] = slots[i], events[i]


@kernel
def sort_matches(slots: Ints, events: Ints, n: int, span: Span, room: SortRoom) -> None:
    """Copy the first `n` matches, of these events, to `room`, by event and slot; the others are scratch then."""
    if n <= _FEW:
        copy_matches(slots, events, n, room)
        sort_few(room.slots, room.events, n)
        return
    first, largest = span.first, np.int32(0)
    counts = room.counts[: span.end - first]
    for i in range(n):
        largest = max(largest, slots[i])
    shift, in_room = 0, False
    while shift == 0 or largest >> shift > 0:
        if in_room:
            pass_by_digit(room.slots, room.events, slots, events, n, shift, room.counts)
        else:
            pass_by_digit(slots, events, room.slots, room.events, n, shift, room.counts)
        in_room = not in_room
        shift += _DIGIT
    counts[:] = 0
    if in_room:
        pass_by_event(room.slots, room.events, slots, events, n, first, counts)
        copy_matches(slots, events, n, room)
        return
    pass_by_event(slots, events, room.slots, room.events, n, first, counts)
