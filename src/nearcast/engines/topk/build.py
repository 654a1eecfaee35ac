"""Files subscriptions under their words and takes them out; cuts words that have grown into cells and groups: kernels.

Skype sections 5.1 (cells of a quadtree) and 5.3.1 (groups by alpha).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from nearcast.columns.arena import Floats, Ints, Longs
from nearcast.engines.blocks import USED, block_class, block_fits, block_room, take_block
from nearcast.engines.topk.dues import Floors, current_floor, end_due, start_due
from nearcast.engines.topk.groups import (
    bound_cell,
    clear_group,
    file_posting,
    find_group,
    free_groups,
    free_postings,
    unfile_posting,
    widen_cell,
)
from nearcast.engines.topk.keys import code_of, face_of, rest_of, tilt_of
from nearcast.engines.topk.layout import (
    ALPHA,
    BUILDS,
    CODE_BITS,
    HIDDEN_BITS,
    KEY,
    WIDTH,
    PostingPool,
    Shape,
    SubscriptionLayout,
)
from nearcast.engines.topk.postings import copy_posting, place_of, pool_room
from nearcast.jit import allocating, kernel

_GROWTH = 2  # a word is cut again when its postings have grown by this factor, or have shrunk by its square
_CROWD = 4  # a cell is cut again when one of its groups has this many times the postings of a full cell
_DEPTH = 3 * CODE_BITS // 2 + 4  # ranges that wait while a square is cut into quarters, again and again


@kernel
def group_size(shape: Shape) -> int:
    """Postings of a group, as they are when a full cell is cut."""
    return max(8, shape.cell // shape.groups)


@kernel
def has_outgrown(row: Any, shape: Shape) -> Any:
    """Has a word many more postings than when it was cut?"""
    return row.n >= _GROWTH * max(row.built, group_size(shape))


@allocating
def cut_cells(codes: Longs, shape: Shape, starts: Longs, firsts: Longs) -> int:
    """Cut sorted codes into squares of at most `shape.cell`; writes where each starts and its first code.

    Returns their number. A square of the quadtree is a range of the curve; a place, too, is cut into quarters.

    Paper: [SKYPE] section 5.1, the quadtree.
    Departs: every word has a quadtree of its own, so that no message looks into cells where its words do not occur.
    """
    stack = np.empty((_DEPTH, 3), dtype=np.int64)
    stack[0, 0], stack[0, 1], stack[0, 2] = 0, codes.size, CODE_BITS
    n_stack = 1
    n = 0
    while n_stack > 0:
        n_stack -= 1
        low, high, bits = stack[n_stack, 0], stack[n_stack, 1], stack[n_stack, 2]
        if high - low <= shape.cell or bits == 0:
            starts[n] = low
            firsts[n] = (codes[low] >> bits) << bits if n > 0 else 0
            n += 1
            continue
        end = high
        while end > low:  # the last quarter first: the first one is taken from the stack next
            quarter = codes[end - 1] >> (bits - 2)
            begin = end - 1
            while begin > low and codes[begin - 1] >> (bits - 2) == quarter:
                begin -= 1
            stack[n_stack, 0], stack[n_stack, 1], stack[n_stack, 2] = begin, end, bits - 2
            n_stack += 1
            end = begin
    return n


@kernel
def cut_groups(alphas: Floats, shape: Shape, lows: Floats) -> int:
    """Cut sorted alphas into quantiles; writes the first alpha of each and returns their number.

    Paper: [SKYPE] section 5.3.1, the alpha-partition; alpha instead of alpha / (1 - alpha), which orders alike.
    """
    n_groups = min(shape.groups, (alphas.size + group_size(shape) - 1) // group_size(shape))
    lows[0] = -1.0
    n = 1
    for i in range(1, n_groups):
        low = alphas[alphas.size * i // n_groups]
        if low > max(lows[n - 1], alphas[0]):
            lows[n] = low
            n += 1
    return n


@allocating
def collect_postings(index: SubscriptionLayout, first: int, end: int, shape: Shape) -> tuple[PostingPool, Longs, Longs]:
    """Copies of all postings of these groups of a word, one after another, their codes, and the order of these."""
    n = 0
    for at in range(first, end):
        n += index.groups[at].n
    codes = np.empty(n, dtype=np.int64)
    ints = np.empty(n * WIDTH, dtype=np.int32)
    n = 0
    for at in range(first, end):
        group = index.groups[at]
        for i in range(group.n):
            place, stride = place_of(group.start, block_room(group.room), i)
            copy_posting(index.postings.ints, place, stride, ints, n * WIDTH, 1)
            slot = ints[n * WIDTH] >> HIDDEN_BITS
            codes[n] = code_of(index.faces[slot], slot, shape)
            n += 1
    return PostingPool(ints, ints.view(np.float32)), codes, np.argsort(codes)


@allocating
def fill_cell(index: SubscriptionLayout, first: int, copies: PostingPool, members: Longs) -> None:
    """Put some of these postings into the groups of an empty cell, each of which gets a block for all its own."""
    groups = index.groups
    last = first + index.cells[first].n_more
    own = np.empty(members.size, dtype=np.int64)
    keys = np.empty(members.size, dtype=np.float32)
    for i in range(members.size):
        keys[i] = copies.lanes[members[i] * WIDTH + KEY]
        own[i] = first
        while own[i] < last and groups[own[i] + 1].low <= copies.lanes[members[i] * WIDTH + ALPHA]:
            own[i] += 1
        groups[own[i]].n += 1
    for at in range(first, last + 1):
        if groups[at].n > 0:
            groups[at].room = block_class(groups[at].n)
            groups[at].start = take_block(index.posting_blocks, index.links["number_0"], groups[at].room)
            groups[at].n = 0
    for i in np.argsort(keys):
        source, group = members[i] * WIDTH, groups[own[i]]
        place, stride = place_of(group.start, block_room(group.room), group.n)
        copy_posting(copies.ints, source, 1, index.postings.ints, place, stride)
        group.n += 1
        group.key = min(group.key, keys[i])
        group.tilt = min(group.tilt, tilt_of(np.float64(copies.lanes[source + ALPHA])))
        widen_cell(index.cells[first], index.faces[copies.ints[source] >> HIDDEN_BITS])
    bound_cell(index, first)


@allocating
def recut(index: Any, term: Any, first: Any, end: Any, shape: Any) -> bool:
    """Cut whole cells of a word again: those of its groups from `first` to `end`.

    Returns False, and does nothing, if there is no room.
    """
    copies, codes, order = collect_postings(index, first, end, shape)
    n = order.size
    starts = np.empty(n + 1, dtype=np.int64)
    firsts = np.empty(n + 1, dtype=np.int64)
    n_cells = cut_cells(codes[order], shape, starts, firsts)
    starts[n_cells], firsts[0] = n, index.cells[first].code
    lows = np.empty(n + shape.groups, dtype=np.float64)
    cell_of = np.empty(n + shape.groups, dtype=np.int64)
    n_new = 0
    for cell in range(n_cells):
        alphas = np.empty(starts[cell + 1] - starts[cell], dtype=np.float64)
        for i in range(alphas.size):
            alphas[i] = copies.lanes[order[starts[cell] + i] * WIDTH + ALPHA]
        n_more = cut_groups(np.sort(alphas), shape, lows[n_new:])
        cell_of[n_new : n_new + n_more] = cell
        n_new += n_more
    row, groups, cells = index.lists[term], index.groups, index.cells
    n_groups = row.n_groups - (end - first) + n_new
    if not block_fits(index.group_blocks, groups.size, block_class(n_groups)):
        return False
    if index.posting_blocks[USED] + 2 * n + n_new > pool_room(index.postings):
        return False
    before, after = groups[row.start : first].copy(), groups[end : row.start + row.n_groups].copy()
    cells_before, cells_after = cells[row.start : first].copy(), cells[end : row.start + row.n_groups].copy()
    free_postings(index, first, end)
    free_groups(index, term)
    row.start = take_block(index.group_blocks, groups["start"], block_class(n_groups))
    row.n_groups = n_groups
    first = np.int64(row.start) + before.size
    groups[row.start : first], cells[row.start : first] = before, cells_before
    groups[first + n_new : first + n_new + after.size] = after
    cells[first + n_new : first + n_new + after.size] = cells_after
    for at in range(first + n_new - 1, first - 1, -1):
        cell = cell_of[at - first]
        clear_group(index, at, firsts[cell], lows[at - first])
        if at + 1 < first + n_new and cells[at + 1].code == cells[at].code:
            cells[at].n_more = cells[at + 1].n_more + 1
        if at > first and cell_of[at - first - 1] == cell:
            continue
        fill_cell(index, at, copies, order[starts[cell] : starts[cell + 1]])
    index.work[BUILDS] += 1
    return True


@kernel
def rebuild(index: SubscriptionLayout, term: int, shape: Shape) -> bool:
    """Cut a word into cells and groups again; returns False, and does nothing, if there is no room."""
    row = index.lists[term]
    if not recut(index, term, np.int64(row.start), np.int64(row.start) + row.n_groups, shape):
        return False
    row.built = row.n
    return True


@kernel
def recut_crowded(index: SubscriptionLayout, term: int, slot: int, shape: Shape) -> bool:
    """Cut the cell that a subscription belongs to again if it is crowded; returns False if there is no room for that.

    Most cells are not until the whole word is cut again: this is for one place that grows much faster than the word.
    """
    face = index.faces[slot]
    first, at = find_group(index, term, code_of(face, slot, shape), face.alpha)
    if index.groups[at].n < _CROWD * max(shape.cell, group_size(shape)):
        return True
    return recut(index, term, first, first + index.cells[first].n_more + 1, shape)


@kernel
def prepare_words(index: SubscriptionLayout, subscriptions: Any, slot: int, shape: Shape) -> Any:
    """Cut those words of a subscription again that have outgrown their cells; is there room then to file it?"""
    row = subscriptions.rows[slot]
    n_postings = 0
    for i in range(row.term_start, row.term_start + row.n_terms):
        term = subscriptions.terms[i]
        own = index.lists[term]
        if own.n_groups > 0:
            if has_outgrown(own, shape) and not rebuild(index, term, shape):
                return False
            if not recut_crowded(index, term, slot, shape):
                return False
            n_postings += block_room(block_class(own.n + 1))
        else:
            n_postings += 1
    if index.posting_blocks[USED] + n_postings > pool_room(index.postings):
        return False
    return index.group_blocks[USED] + row.n_terms <= index.groups.size


@kernel
def file_many(
    index: SubscriptionLayout, slots: Ints, first: int, subscriptions: Any, idf: Floats, floors: Floors, shape: Shape
) -> int:
    """File subscriptions from position `first` on; returns the position at which there was no room."""
    terms, counts = subscriptions.terms, subscriptions.counts
    for i in range(first, slots.size):
        slot = slots[i]
        row, scale = subscriptions.rows[slot], subscriptions.scales[slot]
        face = index.faces[slot]
        start_due(index.dues, index.due_queue, index.due_count, floors, slot)
        face_of(face, row, scale, current_floor(index.dues, floors, slot), shape.metric)
        if not prepare_words(index, subscriptions, slot, shape):
            return i
        code = code_of(face, slot, shape)
        for j in range(row.term_start, row.term_start + row.n_terms):
            file_posting(index, slot, terms[j], code, rest_of(terms, counts, row, scale, idf, j))
    return slots.size


@kernel
def unfile_many(index: SubscriptionLayout, slots: Ints, subscriptions: Any, shape: Shape) -> None:
    """Take subscriptions out; words that have shrunk are cut again where there is room."""
    for slot in slots:
        row = subscriptions.rows[slot]
        end_due(index.dues, slot)
        code = code_of(index.faces[slot], slot, shape)
        for i in range(row.term_start, row.term_start + row.n_terms):
            term = subscriptions.terms[i]
            n_left = unfile_posting(index, slot, term, code)
            own = index.lists[term]
            if n_left > 0 and own.built > group_size(shape) and n_left * _GROWTH * _GROWTH <= own.built:
                rebuild(index, term, shape)
