"""Asserts that the arrays of a tree are consistent; for tests."""

from __future__ import annotations

import numpy as np

from nearcast.columns.arena import Array, Ints
from nearcast.engines.blocks import block_room
from nearcast.engines.nearest.aoiq.layout import (
    FREE_BLOCK,
    FREE_PREFIX,
    N_BLOCKS,
    N_DEAD,
    N_LISTS,
    N_PREFIXES,
    NOTHING,
    UNRANKED,
    TreeLayout,
    level_of_node,
)
from nearcast.space.cells import Bounds, cell_index


def check_tree(tree: TreeLayout, filed: Array, slots: Ints, n_rows: int, bounds: Bounds, height: int) -> None:
    """Every subscription has the entries it counts, in nodes that cover its box once; blocks of a list are in order."""
    covered = np.zeros(filed.size, dtype=np.int64)  # cells of the box, of the lowest nodes
    alive = np.zeros(filed.size, dtype=np.int64)
    n_uses = np.zeros(tree.heads[N_PREFIXES], dtype=np.int64)
    n_dead = n_blocks = 0
    lists = np.flatnonzero(tree.list_keys)
    for key, head in zip(tree.list_keys[lists].tolist(), tree.list_heads[lists].tolist(), strict=True):
        node, prefix = (key - 1) >> 31, (key - 1) & 0x7FFFFFFF
        n_uses[prefix] += 1
        assert tree.prefixes["levels"][prefix] >> level_of_node(node) & 1
        rows, n_chained = _rows_of(tree, head)
        n_blocks += n_chained
        living = filed["generation"][rows["slot"]] == rows["generation"]
        np.add.at(alive, rows["slot"][living], 1)
        for slot in rows["slot"][living].tolist():
            covered[slot] += n_cells(box_of(filed[slot], bounds, height), node, height)
        n_dead += int((~living).sum())
    np.add.at(n_uses, (tree.prefix_keys[tree.prefix_keys != 0] - 1) >> 31, 1)
    n_blocks += _n_chained(tree.heads[FREE_BLOCK], tree.blocks["next"])
    free = tree.prefixes["n_uses"][: n_uses.size] < 0
    assert not n_uses[free].any()
    assert (n_uses[~free] == tree.prefixes["n_uses"][: n_uses.size][~free]).all()
    assert int(free.sum()) == _n_chained(tree.heads[FREE_PREFIX], -2 - tree.prefixes["n_uses"])
    assert lists.size == tree.heads[N_LISTS]
    assert n_blocks == tree.heads[N_BLOCKS]
    assert n_dead == tree.heads[N_DEAD]
    assert int(alive.sum()) == n_rows
    assert (alive[slots] == filed["n_rows"][slots]).all()
    for slot in slots.tolist():
        assert covered[slot] == n_cells(box_of(filed[slot], bounds, height), 1, height)


def _rows_of(tree: TreeLayout, head: int) -> tuple[Array, int]:
    """All entries of a list, dead ones too, and how many blocks they are in."""
    if head < 0:
        return tree.entries[~head : ~head + 1], 0
    parts, before, at = [], UNRANKED, head
    while at != NOTHING:
        block = tree.blocks[at]
        assert at == head or block["low"] > before
        assert block["high"] >= block["low"]
        if block["n_rows"]:
            assert block["n_rows"] <= block_room(int(block["size_class"]))
        parts.append(tree.entries[block["start"] : block["start"] + block["n_rows"]])
        before, at = int(block["high"]), int(block["next"])
    return np.concatenate(parts), len(parts)


def _n_chained(first: int, following: Ints) -> int:
    n, at = 0, int(first)
    while at != NOTHING:
        n, at = n + 1, int(following[at])
    return n


def box_of(own: Array, bounds: Bounds, height: int) -> tuple[int, int, int, int]:
    """First and last column and row of the lowest nodes that a subscription's box meets."""
    side = 1 << height
    return (
        cell_index(bounds[0], bounds[2], side, float(own["x0"])),
        cell_index(bounds[0], bounds[2], side, float(own["x1"])),
        cell_index(bounds[1], bounds[3], side, float(own["y0"])),
        cell_index(bounds[1], bounds[3], side, float(own["y1"])),
    )


def n_cells(box: tuple[int, int, int, int], node: int, height: int) -> int:
    """How many of the lowest nodes that a box meets lie in the node of this code."""
    level = (node.bit_length() - 1) // 2
    column, row, down = node & ((1 << level) - 1), (node >> level) & ((1 << level) - 1), height - level
    width = min(box[1], ((column + 1) << down) - 1) - max(box[0], column << down) + 1
    depth = min(box[3], ((row + 1) << down) - 1) - max(box[2], row << down) + 1
    return max(0, width) * max(0, depth)
