"""Arrivals against the tree: who matches, and which leaves a message came to."""

from __future__ import annotations

import math
from typing import NamedTuple

from nearcast.columns.arena import Floats, Ints, Longs
from nearcast.columns.scores import gather, scatter
from nearcast.engines.checks import within_matches
from nearcast.engines.within.grid import cell_of
from nearcast.engines.within.layout import (
    KEYWORD,
    MANY,
    MORTAL,
    N_WORDS,
    NOTHING,
    PLAIN,
    UNRANKED,
)
from nearcast.engines.within.trace import cut_of
from nearcast.jit import NEED_ROOM, kernel, prefetch
from nearcast.space.distance import HAVERSINE, wrap

VISITED_NODES, VISITED_LEAVES, TOUCHED, CANDIDATES, VERIFIED, MATCHED = range(6)  # positions in `counters`
N_COUNTERS = 6
_BLUR = 2.4e-7  # a float32 box is off by less than this share of the coordinate: beyond it, the inline check is exact
_MOST_FETCHED = 48  # entries
_TINY = 1e-37  # and by less than this near zero


class Match(NamedTuple):
    """Scratch and room of matching."""

    words: Ints  # int32[]: ranks of the message's words, increasing
    nodes: Ints  # int32[]: nodes still to visit
    etas: Ints  # int32[]: beside them, how many words are used up
    settled: Ints  # int32[]: and how many words of the entries there need no check
    leaves: Ints  # int32[]: parts of the leaves to scan
    sure: Ints  # int32[]: beside them, how many words of the entries there need no check
    found: Longs  # int64[]: positions of entries that passed the inline check; as long as `slots`
    dense: Floats  # float64[n_terms]: the words of the message, zeros between calls
    stamps: Longs  # int64[n_slots]: the last message that a subscription of several clauses was found for
    events: Ints  # int32[]: out: the event of each match
    slots: Ints  # int32[]: out: the subscription
    visits: Ints  # int32[]: out: parts of the leaves that messages came to
    visit_start: Longs  # int64[n_events + 1]: out: where those of each event begin
    counters: Longs  # int64[N_COUNTERS]


@kernel
def rank_message(messages, message, ranks, words):
    """Write the ranks of a message's words that somebody asks for, increasing; returns how many."""
    n = 0
    for i in range(message.term_start, message.term_start + message.n_terms):
        rank = ranks[messages.terms[i]]
        if rank != UNRANKED:
            words[n] = rank
            n += 1
    if n > 24:
        words[:n].sort()
        return n
    for i in range(1, n):
        rank, j = words[i], i
        while j > 0 and words[j - 1] > rank:
            words[j] = words[j - 1]
            j -= 1
        words[j] = rank
    return n


@kernel
def fetch_leaf(held, start, n_rows):
    """The entries of a leaf will be scanned soon: ask memory for all of them at once."""
    for at in range(start, start + min(n_rows, _MOST_FETCHED), 2):
        prefetch(held, at)


@kernel
def find_leaves(tree, x, y, n_words, room):
    """Write the parts of the leaves that a message at (x, y) with the ranked words comes to; how many, or NEED_ROOM.

    Beside each stands how many words of an entry there are settled: those that single words on the way led past.

    Paper: [APTREE] section 3.2.3, algorithm 1.
    Departs: a cut of several words may have a child for the same offset again; it begins at the word that hit.
    """
    nodes, etas, settled, leaves, sure, words = room.nodes, room.etas, room.settled, room.leaves, room.sure, room.words
    parts, highs, lines, held = tree.parts, tree.highs, tree.lines, tree.held
    n_leaves, n, n_visited = 0, 0, 0
    child = parts[0].child
    if child >= 0:
        nodes[0], etas[0], settled[0], n = child, 0, 0, 1
    elif child != NOTHING:
        leaves[0], sure[0], n_leaves = 0, 0, 1
    while n > 0:
        if max(n, n_leaves) + n_words + 2 > leaves.size:
            return NEED_ROOM
        n -= 1
        node, eta, n_sure = tree.nodes[nodes[n]], etas[n], settled[n]
        n_visited += 1
        first = node.first
        at = first
        if node.kind != KEYWORD:
            at += 1 + cell_of(lines, first, node.n_columns - 1, x)
            n_y = node.n_parts // node.n_columns - 1
            at += cell_of(lines, first + node.n_columns - 1, n_y, y) * node.n_columns
            child = parts[at].child
            if child >= 0:
                prefetch(tree.nodes, child)
                nodes[n], etas[n], settled[n] = child, eta, n_sure
                n += 1
            elif child != NOTHING:
                fetch_leaf(held, parts[at].start, parts[at].now)
                leaves[n_leaves], sure[n_leaves] = at, n_sure
                n_leaves += 1
        else:
            for i in range(eta, n_words):
                cut = first + 1 + cut_of(highs, first + 1, node.n_parts, words[i])
                if cut == at or not parts[cut].low <= words[i] <= parts[cut].high:
                    continue
                at = cut
                child = parts[at].child
                n_more = 1 if parts[at].low == parts[at].high and n_sure == node.offset else 0
                if child >= 0:
                    prefetch(tree.nodes, child)
                    nodes[n], etas[n] = child, i + (tree.nodes[child].offset > node.offset)
                    settled[n] = n_sure + n_more
                    n += 1
                elif child != NOTHING:
                    fetch_leaf(held, parts[at].start, parts[at].now)
                    leaves[n_leaves], sure[n_leaves] = at, n_sure + n_more
                    n_leaves += 1
        child = parts[first].child
        if child >= 0:
            nodes[n], etas[n], settled[n] = child, eta, n_sure
            n += 1
        elif child != NOTHING:
            fetch_leaf(held, parts[first].start, parts[first].now)
            leaves[n_leaves], sure[n_leaves] = first, n_sure
            n_leaves += 1
    room.counters[VISITED_NODES] += n_visited
    return n_leaves


@kernel
def scan_leaves(parts, held, words, leaves, sure, n_leaves, x, y, dense, found):
    """Write the positions of entries whose box holds (x, y) and whose inline words the message has; returns how many.

    An `x` that is NaN passes every box.
    """
    n = 0
    for i in range(n_leaves):
        part = parts[leaves[i]]
        first = n
        for at in range(part.start, part.start + part.now):
            entry = held[at]
            found[n] = at
            n += not ((x < entry.x0) | (x > entry.x1) | (y < entry.y0) | (y > entry.y1))
        end, n = n, first
        for j in range(first, end):
            at = found[j]
            holds = True
            for word in range(4 * at + sure[i], 4 * at + (held[at].tags >> N_WORDS)):
                if dense[words[word]] == 0.0:
                    holds = False
                    break
            found[n] = at
            n += holds
    return n


@kernel
def decide(held, found, n_found, x, message, event, clock, subscriptions, where, room, n):
    """Append the subscriptions of the entries found that match to the `n` so far; returns how many then.

    An entry decides alone where it can: what lies within float32's blur of a box, circles, polygons and negated words
    are left to the exact check.
    """
    for i in range(n_found):
        entry, y = held[found[i]], message.y
        tags, slot = entry.tags, entry.slot
        if tags & MORTAL and subscriptions.rows[slot].expires <= clock:
            continue
        if not (
            tags & PLAIN
            and x - entry.x0 > abs(entry.x0) * _BLUR + _TINY
            and entry.x1 - x > abs(entry.x1) * _BLUR + _TINY
            and y - entry.y0 > abs(entry.y0) * _BLUR + _TINY
            and entry.y1 - y > abs(entry.y1) * _BLUR + _TINY
        ):
            room.counters[VERIFIED] += 1
            if not within_matches(subscriptions, slot, message, where, room.dense):
                continue
        if tags & MANY:
            if room.stamps[slot] == message.sequence:
                continue
            room.stamps[slot] = message.sequence
        room.events[n], room.slots[n] = event, slot
        n += 1
    return n


@kernel
def drop_doubles(slots, first, middle, n):
    """Keep of slots[middle:n] only what does not stand in slots[first:middle]; returns the new end."""
    end = middle
    for i in range(middle, n):
        double = False
        for j in range(first, middle):
            double = double or slots[j] == slots[i]
        if not double:
            slots[end] = slots[i]
            end += 1
    return end


@kernel
def match_many(tree, ranks, steps, first, messages, subscriptions, where, idf, room):
    """Write who matches the arrivals from event `first` on; returns the event to go on with, and how many matches.

    Stops before an event for which room may not suffice: ask again from there on, with more if nothing was done.
    """
    n, n_visits = 0, 0
    for event in range(first, steps.arrivals.size):
        room.visit_start[event] = n_visits
        if steps.arrivals[event] < 0:
            continue
        message = messages.rows[steps.arrivals[event]]
        n_words = rank_message(messages, message, ranks, room.words)
        scatter(messages.terms, messages.counts, message.term_start, message.n_terms, idf, room.dense)
        # Circles are filed by wrapped longitudes, boxes and polygons by given ones: where they differ, look under both.
        n_turns = 2 if where[0] == HAVERSINE and not -180.0 <= message.x < 180.0 else 1
        before, fits = n, True
        for turn in range(n_turns):
            n_leaves = find_leaves(tree, wrap(message.x) if turn else message.x, message.y, n_words, room)
            n_rows, middle = 0, n
            for i in range(n_leaves):
                n_rows += tree.parts[room.leaves[i]].now
            fits = n_leaves >= 0 and n + n_rows < room.slots.size and n_visits + n_leaves <= room.visits.size
            if not fits:
                break
            x = math.nan if n_turns == 2 else message.x
            n_found = scan_leaves(
                tree.parts,
                tree.held,
                tree.words,
                room.leaves,
                room.sure,
                n_leaves,
                x,
                message.y,
                room.dense,
                room.found,
            )
            n = decide(
                tree.held, room.found, n_found, x, message, event, steps.clocks[event], subscriptions, where, room, n
            )
            if turn == 1:
                n = drop_doubles(room.slots, before, middle, n)
            room.visits[n_visits : n_visits + n_leaves] = room.leaves[:n_leaves]
            n_visits += n_leaves
            room.counters[VISITED_LEAVES] += n_leaves
            room.counters[TOUCHED] += n_rows
            room.counters[CANDIDATES] += n_found
        gather(messages.terms, message.term_start, message.n_terms, room.dense)
        if not fits:
            room.counters[MATCHED] += before
            return event, before
    room.visit_start[steps.arrivals.size] = n_visits
    room.counters[MATCHED] += n
    return steps.arrivals.size, n
