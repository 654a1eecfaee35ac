"""Asserts that the arrays of a tree are consistent; for tests."""

from __future__ import annotations

import numpy as np

from nearcast.columns.arena import Array, Ints
from nearcast.engines.nearest_all.layout import N_BLOCKS, N_DEAD, N_LISTS, NOTHING, UNRANKED, TreeLayout


def check_tree(tree: TreeLayout, filed: Array, slots: Ints, n_rows: int) -> None:
    """Every subscription has the entries it counts; blocks of a list are in order and do not overlap."""
    alive = np.zeros(filed.size, dtype=np.int64)
    n_dead = n_blocks = 0
    lists = np.flatnonzero(tree.list_keys)
    for head in tree.list_heads[lists].tolist():
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
            n_dead += int((~living).sum())
            at = int(block["next"])
    assert lists.size == tree.heads[N_LISTS]
    assert n_blocks == tree.heads[N_BLOCKS]
    assert n_dead == tree.heads[N_DEAD]
    assert int(alive.sum()) == n_rows
    assert (alive[slots] == filed["n_rows"][slots]).all()
    assert (alive[slots] > 0).all()
