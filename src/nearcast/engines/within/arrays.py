"""Room in the tree's arrays: kernels take and give back nodes, leaves and ranges; Python only grows arrays.

A range has a size class, a node or a leaf is a range of class 0. A free range holds the number of the next free one of
its class in its first row. The classes are coarser than those of `engines.blocks`: a leaf grows by one entry at a time,
and is copied each time it outgrows its range.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from nearcast.columns.arena import Array, Ints, Longs, State, with_room
from nearcast.engines.within.layout import (
    CATCH_UP,
    FREE_HELD,
    FREE_LEAF,
    FREE_LISTS,
    FREE_NODE,
    FREE_PARTS,
    HELD,
    LAST_RANK,
    LEAF,
    LISTED,
    LISTED_ROWS,
    N_CLASSES,
    N_HEADS,
    N_HELD,
    N_LEAVES,
    N_LISTED,
    N_NODES,
    N_PARTS,
    N_STEERING,
    N_WORDS,
    NO_NODE,
    NO_WORD,
    NODE,
    NOTHING,
    PART,
    SWEPT,
    UNRANKED,
    UP_TO,
    VERSION,
    WORD_BITS,
    TreeLayout,
)
from nearcast.engines.within.paths import word_at
from nearcast.jit import kernel

_NO_RANGE = -1


@kernel
def class_room(size_class: int) -> int:
    """Room of a size class: 1, 2, 3, 4, 6, 8, 12, 16, 24, ..."""
    if size_class == 0:
        return 1
    power = 1 << ((size_class + 1) >> 1)
    return power if size_class & 1 else power + (power >> 1)


@kernel
def class_of(n: int) -> int:
    """The smallest size class with room for `n`."""
    size_class = 0
    while class_room(size_class) < n:
        size_class += 1
    return size_class


@kernel
def take_range(heads: Longs, links: Ints, used: int, free: int, size_class: int) -> Any:
    """A range of this size class; the caller has made sure that there is room."""
    start = heads[free + size_class]
    if start != _NO_RANGE:
        heads[free + size_class] = links[start]
        return start
    start = heads[used]
    heads[used] = start + class_room(size_class)
    return start


@kernel
def give_range(heads: Longs, links: Ints, free: int, size_class: int, start: int) -> None:
    """Take back a range."""
    links[start] = heads[free + size_class]
    heads[free + size_class] = start


@kernel
def write_entry(tree: TreeLayout, at: int, entry: Any) -> None:
    """Write an entry into its place in a leaf."""
    held, sides, words = tree.held[at], tree.sides, tree.words
    sides[0, at], sides[1, at], sides[2, at], sides[3, at] = entry.x0, entry.y0, entry.x1, entry.y1
    held.slot, held.tags = entry.slot, entry.tags
    for i in range(N_STEERING):
        word = word_at(entry, i)
        words[N_STEERING * at + i] = word if word != NO_WORD else entry.word0


@kernel
def read_entry(tree: TreeLayout, at: int, entry: Any) -> None:
    """Read an entry from its place in a leaf."""
    held, sides, words = tree.held[at], tree.sides, tree.words
    entry.x0, entry.y0, entry.x1, entry.y1 = sides[0, at], sides[1, at], sides[2, at], sides[3, at]
    entry.slot, entry.tags = held.slot, held.tags
    first, n_words = N_STEERING * at, held.tags >> N_WORDS & WORD_BITS
    entry.word0 = words[first]
    entry.word1 = words[first + 1] if n_words > 1 else NO_WORD
    entry.word2 = words[first + 2] if n_words > 2 else NO_WORD
    entry.word3 = words[first + 3] if n_words > 3 else NO_WORD


@kernel
def copy_entry(tree: TreeLayout, at: int, source: int) -> None:
    """Copy an entry from one place to another."""
    tree.held[at] = tree.held[source]
    for side in range(4):
        tree.sides[side, at] = tree.sides[side, source]
    for i in range(N_STEERING):
        tree.words[N_STEERING * at + i] = tree.words[N_STEERING * source + i]


@kernel
def new_leaf(tree: TreeLayout, part: int, n_rows: int, since: int) -> Any:
    """A leaf with room for `n_rows` entries, hung below `part`; the caller has made sure that there is room."""
    leaf = take_range(tree.heads, tree.leaves["part"], N_LEAVES, FREE_LEAF, 0)
    row = tree.leaves[leaf]
    row.room = class_of(n_rows)
    row.since, row.n_messages, row.message_room, row.tried, row.part = since, 0, NOTHING, 0, part
    row.caught_up = 0
    tree.parts[part].start = take_range(tree.heads, tree.held["slot"], N_HELD, FREE_HELD, row.room)
    tree.parts[part].child = -2 - leaf
    return leaf


@kernel
def free_leaf(tree: TreeLayout, leaf: int) -> None:
    """Give back a leaf with its entries and messages; its part is left empty."""
    row = tree.leaves[leaf]
    part = tree.parts[row.part]
    give_range(tree.heads, tree.held["slot"], FREE_HELD, row.room, part.start)
    tree.heads[LISTED_ROWS] -= row.n_messages
    if row.message_room != NOTHING:
        give_range(tree.heads, tree.listed["slot"], FREE_LISTS, row.message_room, row.message_start)
    part.child = NOTHING
    give_range(tree.heads, tree.leaves["part"], FREE_LEAF, 0, leaf)


@kernel
def append_entry(tree: TreeLayout, leaf: int, entry: Any, n_rows: int) -> None:
    """Append to a leaf of `n_rows`, which moves to a larger range when full; the caller made sure of room."""
    row = tree.leaves[leaf]
    part = tree.parts[row.part]
    if n_rows == class_room(row.room):
        start = take_range(tree.heads, tree.held["slot"], N_HELD, FREE_HELD, row.room + 1)
        for i in range(n_rows):
            copy_entry(tree, start + i, part.start + i)
        give_range(tree.heads, tree.held["slot"], FREE_HELD, row.room, part.start)
        part.start = start
        row.room += 1
    write_entry(tree, part.start + n_rows, entry)


@kernel
def new_node(tree: TreeLayout, n_parts: int) -> Any:
    """A node with `n_parts` empty parts beside its dummy; the caller has made sure that there is room."""
    tree.heads[VERSION] += 1
    node = take_range(tree.heads, tree.nodes["part"], N_NODES, FREE_NODE, 0)
    row = tree.nodes[node]
    row.first = take_range(tree.heads, tree.parts["child"], N_PARTS, FREE_PARTS, class_of(n_parts + 1))
    row.n_parts = n_parts
    for part in range(row.first, row.first + n_parts + 1):
        tree.parts[part].child = NOTHING
        tree.parts[part].low, tree.parts[part].high = LAST_RANK, UNRANKED
        tree.parts[part].built, tree.parts[part].now, tree.parts[part].node = 0, 0, node
    return node


@kernel
def free_node(tree: TreeLayout, node: int) -> None:
    """Give back a node and its parts; whatever hangs below must have been given back before."""
    tree.heads[VERSION] += 1
    row = tree.nodes[node]
    tree.parts[row.part].child = NOTHING
    give_range(tree.heads, tree.parts["child"], FREE_PARTS, class_of(row.n_parts + 1), row.first)
    give_range(tree.heads, tree.nodes["part"], FREE_NODE, 0, node)


@kernel
def cover_free_ranges(heads: Longs, links: Ints, free: int, covered: Array) -> bool:
    """Mark the rows of free ranges; returns whether each lies inside, and apart from all that was marked before."""
    for size_class in range(N_CLASSES):
        room, at = class_room(size_class), heads[free + size_class]
        while at != _NO_RANGE:
            if at < 0 or at > covered.size - room:
                return False
            for row in range(at, at + room):
                if covered[row]:
                    return False
                covered[row] = 1
            at = np.int64(links[at])
    return True


def _grown_sides(sides: Array, n: int) -> Array:
    """Sides of boxes with room for `n`."""
    if n == sides.shape[1]:
        return sides
    grown = np.zeros((sides.shape[0], n), dtype=sides.dtype)
    grown[:, : sides.shape[1]] = sides
    return grown


class TreeArrays:
    """The arrays of a tree, and how they grow."""

    def __init__(self, version: int = 0) -> None:
        heads = np.full(N_HEADS, _NO_RANGE, dtype=np.int64)
        heads[[N_NODES, N_LEAVES, N_HELD, N_LISTED, LISTED_ROWS, SWEPT, CATCH_UP, UP_TO]] = 0
        heads[N_PARTS] = 1  # where the root hangs
        heads[VERSION] = version + 1
        self.layout = TreeLayout(
            heads, np.zeros(0, NODE), np.zeros(1, PART), np.zeros(1, np.int32), np.zeros(1), np.zeros(0, LEAF),
            np.zeros(0, HELD), np.zeros((4, 0), np.float32), np.zeros(0, np.int32), np.zeros(0, LISTED),
        )  # fmt: skip
        self.layout.parts["child"] = NOTHING
        self.layout.parts["node"] = NO_NODE

    def make_room(self, nodes: int = 0, parts: int = 0, leaves: int = 0, held: int = 0, listed: int = 0) -> None:
        """Make room for this many more of each."""
        heads, old = self.layout.heads, self.layout
        n_parts = int(heads[N_PARTS]) + parts
        held_rows = with_room(old.held, int(heads[N_HELD]) + held)
        self.layout = TreeLayout(
            heads,
            with_room(old.nodes, int(heads[N_NODES]) + nodes),
            with_room(old.parts, n_parts),
            with_room(old.highs, n_parts),
            with_room(old.lines, n_parts),
            with_room(old.leaves, int(heads[N_LEAVES]) + leaves),
            held_rows,
            _grown_sides(old.sides, held_rows.size),
            with_room(old.words, N_STEERING * held_rows.size),
            with_room(old.listed, int(heads[N_LISTED]) + listed),
        )

    def _used(self) -> TreeLayout:
        heads, old = self.layout.heads, self.layout
        n_parts, n_held = int(heads[N_PARTS]), int(heads[N_HELD])
        return TreeLayout(
            heads, old.nodes[: heads[N_NODES]], old.parts[:n_parts], old.highs[:n_parts], old.lines[:n_parts],
            old.leaves[: heads[N_LEAVES]], old.held[:n_held], old.sides[:, :n_held], old.words[: N_STEERING * n_held],
            old.listed[: heads[N_LISTED]],
        )  # fmt: skip

    @property
    def nbytes(self) -> int:
        """Bytes in use; room ahead is never touched, so the system has not given it out yet."""
        return sum(array.nbytes for array in self._used())

    def state(self) -> State:
        used = self._used()
        return used._replace(sides=np.ascontiguousarray(used.sides))._asdict()

    def load(self, state: State) -> None:
        self.layout = TreeLayout(*(state[name] for name in TreeLayout._fields))
