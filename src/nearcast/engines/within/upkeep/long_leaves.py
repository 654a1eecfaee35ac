"""Changes of very long leaves, deferred to the end of a batch and then applied in one pass over the leaf: kernels.

Only entries that cannot be told apart make such leaves: the same words and much the same region. To search each entry
of a batch by itself would take as many steps as there are pairs of entries.

A deferred change is one number: the part of the leaf, the position of the entry in the batch, and whether the entry
stays in the leaf and is only written again.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from nearcast.columns.arena import Array, Ints, Longs
from nearcast.engines.within.arrays import block_of, free_leaf
from nearcast.engines.within.layout import CLAUSE, HEADER, NOTHING, TreeLayout
from nearcast.engines.within.leaf_block import clause_at, position_of, remove_row, rewrite_row
from nearcast.jit import kernel

LONG = 1024  # entries of a leaf in which a single one is not searched at once
_FEW = 4  # changes that are searched one by one


@kernel
def part_of(change: int) -> int:
    """The part of the leaf that a deferred change is for."""
    return change >> 32


@kernel
def position_in_batch(change: int) -> int:
    """Which entry of the batch a deferred change is for."""
    return (change & 0xFFFFFFFF) >> 1


@kernel
def defer(work: Any, at: int, i: int, stays: bool) -> None:
    """Note that entry `i` of a batch is to be removed from the leaf below a part or, if it stays, written again."""
    n = work.n_deferred[0]
    work.deferred[n] = np.int64(at) << 32 | np.int64(i) << 1 | (1 if stays else 0)
    work.n_deferred[0] = n + 1


@kernel
def apply_one(tree: TreeLayout, at: int, entries: Array, change: int) -> None:
    """Apply a change to the entry at this place of a leaf. Only entries behind it move."""
    part = tree.parts[part_of(change)]
    if change & 1:
        rewrite_row(tree, block_of(part), at, entries[position_in_batch(change)])
        return
    part.now -= 1
    remove_row(tree, block_of(part), at)


@kernel
def find_deferred(tree: TreeLayout, at: int, entries: Array, deferred: Longs, first: int) -> int:
    """Which change for a subscription, from `first` on, is for the entry at this place; or NOTHING."""
    part = part_of(deferred[first])
    block = block_of(tree.parts[part])
    slot, clause = tree.ints[block + HEADER + at], clause_at(tree, block, at)
    k = first
    while k < deferred.size and part_of(deferred[k]) == part:
        entry = entries[position_in_batch(deferred[k])]
        if entry.slot != slot:
            break
        if entry.tags & CLAUSE == clause:
            return k
        k += 1
    return NOTHING


@kernel
def apply_to_leaf(tree: TreeLayout, entries: Array, deferred: Longs, first: int, end: int, firsts: Ints) -> None:
    """Apply deferred[first:end], the changes of one leaf; `firsts` has room for all slots and is zero between calls."""
    part = tree.parts[part_of(deferred[first])]
    if end - first <= _FEW:
        for k in range(first, end):
            entry = entries[position_in_batch(deferred[k])]
            place = position_of(tree, block_of(part), entry.slot, entry.tags & CLAUSE)
            apply_one(tree, place, entries, deferred[k])
    else:
        for k in range(end - 1, first - 1, -1):
            firsts[entries[position_in_batch(deferred[k])].slot] = k + 1
        block = block_of(part)
        for place in range(part.now - 1, -1, -1):  # what takes a place was looked at already
            known = firsts[tree.ints[block + HEADER + place]]
            if known > 0:
                k = find_deferred(tree, place, entries, deferred, known - 1)
                if k != NOTHING:
                    apply_one(tree, place, entries, deferred[k])
        for k in range(first, end):
            firsts[entries[position_in_batch(deferred[k])].slot] = 0
    if part.now == 0 and tree.leaves[-2 - part.child].n_messages == 0:
        free_leaf(tree, -2 - part.child)


def by_leaf(deferred: Longs, entries: Array) -> Longs:
    """The changes sorted by leaf, then by subscription."""
    slots = entries["slot"][(deferred & 0xFFFFFFFF) >> 1]
    return deferred[np.lexsort((slots, deferred >> 32))]


@kernel
def apply_deferred(tree: TreeLayout, entries: Array, deferred: Longs, firsts: Ints) -> None:
    """Apply all deferred changes, in the order of `by_leaf`."""
    first = 0
    while first < deferred.size:
        end = first + 1
        while end < deferred.size and part_of(deferred[end]) == part_of(deferred[first]):
            end += 1
        apply_to_leaf(tree, entries, deferred, first, end, firsts)
        first = end
