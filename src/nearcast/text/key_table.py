"""`Keys` gives byte strings small numbers, and finds either by the other: for words and ids; see `key_kernels.py`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from nearcast.text.key_kernels import (
    ARENA_DEAD,
    ARENA_END,
    BLOCK,
    CAPACITY,
    EMPTY,
    ENTRY,
    FREE,
    HASHED,
    LEAST_SLOTS,
    LIVE,
    N_COUNTERS,
    NEXT_FREE,
    KeysLayout,
    Numbers,
    add_many,
    copy_many,
    find_many,
    find_one,
    free_many,
    refile,
    store_many,
)
from nearcast.text.strings import Bytes, Starts, strings_to_arrow

State = dict[str, Any]  # arrays by name, and plain integers

LEAST_DEAD = 4096  # bytes not worth compacting for


class Keys:
    """Byte strings and their numbers.

    Keys come and go in bulk, as bytes and starts: key i is ``data[starts[i]:starts[i + 1]]``. All arrays must be
    C-contiguous and writable, as `arrow_bytes` gives them.

    Examples
    --------
    >>> from nearcast.text.strings import arrow_bytes
    >>> keys = Keys()
    >>> data, starts = arrow_bytes(pa.array(["sea", "sun", "sea"]))
    >>> keys.add_many(data, starts).tolist()
    [0, 1, 0]
    >>> keys.to_arrow_strings(np.array([1], np.int32)).to_pylist()
    ['sun']
    """

    def __init__(self, n_keys: int = 8, n_bytes: int = 64) -> None:
        """No keys, with room for this many and their bytes."""
        counters = np.zeros(N_COUNTERS, np.int64)
        counters[NEXT_FREE] = -1
        slots: Starts = np.full(max(LEAST_SLOTS, 1 << (n_keys * 4 // 3).bit_length()), EMPTY, np.int64)
        self._layout = KeysLayout(slots, np.zeros(n_keys, ENTRY), np.zeros(n_bytes, np.uint8), counters)

    def __len__(self) -> int:
        return int(self._layout.counters[LIVE])

    @property
    def capacity(self) -> int:
        """One past the largest number ever given."""
        return int(self._layout.counters[CAPACITY])

    @property
    def nbytes(self) -> int:
        """Bytes of memory held."""
        return sum(array.nbytes for array in self.layout)

    @property
    def layout(self) -> KeysLayout:
        """The arrays, for kernels; ask again after every call that adds or frees."""
        return self._layout

    def find_one(self, data: Bytes, n_bytes: int) -> int:
        """The number of the key that the first bytes of `data` are, or -1."""
        return int(find_one(self.layout, data, 0, n_bytes))

    def find_many(self, data: Bytes, starts: Starts) -> Numbers:
        """The number of each key, -1 where there is none."""
        out = np.empty(len(starts) - 1, np.int32)
        find_many(self.layout, data, starts, np.empty(BLOCK + 1, np.int64), out)
        return out

    def add_many(self, data: Bytes, starts: Starts) -> Numbers:
        """The number of each key; unknown keys are added, equal keys share one number."""
        return self._add(data, starts, False)

    def replace_many(self, data: Bytes, starts: Starts) -> Numbers:
        """A new number for each key, which is the one that is found from now on.

        Equal keys, from before or of this very call, can still be read and freed, but no longer be found.
        """
        return self._add(data, starts, True)

    def _add(self, data: Bytes, starts: Starts, replaces: bool) -> Numbers:
        out = np.empty(len(starts) - 1, np.int32)
        near = np.empty(BLOCK + 1, np.int64)
        done = add_many(self.layout, data, starts, 0, near, replaces, out)
        while done < len(out):
            self.grow(int(starts[done + 1] - starts[done]))
            done = add_many(self.layout, data, starts, done, near, replaces, out)
        return out

    def store_many(self, data: Bytes, starts: Starts) -> Numbers:
        """A new number for each key, equal or not; these keys can be read and freed, never found."""
        out = np.empty(len(starts) - 1, np.int32)
        done = store_many(self.layout, data, starts, 0, out)
        while done < len(out):
            self._grow_entries(len(out) - done, int(starts[-1] - starts[done]))
            done = store_many(self.layout, data, starts, done, out)
        return out

    def free_many(self, numbers: Numbers) -> None:
        """Free keys; each number must be in use, and may be given again from now on."""
        freed = free_many(self.layout, numbers)
        assert freed == len(numbers), "freed a number that holds no key"
        dead = int(self._layout.counters[ARENA_DEAD])
        # A compaction walks all numbers: asking for a dead byte per number keeps its cost in step with the frees.
        if dead > max(int(self._layout.counters[ARENA_END]) // 2, LEAST_DEAD, self.capacity):
            self._compact()

    def take(self, numbers: Numbers) -> tuple[Bytes, Starts]:
        """The bytes of the keys of `numbers`, and where each starts."""
        lengths = self._layout.entries["length"][numbers]
        assert numbers.size == 0 or lengths.min() >= 0, "read a number that holds no key"
        starts = np.zeros(len(numbers) + 1, np.int64)
        np.cumsum(lengths, out=starts[1:])
        data = np.empty(int(starts[-1]), np.uint8)
        copy_many(self.layout, numbers, starts, data)
        return data, starts

    def to_arrow_strings(self, numbers: Numbers) -> pa.Array:
        """The keys of `numbers` as Arrow strings."""
        return strings_to_arrow(*self.take(numbers))

    def numbers(self) -> Numbers:
        """The numbers in use, ascending."""
        return np.flatnonzero(self._layout.entries["length"][: self.capacity] != FREE).astype(np.int32)

    def state(self) -> State:
        """All there is to keep, as arrays; they are views, good until the next change."""
        return {
            "slots": self._layout.slots,
            "entries": self._layout.entries[: self.capacity],
            "arena": self._layout.arena[: self._layout.counters[ARENA_END]],
            "counters": self._layout.counters,
        }

    def load(self, state: Mapping[str, Any]) -> Self:
        """Become what `state` describes. Its arrays are taken over, not copied, and will be written to."""
        self._layout = KeysLayout(*(np.asarray(state[name]) for name in KeysLayout._fields))
        return self

    def grow(self, n_bytes: int) -> None:
        """Make room for one more key of this many bytes, which can be found."""
        self._grow_slots()
        self._grow_entries(1, n_bytes)

    def _grow_slots(self) -> None:
        """Make room for one more key that can be found, by doubling if there is none."""
        if 4 * (self._layout.counters[HASHED] + 1) > 3 * self._layout.slots.size:
            larger = np.full(2 * self._layout.slots.size, EMPTY, np.int64)
            refile(self._layout.slots, larger)
            self._layout = self._layout._replace(slots=larger)

    def _grow_entries(self, n_keys: int, n_bytes: int) -> None:
        """Make room for more keys of this many bytes together, by doubling what is short."""
        counters = self._layout.counters
        need = int(counters[LIVE]) + n_keys
        if need > self._layout.entries.size:
            assert need < 2**31, "numbers are int32"
            self._layout = self._layout._replace(entries=_doubled(self._layout.entries, need))
        need = int(counters[ARENA_END]) + n_bytes
        if need > self._layout.arena.size:
            self._layout = self._layout._replace(arena=_doubled(self._layout.arena, need))

    def _compact(self) -> None:
        """Write the live keys to a new arena, side by side in the order of their numbers."""
        numbers = self.numbers()
        data, starts = self.take(numbers)
        self._layout = self._layout._replace(arena=data)
        self._layout.entries["start"][numbers] = starts[:-1]
        self._layout.counters[ARENA_END] = len(data)
        self._layout.counters[ARENA_DEAD] = 0


def _doubled(array: npt.NDArray[Any], least: int) -> npt.NDArray[Any]:
    """A copy with at least twice the room."""
    larger = np.zeros(max(2 * array.size, least), array.dtype)
    larger[: array.size] = array
    return larger
