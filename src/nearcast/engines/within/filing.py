"""Entries come and go: filed into all leaves where they belong, taken out again, and what that leaves to do.

Paper: [APTREE] section 3.3.5.
"""

from __future__ import annotations

from typing import NamedTuple

from nearcast.columns.arena import Ints, Longs
from nearcast.engines.within.layout import (
    CLAUSE,
    N_HELD,
    N_LEAVES,
    NOTHING,
    UNRANKED,
)
from nearcast.engines.within.store import add_entry, class_of, class_room, copy_held, free_leaf, new_leaf
from nearcast.engines.within.trace import trace
from nearcast.jit import NEED_ROOM, kernel

NEED_PATH = -2  # a path was longer than its scratch
_LOOK_AGAIN = 64  # least number of changes between two looks at a node's drift
_FIRST_ROOM = 2  # entries that a new leaf has room for


class Work(NamedTuple):
    """Scratch of filing, and lists of what is to be done after it."""

    path: Ints  # int32[]: parts that an entry is filed under
    path_ranks: Ints  # int32[]: the ranks that led there
    overfull: Ints  # int32[]: leaves to partition
    drifting: Ints  # int32[]: nodes whose drift is to be looked at
    thin: Ints  # int32[]: parts whose node has few entries left
    n_todo: Longs  # int64[3]: entries of overfull, drifting and thin


OVERFULL, DRIFTING, THIN = range(3)


@kernel
def has_room(tree, work, n):
    """Can an entry be added to all leaves on its path?"""
    n_leaves, n_held = tree.heads[N_LEAVES], tree.heads[N_HELD]
    for i in range(n):
        part = tree.parts[work.path[i]]
        if part.child == NOTHING:
            n_leaves += 1
            n_held += class_room(class_of(_FIRST_ROOM))
        elif part.child < 0:
            room = tree.leaves[-2 - part.child].room
            if part.now == class_room(room):
                n_held += class_room(room + 1)
    for kind in range(3):
        if work.n_todo[kind] + n > work.overfull.size:
            return False
    return n_leaves <= tree.leaves.size and n_held <= tree.held.size


@kernel
def count_change(tree, work, node, weight):
    """An entry came or went below a node, which has this many now: look at its drift every so often."""
    row = tree.nodes[node]
    row.n_changes += 1
    if row.n_changes >= max(_LOOK_AGAIN, weight >> 4):
        row.n_changes = 0
        work.drifting[work.n_todo[DRIFTING]] = node
        work.n_todo[DRIFTING] += 1


@kernel
def forget_messages(tree, child, since):
    """A cut became wider: messages with its new word did not come this way until now."""
    if child >= 0:
        tree.nodes[child].since = since
    elif child != NOTHING:
        tree.leaves[-2 - child].since = since


@kernel
def insert_entries(tree, ranks, entries, first, origin, most, since, work):
    """File entries from `first` on below the part `origin`; returns how many are done, and NEED_ROOM, NEED_PATH or 0.

    Leaves of more than `most` entries are left in work.overfull. New leaves know messages after `since` only.

    Keeps: the weight of a part is the number of entries below it.
    """
    for i in range(first, entries.size):
        entry = entries[i]
        n = trace(tree, ranks, entry, origin, work.path, work.path_ranks)
        if n == NEED_ROOM:
            return i, NEED_PATH
        if not has_room(tree, work, n):
            return i, NEED_ROOM
        for j in range(n):
            part = tree.parts[work.path[j]]
            part.now += 1
            rank = work.path_ranks[j]
            child = part.child
            if rank != UNRANKED and (rank < part.low or rank > part.high):
                part.low, part.high = min(part.low, rank), max(part.high, rank)
                forget_messages(tree, child, since)
            if child >= 0:
                count_change(tree, work, child, part.now)
                continue
            leaf = -2 - child if child != NOTHING else new_leaf(tree, work.path[j], _FIRST_ROOM, since)
            add_entry(tree, leaf, entry, part.now - 1)
            if part.now == max(most, 2 * tree.leaves[leaf].tried) + 1:
                work.overfull[work.n_todo[OVERFULL]] = leaf
                work.n_todo[OVERFULL] += 1
    return entries.size, 0


@kernel
def position_of(held, start, n_rows, slot, clause):
    """Where in a leaf the entry of a subscription's clause stands."""
    for at in range(start, start + n_rows):
        if held[at].slot == slot and held[at].tags & CLAUSE == clause:
            return at
    return NOTHING


@kernel
def remove_entries(tree, ranks, entries, first, origin, fewest, work):
    """Take entries from `first` on out of all their leaves; returns how many are done, and NEED_ROOM, NEED_PATH or 0.

    The topmost part on a path whose node has fewer than `fewest` entries left goes to work.thin.
    """
    for i in range(first, entries.size):
        entry = entries[i]
        n = trace(tree, ranks, entry, origin, work.path, work.path_ranks)
        if n == NEED_ROOM:
            return i, NEED_PATH
        if not has_room(tree, work, n):
            return i, NEED_ROOM
        thin = False
        for j in range(n):
            part = tree.parts[work.path[j]]
            part.now -= 1
            child = part.child
            if child >= 0:
                count_change(tree, work, child, part.now)
                if part.now < fewest and not thin:
                    thin = True
                    work.thin[work.n_todo[THIN]] = work.path[j]
                    work.n_todo[THIN] += 1
                continue
            at = position_of(tree.held, part.start, part.now + 1, entry.slot, entry.tags & CLAUSE)
            copy_held(tree, at, part.start + part.now)
            if part.now == 0 and tree.leaves[-2 - child].n_messages == 0:
                free_leaf(tree, -2 - child)
    return entries.size, 0
