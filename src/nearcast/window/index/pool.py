"""Allocates ranges of one flat array to many owners, and takes them back.

First fit over a sorted list of gaps, which merge with their neighbours. That suits segments: few, of any size, built
and dropped whole. Leaves of `Similar` are many and grow in place (`engines/similar/block_pool.py`); kernels that
allocate use size classes (`engines/blocks.py`).
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from nearcast.columns.arena import Array

FIRST_ROOM = 64


class RangePool:
    """One array, cut into ranges; it grows when no gap is large enough."""

    def __init__(self, dtype: np.dtype) -> None:
        self.array: Array = np.zeros(FIRST_ROOM, dtype=dtype)
        self._gaps: list[tuple[int, int]] = [(0, FIRST_ROOM)]  # (start, end), in order, never adjacent

    def take(self, n: int) -> int:
        """Start of a range of `n` entries; what they hold is left over from earlier owners.

        A range of none starts where the array does, which every stored part of the array has.
        """
        if n == 0:
            return 0
        for i, (start, end) in enumerate(self._gaps):
            if end - start >= n:
                self._gaps[i : i + 1] = [(start + n, end)] if end - start > n else []
                return start
        size = self.array.size
        grown = np.empty(max(size + n, size + size // 2), dtype=self.array.dtype)
        grown[:size] = self.array
        self.array = grown
        self.give(size, grown.size - size)
        return self.take(n)

    def give(self, start: int, n: int) -> None:
        """Take back a range."""
        if n == 0:
            return
        self._gaps.append((start, start + n))
        self._gaps.sort()
        merged: list[tuple[int, int]] = []
        for gap in self._gaps:
            if merged and merged[-1][1] == gap[0]:
                merged[-1] = (merged[-1][0], gap[1])
            else:
                merged.append(gap)
        self._gaps = merged

    def adopt(self, array: Array, taken: Iterable[tuple[int, int]]) -> None:
        """Continue with a stored array, in which the given (start, n) ranges are taken."""
        self.array, self._gaps = array, []
        end = 0
        for start, n in sorted(taken):
            self.give(end, start - end)
            end = start + n
        self.give(end, array.size - end)

    @property
    def used(self) -> Array:
        """The array up to the end of the last range that is taken."""
        if self._gaps and self._gaps[-1][1] == self.array.size:
            return self.array[: self._gaps[-1][0]]
        return self.array

    @property
    def gaps(self) -> list[tuple[int, int]]:
        """The free (start, end) ranges, in order."""
        return list(self._gaps)

    @property
    def nbytes(self) -> int:
        return self.array.nbytes
