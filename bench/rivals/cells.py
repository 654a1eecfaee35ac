"""Quadtree cells as parts of keys, the shares of messages in them, and which cells a box is filed in: kernels.

A key holds a word (or another number), a level, and the row and column of a cell: see `pack`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from nearcast.columns.arena import Array, Floats, Ints, Longs
from nearcast.jit import allocating, kernel
from nearcast.space.cells import Bounds, cell_index

DEEPEST = 10  # finest level: 1,024 x 1,024 cells
SIDE = 8  # a box is followed down to the level at which it meets at most 8 x 8 cells
N_CELLS = (4 ** (DEEPEST + 1) - 1) // 3  # of all levels


class Tree(NamedTuple):
    """What the decomposition of a box needs, and its scratch."""

    bounds: Bounds
    shares: Array  # float32[N_CELLS]: share of the messages that lie in each cell, level by level
    costs: Array  # float32[(DEEPEST + 1) * SIDE * SIDE]
    splits: Array  # uint8[same]: is it better to go down from this cell?
    pending: Array  # uint8[same]: zeros between calls


@kernel
def pack(group, level, row, column):
    """The key of a list."""
    return (np.int64(group) << 29) | (level << 24) | (row << 12) | column


@kernel
def level_of(key):
    """The level in a key."""
    return (key >> 24) & 31


@kernel
def cell_at(level, row, column):
    """Position of a cell in an array of all levels."""
    return ((1 << (2 * level)) - 1) // 3 + (row << level) + column


@kernel
def count_places(bounds, x, y, shares):
    """Fill in the share of places in each cell of each level."""
    side = 1 << DEEPEST
    shares[:] = 0.0
    for i in range(x.size):
        column = cell_index(bounds[0], bounds[2], side, x[i])
        row = cell_index(bounds[1], bounds[3], side, y[i])
        shares[cell_at(DEEPEST, row, column)] += 1.0 / x.size
    for level in range(DEEPEST - 1, -1, -1):
        for row in range(1 << level):
            for column in range(1 << level):
                below = cell_at(level + 1, 2 * row, 2 * column)
                beside = below + (2 << level)
                total = shares[below] + shares[below + 1] + shares[beside] + shares[beside + 1]
                shares[cell_at(level, row, column)] = total


@kernel
def choose_cells(box, weight, tree, reach):
    """Find the cheapest cells that cover a box together; marks the cheaper way of each cell in `tree.splits`.

    Being filed in a cell costs 1, and `weight` times the share of messages in it: those that look at the entry. Going
    down costs what the children that the box meets cost. `reach` receives the columns and rows that the box meets at
    the finest level. Returns the level down to which it was followed.

    Paper: [APTREE] 5.1.1, the cost model of IQ-Tree with verifications in the place of disk accesses.
    Departs: words and places of messages are taken as independent; a box is followed down to 8 x 8 cells.
    """
    bounds, side = tree.bounds, 1 << DEEPEST
    reach[0] = cell_index(bounds[0], bounds[2], side, box.x0)
    reach[1] = cell_index(bounds[0], bounds[2], side, box.x1)
    reach[2] = cell_index(bounds[1], bounds[3], side, box.y0)
    reach[3] = cell_index(bounds[1], bounds[3], side, box.y1)
    up = 0
    while (reach[1] >> up) - (reach[0] >> up) >= SIDE or (reach[3] >> up) - (reach[2] >> up) >= SIDE:
        up += 1
    finest = DEEPEST - up
    for level in range(finest, -1, -1):
        up = DEEPEST - level
        low_c, top_c, low_r, top_r = reach[0] >> up, reach[1] >> up, reach[2] >> up, reach[3] >> up
        below_c, below_r = 0, 0
        if level < finest:
            below_c, below_r = reach[0] >> (up - 1), reach[2] >> (up - 1)
        for row in range(low_r, top_r + 1):
            for column in range(low_c, top_c + 1):
                at = (level * SIDE + row - low_r) * SIDE + column - low_c
                cost = np.float32(1.0 + weight * tree.shares[cell_at(level, row, column)])
                split = 0
                if level < finest:
                    down = np.float32(0.0)
                    for r in range(max(2 * row, below_r), min(2 * row + 1, reach[3] >> (up - 1)) + 1):
                        for c in range(max(2 * column, below_c), min(2 * column + 1, reach[1] >> (up - 1)) + 1):
                            down += tree.costs[((level + 1) * SIDE + r - below_r) * SIDE + c - below_c]
                    if down <= cost:
                        cost, split = down, 1
                tree.costs[at] = cost
                tree.splits[at] = split
    return finest


@kernel
def write_cells(group, entry, tree, reach, finest, keys, owners, n):
    """Write the keys of the cells that were chosen; returns how many keys there are then."""
    tree.pending[0] = 1
    for level in range(finest + 1):
        up = DEEPEST - level
        low_c, top_c, low_r, top_r = reach[0] >> up, reach[1] >> up, reach[2] >> up, reach[3] >> up
        for row in range(low_r, top_r + 1):
            for column in range(low_c, top_c + 1):
                at = (level * SIDE + row - low_r) * SIDE + column - low_c
                if tree.pending[at] == 0:
                    continue
                tree.pending[at] = 0
                if tree.splits[at] == 0:
                    keys[n], owners[n] = pack(group, level, row, column), entry
                    n += 1
                    continue
                below_c, below_r = reach[0] >> (up - 1), reach[2] >> (up - 1)
                for r in range(max(2 * row, below_r), min(2 * row + 1, reach[3] >> (up - 1)) + 1):
                    for c in range(max(2 * column, below_c), min(2 * column + 1, reach[1] >> (up - 1)) + 1):
                        tree.pending[((level + 1) * SIDE + r - below_r) * SIDE + c - below_c] = 1
    return n


@allocating
def file_in_cells(first, entries, groups, weights, tree, keys, owners):
    """Keys of entries from `first` on, each under its group; returns the entry to go on with and the number of keys.

    An entry of a negative weight is filed in the root.
    """
    reach = np.zeros(4, np.int64)
    n = 0
    for i in range(first, entries.size):
        if n + SIDE * SIDE > keys.size:
            return i, n
        if weights[i] < 0.0:
            keys[n], owners[n] = pack(groups[i], 0, 0, 0), i
            n += 1
            continue
        finest = choose_cells(entries[i], weights[i], tree, reach)
        n = write_cells(groups[i], i, tree, reach, finest, keys, owners, n)
    return entries.size, n


def new_tree(bounds: Bounds, x: Floats, y: Floats) -> Tree:
    """A tree whose messages lie at these places."""
    shares = np.zeros(N_CELLS, np.float32)
    count_places(bounds, x, y, shares)
    room = (DEEPEST + 1) * SIDE * SIDE
    return Tree(bounds, shares, np.zeros(room, np.float32), np.zeros(room, np.uint8), np.zeros(room, np.uint8))


def cells_of(entries: Array, groups: Ints, weights: Array, tree: Tree) -> tuple[Longs, Ints]:
    """Keys of all entries, and for each the entry."""
    parts: list[tuple[Longs, Ints]] = [(np.zeros(0, np.int64), np.zeros(0, np.int32))]
    done = 0
    while done < entries.size:
        room = max(4096, 4 * (entries.size - done))
        keys, owners = np.empty(room, np.int64), np.empty(room, np.int32)
        done, n = file_in_cells(done, entries, groups, weights, tree, keys, owners)
        parts.append((keys[:n], owners[:n]))
    keys, owners = (np.concatenate(column) for column in zip(*parts, strict=True))
    return keys, owners
