"""Arrivals against the tree: who matches, and which leaves a message came to."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from nearcast.columns.arena import Array, Floats, Ints, Longs, with_room
from nearcast.columns.scores import gather, scatter
from nearcast.columns.subscriptions import WithinLayout
from nearcast.engines.checks import within_matches
from nearcast.engines.within.layout import (
    BLUR,
    COVERED,
    MANY,
    MORTAL,
    N_WORDS,
    PLAIN,
    ROOT,
    TINY,
)
from nearcast.engines.within.waves import CHUNK, find_leaves
from nearcast.jit import NEED_ROOM, kernel, prefetch

VISITED_LEAVES, TOUCHED, CANDIDATES, VERIFIED, MATCHED = range(5)  # positions in `counters`
N_COUNTERS = 5
_AHEAD = 8  # entries whose words are asked for in advance
_LEAVES_AHEAD = 3  # leaves whose entries are
_FETCHED = 24  # at most so many entries of a leaf
_SETTLED = 7  # of a number in `found`: how many words are settled


class Check(NamedTuple):
    """What arrivals are checked against."""

    subscriptions: WithinLayout
    clocks: Longs  # int64[n_events]
    where: tuple[int, float]
    idf: Floats


class Match(NamedTuple):
    """Scratch and room of matching."""

    present: Array  # uint8[n_terms]: 1 for the words of the message, zeros between calls
    found: Longs  # int64[]: entries of one message whose boxes hold the place, then those that the exact check decides
    dense: Floats  # float64[n_terms]: the words of the message, zeros between calls
    stamps: Longs  # int64[n_slots]: the last message that a subscription of several clauses was found for
    events: Ints  # int32[]: out: the event of each match
    slots: Ints  # int32[]: out: the subscription
    visitors: Ints  # int32[]: out: messages, and
    visits: Ints  # int32[]: out: the parts of leaves that they came to; without room these are not kept
    counters: Longs  # int64[N_COUNTERS]


def new_match(n_visits: int) -> Match:
    """Little of everything, to begin with."""
    ints = [np.zeros(4096, np.int32), np.zeros(4096, np.int32)]
    return Match._make(
        [
            np.zeros(0, np.uint8),
            np.zeros(4096, np.int64),
            np.zeros(0),
            np.zeros(0, np.int64),
            *ints,
            np.zeros(n_visits, np.int32),
            np.zeros(n_visits, np.int32),
            np.zeros(N_COUNTERS, np.int64),
        ]
    )


def roomier(room: Match) -> Match:
    """Twice the room for what is found."""
    growing = ("found", "events", "slots", "visitors", "visits")
    return room._replace(**{name: with_room(getattr(room, name), 2 * getattr(room, name).size) for name in growing})


@kernel
def mark(terms, start, n_terms, value, present):
    """Set or clear the words of a message."""
    for i in range(start, start + n_terms):
        present[terms[i]] = value


@kernel
def fetch_rows(held, leaf):
    """The entries of a leaf will be scanned soon: ask memory for them."""
    for at in range(leaf.start, leaf.start + min(leaf.n_rows, _FETCHED), 2):
        prefetch(held, at)


@kernel
def scan_boxes(held, leaf, x, y, found, n):
    """Append the entries of a leaf whose boxes hold (x, y), all rounded; returns how many there are then.

    For each stands 16 * place + 2 * (how many of its words are settled) + (is the box sure to hold the place?) in
    `found`. An `x` that is NaN is in every box. Rounding keeps order, so that no box is missed.
    """
    covered = leaf.sure >= COVERED and x == x
    tag = 2 * (leaf.sure & _SETTLED) + covered
    for at in range(leaf.start, leaf.start + leaf.n_rows):
        entry = held[at]
        found[n] = 16 * at + tag
        n += covered | (not ((x < entry.x0) | (x > entry.x1) | (y < entry.y0) | (y > entry.y1)))
    return n


@kernel
def check_words(held, words, found, n_found, x, y, present, slots, n):
    """Append subscriptions whose entries match; returns how many there are, and how many doubts.

    An entry decides alone where it can. The places of the others that pass the box and the inline words go to the
    front of `found`: what lies within float32's blur of the box, circles, polygons, negated words, several clauses,
    expiry. An `x` that is NaN passes every box, and everything is doubtful.
    """
    n_doubts = 0
    for i in range(n_found):
        prefetch(words, 4 * (found[min(i + _AHEAD, n_found - 1)] >> 4))
        at, n_settled, covered = found[i] >> 4, (found[i] >> 1) & _SETTLED, found[i] & 1
        entry = held[at]
        tags = entry.tags
        holds = 1
        for word in range(4 * at + n_settled, 4 * at + (tags >> N_WORDS)):
            holds &= present[words[word]]
        if holds == 0:
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
            found[n_doubts] = at
            n_doubts += 1
    return n, n_doubts


@kernel
def decide(held, n_doubts, message, clock, check, room, n):
    """Append the subscriptions of doubtful entries that match after all; returns how many there are then."""
    subscriptions = check.subscriptions
    for i in range(n_doubts):
        entry = held[room.found[i]]
        slot = entry.slot
        if entry.tags & MORTAL and subscriptions.rows[slot].expires <= clock:
            continue
        if not within_matches(subscriptions, slot, message, check.where, room.dense):
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
def match_chunk(tree, sent, check, n_probes, wave, room, n, n_visits):
    """Append who matches a chunk of messages whose leaves are found.

    Returns the probe to go on with, short of `n_probes` if there was no room, and how many matches and visits now are.
    """
    held, words, present, slots, events = tree.held, tree.words, room.present, room.slots, room.events
    leaves, leaf_start, found, counters = wave.leaves, wave.leaf_start, room.found, room.counters
    rows, terms, probes, arrivals = sent.messages.rows, sent.messages.terms, wave.probes, sent.slots
    visitors, visits = room.visitors, room.visits
    p, last = 0, leaf_start[n_probes] - 1
    while p < n_probes:
        event, n_twins = probes[p].event, 1 + probes[p].twin
        first, end = leaf_start[p], leaf_start[p + n_twins]
        n_rows = 0
        for i in range(first, end):
            n_rows += leaves[i].n_rows
        if n_rows > min(found.size, slots.size - n) or (visits.size > 0 and n_visits + end - first > visits.size):
            return p, n, n_visits
        message = rows[arrivals[event]]
        x, y = math.nan if n_twins == 2 else message.x, message.y
        mark(terms, message.term_start, message.n_terms, 1, present)
        before = n
        for turn in range(n_twins):
            middle, n_found = n, 0
            for i in range(leaf_start[p + turn], leaf_start[p + turn + 1]):
                fetch_rows(held, leaves[min(i + _LEAVES_AHEAD, last)])
                n_found = scan_boxes(held, leaves[i], np.float32(x), np.float32(y), found, n_found)
            n, n_doubts = check_words(held, words, found, n_found, x, y, present, slots, n)
            counters[CANDIDATES] += n - middle + n_doubts
            if n_doubts > 0:
                counters[VERIFIED] += n_doubts
                scatter(terms, sent.messages.counts, message.term_start, message.n_terms, check.idf, room.dense)
                n = decide(held, n_doubts, message, check.clocks[event], check, room, n)
                gather(terms, message.term_start, message.n_terms, room.dense)
            if turn == 1:
                n = drop_doubles(slots, before, middle, n)
        mark(terms, message.term_start, message.n_terms, 0, present)
        events[before:n] = event
        if visits.size > 0:
            for i in range(first, end):
                visitors[n_visits], visits[n_visits] = arrivals[event], leaves[i].part
                n_visits += 1
        counters[VISITED_LEAVES] += end - first
        counters[TOUCHED] += n_rows
        p += n_twins
    return p, n, n_visits


@kernel
def match_many(tree, sent, check, first, wave, room):
    """Write who matches the arrivals from event `first` on.

    Returns the event to go on with, and how many matches and visits. Stops before an event for which room may not
    suffice: ask again from there on, with more.
    """
    n, n_visits, event, n_events = 0, 0, first, sent.slots.size
    while event < n_events:
        end = min(event + CHUNK, n_events)
        n_probes = find_leaves(tree, sent, event, end, ROOT, wave)
        if n_probes == NEED_ROOM:
            break
        p, n, n_visits = match_chunk(tree, sent, check, n_probes, wave, room, n, n_visits)
        if p < n_probes:
            event = wave.probes[p].event
            break
        event = end
    room.counters[MATCHED] += n
    return event, n, n_visits
