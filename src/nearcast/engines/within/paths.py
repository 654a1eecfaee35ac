"""Finds the parts that an entry is filed under, and their regions; all filing follows this: kernels.

Paper: [APTREE] section 3.2.2.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from nearcast.columns.arena import Array, Ints
from nearcast.engines.within.layout import KEYWORD, NO_NODE, NO_WORD, SPACE, UNRANKED, Rectangle, TreeLayout
from nearcast.jit import LANES, NEED_ROOM, count_at_most, inlined, kernel


@kernel
def word_at(entry: Any, offset: int) -> Any:
    """The word of an entry at this offset, rarest first, or NO_WORD."""
    if offset == 0:
        return entry.word0
    if offset == 1:
        return entry.word1
    if offset == 2:
        return entry.word2
    return entry.word3 if offset == 3 else NO_WORD


@kernel
def cut_of(highs: Ints, first: int, n: int, rank: int) -> int:
    """Position among highs[first : first + n] of the cut that a rank belongs to; the last takes all that is left."""
    base = first
    while n > 1:
        half = n >> 1
        if highs[base + half - 1] < rank:
            base += half
        n -= half
    return base - first


@kernel
def covers(entry: Any, node: Any) -> Any:
    """Does the entry's box hold the whole region of a node?"""
    return entry.x0 <= node.x0 and entry.x1 >= node.x1 and entry.y0 <= node.y0 and entry.y1 >= node.y1


@kernel
def slab_of(lines: Array, first: int, n: int, v: Any) -> Any:
    """Number of `lines[first : first + n]`, which increase, at or before a float32."""
    n_before = 0
    for at in range(0, n, LANES):
        n_before += count_at_most(lines, first + at, min(n - at, LANES), v)
    return n_before


@inlined
def cell_at(tree: TreeLayout, node: Any, x: Any, y: Any) -> Any:
    """The cell of a node's grid that holds a place, which is rounded down: lines are float32, so that is exact."""
    first, n_x = node.first, node.n_columns - 1
    row = slab_of(tree.lines, first + n_x, node.n_rows - 1, y)
    return row * node.n_columns + slab_of(tree.lines, first, n_x, x)


class CellSpan(NamedTuple):
    """The cells of a grid from the first to the last column and row."""

    left: int
    right: int
    bottom: int
    top: int


NO_CELLS = CellSpan(0, -1, 0, -1)


@kernel
def cells_met(tree: TreeLayout, node: Any, entry: Any) -> CellSpan:
    """The cells of a node's grid that an entry's box meets."""
    lines, first, n_x = tree.lines, node.first, node.n_columns - 1
    n_y = node.n_rows - 1
    return CellSpan(
        slab_of(lines, first, n_x, entry.x0), slab_of(lines, first, n_x, entry.x1),
        slab_of(lines, first + n_x, n_y, entry.y0), slab_of(lines, first + n_x, n_y, entry.y1),
    )  # fmt: skip


@kernel
def parts_below(tree: TreeLayout, child: int, ranks: Ints, entry: Any, path: Ints, path_ranks: Ints, n: int) -> int:
    """Append the parts of one node that an entry is filed under to a path of `n`; returns its length, or NEED_ROOM.

    Beside each stands the rank of the word that led there, or UNRANKED where none did.

    Paper: [APTREE] section 3.2.2: the cut of its l-th word, all cells that its region meets, or the dummy.
    """
    node = tree.nodes[child]
    first = node.first
    if n == path.size:
        return NEED_ROOM
    if node.kind == KEYWORD:
        word = word_at(entry, node.offset)
        path[n], path_ranks[n] = first, UNRANKED
        if word != NO_WORD:
            path_ranks[n] = ranks[word]
            path[n] += 1 + cut_of(tree.highs, first + 1, node.n_parts, ranks[word])
        return n + 1
    if covers(entry, node):
        path[n], path_ranks[n] = first, UNRANKED
        return n + 1
    left, right, bottom, top = cells_met(tree, node, entry)
    if n + (top - bottom + 1) * (right - left + 1) > path.size:
        return NEED_ROOM
    for row in range(bottom, top + 1):
        for column in range(left, right + 1):
            path[n], path_ranks[n] = first + 1 + row * node.n_columns + column, UNRANKED
            n += 1
    return n


@kernel
def trace(tree: TreeLayout, ranks: Ints, entry: Any, origin: int, path: Ints, path_ranks: Ints) -> int:
    """Write all parts that an entry is filed under, from `origin` down; returns how many, or NEED_ROOM."""
    n, i = 1, 0
    path[0], path_ranks[0] = origin, UNRANKED
    while i < n:
        child = tree.parts[path[i]].child
        i += 1
        if child >= 0:
            n = parts_below(tree, child, ranks, entry, path, path_ranks, n)
            if n == NEED_ROOM:
                return NEED_ROOM
    return n


@kernel
def region_of(tree: TreeLayout, part: int) -> Rectangle:
    """The region of what hangs below a part: that of its node, or of its cell."""
    if tree.parts[part].node == NO_NODE:
        return Rectangle(-np.inf, -np.inf, np.inf, np.inf)
    node = tree.nodes[tree.parts[part].node]
    x0, y0, x1, y1 = node.x0, node.y0, node.x1, node.y1
    if node.kind == SPACE and part > node.first:
        cell, y_first = part - node.first - 1, node.first + node.n_columns - 1
        column, row = cell % node.n_columns, cell // node.n_columns
        if column > 0:
            x0 = tree.lines[node.first + column - 1]
        if column < node.n_columns - 1:
            x1 = tree.lines[node.first + column]
        if row > 0:
            y0 = tree.lines[y_first + row - 1]
        if row < node.n_rows - 1:
            y1 = tree.lines[y_first + row]
    return Rectangle(x0, y0, x1, y1)
