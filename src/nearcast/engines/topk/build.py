"""Words that have grown are cut into cells and groups anew; subscriptions are filed and taken out: kernels."""

from __future__ import annotations

import numpy as np

from nearcast.engines.blocks import USED, block_class, block_fits, block_room, take_block
from nearcast.engines.topk.groups import (
    bound_cell,
    clear_group,
    file_posting,
    free_list,
    unfile_posting,
    widen_cell,
)
from nearcast.engines.topk.keys import code_of, face_of, rest_of, tilt_of
from nearcast.engines.topk.layout import BUILDS, HIDDEN_BITS, POSTING
from nearcast.jit import allocating, kernel
from nearcast.window.curve import CURVE_BITS

_GROWTH = 2  # a word is cut anew when it has so many times the postings, or has shrunk by the square of it
_DEPTH = 3 * CURVE_BITS + 4  # ranges that wait while a square is cut into quarters, again and again


@kernel
def group_size(shape):
    """Postings of a group, as they are when a full cell is cut."""
    return max(8, shape.cell // shape.groups)


@kernel
def has_outgrown(row, shape):
    """Has a word so many postings more than when it was cut?"""
    return row.n >= _GROWTH * max(row.built, group_size(shape))


@allocating
def cut_cells(codes, shape, starts, firsts):
    """Cut sorted places into squares of at most `shape.cell`; writes where each starts and its first place.

    Returns their number. A square of the quadtree is a range of the curve.

    Paper: [SKYPE] section 5.1, the quadtree.
    Departs: every word has a quadtree of its own, so that no message looks into cells where its words do not occur.
    """
    stack = np.empty((_DEPTH, 3), dtype=np.int64)
    stack[0, 0], stack[0, 1], stack[0, 2] = 0, codes.size, 2 * CURVE_BITS
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
def cut_groups(alphas, shape, lows):
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
def collect(index, term, shape):
    """Copies of all postings of a word, their places along the curve, and the order of these."""
    row = index.lists[term]
    codes = np.empty(row.n, dtype=np.int64)
    copies = np.empty(row.n, dtype=POSTING)
    n = 0
    for at in range(row.start, row.start + row.n_groups):
        group = index.groups[at]
        for i in range(group.start, group.start + group.n):
            copies[n] = index.postings[i]
            codes[n] = code_of(index.faces[copies[n].mark >> HIDDEN_BITS], shape)
            n += 1
    return copies, codes, np.argsort(codes)


@allocating
def fill_cell(index, first, copies, members):
    """Put some of these postings into the groups of an empty cell, each of which gets a block for all its own."""
    groups = index.groups
    last = first + groups[first].n_more
    own = np.empty(members.size, dtype=np.int64)
    keys = np.empty(members.size, dtype=np.float32)
    for i in range(members.size):
        keys[i] = copies[members[i]].key
        own[i] = first
        while own[i] < last and groups[own[i] + 1].low <= copies[members[i]].alpha:
            own[i] += 1
        groups[own[i]].n += 1
    for at in range(first, last + 1):
        if groups[at].n > 0:
            groups[at].room = block_class(groups[at].n)
            groups[at].start = take_block(index.posting_blocks, index.postings["mark"], groups[at].room)
            groups[at].n = 0
    for i in np.argsort(keys):
        posting, group = copies[members[i]], groups[own[i]]
        index.postings[group.start + group.n] = posting
        group.n += 1
        group.key = min(group.key, posting.key)
        group.tilt = min(group.tilt, tilt_of(np.float64(posting.alpha)))
        widen_cell(groups[first], posting)
    bound_cell(groups, first)


@allocating
def rebuild(index, term, shape):
    """Cut a word into cells and groups anew; returns False, and does nothing, if there is no room."""
    copies, codes, order = collect(index, term, shape)
    n = order.size
    starts = np.empty(n + 1, dtype=np.int64)
    firsts = np.empty(n + 1, dtype=np.int64)
    n_cells = cut_cells(codes[order], shape, starts, firsts)
    starts[n_cells] = n
    lows = np.empty(n + shape.groups, dtype=np.float64)
    cell_of = np.empty(n + shape.groups, dtype=np.int64)
    n_groups = 0
    for cell in range(n_cells):
        alphas = np.empty(starts[cell + 1] - starts[cell], dtype=np.float64)
        for i in range(alphas.size):
            alphas[i] = copies[order[starts[cell] + i]].alpha
        n_new = cut_groups(np.sort(alphas), shape, lows[n_groups:])
        cell_of[n_groups : n_groups + n_new] = cell
        n_groups += n_new
    if not block_fits(index.group_blocks, index.groups.size, block_class(n_groups)):
        return False
    if index.posting_blocks[USED] + 2 * n + n_groups > index.postings.size:
        return False
    row = index.lists[term]
    free_list(index, term)
    row.start = take_block(index.group_blocks, index.groups["start"], block_class(n_groups))
    row.n_groups, row.built = n_groups, n
    groups = index.groups
    for at in range(row.start + n_groups - 1, row.start - 1, -1):
        cell = cell_of[at - row.start]
        clear_group(groups[at], firsts[cell], lows[at - row.start])
        if at + 1 < row.start + n_groups and groups[at + 1].code == groups[at].code:
            groups[at].n_more = groups[at + 1].n_more + 1
        if at > row.start and cell_of[at - row.start - 1] == cell:
            continue
        fill_cell(index, at, copies, order[starts[cell] : starts[cell + 1]])
    index.work[BUILDS] += 1
    return True


@kernel
def make_ready(index, subscriptions, slot, shape):
    """Cut the words of a subscription anew that have outgrown their cells; is there room then to file it?"""
    row = subscriptions.rows[slot]
    n_postings = 0
    for i in range(row.term_start, row.term_start + row.n_terms):
        own = index.lists[subscriptions.terms[i]]
        if own.n_groups > 0:
            if has_outgrown(own, shape) and not rebuild(index, subscriptions.terms[i], shape):
                return False
            n_postings += block_room(block_class(own.n + 1))
        else:
            n_postings += 1
    if index.posting_blocks[USED] + n_postings > index.postings.size:
        return False
    return index.group_blocks[USED] + row.n_terms <= index.groups.size


@kernel
def file_many(index, slots, first, subscriptions, idf, buffers, shape):
    """File subscriptions from position `first` on; returns the position at which there was no room."""
    terms, counts = subscriptions.terms, subscriptions.counts
    for i in range(first, slots.size):
        slot = slots[i]
        if not make_ready(index, subscriptions, slot, shape):
            return i
        row, scale = subscriptions.rows[slot], subscriptions.scales[slot]
        face = index.faces[slot]
        face_of(face, row, scale, buffers[slot].floor, shape.metric)
        code = code_of(face, shape)
        for j in range(row.term_start, row.term_start + row.n_terms):
            file_posting(index, slot, terms[j], code, rest_of(terms, counts, row, scale, idf, j))
    return slots.size


@kernel
def unfile_many(index, slots, subscriptions, shape):
    """Take subscriptions out; words that have shrunk are cut anew where there is room."""
    for slot in slots:
        row = subscriptions.rows[slot]
        code = code_of(index.faces[slot], shape)
        for i in range(row.term_start, row.term_start + row.n_terms):
            term = subscriptions.terms[i]
            n_left = unfile_posting(index, slot, term, code)
            own = index.lists[term]
            if n_left > 0 and own.built > group_size(shape) and n_left * _GROWTH * _GROWTH <= own.built:
                rebuild(index, term, shape)
