"""Reads the candidates of a leaf from its lists, and filters them by later words as long as that pays: kernels.

A candidate is met first by its heaviest shared word. Its entry holds the bound on its place and the number of levels
that it closes. These steps need no more; members are not looked at.

STAMP algorithms 1 to 3.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from nearcast.columns.arena import Array, Longs
from nearcast.engines.similar.build import find_list, place_of
from nearcast.engines.similar.layout import (
    BOUND_SHIFT,
    INSIDE_SHIFT,
    LOCAL_MASK,
    MET_BY_STAR,
    MOST_LEVELS,
    N_ACCESSED,
    N_FILTERED,
    N_VERIFIED,
    NO_TERM,
    OUTSIDE_SHIFT,
    StampLayout,
    StampScratch,
)
from nearcast.jit import kernel, prefetch

COST, VERIFY, FILTER = range(3)  # strategies, as kernels take them

_VERIFY_COST = 6  # what verifying a candidate costs, if reading an entry costs 1
_MOST_COUNTED = 200  # words; a count that stays here is still above every level


@kernel
def read_part(
    entries: Array, start: int, n: int, reach: int, mark: int, n_chosen: int, chosen: Longs, counts: Array
) -> tuple[int, int]:
    """Read a part of a list up to the first bound out of reach; returns the entries read and all candidates so far.

    `mark` is added to the entries of new candidates.
    """
    for i in range(n):
        entry = np.int64(entries[start + i])
        if entry >> BOUND_SHIFT > reach:
            return i, n_chosen
        local = entry & LOCAL_MASK
        if counts[local] == 0:
            chosen[n_chosen] = entry + mark
            n_chosen += 1
        if counts[local] < _MOST_COUNTED:
            counts[local] += 1
    return n, n_chosen


@kernel
def read_lists(index: StampLayout, leaf: Any, reach: int, is_inside: bool, scratch: StampScratch) -> int:
    """Write the candidates that the words of a message, and the dummy word, have in a leaf; returns their number.

    Words come heaviest first, so a candidate is met first by its first shared word, whose bound counts.

    Paper: [STAMP] algorithms 1 and 2; line 20 of algorithm 2 means the region-aware list.
    Departs: lists are sorted by bound and left where no member of the region can be near enough.
    """
    n_chosen = 0
    n_accessed = 0
    lists, tokens, n_terms, n_lists = index.lists, scratch.tokens, scratch.probe[0].n_terms, leaf.n_lists
    for i in range(n_terms):
        prefetch(lists, leaf.list_start + place_of(tokens[i].term, n_lists))
    for i in range(n_terms):
        token = tokens[i]
        token.at = -1
        if n_lists == 0:
            continue
        at = find_list(lists, leaf.list_start, n_lists, token.term)
        found = lists[at]
        if found.term == NO_TERM:
            continue
        token.at, token.n_outside, token.n_inside, token.n_later = at, 0, 0, 0
        if found.least > reach:
            continue
        start = leaf.entry_start + found.start
        token.n_outside, n_chosen = read_part(
            index.entries, start, found.n_outside, reach, 0, n_chosen, scratch.chosen, scratch.counts
        )
        if is_inside:
            token.n_inside, n_chosen = read_part(
                index.entries,
                start + found.n_outside,
                found.n_inside,
                reach,
                0,
                n_chosen,
                scratch.chosen,
                scratch.counts,
            )
        n_accessed += token.n_outside + token.n_inside
    start = leaf.entry_start
    n_outside, n_chosen = read_part(
        index.entries, start, leaf.star_outside, reach, MET_BY_STAR, n_chosen, scratch.chosen, scratch.counts
    )
    n_inside = 0
    if is_inside:
        n_inside, n_chosen = read_part(
            index.entries,
            start + leaf.star_outside,
            leaf.star_inside,
            reach,
            MET_BY_STAR,
            n_chosen,
            scratch.chosen,
            scratch.counts,
        )
    scratch.counters[N_ACCESSED] += n_accessed + n_outside + n_inside
    return n_chosen


@kernel
def count_part(entries: Array, start: int, end: int, counts: Array) -> None:
    """Count a word for every candidate among these entries."""
    for i in range(start, end):
        local = np.int64(entries[i]) & LOCAL_MASK
        if 0 < counts[local] < _MOST_COUNTED:
            counts[local] += 1


@kernel
def n_droppable(chosen: Longs, n_chosen: int, counts: Array, level: int, shift: int) -> int:
    """How many candidates are dropped at this level unless another shared word turns up."""
    n = 0
    for i in range(n_chosen):
        entry = chosen[i]
        if (entry >> shift) & MOST_LEVELS >= level and counts[entry & LOCAL_MASK] <= level:
            n += 1
    return n


@kernel
def level_work(index: StampLayout, leaf: Any, level: int, scratch: StampScratch) -> tuple[int, float]:
    """How many entries must be read to have counted all words up to this level, and the part that they are of all."""
    n, n_later = 0, 0
    for i in range(scratch.probe[0].n_terms):
        token = scratch.tokens[i]
        if token.at >= 0:
            found = index.lists[token.at]
            if level == 1:
                n += found.n_outside - token.n_outside + found.n_inside - token.n_inside
            n_later += found.n_later - token.n_later
    return n + n_later, n_later / max(1, leaf.n_later)


@kernel
def read_level(index: StampLayout, leaf: Any, level: int, scratch: StampScratch) -> None:
    """Count the later words of one level; before the first, the rest of the prefixes too."""
    n_accessed = 0
    for i in range(scratch.probe[0].n_terms):
        token = scratch.tokens[i]
        if token.at < 0:
            continue
        found = index.lists[token.at]
        start = leaf.entry_start + found.start
        if level == 1:
            middle, end = start + found.n_outside, start + found.n_outside + found.n_inside
            count_part(index.entries, start + token.n_outside, middle, scratch.counts)
            count_part(index.entries, middle + token.n_inside, end, scratch.counts)
            n_accessed += end - start - token.n_outside - token.n_inside
        start += found.n_outside + found.n_inside
        first = token.n_later
        while token.n_later < found.n_later and index.entries[start + token.n_later] >> BOUND_SHIFT <= level:
            token.n_later += 1
        count_part(index.entries, start + first, start + token.n_later, scratch.counts)
        n_accessed += token.n_later - first
    scratch.counters[N_ACCESSED] += n_accessed


@kernel
def filter_by_levels(index: StampLayout, leaf: Any, is_inside: bool, n_chosen: int, scratch: StampScratch) -> int:
    """Drop candidates that share too few words, level by level, as long as that costs less than to verify them.

    Paper: [STAMP] section V-B, and V-C for the costs.
    Departs: a candidate is dropped by the number of its shared words alone; see `close_levels`. A word of the prefix
    that was not read, because it is no reason to look at the subscription, is counted before the first level. A
    candidate costs as much as six entries, and only those that a level can drop count.
    """
    chosen, counts, strategy = scratch.chosen, scratch.counts, scratch.probe[0].strategy
    shift = INSIDE_SHIFT if is_inside else OUTSIDE_SHIFT
    filtered = False
    for level in range(1, MOST_LEVELS + 1):
        n_open = n_droppable(chosen, n_chosen, counts, level, shift)
        if n_open == 0:
            break
        if strategy != FILTER:
            n_work, part = level_work(index, leaf, level, scratch)
            if _VERIFY_COST * n_open <= n_work + _VERIFY_COST * n_open * part:
                break
        filtered = True
        read_level(index, leaf, level, scratch)
        n_kept = 0
        for i in range(n_chosen):
            entry = chosen[i]
            if (entry >> shift) & MOST_LEVELS >= level and counts[entry & LOCAL_MASK] <= level:
                counts[entry & LOCAL_MASK] = 0
            else:
                chosen[n_kept] = entry
                n_kept += 1
        n_chosen = n_kept
    scratch.counters[N_FILTERED if filtered else N_VERIFIED] += 1
    return n_chosen
