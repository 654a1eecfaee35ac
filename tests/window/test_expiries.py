from __future__ import annotations

import heapq
import os
import random

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from nearcast.window.expiries import ExpiryHeap

COMPILED = os.environ.get("NUMBA_DISABLE_JIT", "0") == "0"

TIMES = st.lists(st.one_of(st.integers(-9, 9), st.integers(-(2**63), 2**63 - 1)), max_size=30)
STEPS = st.lists(st.one_of(TIMES, st.integers(-10, 10)), max_size=12)


def push(heap: ExpiryHeap, times: list[int], first: int) -> None:
    n = len(times)
    serials = np.arange(first, first + n, dtype=np.int64)
    heap.push(np.array(times, dtype=np.int64), serials, (serials % 1000).astype(np.int32))


@settings(max_examples=200 if COMPILED else 60)
@given(STEPS)
def test_the_heap_is_a_heap(steps: list[list[int] | int]) -> None:
    heap, model, n = ExpiryHeap(), [], 0
    for step in steps:
        if isinstance(step, list):
            push(heap, step, n)
            for time in step:
                heapq.heappush(model, (time, n))
                n += 1
        else:
            serials, slots = heap.pop_until(step)
            due = []
            while model and model[0][0] <= step:
                due.append(heapq.heappop(model))
            times = {serial: time for time, serial in due}
            assert sorted(serials.tolist()) == sorted(serial for _, serial in due)
            assert [times[serial] for serial in serials.tolist()] == [time for time, _ in due], "earliest first"
            assert slots.tolist() == [serial % 1000 for serial in serials.tolist()]
        assert len(heap) == len(model)
        other = ExpiryHeap()
        other.load(heap.state())
        assert len(other) == len(model)
        heap = other


def test_many_entries_at_once() -> None:
    choice = random.Random(3)
    times = [choice.randint(0, 50) for _ in range(2000 if COMPILED else 300)]
    heap = ExpiryHeap()
    push(heap, times, 0)
    serials, _ = heap.pop_until(25)
    assert sorted(serials.tolist()) == [n for n, time in enumerate(times) if time <= 25]
    assert heap.pop_until(25)[0].size == 0
    assert len(heap.pop_until(50)[0]) + serials.size == len(times)


def test_entries_that_are_not_valid_are_forgotten() -> None:
    heap = ExpiryHeap()
    push(heap, [9, 1, 5, 7, 3, 2, 8], 0)
    heap.keep(lambda serials, slots: (serials % 2 == 0) & (slots == serials))
    assert len(heap) == 4
    push(heap, [4], 10)
    assert heap.pop_until(100)[0].tolist() == [4, 10, 2, 6, 0]
    assert heap.nbytes > 0


def test_an_empty_heap_can_be_stored() -> None:
    heap = ExpiryHeap()
    heap.load(ExpiryHeap().state())
    assert heap.pop_until(2**63 - 1)[0].size == 0
    heap.keep(lambda serials, slots: serials > 0)
    push(heap, [1], 0)
    assert heap.pop_until(1)[0].tolist() == [0]
