"""Arrivals against the tree: who matches, and which leaves a message came to."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from nearcast.columns.arena import Floats, Ints, Longs
from nearcast.columns.scores import gather, scatter
from nearcast.engines.checks import within_matches
from nearcast.engines.within.grid import cell_of
from nearcast.engines.within.layout import (
    BLUR,
    COVERED,
    KEYWORD,
    MANY,
    MORTAL,
    N_WORDS,
    NOTHING,
    PLAIN,
    ROOT,
    TINY,
    UNRANKED,
    VERSION,
)
from nearcast.engines.within.trace import cut_of
from nearcast.jit import NEED_ROOM, kernel, prefetch
from nearcast.space.distance import HAVERSINE, wrap

VISITED_NODES, VISITED_LEAVES, TOUCHED, CANDIDATES, VERIFIED, MATCHED = range(6)  # positions in `counters`
N_COUNTERS = 6
_MOST_FETCHED = 48  # entries


class Match(NamedTuple):
    """Scratch and room of matching."""

    words: Ints  # int32[]: ranks of the message's words, increasing
    firsts: Ints  # int32[]: beside them, the parts that they lead to first
    leads: Ints  # int32[2 * n_terms]: the part that each word leads to first, and of which version of the tree
    nodes: Ints  # int32[]: nodes still to visit
    etas: Ints  # int32[]: beside them, how many words are used up
    settled: Ints  # int32[]: and how many words of the entries there need no check
    leaves: Ints  # int32[]: parts of the leaves to scan
    sure: Ints  # int32[]: beside them, how many words of the entries there need no check
    doubts: Longs  # int64[]: positions of entries that the exact check decides; as long as `slots`
    dense: Floats  # float64[n_terms]: the words of the message, zeros between calls
    stamps: Longs  # int64[n_slots]: the last message that a subscription of several clauses was found for
    events: Ints  # int32[]: out: the event of each match
    slots: Ints  # int32[]: out: the subscription
    visits: Ints  # int32[]: out: parts of the leaves that messages came to; without room they are not kept
    visit_start: Longs  # int64[n_events + 1]: out: where those of each event begin
    counters: Longs  # int64[N_COUNTERS]


def new_match(n_visits: int = 0) -> Match:
    """Little of everything, to begin with."""
    few = [np.zeros(256, np.int32) for _ in range(5)]
    many = [np.zeros(4096, np.int32), np.zeros(4096, np.int32), np.zeros(n_visits, np.int32)]
    longs = [np.zeros(1, np.int64), np.zeros(N_COUNTERS, np.int64)]
    return Match._make(
        [
            np.zeros(256, np.int32),
            np.zeros(256, np.int32),
            np.zeros(0, np.int32),
            *few,
            np.zeros(4096, np.int64),
            np.zeros(0),
            np.zeros(0, np.int64),
            *many,
            *longs,
        ]
    )


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
def fetch_node(nodes, parts, lines, node, first):
    """A node will be visited soon: ask memory for it, its dummy part and its lines, if it has any."""
    prefetch(nodes, node)
    prefetch(parts, first)
    for at in range(first, first + 32, 8):
        prefetch(lines, at)


@kernel
def well_between(low, high, value):
    """Does the value lie between the two by more than float32's blur of either?"""
    return (low == -math.inf or value - low > abs(low) * BLUR + TINY) and (
        high == math.inf or high - value > abs(high) * BLUR + TINY
    )


@kernel
def find_leaves(tree, origin, x, y, n_words, room):
    """Write the parts of the leaves below the part `origin` that a message comes to; how many, or NEED_ROOM."""
    child = tree.parts[origin].child
    if child >= 0:
        room.nodes[0], room.etas[0], room.settled[0] = child, 0, 0
        return descend(tree, x, y, n_words, 1, 0, room)
    room.leaves[0], room.sure[0] = origin, 0
    return 1 if child != NOTHING else 0


@kernel
def descend(tree, x, y, n_words, n, n_leaves, room):
    """Go on from the first `n` of room.nodes: write the parts of leaves behind the `n_leaves`; how many, or NEED_ROOM.

    Beside each stands how many words of an entry there are settled: those that single words on the way led past. With
    COVERED the boxes there hold the place for sure: the way led through a dummy cell, whose border is not near.

    Paper: [APTREE] section 3.2.3, algorithm 1.
    Departs: a cut of several words may have a child for the same offset again; it begins at the word that hit.
    """
    nodes, etas, settled, leaves, sure, words = room.nodes, room.etas, room.settled, room.leaves, room.sure, room.words
    parts, highs, lines, held = tree.parts, tree.highs, tree.lines, tree.held
    n_visited = 0
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
                fetch_node(tree.nodes, parts, lines, child, parts[at].start)
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
                n_more = 1 if parts[at].low == parts[at].high and n_sure & ~COVERED == node.offset else 0
                if child >= 0:
                    fetch_node(tree.nodes, parts, lines, child, parts[at].start)
                    nodes[n], etas[n] = child, i + (tree.nodes[child].offset > node.offset)
                    settled[n] = n_sure + n_more
                    n += 1
                elif child != NOTHING:
                    fetch_leaf(held, parts[at].start, parts[at].now)
                    leaves[n_leaves], sure[n_leaves] = at, n_sure + n_more
                    n_leaves += 1
        if node.kind != KEYWORD and well_between(node.x0, node.x1, x) and well_between(node.y0, node.y1, y):
            n_sure |= COVERED
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
def first_part(tree, rank):
    """The part that a word leads to from the root past all cuts at the first offset; NOTHING if it is barred."""
    part, child = NOTHING, tree.parts[ROOT].child
    while child >= 0 and tree.nodes[child].kind == KEYWORD and tree.nodes[child].offset == 0:
        node = tree.nodes[child]
        part = node.first + 1 + cut_of(tree.highs, node.first + 1, node.n_parts, rank)
        if not tree.parts[part].low <= rank <= tree.parts[part].high:
            return NOTHING
        child = tree.parts[part].child
    return part


@kernel
def lead_in(tree, ranks, messages, message, room):
    """Rank the words of a message and put what each leads to first into room.nodes and room.leaves.

    Returns how many words, nodes and leaves. What a word leads to is the same for all messages, so it is kept, in
    room.leads, until nodes change. Nothing stands in the dummies on the way: every entry has a first word.
    """
    parts, leads, words, firsts = tree.parts, room.leads, room.words, room.firsts
    version, n = tree.heads[VERSION], 0
    for i in range(message.term_start, message.term_start + message.n_terms):
        term = messages.terms[i]
        rank = ranks[term]
        if rank == UNRANKED:
            continue
        if leads[2 * term + 1] != version:
            leads[2 * term], leads[2 * term + 1] = first_part(tree, rank), version
        part = leads[2 * term]
        if part != NOTHING:
            prefetch(parts, part)
        j = n
        while j > 0 and words[j - 1] > rank:
            words[j], firsts[j] = words[j - 1], firsts[j - 1]
            j -= 1
        words[j], firsts[j] = rank, part
        n += 1
    n_nodes, n_leaves, last = 0, 0, NOTHING
    for i in range(n):
        part = firsts[i]
        if part in (NOTHING, last):
            continue
        last, child = part, parts[part].child
        single = 1 if parts[part].low == parts[part].high else 0
        if child >= 0:
            fetch_node(tree.nodes, parts, tree.lines, child, parts[part].start)
            room.nodes[n_nodes], room.settled[n_nodes] = child, single
            room.etas[n_nodes] = i + (tree.nodes[child].offset > 0)
            n_nodes += 1
        elif child != NOTHING:
            fetch_leaf(tree.held, parts[part].start, parts[part].now)
            room.leaves[n_leaves], room.sure[n_leaves] = part, single
            n_leaves += 1
    return n, n_nodes, n_leaves


@kernel
def scan_leaves(parts, held, words, leaves, sure, n_leaves, x, y, dense, slots, n, doubts):
    """Append subscriptions whose entries match (x, y) and the words; returns how many there are, and how many doubts.

    An entry decides alone where it can. The positions of the others that pass the box and the inline words go to
    `doubts`: what lies within float32's blur of the box, circles, polygons, negated words, several clauses, expiry. An
    `x` that is NaN passes every box, and everything is doubtful.
    """
    n_doubts = 0
    for i in range(n_leaves):
        part = parts[leaves[i]]
        n_sure, covered = sure[i] & ~COVERED, sure[i] >= COVERED and x == x
        for at in range(part.start, part.start + part.now):
            entry = held[at]
            if not covered and (x < entry.x0 or x > entry.x1 or y < entry.y0 or y > entry.y1):
                continue
            tags = entry.tags
            n_words = tags >> N_WORDS
            if n_words > n_sure:
                holds = True
                for word in range(4 * at + n_sure, 4 * at + n_words):
                    if dense[words[word]] == 0.0:
                        holds = False
                        break
                if not holds:
                    continue
            if tags & (PLAIN | MANY | MORTAL) == PLAIN and (
                covered
                or (
                    x - entry.x0 > abs(entry.x0) * BLUR + TINY
                    and entry.x1 - x > abs(entry.x1) * BLUR + TINY
                    and y - entry.y0 > abs(entry.y0) * BLUR + TINY
                    and entry.y1 - y > abs(entry.y1) * BLUR + TINY
                )
            ):
                slots[n] = entry.slot
                n += 1
            else:
                doubts[n_doubts] = at
                n_doubts += 1
    return n, n_doubts


@kernel
def decide(held, doubts, n_doubts, message, clock, subscriptions, where, room, n):
    """Append the subscriptions of doubtful entries that match after all; returns how many there are then."""
    for i in range(n_doubts):
        entry = held[doubts[i]]
        slot = entry.slot
        if entry.tags & MORTAL and subscriptions.rows[slot].expires <= clock:
            continue
        if not within_matches(subscriptions, slot, message, where, room.dense):
            continue
        if entry.tags & MANY:
            if room.stamps[slot] == message.sequence:
                continue
            room.stamps[slot] = message.sequence
        room.slots[n] = slot
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
    n, n_visits, keeps = 0, 0, room.visits.size > 0
    root = tree.parts[ROOT].child
    by_words = root >= 0 and tree.nodes[root].kind == KEYWORD
    for event in range(first, steps.arrivals.size):
        room.visit_start[event] = n_visits
        if steps.arrivals[event] < 0:
            continue
        message = messages.rows[steps.arrivals[event]]
        n_words, n_nodes, n_found = lead_in(tree, ranks, messages, message, room)
        scatter(messages.terms, messages.counts, message.term_start, message.n_terms, idf, room.dense)
        # Circles are filed by wrapped longitudes, boxes and polygons by given ones: where they differ, look under both.
        n_turns = 2 if where[0] == HAVERSINE and not -180.0 <= message.x < 180.0 else 1
        before, fits = n, True
        for turn in range(n_turns):
            if by_words and turn == 0:
                n_leaves = descend(tree, message.x, message.y, n_words, n_nodes, n_found, room)
            else:
                n_leaves = find_leaves(tree, ROOT, wrap(message.x) if turn else message.x, message.y, n_words, room)
            n_rows, middle = 0, n
            for i in range(n_leaves):
                n_rows += tree.parts[room.leaves[i]].now
            fits = (
                n_leaves >= 0
                and n + n_rows < room.slots.size
                and (not keeps or n_visits + n_leaves <= room.visits.size)
            )
            if not fits:
                break
            x = math.nan if n_turns == 2 else message.x
            n, n_doubts = scan_leaves(
                tree.parts, tree.held, tree.words, room.leaves, room.sure, n_leaves, x, message.y, room.dense,
                room.slots, n, room.doubts,
            )  # fmt: skip
            room.counters[CANDIDATES] += n - middle + n_doubts
            if n_doubts > 0:
                room.counters[VERIFIED] += n_doubts
                n = decide(
                    tree.held, room.doubts, n_doubts, message, steps.clocks[event], subscriptions, where, room, n
                )
            if turn == 1:
                n = drop_doubles(room.slots, before, middle, n)
            if keeps:
                room.visits[n_visits : n_visits + n_leaves] = room.leaves[:n_leaves]
                n_visits += n_leaves
            room.counters[VISITED_LEAVES] += n_leaves
            room.counters[TOUCHED] += n_rows
        gather(messages.terms, message.term_start, message.n_terms, room.dense)
        room.events[before:n] = event
        if not fits:
            room.counters[MATCHED] += before
            return event, before
    room.visit_start[steps.arrivals.size] = n_visits
    room.counters[MATCHED] += n
    return steps.arrivals.size, n
