"""Entries come and go: filed into all leaves where they belong, taken out again, and what that leaves to do.

Paper: [APTREE] section 3.3.5.
"""

from __future__ import annotations

from typing import NamedTuple

from nearcast.columns.arena import Ints, Longs
from nearcast.engines.within.arrays import add_entry, class_of, class_room, copy_held, free_leaf, new_leaf
from nearcast.engines.within.layout import CLAUSE, N_HELD, N_LEAVES, NOTHING, UNRANKED, VERSION
from nearcast.engines.within.paths import trace
from nearcast.engines.within.upkeep.long_leaves import LONG, position_of, put_off
from nearcast.jit import NEED_ROOM, kernel

NEED_PATH = -2  # a path was longer than its scratch
NEED_LATE = -4  # room for what is put off
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
    late: Longs  # int64[]: what is put off to the end of the batch, see backlog.py
    n_late: Longs  # int64[1]


OVERFULL, DRIFTING, THIN = range(3)


@kernel
def widen(tree, at, rank, since):
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
def room_for_leaf(tree, at):
    """How many leaves and rows one more entry below a part without a node takes."""
    part = tree.parts[at]
    if part.child == NOTHING:
        return 1, class_room(class_of(_FIRST_ROOM))
    room = tree.leaves[-2 - part.child].room
    return 0, class_room(room + 1) if part.now == class_room(room) else 0


@kernel
def room_to_note(work, n):
    """Can so many more be noted of every kind?"""
    return max(work.n_todo[0], work.n_todo[1], work.n_todo[2]) + n <= work.overfull.size


@kernel
def room_to_put_off(work, n):
    """Can so many more be put off?"""
    return work.n_late[0] + n <= work.late.size


@kernel
def has_room(tree, work, n):
    """Can an entry be added to all leaves on its path?"""
    n_leaves, n_held = tree.heads[N_LEAVES], tree.heads[N_HELD]
    for i in range(n):
        if tree.parts[work.path[i]].child < 0:
            more, rows = room_for_leaf(tree, work.path[i])
            n_leaves += more
            n_held += rows
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
def put_entry(tree, at, entry, most, since, work):
    """File an entry in the leaf below a part, whose weight counts it; a new leaf knows messages after `since`."""
    part = tree.parts[at]
    leaf = -2 - part.child if part.child != NOTHING else new_leaf(tree, at, _FIRST_ROOM, since)
    add_entry(tree, leaf, entry, part.now - 1)
    if part.now == max(most, 2 * tree.leaves[leaf].tried) + 1:
        work.overfull[work.n_todo[OVERFULL]] = leaf
        work.n_todo[OVERFULL] += 1


@kernel
def insert_entries(tree, ranks, entries, first, origin, most, since, work):
    """File entries from `first` on below the part `origin`; returns how many are done, and NEED_ROOM, NEED_PATH or 0.

    Leaves of more than `most` entries are left in work.overfull. New leaves know messages after `since` only.

    Keeps: the weight of a part is the number of entries below it.
    """
    for i in range(first, entries.size):
        entry = entries[i]
        n = trace(tree, ranks, entry, origin, work.path, work.path_ranks)
        if n == NEED_ROOM or not room_to_note(work, n):
            return i, NEED_PATH
        if not has_room(tree, work, n):
            return i, NEED_ROOM
        for j in range(n):
            part = tree.parts[work.path[j]]
            part.now += 1
            rank = work.path_ranks[j]
            child = part.child
            if rank != UNRANKED:
                widen(tree, work.path[j], rank, since)
            if child >= 0:
                count_change(tree, work, child, part.now)
                continue
            put_entry(tree, work.path[j], entry, most, since, work)
    return entries.size, 0


@kernel
def take_entry(tree, at, entry):
    """Take an entry out of the leaf below a part, whose weight does not count it any more.

    A leaf without entries stays as long as it has messages: its list goes on, for those who come back.
    """
    part = tree.parts[at]
    place = position_of(tree.held, part.start, part.now + 1, entry.slot, entry.tags & CLAUSE)
    copy_held(tree, place, part.start + part.now)
    if part.now == 0 and tree.leaves[-2 - part.child].n_messages == 0:
        free_leaf(tree, -2 - part.child)


@kernel
def note_thin(tree, at, fewest, work):
    """A node that has lost an entry may have become thin; True if so."""
    if tree.parts[at].now >= fewest:
        return False
    work.thin[work.n_todo[THIN]] = at
    work.n_todo[THIN] += 1
    return True


@kernel
def remove_entries(tree, ranks, entries, first, origin, fewest, work):
    """Take entries from `first` on out of all their leaves; returns how many are done, and what is needed, or 0.

    What is left of a batch when all are done, `settle` must do. The topmost part on a path whose node has fewer than
    `fewest` entries left goes to work.thin.
    """
    for i in range(first, entries.size):
        entry = entries[i]
        n = trace(tree, ranks, entry, origin, work.path, work.path_ranks)
        if n == NEED_ROOM or not room_to_note(work, n):
            return i, NEED_PATH
        if not has_room(tree, work, n):
            return i, NEED_ROOM
        if not room_to_put_off(work, n):
            return i, NEED_LATE
        thin = False
        for j in range(n):
            part = tree.parts[work.path[j]]
            child = part.child
            if child < 0 and part.now > LONG:
                put_off(work, work.path[j], i, False)
                continue
            part.now -= 1
            if child >= 0:
                count_change(tree, work, child, part.now)
                thin = thin or note_thin(tree, work.path[j], fewest, work)
                continue
            take_entry(tree, work.path[j], entry)
    return entries.size, 0
