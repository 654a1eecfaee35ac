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
    BLOCK_SHAPE,
    CATCH_UP,
    FIELD,
    FREE_LEAF,
    FREE_LINES,
    FREE_LISTS,
    FREE_NODE,
    FREE_PARTS,
    INTS_PER_LINE,
    LAST_RANK,
    LEAF,
    LISTED,
    LISTED_ROWS,
    N_CLASSES,
    N_HEADS,
    N_LEAVES,
    N_LINES,
    N_LISTED,
    N_NODES,
    N_PARTS,
    N_ROWS,
    NO_NODE,
    NO_WORD,
    NODE,
    NOTHING,
    PART,
    SWEPT,
    UNRANKED,
    UP_TO,
    VERSION,
    Rectangle,
    TreeLayout,
)
from nearcast.engines.within.leaf_block import (
    append_row,
    copy_block,
    empty_block,
    field_at,
    is_ranged,
    lines_for,
    room_of,
    write_frame,
)
from nearcast.engines.within.paths import region_of
from nearcast.jit import BITS, LANES, kernel

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
def give_block(tree: TreeLayout, size_class: int, start: int) -> None:
    """Take back a block; its first number becomes that of the next free one."""
    give_range(tree.heads, tree.ints[::INTS_PER_LINE], FREE_LINES, size_class, start)


@kernel
def new_block(tree: TreeLayout, size_class: int, field: int) -> Any:
    """An empty block of this size class, by its first line; the caller has made sure that there is room.

    It tells ranges of a number if there is a field.
    """
    start = take_range(tree.heads, tree.ints[::INTS_PER_LINE], N_LINES, FREE_LINES, size_class)
    empty_block(tree, INTS_PER_LINE * start, class_room(size_class), field)
    return start


@kernel
def hang(tree: TreeLayout, part: int, child: int) -> None:
    """Hang a node, a leaf or nothing below a part."""
    tree.parts[part].child = child
    node = tree.parts[part].node
    if node != NO_NODE and tree.nodes[node].first == part:
        tree.nodes[node].has_dummy = child != NOTHING


@kernel
def new_leaf(tree: TreeLayout, part: int, n_rows: int, field: int, since: int) -> Any:
    """A leaf with room for `n_rows` entries, hung below `part`; the caller has made sure that there is room.

    Its block tells ranges of a number if there is a field, or NO_WORD.
    """
    leaf = take_range(tree.heads, tree.leaves["part"], N_LEAVES, FREE_LEAF, 0)
    row = tree.leaves[leaf]
    row.room = class_of(lines_for(n_rows, field != NO_WORD))
    row.since, row.n_messages, row.message_room, row.tried, row.part = since, 0, NOTHING, 0, part
    row.caught_up = 0
    tree.parts[part].start = new_block(tree, row.room, field)
    hang(tree, part, -2 - leaf)
    return leaf


@kernel
def block_of(part: Any) -> Any:
    """Where in `ints` the block of the leaf below a part begins."""
    return INTS_PER_LINE * part.start


@kernel
def free_leaf(tree: TreeLayout, leaf: int) -> None:
    """Give back a leaf with its entries and messages; its part is left empty."""
    row = tree.leaves[leaf]
    part = tree.parts[row.part]
    give_block(tree, row.room, part.start)
    tree.heads[LISTED_ROWS] -= row.n_messages
    if row.message_room != NOTHING:
        give_range(tree.heads, tree.listed["slot"], FREE_LISTS, row.message_room, row.message_start)
    hang(tree, row.part, NOTHING)
    give_range(tree.heads, tree.leaves["part"], FREE_LEAF, 0, leaf)


@kernel
def append_entry(tree: TreeLayout, leaf: int, entry: Any, rows: Array) -> None:
    """Add an entry to a leaf, which moves to a larger block when full; the caller made sure of room.

    `rows` are those of the subscriptions.
    """
    row = tree.leaves[leaf]
    part = tree.parts[row.part]
    block = block_of(part)
    shape = tree.ints[block + BLOCK_SHAPE]
    if tree.ints[block + N_ROWS] == room_of(shape):
        field = tree.ints[field_at(tree.ints, block) + FIELD] if is_ranged(shape) else NO_WORD
        start = new_block(tree, row.room + 1, field)
        copy_block(tree, INTS_PER_LINE * start, block, rows, region_of(tree, row.part))
        give_block(tree, row.room, part.start)
        part.start = start
        row.room += 1
        block = block_of(part)
    elif tree.ints[block + N_ROWS] == 0:
        extent = Rectangle(entry.x0, entry.y0, entry.x1, entry.y1)
        write_frame(tree, block, extent, region_of(tree, row.part))
    append_row(tree, block, entry)


@kernel
def new_node(tree: TreeLayout, n_parts: int) -> Any:
    """A node with `n_parts` empty parts beside its dummy; the caller has made sure that there is room."""
    tree.heads[VERSION] += 1
    node = take_range(tree.heads, tree.nodes["part"], N_NODES, FREE_NODE, 0)
    row = tree.nodes[node]
    row.first = take_range(tree.heads, tree.parts["child"], N_PARTS, FREE_PARTS, class_of(n_parts + 1))
    row.n_parts, row.has_dummy = n_parts, False
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
    hang(tree, row.part, NOTHING)
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


def _views(lines: Array) -> tuple[Array, Ints, Array]:
    """Lines of blocks as bytes, int32 and float32. The bytes go on past the last line, which a scan may read past."""
    ints: Ints = lines[:-BITS].view(np.int32)
    return lines, ints, ints.view(np.float32)


def _longer(array: Array, n: int) -> Array:
    """A copy with `n` zeros at its end."""
    copy = np.zeros(array.size + n, array.dtype)
    copy[:-n] = array
    return copy


class TreeArrays:
    """The arrays of a tree, and how they grow."""

    def __init__(self, version: int = 0) -> None:
        heads = np.full(N_HEADS, _NO_RANGE, dtype=np.int64)
        heads[[N_NODES, N_LEAVES, N_LINES, N_LISTED, LISTED_ROWS, SWEPT, CATCH_UP, UP_TO]] = 0
        heads[N_PARTS] = 1  # where the root hangs
        heads[VERSION] = version + 1
        self.layout = TreeLayout(
            heads, np.zeros(0, NODE), np.zeros(1, PART), np.zeros(1, np.int32), np.zeros(1 + LANES, np.float32),
            np.zeros(0, LEAF),
            *_views(np.zeros(BITS, np.uint8)), np.zeros(0, LISTED),
        )  # fmt: skip
        self.layout.parts["child"] = NOTHING
        self.layout.parts["node"] = NO_NODE

    def make_room(self, nodes: int = 0, parts: int = 0, leaves: int = 0, lines: int = 0, listed: int = 0) -> None:
        """Make room for this many more of each."""
        heads, old = self.layout.heads, self.layout
        n_parts = int(heads[N_PARTS]) + parts
        n_bytes = 4 * INTS_PER_LINE * (int(heads[N_LINES]) + lines)
        blocks, grown = with_room(old.bytes, n_bytes + BITS), with_room(old.parts, n_parts)
        self.layout = TreeLayout(
            heads,
            with_room(old.nodes, int(heads[N_NODES]) + nodes),
            grown,
            with_room(old.highs, grown.size),
            with_room(old.lines, grown.size + LANES),
            with_room(old.leaves, int(heads[N_LEAVES]) + leaves),
            *_views(blocks[: (blocks.size - BITS) // (4 * INTS_PER_LINE) * 4 * INTS_PER_LINE + BITS]),
            with_room(old.listed, int(heads[N_LISTED]) + listed),
        )

    def _used(self) -> TreeLayout:
        heads, old = self.layout.heads, self.layout
        n_parts, n_bytes = int(heads[N_PARTS]), 4 * INTS_PER_LINE * int(heads[N_LINES])
        return TreeLayout(
            heads, old.nodes[: heads[N_NODES]], old.parts[:n_parts], old.highs[:n_parts], old.lines[: n_parts + LANES],
            old.leaves[: heads[N_LEAVES]], *_views(old.bytes[: n_bytes + BITS]), old.listed[: heads[N_LISTED]],
        )  # fmt: skip

    @property
    def nbytes(self) -> int:
        """Bytes in use; room ahead is never touched, so the system has not given it out yet."""
        used = self._used()
        return sum(array.nbytes for array in used) - used.ints.nbytes - used.floats.nbytes

    def state(self) -> State:
        used = self._used()._asdict()
        used["bytes"], used["lines"] = used["bytes"][:-BITS], used["lines"][:-LANES]
        return {name: array for name, array in used.items() if name not in ("ints", "floats")}

    def load(self, state: State) -> None:
        blocks, ints, floats = _views(_longer(state["bytes"], BITS))
        own = {**state, "lines": _longer(state["lines"], LANES), "bytes": blocks, "ints": ints, "floats": floats}
        self.layout = TreeLayout(*(own[name] for name in TreeLayout._fields))
