"""Finds which messages leave in which event: a queue by sequence for counts, a heap by time for ages and expiries."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from nearcast.columns.arena import Array, Ints, Longs, State, with_room
from nearcast.columns.times import FOREVER
from nearcast.held import unchanged
from nearcast.jit import kernel

UNLIMITED = 2**62  # a count, age or max_ahead that never limits anything
HEAD, TAIL = range(2)  # positions in `CountQueue.ends`


class CountQueue(NamedTuple):
    """Slots in order of sequence, for windows that count; a message that has left otherwise stays until its turn."""

    slots: Ints  # int32[]
    ends: Longs  # int64[2]: the oldest is slots[ends[HEAD]], the newest slots[ends[TAIL] - 1]


def queued(queue: CountQueue) -> Ints:
    """The slots of a queue, oldest first."""
    return queue.slots[queue.ends[HEAD] : queue.ends[TAIL]]


class HeapLayout(NamedTuple):
    """A binary heap, the earliest time first, of equal times the smallest serial: no heap is left in another order."""

    times: Longs  # int64[n]
    serials: Longs  # int64[n]: if the slot shows another one, the entry is void
    slots: Ints  # int32[n]
    size: Longs  # int64[1]: entries in use


@kernel
def sooner(time: int, serial: int, other_time: int, other_serial: int) -> bool:
    """Does an entry leave the heap before another one?"""
    return time < other_time or (time == other_time and serial < other_serial)


@kernel
def heap_push(heap: HeapLayout, time: int, serial: int, slot: int) -> None:
    """Add an entry; there must be room."""
    at = heap.size[0]
    heap.size[0] = at + 1
    while at > 0:
        parent = (at - 1) >> 1
        if not sooner(time, serial, heap.times[parent], heap.serials[parent]):
            break
        heap.times[at], heap.serials[at], heap.slots[at] = heap.times[parent], heap.serials[parent], heap.slots[parent]
        at = parent
    heap.times[at], heap.serials[at], heap.slots[at] = time, serial, slot


@kernel
def heap_pop(heap: HeapLayout) -> None:
    """Remove the earliest entry."""
    last = heap.size[0] - 1
    heap.size[0] = last
    time, serial, slot = heap.times[last], heap.serials[last], heap.slots[last]
    at = 0
    while True:
        child = 2 * at + 1
        if child >= last:
            break
        if child + 1 < last and sooner(
            heap.times[child + 1], heap.serials[child + 1], heap.times[child], heap.serials[child]
        ):
            child += 1
        if not sooner(heap.times[child], heap.serials[child], time, serial):
            break
        heap.times[at], heap.serials[at], heap.slots[at] = heap.times[child], heap.serials[child], heap.slots[child]
        at = child
    heap.times[at], heap.serials[at], heap.slots[at] = time, serial, slot


@kernel
def push_many(heap: HeapLayout, times: Longs, serials: Longs, slots: Ints) -> None:
    """Add entries; there must be room."""
    for i in range(times.size):
        heap_push(heap, times[i], serials[i], slots[i])


@kernel
def pop_many(heap: HeapLayout, until: int, serials: Longs, slots: Ints) -> int:
    """Remove what is due, at most as many as there is room for; returns how many."""
    n = 0
    while heap.size[0] > 0 and heap.times[0] <= until and n < slots.size:
        serials[n], slots[n] = heap.serials[0], heap.slots[0]
        heap_pop(heap)
        n += 1
    return n


_NOTHING: tuple[Longs, Ints] = np.zeros(0, np.int64), np.zeros(0, np.int32)


class ExpiryHeap:
    """Times at which slots end."""

    def __init__(self) -> None:
        self._times = np.zeros(0, dtype=np.int64)
        self._serials = np.zeros(0, dtype=np.int64)
        self._slots = np.zeros(0, dtype=np.int32)
        self._size = np.zeros(1, dtype=np.int64)
        self._layout: HeapLayout | None = None

    def __len__(self) -> int:
        return int(self._size[0])

    @property
    def layout(self) -> HeapLayout:
        arrays = self._times, self._serials, self._slots, self._size
        layout = self._layout = unchanged(self._layout, HeapLayout, *arrays)
        return layout

    def make_room(self, n: int) -> None:
        """Make room for `n` more entries."""
        if len(self) + n <= self._times.size:
            return
        self._times, self._serials = with_room(self._times, len(self) + n), with_room(self._serials, len(self) + n)
        self._slots = with_room(self._slots, len(self) + n)

    def push(self, times: Longs, serials: Longs, slots: Ints) -> None:
        self.make_room(times.size)
        push_many(self.layout, times, serials, slots)

    def pop_until(self, time: int) -> tuple[Longs, Ints]:
        """Serials and slots of all entries due by `time`, earliest first."""
        if not len(self) or self._times[0] > time:
            return _NOTHING
        found: list[tuple[Longs, Ints]] = []
        room = 64
        while len(self) and self._times[0] <= time:
            serials, slots = np.empty(room, np.int64), np.empty(room, np.int32)
            n = pop_many(self.layout, time, serials, slots)
            found.append((serials[:n], slots[:n]))
            room *= 2
        return np.concatenate([serials for serials, _ in found]), np.concatenate([slots for _, slots in found])

    def due(self, time: int) -> Ints:
        """Slots of all entries due by `time`, which stay; void ones too."""
        found, level = [np.zeros(0, np.int32)], np.zeros(1, np.int64)
        while level.size:  # an entry is due only if the one above it is
            level = level[level < len(self)]
            level = level[self._times[level] <= time]
            found.append(self._slots[level])
            level = np.concatenate([2 * level + 1, 2 * level + 2])
        return np.concatenate(found)

    def keep(self, is_valid: Callable[[Longs, Ints], Array]) -> None:
        """Drop the entries that are not valid."""
        n = len(self)
        kept = np.flatnonzero(is_valid(self._serials[:n], self._slots[:n]))
        kept = kept[np.lexsort((self._serials[kept], self._times[kept]))]  # sorted is a heap
        self._times, self._serials, self._slots = self._times[kept], self._serials[kept], self._slots[kept]
        self._size[0] = kept.size

    @property
    def nbytes(self) -> int:
        return self._times.nbytes + self._serials.nbytes + self._slots.nbytes

    def state(self) -> State:
        n = len(self)
        return {"times": self._times[:n], "serials": self._serials[:n], "slots": self._slots[:n]}

    def load(self, state: State) -> None:
        self._times, self._serials, self._slots = state["times"], state["serials"], state["slots"]
        self._size = np.array([self._times.size])


@kernel
def expire_steps(rows: Array, steps: Any, count: int, last: int, queue: CountQueue, heap: HeapLayout) -> None:
    """Write who leaves in each event, to `steps.expired_start` and `steps.expired`.

    Both structures may name a message that has left already: through the other one in this batch (then its expiry, or
    its sequence against `last`, tells), withdrawn in this batch, or in an earlier batch (then its slot shows another
    sequence). What was withdrawn keeps its place in the queue.
    """
    head, tail = queue.ends[HEAD], queue.ends[TAIL]
    n = 0
    for step in range(steps.arrivals.size):
        clock = steps.clocks[step]
        while heap.size[0] > 0 and heap.times[0] <= clock:
            sequence, slot = heap.serials[0], heap.slots[0]
            heap_pop(heap)
            withdrawn = rows[slot].withdrawn_by <= steps.lasts[step]
            if rows[slot].sequence == sequence and sequence > last - count and not withdrawn:
                steps.expired[n] = slot
                n += 1
        slot = steps.arrivals[step]
        last = steps.lasts[step]
        if slot >= 0 and rows[slot].expires_at != FOREVER:
            heap_push(heap, rows[slot].expires_at, rows[slot].sequence, slot)
        if slot >= 0 and count != UNLIMITED:
            queue.slots[tail] = slot
            tail += 1
            while tail - head > count:
                sequence = last - (tail - head) + 1
                old = queue.slots[head]
                head += 1
                withdrawn = rows[old].withdrawn_by <= last
                if rows[old].sequence == sequence and rows[old].expires_at > clock and not withdrawn:
                    steps.expired[n] = old
                    n += 1
        steps.expired_start[step + 1] = n
    queue.ends[HEAD], queue.ends[TAIL] = head, tail
