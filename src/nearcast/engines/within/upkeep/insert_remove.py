"""Inserts entries into all leaves where they belong, removes them, and notes what that leaves to do: kernels.

Paper: [APTREE] section 3.3.5.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from nearcast.columns.arena import Array, Ints, Longs
from nearcast.engines.within.arrays import append_entry, block_of, class_of, class_room, free_leaf, new_leaf
from nearcast.engines.within.layout import (
    BLOCK_SHAPE,
    CLAUSE,
    INTS_PER_LINE,
    N_LEAVES,
    N_LINES,
    N_ROWS,
    NO_WORD,
    NOTHING,
    UNRANKED,
    VERSION,
    TreeLayout,
)
from nearcast.engines.within.leaf_block import lines_for, position_of, remove_row, room_of
from nearcast.engines.within.paths import trace
from nearcast.engines.within.upkeep.long_leaves import LONG, defer
from nearcast.jit import NEED_ROOM, kernel

NEED_PATH = -2  # a path was longer than its scratch
NEED_DEFERRED = -4  # too little room for what is deferred
_LEAST_CHANGES = 64  # of a node between two looks at its drift
_FIRST_ROOM = 2  # entries that a new leaf has room for


class Work(NamedTuple):
    """Scratch of inserting, removing and moving, and lists of what is to be done afterwards."""

    path: Ints  # int32[]: parts that an entry is filed under
    path_ranks: Ints  # int32[]: beside them the ranks that led there
    path_sides: Ints  # int32[]: or, for a move, which of the old and new entry are filed there: OLD, NEW or both
    overfull: Ints  # int32[]: leaves to partition
    drifting: Ints  # int32[]: nodes whose drift is to be looked at
    underfull: Ints  # int32[]: parts whose node has few entries left
    n_todo: Longs  # int64[3]: how many are in overfull, drifting and underfull
    deferred: Longs  # int64[]: changes that wait for the end of the batch, see `long_leaves`
    n_deferred: Longs  # int64[1]


OVERFULL, DRIFTING, UNDERFULL = range(3)  # positions in `n_todo`


class LeafLimits(NamedTuple):
    """When lists become nodes and nodes lists, and what a new leaf knows."""

    most: int  # entries of a leaf that is not partitioned
    fewest: int  # entries of a node that stays one
    since: int  # new leaves and widened cuts know messages after this sequence


@kernel
def widen_cut(tree: TreeLayout, at: int, rank: int, since: int) -> None:
    """A word of this rank belongs to the cut `at`; messages with it did not come this way until now."""
    part = tree.parts[at]
    if rank < part.low or rank > part.high:
        tree.heads[VERSION] += 1
        part.low, part.high = min(part.low, rank), max(part.high, rank)
        if part.child >= 0:
            tree.nodes[part.child].since = since
        elif part.child != NOTHING:
            tree.leaves[-2 - part.child].since = since


@kernel
def room_for_leaf(tree: TreeLayout, at: int) -> tuple[int, int]:
    """How many leaves and lines one more entry below a part without a node takes."""
    part = tree.parts[at]
    if part.child == NOTHING:
        return 1, class_room(class_of(lines_for(_FIRST_ROOM, False)))
    block = block_of(part)
    full = tree.ints[block + N_ROWS] == room_of(tree.ints[block + BLOCK_SHAPE])
    return 0, class_room(tree.leaves[-2 - part.child].room + 1) if full else 0


@kernel
def has_room_to_note(work: Work, n: int) -> Any:
    """Is there room to note `n` more of every kind?"""
    return max(work.n_todo[0], work.n_todo[1], work.n_todo[2]) + n <= work.overfull.size


@kernel
def has_room_to_defer(work: Work, n: int) -> Any:
    """Is there room to defer `n` more?"""
    return work.n_deferred[0] + n <= work.deferred.size


@kernel
def has_room(tree: TreeLayout, work: Work, n: int) -> Any:
    """Can an entry be added to all leaves on its path?"""
    n_leaves, n_lines = tree.heads[N_LEAVES], tree.heads[N_LINES]
    for i in range(n):
        if tree.parts[work.path[i]].child < 0:
            more, lines = room_for_leaf(tree, work.path[i])
            n_leaves += more
            n_lines += lines
    return n_leaves <= tree.leaves.size and INTS_PER_LINE * n_lines <= tree.ints.size


@kernel
def count_change(tree: TreeLayout, work: Work, node: int, weight: int) -> None:
    """Count a change below a node of this weight; after enough changes its drift is to be looked at."""
    row = tree.nodes[node]
    row.n_changes += 1
    if row.n_changes >= max(_LEAST_CHANGES, weight >> 4):
        row.n_changes = 0
        work.drifting[work.n_todo[DRIFTING]] = node
        work.n_todo[DRIFTING] += 1


@kernel
def insert_entry(tree: TreeLayout, at: int, entry: Any, rows: Array, limits: LeafLimits, work: Work) -> None:
    """File an entry in the leaf below a part, whose weight counts it already."""
    part = tree.parts[at]
    leaf = -2 - part.child if part.child != NOTHING else new_leaf(tree, at, _FIRST_ROOM, NO_WORD, limits.since)
    append_entry(tree, leaf, entry, rows)
    if part.now == max(limits.most, 2 * tree.leaves[leaf].tried) + 1:
        work.overfull[work.n_todo[OVERFULL]] = leaf
        work.n_todo[OVERFULL] += 1


@kernel
def insert_entries(
    tree: TreeLayout, ranks: Ints, entries: Array, first: int, origin: int, rows: Array, limits: LeafLimits, work: Work
) -> tuple[int, int]:
    """File entries from `first` on below the part `origin`; returns how many are done, and NEED_ROOM, NEED_PATH or 0.

    `rows` are those of the subscriptions. Leaves that became too long are left in work.overfull.

    Keeps: the weight of a part is the number of entries below it.
    """
    for i in range(first, entries.size):
        entry = entries[i]
        n = trace(tree, ranks, entry, origin, work.path, work.path_ranks)
        if n == NEED_ROOM or not has_room_to_note(work, n):
            return i, NEED_PATH
        if not has_room(tree, work, n):
            return i, NEED_ROOM
        for j in range(n):
            part = tree.parts[work.path[j]]
            part.now += 1
            rank = work.path_ranks[j]
            child = part.child
            if rank != UNRANKED:
                widen_cut(tree, work.path[j], rank, limits.since)
            if child >= 0:
                count_change(tree, work, child, part.now)
                continue
            insert_entry(tree, work.path[j], entry, rows, limits, work)
    return entries.size, 0


@kernel
def remove_entry(tree: TreeLayout, at: int, entry: Any) -> None:
    """Remove an entry from the leaf below a part, whose weight does not count it any more.

    A leaf without entries stays as long as it has messages: its list is kept, for entries that come back.
    """
    part = tree.parts[at]
    block = block_of(part)
    remove_row(tree, block, position_of(tree, block, entry.slot, entry.tags & CLAUSE))
    if part.now == 0 and tree.leaves[-2 - part.child].n_messages == 0:
        free_leaf(tree, -2 - part.child)


@kernel
def note_underfull(tree: TreeLayout, at: int, fewest: int, work: Work) -> bool:
    """Note a node that has lost an entry if it has too few left; True if so."""
    if tree.parts[at].now >= fewest:
        return False
    work.underfull[work.n_todo[UNDERFULL]] = at
    work.n_todo[UNDERFULL] += 1
    return True


@kernel
def remove_entries(
    tree: TreeLayout, ranks: Ints, entries: Array, first: int, origin: int, limits: LeafLimits, work: Work
) -> tuple[int, int]:
    """Remove entries from `first` on from all their leaves; returns how many are done, and what is needed, or 0.

    `apply_deferred` must follow when all are done. Of the parts on a path whose nodes have too few entries left the
    topmost goes to work.underfull.
    """
    for i in range(first, entries.size):
        entry = entries[i]
        n = trace(tree, ranks, entry, origin, work.path, work.path_ranks)
        if n == NEED_ROOM or not has_room_to_note(work, n):
            return i, NEED_PATH
        if not has_room_to_defer(work, n):
            return i, NEED_DEFERRED
        underfull = False
        for j in range(n):
            part = tree.parts[work.path[j]]
            child = part.child
            if child < 0 and part.now > LONG:
                defer(work, work.path[j], i, False)
                continue
            part.now -= 1
            if child >= 0:
                count_change(tree, work, child, part.now)
                underfull = underfull or note_underfull(tree, work.path[j], limits.fewest, work)
                continue
            remove_entry(tree, work.path[j], entry)
    return entries.size, 0
