"""What is to be done in very long leaves waits until the end of a batch, and is then done in one go: kernels.

Only entries that cannot be told apart make such leaves: the same words and much the same region. To search each entry
of a batch by itself would take as many steps as there are pairs of entries.
"""

from __future__ import annotations

import numpy as np

from nearcast.engines.within.arrays import copy_held, free_leaf, hold
from nearcast.engines.within.layout import CLAUSE, NOTHING
from nearcast.jit import kernel

LONG = 1024  # entries of a leaf in which a single one is not searched at once
_FEW = 4  # entries that are searched one by one


@kernel
def put_off(work, at, i, stays):
    """Note that entry `i` of a batch is to be taken out of the long leaf below a part or, if it stays, written anew."""
    n = work.n_late[0]
    work.late[n] = np.int64(at) << 32 | np.int64(i) << 1 | (1 if stays else 0)
    work.n_late[0] = n + 1


@kernel
def position_of(held, start, n_rows, slot, clause):
    """Where in a leaf the entry of a subscription's clause stands."""
    for at in range(start, start + n_rows):
        if held[at].slot == slot and held[at].tags & CLAUSE == clause:
            return at
    return NOTHING


@kernel
def settle_one(tree, at, entries, late):
    """Do what was put off for an entry that stands in this place of a leaf, whose last one takes its place."""
    part = tree.parts[late >> 32]
    if late & 1:
        hold(tree, at, entries[(late & 0xFFFFFFFF) >> 1])
        return
    part.now -= 1
    copy_held(tree, at, part.start + part.now)


@kernel
def wanted_by(tree, at, entries, late, first):
    """Which of what was put off for a subscription, from `first` on, means the entry in this place; or NOTHING."""
    held, part = tree.held[at], late[first] >> 32
    k = first
    while k < late.size and late[k] >> 32 == part:
        entry = entries[(late[k] & 0xFFFFFFFF) >> 1]
        if entry.slot != held.slot:
            break
        if entry.tags & CLAUSE == held.tags & CLAUSE:
            return k
        k += 1
    return NOTHING


@kernel
def settle_leaf(tree, entries, late, first, end, firsts):
    """Do what was put off for one leaf, late[first:end]; `firsts` has room for all slots and is zero between calls."""
    at = late[first] >> 32
    part = tree.parts[at]
    if end - first <= _FEW:
        for k in range(first, end):
            entry = entries[(late[k] & 0xFFFFFFFF) >> 1]
            place = position_of(tree.held, part.start, part.now, entry.slot, entry.tags & CLAUSE)
            settle_one(tree, place, entries, late[k])
    else:
        for k in range(end - 1, first - 1, -1):
            firsts[entries[(late[k] & 0xFFFFFFFF) >> 1].slot] = k + 1
        for place in range(part.start + part.now - 1, part.start - 1, -1):  # what takes a place was looked at already
            known = firsts[tree.held[place].slot]
            if known > 0:
                k = wanted_by(tree, place, entries, late, known - 1)
                if k != NOTHING:
                    settle_one(tree, place, entries, late[k])
        for k in range(first, end):
            firsts[entries[(late[k] & 0xFFFFFFFF) >> 1].slot] = 0
    if part.now == 0 and tree.leaves[-2 - part.child].n_messages == 0:
        free_leaf(tree, -2 - part.child)


@kernel
def settle(tree, entries, late, firsts):
    """Do all that was put off, which is sorted by leaf, then by subscription."""
    first = 0
    while first < late.size:
        end = first + 1
        while end < late.size and late[end] >> 32 == late[first] >> 32:
            end += 1
        settle_leaf(tree, entries, late, first, end, firsts)
        first = end
