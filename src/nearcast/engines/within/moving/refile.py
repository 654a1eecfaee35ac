"""Moves entries from the leaves of the old region to those of the new one, in all four cases of the paper: kernels.

Paper: [APTREE] section 4.2.5, algorithms 6 and 7.
Departs: no list of leaves is kept for a subscription, since tracing the old entry finds them again, and differences of
regions are never formed, since they misjudge borders: `region_diff` decides by "in the new region and not in the old".
"""

from __future__ import annotations

from typing import Any, NamedTuple

from nearcast.columns.arena import Array, Ints
from nearcast.engines.within.arrays import block_of
from nearcast.engines.within.layout import (
    CLAUSE,
    INTS_PER_LINE,
    KEYWORD,
    N_LEAVES,
    N_LINES,
    NO_NODE,
    NO_WORD,
    ROOT,
    TreeLayout,
)
from nearcast.engines.within.leaf_block import position_of, rewrite_row
from nearcast.engines.within.moving.region_diff import NEW, OLD, DiffInput, DiffRoom, diff_lists
from nearcast.engines.within.paths import NO_CELLS, CellSpan, cells_met, covers, cut_of, word_at
from nearcast.engines.within.upkeep.insert_remove import (
    NEED_DEFERRED,
    NEED_PATH,
    LeafLimits,
    Work,
    count_change,
    has_room_to_defer,
    has_room_to_note,
    insert_entry,
    note_underfull,
    remove_entry,
    room_for_leaf,
    widen_cut,
)
from nearcast.engines.within.upkeep.long_leaves import LONG, defer
from nearcast.jit import NEED_ROOM, kernel


class MovedEntries(NamedTuple):
    """Entries of a batch of subscriptions before and after a move."""

    olds: Array  # ENTRY[n]: as they were; `slot` is the position of the subscription in the batch
    news: Array  # ENTRY[n]: as they are


@kernel
def n_cells(span: CellSpan) -> int:
    """Number of cells of a `CellSpan`."""
    return (span.right - span.left + 1) * (span.top - span.bottom + 1)


@kernel
def in_span(span: CellSpan, column: int, row: int) -> bool:
    """Does a cell belong to a `CellSpan`?"""
    return span.left <= column <= span.right and span.bottom <= row <= span.top


@kernel
def parts_of_both(tree: TreeLayout, child: int, ranks: Ints, old: Any, new: Any, sides: int, work: Work, n: int) -> int:
    """Append the parts of a node that the old and new entry are filed under to a path of `n`; how many, or NEED_ROOM.

    Beside each stands which of the `sides` are filed there.
    """
    path, path_sides = work.path, work.path_sides
    node = tree.nodes[child]
    first, n_columns = node.first, node.n_columns
    if n + 1 >= path.size:
        return NEED_ROOM
    if node.kind == KEYWORD:
        word = word_at(new, node.offset)
        path[n], path_sides[n] = first, sides
        if word != NO_WORD:
            path[n] += 1 + cut_of(tree.highs, first + 1, node.n_parts, ranks[word])
        return n + 1
    dummy = sides & ((OLD if covers(old, node) else 0) | (NEW if covers(new, node) else 0))
    if dummy:
        path[n], path_sides[n] = first, dummy
        n += 1
    sides &= ~dummy
    before, after = NO_CELLS, NO_CELLS
    if sides & OLD:
        before = cells_met(tree, node, old)
    if sides & NEW:
        after = cells_met(tree, node, new)
    if n + n_cells(before) + n_cells(after) > path.size:
        return NEED_ROOM
    for row in range(before.bottom, before.top + 1):
        for column in range(before.left, before.right + 1):
            path[n] = first + 1 + row * n_columns + column
            path_sides[n] = OLD | NEW if in_span(after, column, row) else OLD
            n += 1
    for row in range(after.bottom, after.top + 1):
        for column in range(after.left, after.right + 1):
            if not in_span(before, column, row):
                path[n], path_sides[n] = first + 1 + row * n_columns + column, NEW
                n += 1
    return n


@kernel
def trace_both(tree: TreeLayout, ranks: Ints, old: Any, new: Any, sides: int, work: Work) -> int:
    """Write all parts that the old or new entry is filed under, and on which sides; returns how many, or NEED_ROOM."""
    n, i = 1, 0
    work.path[0], work.path_sides[0] = ROOT, sides
    while i < n:
        child = tree.parts[work.path[i]].child
        if child >= 0:
            n = parts_of_both(tree, child, ranks, old, new, work.path_sides[i], work, n)
            if n == NEED_ROOM:
                return NEED_ROOM
        i += 1
    return n


@kernel
def widen_cuts(tree: TreeLayout, ranks: Ints, new: Any, n: int, since: int, work: Work) -> None:
    """Widen the cuts of an entry's words in cells that are new to it, where they may not have the words yet."""
    for i in range(n):
        owner = tree.parts[work.path[i]].node
        if work.path_sides[i] != NEW or owner == NO_NODE:
            continue
        node = tree.nodes[owner]
        if node.kind == KEYWORD and work.path[i] != node.first:
            widen_cut(tree, work.path[i], ranks[word_at(new, node.offset)], since)


@kernel
def has_room_to_move(tree: TreeLayout, work: Work, n: int) -> Any:
    """Can an entry be added to the leaves that are new on its path?"""
    n_leaves, n_lines = tree.heads[N_LEAVES], tree.heads[N_LINES]
    for i in range(n):
        if work.path_sides[i] == NEW and tree.parts[work.path[i]].child < 0:
            more, lines = room_for_leaf(tree, work.path[i])
            n_leaves += more
            n_lines += lines
    return n_leaves <= tree.leaves.size and INTS_PER_LINE * n_lines <= tree.ints.size


@kernel
def move_entry(tree: TreeLayout, news: Array, i_new: int, n: int, rows: Array, limits: LeafLimits, work: Work) -> None:
    """Remove an entry from the leaves that are old on its path of `n`, and insert it into those that are new.

    Keeps: the weight of a part is the number of entries below it, except for long leaves with deferred changes.
    """
    underfull = False
    new = news[i_new]
    for i in range(n):
        at, sides = work.path[i], work.path_sides[i]
        part = tree.parts[at]
        if sides & OLD and part.child < 0 and part.now > LONG:
            defer(work, at, i_new, sides == OLD | NEW)
            continue
        if sides == OLD | NEW:
            if part.child < 0:
                block = block_of(part)
                rewrite_row(tree, block, position_of(tree, block, new.slot, new.tags & CLAUSE), new)
            continue
        part.now += 1 if sides == NEW else -1
        if part.child >= 0:
            count_change(tree, work, part.child, part.now)
            if sides == OLD:
                underfull = underfull or note_underfull(tree, at, limits.fewest, work)
        elif sides == NEW:
            insert_entry(tree, at, new, rows, limits, work)
        else:
            remove_entry(tree, at, new)


@kernel
def refile_entries(
    tree: TreeLayout,
    ranks: Ints,
    moved: MovedEntries,
    first: int,
    limits: LeafLimits,
    diff: DiffInput,
    work: Work,
    room: DiffRoom,
) -> tuple[int, int]:
    """Refile entries from `first` on if they moved, and emit what changes for their subscriptions.

    Returns how many are done, and what is needed, or 0. `apply_deferred` must follow when all are done.
    """
    olds, news = moved.olds, moved.news
    moves = diff.sides == OLD | NEW
    for i in range(first, news.size):
        n = trace_both(tree, ranks, olds[i], news[i], diff.sides, work)
        if n == NEED_ROOM or (moves and not has_room_to_note(work, n)):
            return i, NEED_PATH
        if moves and not has_room_to_move(tree, work, n):
            return i, NEED_ROOM
        if not has_room_to_defer(work, n):
            return i, NEED_DEFERRED
        if moves:
            widen_cuts(tree, ranks, news[i], n, limits.since, work)
        if diff.lists:
            code = diff_lists(tree, n, olds[i].slot, news[i].slot, diff, work, room)
            if code != 0:
                return i, code
        if moves:
            move_entry(tree, news, i, n, diff.subscriptions.rows, limits, work)
    return news.size, 0
