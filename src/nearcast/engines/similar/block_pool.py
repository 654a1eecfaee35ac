"""Allocates blocks of rows to leaves, and takes them back, so that rebuilding a leaf seldom moves all others.

Best fit over free blocks by size; they do not merge. When an eighth is free, all blocks are laid side by side again.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from typing import Any

import numpy as np

from nearcast.columns.arena import Array, Longs, State, ranges

FIRST_ROOM = 64


class BlockPool:
    """Parallel arrays that leaves own blocks of."""

    def __init__(self, **dtypes: Any) -> None:
        self.arrays: dict[str, Array] = {name: np.zeros(0, dtype=dtype) for name, dtype in dtypes.items()}
        self.used = 0
        self.dead = 0
        self._free: list[tuple[int, int]] = []  # size and start of the free blocks, smallest first

    def take(self, n: int) -> tuple[int, int]:
        """Start and size of a block for n rows: a free one, whose rest stays free if that is much, or a new one."""
        at = bisect_left(self._free, (n, 0))
        if n and at < len(self._free):
            size, start = self._free.pop(at)
            self.dead -= size
            if size > n + n // 8:
                self.give(start + n, size - n)
                size = n
            return start, size
        start = self.used
        self.used += n
        for name, array in self.arrays.items():
            if self.used > array.size:
                self.arrays[name] = with_headroom(array[:start], self.used)
        return start, n

    def give(self, start: int, size: int) -> None:
        """Take back a block."""
        if size:
            insort(self._free, (size, start))
            self.dead += size

    @property
    def wasteful(self) -> bool:
        """More than an eighth is dead: time to `compact`."""
        return 8 * self.dead > self.used + 4 * FIRST_ROOM

    def compact(self, starts: Longs, sizes: Longs) -> Longs:
        """Keep only these blocks, side by side; returns their new starts."""
        where = ranges(starts, sizes)
        for name, array in self.arrays.items():
            self.arrays[name] = with_headroom(array[where], where.size)
        self.used, self.dead, self._free = where.size, 0, []
        return np.asarray(np.cumsum(sizes) - sizes)

    @property
    def nbytes(self) -> int:
        return sum(array.nbytes for array in self.arrays.values())

    def state(self) -> State:
        return {"dead": self.dead, **{name: array[: self.used] for name, array in self.arrays.items()}}

    def load(self, state: State) -> None:
        """Continue from a state. It does not list the free blocks: they wait for the next `compact`."""
        self.dead = int(state["dead"])
        for name in self.arrays:
            self.arrays[name] = state[name]
            self.used = state[name].size


def with_headroom(rows: Array, n: int) -> Array:
    """A copy with room for n rows and a sixteenth more: memory counts more here than copying."""
    grown = np.zeros(n + n // 16 + FIRST_ROOM, dtype=rows.dtype)
    grown[: rows.size] = rows
    return grown
