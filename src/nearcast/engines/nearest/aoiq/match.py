"""Finds pairs of arrival and subscription that may match: each block is scanned once for all arrivals of a batch.

CkQST section 3.5.

Prefixes, lists, entries and boxes lie anywhere in memory. A message therefore goes through them in stages, all of its
words at once, and each stage has fetched what the next one reads.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from nearcast.columns.arena import Array, Ints, Longs
from nearcast.engines.nearest.aoiq.layout import (
    CANDIDATES,
    CHILDREN,
    HISTOGRAM,
    N_DEAD,
    N_SEEN,
    NOTHING,
    PROBED,
    SINGLE,
    TOUCHED,
    UNLINKED,
    UNRANKED,
    EventRange,
    Habits,
    Node,
    TreeLayout,
    TreeShape,
    first_cell,
    home_of,
    node_code,
    pair_key,
    place_of,
)
from nearcast.engines.nearest.search_range import NO_WORD
from nearcast.held import opened
from nearcast.jit import NEED_ROOM, allocating, kernel, prefetch
from nearcast.space.cells import cell_index
from nearcast.space.distance import EUCLIDEAN, wrap
from nearcast.window.read_ahead import prefetch_record

_AHEAD = 8  # units, and entries of a block, between the steps of reading ahead


@kernel
def count_message(
    tree: TreeLayout, habits: Habits, x: float, y: float, bounds: tuple[float, float, float, float]
) -> None:
    """Count a message in the cell of each level."""
    column = cell_index(bounds[0], bounds[2], 1 << HISTOGRAM, x)
    row = cell_index(bounds[1], bounds[3], 1 << HISTOGRAM, y)
    for level in range(HISTOGRAM + 1):
        up = HISTOGRAM - level
        habits.cells[first_cell(level) + ((row >> up) << level) + (column >> up)] += 1
    tree.heads[N_SEEN] += 1


@kernel
def order_words(messages: Any, message: Any, habits: Habits, words: Ints, ranks: Ints) -> int:
    """Write the words of a message that somebody asks for, in their order; returns how many. Counts all words."""
    n = 0
    for i in range(message.term_start, message.term_start + message.n_terms):
        term = messages.terms[i]
        if term >= habits.ranks.size:
            continue
        habits.seen[term] += 1
        rank = habits.ranks[term]
        if rank == UNRANKED:
            continue
        at = n
        n += 1
        while at > 0 and ranks[at - 1] > rank:
            words[at], ranks[at] = words[at - 1], ranks[at - 1]
            at -= 1
        words[at], ranks[at] = term, rank
    return n


@allocating
def find_prefixes(tree: TreeLayout, words: Ints, n_prefix: int, queue: Longs) -> tuple[Longs, int]:
    """Write prefix << 32 | position of its last word for all prefixes that a message holds; returns queue and number.

    The queue has room for all words, and may come back as a larger one.
    """
    firsts, prefixes, keys, ids = tree.firsts, tree.prefixes, tree.prefix_keys, tree.prefix_ids
    n = first = 0
    for i in range(words.size):
        prefetch(firsts, words[i])
    for i in range(words.size):
        if firsts[words[i]] != NOTHING:
            prefetch(prefixes, firsts[words[i]])
            queue[n] = np.int64(firsts[words[i]]) << 32 | i
            n += 1
    for _ in range(1, n_prefix):
        end = n
        for at in range(first, end):
            prefix, following = queue[at] >> 32, (queue[at] & 0xFFFFFFFF) + 1
            if prefixes[prefix].levels & CHILDREN == 0:
                continue
            if n + words.size > queue.size:
                larger = np.empty(2 * (n + words.size), dtype=np.int64)
                for i in range(n):  # a slice would bring its error message along: a second of compiling
                    larger[i] = queue[i]
                queue = larger
            for i in range(following, words.size):
                prefetch(keys, home_of(keys, pair_key(prefix, words[i])))
            for i in range(following, words.size):
                place = place_of(keys, pair_key(prefix, words[i]))
                if keys[place] != 0:
                    prefetch(prefixes, ids[place])
                    queue[n] = np.int64(ids[place]) << 32 | i
                    n += 1
        first = end
    return queue, n


@kernel
def find_lists(tree: TreeLayout, lowest: Node, queue: Longs, n: int, probes: Array) -> int:
    """Write the head of each list of these prefixes, and where its prefix is in the queue; returns how many.

    `lowest` is the deepest node around the message. `probes` has two columns and room for all levels.
    """
    column, row, height = lowest.column, lowest.row, lowest.level
    prefixes, keys, list_heads, blocks = tree.prefixes, tree.list_keys, tree.list_heads, tree.blocks
    n_probes = 0
    for i in range(n):
        prefix = queue[i] >> 32
        prefixes[prefix].hits += 1
        levels, level = prefixes[prefix].levels & ~CHILDREN, 0
        while levels >> level:
            if levels >> level & 1:
                up = height - level
                key = pair_key(node_code(level, column >> up, row >> up), prefix)
                prefetch(keys, home_of(keys, key))
                probes[n_probes, 0], probes[n_probes, 1] = key, i
                n_probes += 1
            level += 1
    n_found = 0
    for i in range(n_probes):
        found = place_of(keys, probes[i, 0])
        if keys[found] != 0:  # two in three are not there
            prefetch(list_heads, found)
            probes[n_found, 0], probes[n_found, 1] = found, probes[i, 1]
            n_found += 1
    for i in range(n_found):
        probes[i, 0] = list_heads[probes[i, 0]]
        prefetch(blocks, probes[i, 0])
    tree.heads[PROBED] += n_probes
    return n_found


@kernel
def add_blocks(tree: TreeLayout, probes: Array, queue: Longs, ranks: Ints, units: Longs, n: int, event: int) -> int:
    """Write block << 32 | event for the blocks of lists that concern a message; returns how many, `n` included.

    `ranks` are those of all words of the message. Room for all must be there, or NEED_ROOM is returned. A list of one
    entry is written with that entry instead of a block.

    Paper: [CKQST] section 3.2, theorems 1 and 2: only intervals that hold a word of the message.
    """
    blocks = tree.blocks
    for i in range(probes.shape[0]):
        at, following = probes[i, 0], (queue[probes[i, 1]] & 0xFFFFFFFF) + 1
        if at < 0:
            if n == units.size:
                return NEED_ROOM
            units[n] = (~at | SINGLE) << 32 | np.int64(event)
            n += 1
            continue
        while at != NOTHING:
            block = blocks[at]
            if block.low != UNRANKED:
                while following < ranks.size and ranks[following] < block.low:
                    following += 1
                if following == ranks.size:
                    break
            if block.n_rows > 0 and (block.low == UNRANKED or ranks[following] <= block.high):
                if n == units.size:
                    return NEED_ROOM
                units[n] = np.int64(at) << 32 | np.int64(event)
                n += 1
            at = np.int64(block.next)
    return n


@allocating
def collect_many(
    tree: TreeLayout,
    habits: Habits,
    steps: Any,
    events: EventRange,
    messages: Any,
    space: Any,
    shape: TreeShape,
    units: Longs,
) -> int:
    """Write block << 32 | event for all blocks that the arrivals of these events concern; returns how many.

    Returns NEED_ROOM, with nothing counted twice but the messages that were looked up so far, if `units` is too small.

    Paper: [CKQST] section 3.5, objects grouped by the blocks that they are verified with.
    """
    metric, bounds, height = space.metric, space.bounds, shape.height
    n, side = 0, 1 << height
    words, ranks = np.empty(0, dtype=np.int32), np.empty(0, dtype=np.int32)
    queue, probes = np.empty(256, dtype=np.int64), np.empty((1024, 2), dtype=np.int64)
    for event in range(events.first, events.end):
        if steps.arrivals[event] < 0:
            continue
        message = messages.rows[steps.arrivals[event]]
        if message.n_terms > words.size:
            words, ranks = np.empty(2 * message.n_terms, np.int32), np.empty(2 * message.n_terms, np.int32)
        x = message.x if metric == EUCLIDEAN else wrap(message.x)
        count_message(tree, habits, x, message.y, bounds)
        n_words = order_words(messages, message, habits, words, ranks)
        column, row = cell_index(bounds[0], bounds[2], side, x), cell_index(bounds[1], bounds[3], side, message.y)
        if n_words > queue.size:
            queue = np.empty(2 * n_words, dtype=np.int64)
        queue, n_found = find_prefixes(tree, words[:n_words], shape.n_prefix, queue)
        if n_found * (height + 1) > probes.shape[0]:
            probes = np.empty((2 * n_found * (height + 1), 2), dtype=np.int64)
        n_found = find_lists(tree, Node(height, column, row), queue, n_found, probes)
        n = add_blocks(tree, probes[:n_found], queue, ranks[:n_words], units, n, event)
        if n == NEED_ROOM:
            return NEED_ROOM
    return n


@kernel
def holds(messages: Any, message: Any, word: int) -> bool:
    """Does a message hold a word?"""
    for i in range(message.term_start, message.term_start + message.n_terms):
        if messages.terms[i] == word:
            return True
    return False


@kernel
def fetch_ahead(blocks: Array, entries: Array, filed: Array, units: Longs, first: int) -> None:
    """Have read ahead what the units after `first` will touch."""
    if first + 3 * _AHEAD < units.size:
        at = units[first + 3 * _AHEAD] >> 32
        if at & SINGLE:
            prefetch(entries, at & ~SINGLE)
        else:
            prefetch_record(blocks, at)
    if first + 2 * _AHEAD < units.size:
        at = units[first + 2 * _AHEAD] >> 32
        if at & SINGLE:
            prefetch_record(filed, entries[at & ~SINGLE].slot)
        else:
            prefetch(entries, blocks[at].start)
    if first + _AHEAD < units.size:
        at = units[first + _AHEAD] >> 32
        if at & SINGLE == 0:
            start = blocks[at].start
            for i in range(start, start + min(_AHEAD, blocks[at].n_rows)):
                prefetch_record(filed, entries[i].slot)


@kernel
def scan_blocks(
    tree: TreeLayout, filed: Array, steps: Any, messages: Any, metric: int, units: Longs, pairs: Longs, n: int
) -> int:
    """Write event << 32 | slot for all in these blocks whose box and next word fit; returns how many with those before.

    `units` are sorted, so that a block comes once with all its events. Dead entries of blocks are removed. Returns
    NEED_ROOM if `pairs` is too small; then it can be called again.

    Paper: [CKQST] section 3.5, algorithm 2.
    Departs: rows of a block are not sorted by their next word, since they lie side by side and looking at each costs
    less than keeping order; the next word is looked for in the message, so that no pair is reported twice.
    """
    heads, blocks, entries = tree.heads, tree.blocks, tree.entries
    first = begun = 0
    n_before, n_touched = n, 0
    while first < units.size:
        at = units[first] >> 32
        end = first + 1
        while end < units.size and units[end] >> 32 == at:
            end += 1
        while begun < end:
            fetch_ahead(blocks, entries, filed, units, begun)
            begun += 1
        single = at & SINGLE != 0
        i = at & ~SINGLE if single else np.int64(blocks[at].start)
        stop = i + 1 if single else i + blocks[at].n_rows
        while i < stop:
            if i + _AHEAD < stop:
                prefetch_record(filed, entries[i + _AHEAD].slot)
            slot = entries[i].slot
            own = filed[slot]
            n_touched += 1
            if own.generation != entries[i].generation:
                if single:
                    break
                stop -= 1
                blocks[at].n_rows -= 1
                entries[i].slot, entries[i].generation = entries[stop].slot, entries[stop].generation
                heads[N_DEAD] -= 1
                heads[UNLINKED] += 1
                continue
            for u in range(first, end):
                event = units[u] & 0xFFFFFFFF
                message = messages.rows[steps.arrivals[event]]
                x = message.x if metric == EUCLIDEAN else wrap(message.x)
                if not (own.x0 <= x <= own.x1 and own.y0 <= message.y <= own.y1):
                    continue
                if own.word != NO_WORD and not holds(messages, message, own.word):
                    continue
                if n == pairs.size:
                    return NEED_ROOM
                pairs[n] = np.int64(event) << 32 | np.int64(slot)
                n += 1
            i += 1
        first = end
    heads[TOUCHED] += n_touched
    heads[CANDIDATES] += n - n_before
    return n


class FindCall(NamedTuple):
    """All that `collect_many` and `scan_blocks` read and write."""

    tree: TreeLayout
    habits: Habits
    filed: Array  # FILED[]
    steps: Any
    messages: Any
    space: Any
    shape: TreeShape
    units: Longs
    pairs: Longs


@allocating
def collect_held(held: Any, first: int, end: int) -> int:
    """`collect_many` for a `Held` call."""
    call = opened(held)
    events = EventRange(first, end)
    return collect_many(call.tree, call.habits, call.steps, events, call.messages, call.space, call.shape, call.units)


@kernel
def scan_held(held: Any, n_units: int, n: int) -> int:
    """`scan_blocks` for a `Held` call, of its first units."""
    call = opened(held)
    units, metric = call.units[:n_units], call.space.metric
    return scan_blocks(call.tree, call.filed, call.steps, call.messages, metric, units, call.pairs, n)
