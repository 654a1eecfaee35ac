"""Arriving messages look up the blocks that concern them; each block is scanned once for all of them."""

from __future__ import annotations

import numpy as np

from nearcast.engines.nearest_all.layout import (
    CANDIDATES,
    CHILDREN,
    HISTOGRAM,
    MOST_WORDS,
    N_DEAD,
    N_SEEN,
    NOTHING,
    PROBED,
    TOUCHED,
    UNLINKED,
    UNRANKED,
    first_cell,
    node_code,
    pair_key,
    place_of,
)
from nearcast.engines.reach import NO_WORD
from nearcast.jit import NEED_ROOM, kernel
from nearcast.space.cells import cell_index
from nearcast.space.distance import EUCLIDEAN, wrap


@kernel
def note(tree, habits, x, y, bounds):
    """Count a message in the cell of each level."""
    column = cell_index(bounds[0], bounds[2], 1 << HISTOGRAM, x)
    row = cell_index(bounds[1], bounds[3], 1 << HISTOGRAM, y)
    for level in range(HISTOGRAM + 1):
        up = HISTOGRAM - level
        habits.cells[first_cell(level) + ((row >> up) << level) + (column >> up)] += 1
    tree.heads[N_SEEN] += 1


@kernel
def order_words(messages, message, habits, words, ranks):
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


@kernel
def add_blocks(tree, prefix, last, ranks, place, units, n, event):
    """Write block << 32 | event for the blocks of a prefix that concern a message; returns how many, `n` included.

    `last` is the position of the prefix's last word in the message, `ranks` are those of all its words; `place` is
    column, row and height. Room for all must be there, or NEED_ROOM is returned.

    Paper: [CKQST] section 3.2, theorems 1 and 2: only intervals that hold a word of the message.
    """
    column, row, height = place
    levels = tree.prefixes[prefix].levels & ~CHILDREN
    blocks, level = tree.blocks, 0
    while levels >> level:
        if levels >> level & 1:
            up = height - level
            key = pair_key(node_code(level, column >> up, row >> up), prefix)
            tree.heads[PROBED] += 1
            found = place_of(tree.list_keys, key)
            at = tree.list_heads[found] if tree.list_keys[found] != 0 else NOTHING
            following = last + 1
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
                at = block.next
        level += 1
    return n


@kernel
def look_up(tree, words, ranks, place, n_prefix, units, n, event):
    """`add_blocks` for every prefix of up to `n_prefix` words of a message that somebody is filed under."""
    position = np.zeros(MOST_WORDS, dtype=np.int64)  # of the word at each depth
    prefix = np.zeros(MOST_WORDS + 1, dtype=np.int64)  # that leads to each depth
    depth = 0
    while depth >= 0:
        at = position[depth]
        if at == words.size:
            depth -= 1
            continue
        position[depth] = at + 1
        if depth == 0:
            found = tree.firsts[words[at]]
        else:
            key = pair_key(prefix[depth], words[at])
            where = place_of(tree.prefix_keys, key)
            found = tree.prefix_ids[where] if tree.prefix_keys[where] != 0 else NOTHING
        if found == NOTHING:
            continue
        tree.prefixes[found].hits += 1
        n = add_blocks(tree, found, at, ranks, place, units, n, event)
        if n == NEED_ROOM:
            return NEED_ROOM
        if depth + 1 < n_prefix and tree.prefixes[found].levels & CHILDREN:
            depth += 1
            prefix[depth], position[depth] = found, at + 1
    return n


@kernel
def collect_many(tree, habits, steps, events, messages, where, settings, units):
    """Write block << 32 | event for all blocks that the arrivals of these events concern; returns how many.

    `events` is the first and the one after the last. Returns NEED_ROOM, with nothing counted twice but the messages
    that were looked up so far, if `units` is too small.

    Paper: [CKQST] section 3.5, objects grouped by the blocks that they are verified with.
    """
    metric, bounds = where
    n_prefix, height, _ = settings
    n, side = 0, 1 << height
    words, ranks = np.empty(0, dtype=np.int32), np.empty(0, dtype=np.int32)
    for event in range(events[0], events[1]):
        if steps.arrivals[event] < 0:
            continue
        message = messages.rows[steps.arrivals[event]]
        if message.n_terms > words.size:
            words, ranks = np.empty(2 * message.n_terms, np.int32), np.empty(2 * message.n_terms, np.int32)
        x = message.x if metric == EUCLIDEAN else wrap(message.x)
        note(tree, habits, x, message.y, bounds)
        n_words = order_words(messages, message, habits, words, ranks)
        place = (cell_index(bounds[0], bounds[2], side, x), cell_index(bounds[1], bounds[3], side, message.y), height)
        n = look_up(tree, words[:n_words], ranks[:n_words], place, n_prefix, units, n, event)
        if n == NEED_ROOM:
            return NEED_ROOM
    return n


@kernel
def holds(messages, message, word):
    """Does a message hold a word?"""
    for i in range(message.term_start, message.term_start + message.n_terms):
        if messages.terms[i] == word:
            return True
    return False


@kernel
def scan_blocks(tree, filed, steps, messages, metric, units, pairs, n):
    """Write event << 32 | slot for all in these blocks whose box and next word fit; returns how many with those before.

    `units` are sorted, so that a block comes once with all its events. Dead entries are removed. Returns NEED_ROOM if
    `pairs` is too small; then it can be called again.

    Paper: [CKQST] section 3.5, algorithm 2.
    Departs: rows of a block are not sorted by their next word, since they lie side by side and looking at each costs
    less than keeping order; the next word is looked for in the message, so that no pair is reported twice.
    """
    heads, entries = tree.heads, tree.entries
    first = 0
    while first < units.size:
        at = units[first] >> 32
        end = first + 1
        while end < units.size and units[end] >> 32 == at:
            end += 1
        block = tree.blocks[at]
        i = block.start
        while i < block.start + block.n_rows:
            slot = entries[i].slot
            own = filed[slot]
            heads[TOUCHED] += 1
            if own.generation != entries[i].generation:
                block.n_rows -= 1
                last = entries[block.start + block.n_rows]
                entries[i].slot, entries[i].generation = last.slot, last.generation
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
                heads[CANDIDATES] += 1
            i += 1
        first = end
    return n
