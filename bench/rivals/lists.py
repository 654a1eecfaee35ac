"""Lists of rows by key, in one pool: a hash table of heads, each with its stretch of the pool; kernels and `Lists`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from nearcast.columns.arena import Array, Ints, Longs, record, with_room
from nearcast.jit import kernel

NO_KEY = -1
NOT_THERE = -1

_LEAST_HEADS = 64
_MOST_FULL = 0.6

HEAD = record(
    ("key", "i8"),
    ("start", "i8"),  # its rows in the pool
    ("n", "i4"),
    ("room", "i4"),
)


class ListsLayout(NamedTuple):
    """Lists as kernels see them."""

    heads: Array  # HEAD[power of two], open addressing
    rows: Array  # what is listed


@kernel
def home(key, n_heads):
    """Where the search for a key begins."""
    mixed = np.uint64(key) * np.uint64(0x9E3779B97F4A7C15)
    return np.int64((mixed >> np.uint64(32)) & np.uint64(n_heads - 1))


@kernel
def find_head(heads, key):
    """Position of the head with this key, or NOT_THERE."""
    at = home(key, heads.size)
    while heads[at].key != key:
        if heads[at].key == NO_KEY:
            return NOT_THERE
        at = (at + 1) & (heads.size - 1)
    return at


@kernel
def claim_head(heads, key):
    """Position of the head with this key, or of the free one that it should get; there must be one."""
    at = home(key, heads.size)
    while heads[at].key != key and heads[at].key != NO_KEY:
        at = (at + 1) & (heads.size - 1)
    return at


@kernel
def count_keys(heads, keys, first, n_heads, most):
    """Add 1 to the head of each key from `first` on; returns where it stopped, for want of heads, and their number."""
    for i in range(first, keys.size):
        at = claim_head(heads, keys[i])
        if heads[at].key == NO_KEY:
            if n_heads == most:
                return i, n_heads
            heads[at].key = keys[i]
            n_heads += 1
        heads[at].n += 1
    return keys.size, n_heads


@kernel
def lay_out(heads):
    """Give every head that was counted its stretch of the pool; returns how many rows that is."""
    start = 0
    for at in range(heads.size):
        heads[at].start, heads[at].room = start, heads[at].n
        start += heads[at].n
        heads[at].n = 0
    return start


@kernel
def place_rows(heads, keys, owners, source, rows):
    """Write source[owner] to the list of its key; there is room for all."""
    for i in range(keys.size):
        at = find_head(heads, keys[i])
        rows[heads[at].start + heads[at].n] = source[owners[i]]
        heads[at].n += 1


@kernel
def move_heads(old, heads):
    """Take the heads over into a larger table."""
    for i in range(old.size):
        if old[i].key != NO_KEY:
            heads[claim_head(heads, old[i].key)] = old[i]


@kernel
def enlarge(heads, at, rows, least, tally):
    """Move a list to the end of the pool, twice as long; False if the pool has no room for it."""
    room = max(least, 2 * heads[at].room)
    start = tally[0]
    if start + room > rows.size:
        return False
    for j in range(heads[at].n):
        rows[start + j] = rows[heads[at].start + j]
    tally[0] += room
    tally[1] += heads[at].room
    heads[at].start, heads[at].room = start, room
    return True


@kernel
def append_rows(heads, keys, owners, source, rows, first, tally):
    """As `place_rows` from `first` on, where lists may be full: they move to the end of the pool, twice as long.

    `tally` has the used and the dead rows of the pool and the number of heads. Returns where it stopped for want of
    room in the pool; there are heads enough.
    """
    for i in range(first, keys.size):
        at = claim_head(heads, keys[i])
        if heads[at].key == NO_KEY:
            heads[at].key, heads[at].n, heads[at].room = keys[i], 0, 0
            tally[2] += 1
        if heads[at].n == heads[at].room and not enlarge(heads, at, rows, 2, tally):
            return i
        rows[heads[at].start + heads[at].n] = source[owners[i]]
        heads[at].n += 1
    return keys.size


@kernel
def drop_rows(heads, keys, owners, source, rows):
    """Take rows with the slot and tag of source[owner] out of the lists of their keys; returns how many were there."""
    n = 0
    for i in range(keys.size):
        at = find_head(heads, keys[i])
        if at == NOT_THERE:
            continue
        gone = source[owners[i]]
        last = heads[at].start + heads[at].n - 1
        for row in range(heads[at].start, last + 1):
            if rows[row].slot == gone.slot and rows[row].tag == gone.tag:
                rows[row] = rows[last]
                heads[at].n -= 1
                n += 1
                break
    return n


@kernel
def repack(heads, rows, into):
    """Write all lists one after another; returns how many rows that is."""
    start = 0
    for at in range(heads.size):
        for j in range(heads[at].n):
            into[start + j] = rows[heads[at].start + j]
        heads[at].start, heads[at].room = start, heads[at].n
        start += heads[at].n
    return start


class Lists:
    """Rows of one record type, which has a `slot` and a `tag`, by key."""

    def __init__(self, dtype: np.dtype[Any]) -> None:
        self._heads = _no_heads(_LEAST_HEADS)
        self._rows = np.zeros(16, dtype=dtype)
        self._tally = np.zeros(3, np.int64)  # used rows of the pool, dead ones among them, heads

    @property
    def layout(self) -> ListsLayout:
        return ListsLayout(self._heads, self._rows)

    @property
    def n_lists(self) -> int:
        return int(self._tally[2])

    def build(self, parts: list[tuple[Longs, Ints, Array]]) -> None:
        """Be exactly these rows: keys, for each the row's place in the source, and the source; part by part."""
        heads, n_heads = _no_heads(_LEAST_HEADS), 0
        for keys, _, _ in parts:
            done = 0
            while done < keys.size:
                done, n_heads = count_keys(heads, keys, done, n_heads, int(_MOST_FULL * heads.size))
                if done < keys.size:
                    heads = _larger(heads)
        n_rows = lay_out(heads)
        self._heads, self._rows = heads, np.zeros(max(16, n_rows), self._rows.dtype)
        self._tally[:] = n_rows, 0, n_heads
        for keys, owners, source in parts:
            place_rows(heads, keys, owners, source, self._rows)

    def add(self, keys: Longs, owners: Ints, source: Array) -> None:
        """More rows."""
        self._make_heads(keys.size)
        done = 0
        while done < keys.size:
            done = append_rows(self._heads, keys, owners, source, self._rows, done, self._tally)
            if done < keys.size:
                self._rows = with_room(self._rows, self._rows.size + 1)
        self._repack()

    def _make_heads(self, n: int) -> None:
        """Promise room for `n` more lists."""
        while self._tally[2] + n > _MOST_FULL * self._heads.size:
            self._heads = _larger(self._heads)

    def _repack(self) -> None:
        """Close the gaps of the pool once they are most of it."""
        if 2 * self._tally[1] > self._tally[0] + 1024:
            into = np.zeros_like(self._rows)
            self._tally[:2] = repack(self._heads, self._rows, into), 0
            self._rows = into

    def drop(self, keys: Longs, owners: Ints, source: Array) -> None:
        """Rows that are gone; all of them are there."""
        n = drop_rows(self._heads, keys, owners, source, self._rows)
        assert n == keys.size, f"{keys.size - n} rows were not filed"

    @property
    def nbytes(self) -> int:
        return self._heads.nbytes + self._rows.nbytes


def written_in_pieces(n: int, room: int, write: Callable[[int, Longs, Ints], tuple[int, int]]) -> tuple[Longs, Ints]:
    """Keys of `n` entries, and whose they are: `write` says which entry it goes on with, and how many keys it wrote."""
    parts: list[tuple[Longs, Ints]] = [(np.zeros(0, np.int64), np.zeros(0, np.int32))]
    done = 0
    while done < n:
        keys, owners = np.empty(room, np.int64), np.empty(room, np.int32)
        done, n_written = write(done, keys, owners)
        parts.append((keys[:n_written], owners[:n_written]))
    keys, owners = (np.concatenate(column) for column in zip(*parts, strict=True))
    return keys, owners


def _no_heads(n: int) -> Array:
    heads = np.zeros(n, HEAD)
    heads["key"] = NO_KEY
    return heads


def _larger(heads: Array) -> Array:
    grown = _no_heads(2 * heads.size)
    move_heads(heads, grown)
    return grown
