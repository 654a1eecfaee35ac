"""Subscriptions move: their entries go from the leaves of the old region to those of the new one, in all four cases.

Paper: [APTREE] section 4.2.5, algorithms 6 and 7.
Departs: no list of leaves is kept for a subscription, since tracing the old entry finds them again, and differences of
regions are never formed, since they misjudge borders: `compare` decides by "in the new region and not in the old".
"""

from __future__ import annotations

from nearcast.engines.within.arrays import hold
from nearcast.engines.within.layout import CLAUSE, KEYWORD, N_HELD, N_LEAVES, NO_NODE, NO_WORD, ROOT
from nearcast.engines.within.moving.region_diff import NEW, OLD, look_through
from nearcast.engines.within.paths import cells_met, covers, cut_of, word_at
from nearcast.engines.within.upkeep.insert_remove import (
    NEED_LATE,
    NEED_PATH,
    count_change,
    note_thin,
    put_entry,
    room_for_leaf,
    room_to_note,
    room_to_put_off,
    take_entry,
    widen,
)
from nearcast.engines.within.upkeep.long_leaves import LONG, position_of, put_off
from nearcast.jit import NEED_ROOM, kernel


@kernel
def parts_of_both(tree, child, ranks, old, new, sides, path, flags, n):
    """Append the parts of a node that the old and new entry are filed under to a path of `n`; how many, or NEED_ROOM.

    Beside each stands on which of the `sides`.
    """
    node = tree.nodes[child]
    first, n_columns = node.first, node.n_columns
    if n + 1 >= path.size:
        return NEED_ROOM
    if node.kind == KEYWORD:
        word = word_at(new, node.offset)
        path[n], flags[n] = first, sides
        if word != NO_WORD:
            path[n] += 1 + cut_of(tree.highs, first + 1, node.n_parts, ranks[word])
        return n + 1
    dummy = sides & ((OLD if covers(old, node) else 0) | (NEW if covers(new, node) else 0))
    if dummy:
        path[n], flags[n] = first, dummy
        n += 1
    sides &= ~dummy
    was, will = (0, -1, 0, -1), (0, -1, 0, -1)
    if sides & OLD:
        was = cells_met(tree, node, old)
    if sides & NEW:
        will = cells_met(tree, node, new)
    n_cells = (was[1] - was[0] + 1) * (was[3] - was[2] + 1) + (will[1] - will[0] + 1) * (will[3] - will[2] + 1)
    if n + n_cells > path.size:
        return NEED_ROOM
    for row in range(was[2], was[3] + 1):
        for column in range(was[0], was[1] + 1):
            stays = will[0] <= column <= will[1] and will[2] <= row <= will[3]
            path[n], flags[n] = first + 1 + row * n_columns + column, OLD | NEW if stays else OLD
            n += 1
    for row in range(will[2], will[3] + 1):
        for column in range(will[0], will[1] + 1):
            if not (was[0] <= column <= was[1] and was[2] <= row <= was[3]):
                path[n], flags[n] = first + 1 + row * n_columns + column, NEW
                n += 1
    return n


@kernel
def trace_both(tree, ranks, old, new, sides, path, flags):
    """Write all parts that the old or new entry is filed under, and on which sides; returns how many, or NEED_ROOM."""
    n, i = 1, 0
    path[0], flags[0] = ROOT, sides
    while i < n:
        child = tree.parts[path[i]].child
        if child >= 0:
            n = parts_of_both(tree, child, ranks, old, new, flags[i], path, flags, n)
            if n == NEED_ROOM:
                return NEED_ROOM
        i += 1
    return n


@kernel
def widen_cuts(tree, ranks, new, n, since, work):
    """In another cell the cut of a word may not reach as far as that word."""
    for i in range(n):
        owner = tree.parts[work.path[i]].node
        if work.path_ranks[i] != NEW or owner == NO_NODE:
            continue
        node = tree.nodes[owner]
        if node.kind == KEYWORD and work.path[i] != node.first:
            widen(tree, work.path[i], ranks[word_at(new, node.offset)], since)


@kernel
def has_room_to_move(tree, work, n):
    """Can an entry be added to the leaves that are new on its path?"""
    n_leaves, n_held = tree.heads[N_LEAVES], tree.heads[N_HELD]
    for i in range(n):
        if work.path_ranks[i] == NEW and tree.parts[work.path[i]].child < 0:
            more, rows = room_for_leaf(tree, work.path[i])
            n_leaves += more
            n_held += rows
    return n_leaves <= tree.leaves.size and n_held <= tree.held.size


@kernel
def refile(tree, news, i_new, n, limits, work):
    """Take an entry out of the leaves that are old on its path of `n`, and file it in those that are new.

    Keeps: the weight of a part is the number of entries below it, but for long leaves with entries that wait.
    """
    thin = False
    new = news[i_new]
    most, fewest, since = limits
    for i in range(n):
        at, sides = work.path[i], work.path_ranks[i]
        part = tree.parts[at]
        if sides & OLD and part.child < 0 and part.now > LONG:
            put_off(work, at, i_new, sides == OLD | NEW)
            continue
        if sides == OLD | NEW:
            if part.child < 0:
                place = position_of(tree.held, part.start, part.now, new.slot, new.tags & CLAUSE)
                hold(tree, place, new)
            continue
        part.now += 1 if sides == NEW else -1
        if part.child >= 0:
            count_change(tree, work, part.child, part.now)
            if sides == OLD:
                thin = thin or note_thin(tree, at, fewest, work)
        elif sides == NEW:
            put_entry(tree, at, new, most, since, work)
        else:
            take_entry(tree, at, new)


@kernel
def follow_entries(tree, ranks, olds, news, first, limits, look, work, told):
    """Refile entries from `first` on if they moved, and tell what changes for their subscriptions.

    `olds` have the place in the batch for a slot. `limits` are the most entries of a leaf, the fewest of a node, and
    since when new leaves know messages. Returns how many are done, and what is needed, or 0. What is left of a batch
    when all are done, `settle` must do.
    """
    moves = look.sides == OLD | NEW
    for i in range(first, news.size):
        n = trace_both(tree, ranks, olds[i], news[i], look.sides, work.path, work.path_ranks)
        if n == NEED_ROOM or (moves and not room_to_note(work, n)):
            return i, NEED_PATH
        if moves and not has_room_to_move(tree, work, n):
            return i, NEED_ROOM
        if not room_to_put_off(work, n):
            return i, NEED_LATE
        if moves:
            widen_cuts(tree, ranks, news[i], n, limits[2], work)
        if look.lists:
            code = look_through(tree, n, olds[i].slot, news[i].slot, look, work, told)
            if code != 0:
                return i, code
        if moves:
            refile(tree, news, i, n, limits, work)
    return news.size, 0
