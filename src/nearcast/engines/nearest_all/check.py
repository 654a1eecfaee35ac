"""Asserts that the arrays of a tree are consistent; for tests."""

from __future__ import annotations

import numpy as np

from nearcast.columns.arena import Array, Ints
from nearcast.engines.nearest_all.layout import N_BLOCKS, N_DEAD, N_LISTS, NOTHING, UNRANKED, TreeLayout
from nearcast.space.cells import Bounds, cell_index


def check_tree(tree: TreeLayout, filed: Array, slots: Ints, n_rows: int, where: tuple[Bounds, int]) -> None:
    """Every subscription has the entries it counts, in nodes that cover its box once; blocks of a list are in order.

    `where` is the bounds and the height.
    """
    covered = np.zeros(filed.size, dtype=np.int64)  # cells of the box, of the lowest nodes
    alive = np.zeros(filed.size, dtype=np.int64)
    n_dead = n_blocks = 0
    lists = np.flatnonzero(tree.list_keys)
    for key, head in zip(tree.list_keys[lists].tolist(), tree.list_heads[lists].tolist(), strict=True):
        at, before = head, UNRANKED
        while at != NOTHING:
            block = tree.blocks[at]
            assert at == head or block["low"] > before
            assert block["high"] >= block["low"]
            before, n_blocks = int(block["high"]), n_blocks + 1
            if block["n_rows"]:
                assert block["n_rows"] <= 1 << int(block["room"])
            rows = tree.entries[block["start"] : block["start"] + block["n_rows"]]
            living = filed["generation"][rows["slot"]] == rows["generation"]
            np.add.at(alive, rows["slot"][living], 1)
            for slot in rows["slot"][living].tolist():
                covered[slot] += n_cells(box_of(filed[slot], *where), (key - 1) >> 31, where[1])
            n_dead += int((~living).sum())
            at = int(block["next"])
    assert lists.size == tree.heads[N_LISTS]
    assert n_blocks == tree.heads[N_BLOCKS]
    assert n_dead == tree.heads[N_DEAD]
    assert int(alive.sum()) == n_rows
    assert (alive[slots] == filed["n_rows"][slots]).all()
    for slot in slots.tolist():
        assert covered[slot] == n_cells(box_of(filed[slot], *where), 1, where[1])


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
