"""Arrays that grow, slots that are used again, and ragged rows that close their own gaps."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int32]
Longs = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Array = npt.NDArray[Any]
State = dict[str, Any]

FIRST_ROOM = 16
LARGE = 1 << 16  # entries; a larger array is not doubled, because what stays unused counts more than copying


def record(*fields: tuple[str, str], packed: bool = False) -> np.dtype[Any]:
    """A record type, aligned unless packed; its fields are attributes in plain Python as they are in kernels.

    Packed records have no gaps: for what there is so much of that the bytes saved count more than a field that lies
    across two lines of the processor's cache.
    """
    return np.dtype((np.record, np.dtype(list(fields), align=not packed)))


def with_room(array: Array, n: int) -> Array:
    """The array itself when it has `n` entries, else a copy of twice the size or, if that is large, an eighth more."""
    if n <= array.size:
        return array
    more = array.size if array.size < LARGE else array.size // 8
    grown = np.zeros(max(n, array.size + more, FIRST_ROOM), dtype=array.dtype)
    grown[: array.size] = array
    return grown


def owned(array: Array) -> Array:
    """A writable, contiguous array of native type: the only kind that kernels are compiled for."""
    return np.require(array, requirements=["C", "W", "A"])


def ranges(starts: Longs, lengths: Array) -> Longs:
    """The positions start, start + 1, ... of every row, one row after another."""
    total = int(lengths.sum())
    ends = np.cumsum(lengths, dtype=np.int64)
    shift = starts - (ends - lengths)
    return np.repeat(shift, lengths) + np.arange(total, dtype=np.int64)


def starts_of(lengths: Array) -> Longs:
    """Where rows of these lengths start, one after another, and where the last ends."""
    starts = np.zeros(lengths.size + 1, dtype=np.int64)
    np.cumsum(lengths, out=starts[1:])
    return starts


class Slots:
    """Numbers 0, 1, 2, ... handed out and taken back, the last one returned first."""

    def __init__(self) -> None:
        self.capacity = 0
        self.n_taken = 0
        self._free = np.empty(0, dtype=np.int32)
        self._n_free = 0

    def __len__(self) -> int:
        return self.n_taken

    def take(self, n: int) -> Ints:
        """`n` slots that nobody holds."""
        again = min(n, self._n_free)
        old = self._free[self._n_free - again : self._n_free][::-1]
        new = np.arange(self.capacity, self.capacity + n - again, dtype=np.int32)
        self._n_free -= again
        self.n_taken += n
        self.capacity += n - again
        return np.concatenate([old, new])

    def give(self, slots: Ints) -> None:
        """Slots that are free again."""
        self._free = with_room(self._free, self._n_free + slots.size)
        self._free[self._n_free : self._n_free + slots.size] = slots
        self._n_free += slots.size
        self.n_taken -= slots.size

    @property
    def nbytes(self) -> int:
        return self._free.nbytes

    def state(self) -> State:
        return {"capacity": self.capacity, "free": self._free[: self._n_free]}

    def load(self, state: State) -> None:
        self.capacity = int(state["capacity"])
        self._free = state["free"]
        self._n_free = self._free.size
        self.n_taken = self.capacity - self._n_free


class Ragged:
    """Rows of different lengths in parallel pools; whoever owns a row keeps its start and length."""

    def __init__(self, **dtypes: npt.DTypeLike) -> None:
        self.pools: dict[str, Array] = {name: np.zeros(FIRST_ROOM, dtype=dtype) for name, dtype in dtypes.items()}
        self.used = 0
        self.dead = 0

    def append(self, lengths: Array, **rows: Array) -> Longs:
        """Add rows, given one after another for each pool; returns where each starts."""
        total = int(lengths.sum())
        starts = self.used + np.cumsum(lengths, dtype=np.int64) - lengths
        for name, values in rows.items():
            pool = with_room(self.pools[name], self.used + total)
            pool[self.used : self.used + total] = values
            self.pools[name] = pool
        self.used += total
        return starts

    def make_room(self, n: int) -> None:
        """Room for `n` more entries."""
        for name, pool in self.pools.items():
            if self.used + n > pool.size:
                self.pools[name] = with_room(pool, self.used + n)

    def drop(self, lengths: Array) -> None:
        """Rows of these lengths are owned by nobody now."""
        self.dead += int(lengths.sum())

    @property
    def wasteful(self) -> bool:
        """More than half of the used room is dead: time to `compact`."""
        return self.dead * 2 > self.used and self.dead > 1024

    def compact(self, starts: Longs, lengths: Array) -> Longs:
        """Keep only these rows; returns their new starts."""
        where = ranges(starts, lengths)
        for name, pool in self.pools.items():
            self.pools[name] = with_room(pool[where], FIRST_ROOM)
        self.used, self.dead = where.size, 0
        return np.asarray(np.cumsum(lengths, dtype=np.int64) - lengths)

    @property
    def nbytes(self) -> int:
        return sum(pool[: self.used].nbytes for pool in self.pools.values())

    def state(self) -> State:
        return {"dead": self.dead, **{name: pool[: self.used] for name, pool in self.pools.items()}}

    def load(self, state: State) -> None:
        self.dead = int(state["dead"])
        for name in self.pools:
            self.pools[name] = with_room(state[name], FIRST_ROOM)
            self.used = state[name].size
