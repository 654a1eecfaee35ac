"""Ranges of a pool never overlap, and nothing leaks."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from nearcast.window.index.pool import RangePool


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 200)), max_size=60))
def test_hands_out_ranges_that_nobody_holds(steps):  # type: ignore[no-untyped-def]
    pool = RangePool(np.dtype(np.int64))
    held: list[tuple[int, int, int]] = []
    for number, (taking, n) in enumerate(steps):
        if taking or not held:
            start = pool.take(n)
            pool.array[start : start + n] = number
            held.append((start, n, number))
        else:
            start, size, _ = held.pop(n % len(held))
            pool.give(start, size)
        for start, size, owner in held:
            assert (pool.array[start : start + size] == owner).all()
    assert sum(n for _, n, _ in held) + sum(end - start for start, end in pool.gaps) == pool.array.size
    restored = RangePool(np.dtype(np.int64))
    restored.adopt(pool.used.copy(), [(start, n) for start, n, _ in held if n])
    assert sum(n for _, n, _ in held) + sum(end - start for start, end in restored.gaps) == restored.array.size


def test_a_range_of_nothing_is_still_there_when_the_unused_end_is_not_stored() -> None:
    """#19: a segment without skips started where others had ended, beyond the end of what a snapshot keeps."""
    pool = RangePool(np.dtype(np.int64))
    start = pool.take(50)
    nothing = pool.take(0)
    pool.give(start, 50)
    assert 0 <= nothing <= pool.used.size
