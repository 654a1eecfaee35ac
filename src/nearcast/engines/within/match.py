"""Arrivals against the tree: who matches, and which leaves a message came to."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from nearcast.columns.arena import Array, Floats, Ints, Longs, with_room
from nearcast.columns.scores import gather, scatter
from nearcast.columns.subscription_tables import WithinLayout
from nearcast.engines.exact import within_matches
from nearcast.engines.within.descend import CHUNK, find_leaves
from nearcast.engines.within.layout import (
    BLUR,
    MANY,
    MORTAL,
    N_STEERING,
    PLAIN,
    ROOT,
    TINY,
)
from nearcast.jit import NEED_ROOM, kernel, prefetch
from nearcast.space.space import SpaceInput

VISITED_LEAVES, TOUCHED, CANDIDATES, VERIFIED, MATCHED = range(5)  # positions in `counters`
N_COUNTERS = 5
ENOUGH, NEED_WAVE, NEED_FOUND, NEED_MATCHES = range(4)  # what there was too little room for, if any
_AHEAD = 16  # entries whose words are asked for in advance
_LEAVES_AHEAD = 3  # leaves whose entries are
_FETCHED = 64  # at most so many entries of a leaf


class Check(NamedTuple):
    """What arrivals are checked against."""

    subscriptions: WithinLayout
    clocks: Longs  # int64[n_events]
    where: SpaceInput
    idf: Floats


class Match(NamedTuple):
    """Scratch and room of matching."""

    present: Array  # uint8[n_terms]: 1 for the words of the message, zeros between calls
    hits: Array  # uint8[]: entries of one leaf whose boxes hold the place; as long as `found`
    found: Longs  # int64[]: entries of one message whose boxes hold the place, then those that `decide` looks at
    dense: Floats  # float64[n_terms]: the words of the message, zeros between calls
    stamps: Longs  # int64[n_slots]: the last message that a subscription of several clauses was found for
    events: Ints  # int32[]: out: the event of each match
    arrivals: Ints  # int32[]: out: its message
    slots: Ints  # int32[]: out: the subscription
    visitors: Ints  # int32[]: out: messages, and
    visits: Ints  # int32[]: out: the parts of leaves that they came to; without room these are not kept
    counters: Longs  # int64[N_COUNTERS]


def new_match(n_visits: int) -> Match:
    """Little of everything, to begin with."""
    ints = [np.zeros(4096, np.int32) for _ in range(3)]
    return Match._make(
        [
            np.zeros(0, np.uint8),
            np.zeros(4096, np.uint8),
            np.zeros(4096, np.int64),
            np.zeros(0),
            np.zeros(0, np.int64),
            *ints,
            np.zeros(n_visits, np.int32),
            np.zeros(n_visits, np.int32),
            np.zeros(N_COUNTERS, np.int64),
        ]
    )


def roomier(room: Match, lack: int) -> Match:
    """Twice the room for what there was too little of."""
    growing = ("hits", "found") if lack == NEED_FOUND else ("events", "arrivals", "slots", "visitors", "visits")
    return room._replace(**{name: with_room(getattr(room, name), 2 * getattr(room, name).size) for name in growing})


@kernel
def mark(terms, start, n_terms, value, present):
    """Set or clear the words of a message."""
    for i in range(start, start + n_terms):
        present[terms[i]] = value


@kernel
def fetch_rows(flat, leaf):
    """The boxes of a leaf will be scanned soon: ask memory for them. `flat` are all sides, one after another."""
    n = flat.size // 4
    for at in range(leaf.start, leaf.start + min(leaf.n_rows, _FETCHED), 16):
        for side in range(4):
            prefetch(flat, side * n + at)


@kernel
def rounded(x, y):
    """A place as float32, then the sides that a box must pass to be sure to hold it: x0 <, x1 >, y0 <, y1 >.

    A side may be off by float32's blur, relative to itself. Sides far from the place are past any blur, those near it
    are about as large as its coordinate.
    """
    low, high = np.float32(-np.inf), np.float32(np.inf)
    over_x, over_y = 4.0 * BLUR * abs(x) + TINY, 4.0 * BLUR * abs(y) + TINY
    return (
        np.float32(x),
        np.float32(y),
        np.nextafter(np.float32(x - over_x), low),
        np.nextafter(np.float32(x + over_x), high),
        np.nextafter(np.float32(y - over_y), low),
        np.nextafter(np.float32(y + over_y), high),
    )


@kernel
def scan_boxes(sides, leaf, x, y, hits, found, n):
    """Append the entries of a leaf whose boxes hold (x, y), all rounded; returns how many there are then.

    In `found` stands 2 * place + (is the box sure to hold it?). A NaN for x is in every box, and sure in none. Rounding
    keeps order, so that no box is missed. Unsigned positions and bytes for hits let the processor compare many at once.
    """
    covered = leaf.covered & (x == x)
    if covered or x != x:
        for at in range(leaf.start, leaf.start + leaf.n_rows):
            found[n] = 2 * at + covered
            n += 1
        return n
    first, end = np.uint64(leaf.start), np.uint64(leaf.start + leaf.n_rows)
    for at in range(first, end):
        hits[at - first] = (
            (sides[0, at] <= x) & (sides[1, at] <= y) & (sides[2, at] >= x) & (sides[3, at] >= y)
        )  # fmt: skip
    for i in range(leaf.n_rows):
        found[n] = 2 * (leaf.start + i)
        n += hits[i]
    return n


@kernel
def check_words(tree, found, n_found, place, present, slots, n):
    """Append the subscriptions of found entries that match; returns how many there are, and how many doubts.

    An entry decides alone where it can. The others whose words hold go to the front of `found`: 2 * place + (is it sure
    to match, and only one of several clauses?). Not sure are places within float32's blur of the box, circles,
    polygons, negated words, and whatever expires.
    """
    held, sides, words = tree.held, tree.sides, tree.words
    x_over, x_under, y_over, y_under = place[2], place[3], place[4], place[5]
    n_doubts = 0
    for i in range(n_found):
        ahead = found[min(i + _AHEAD, n_found - 1)] >> 1
        prefetch(words, N_STEERING * ahead)
        prefetch(held, ahead)
        at, covered = found[i] >> 1, found[i] & 1
        entry, first = held[at], N_STEERING * at
        holds = present[words[first]] & present[words[first + 1]]
        holds &= present[words[first + 2]] & present[words[first + 3]]
        alone = covered | ((sides[0, at] < x_over) & (sides[1, at] < y_over))
        alone &= covered | ((sides[2, at] > x_under) & (sides[3, at] > y_under))
        alone &= entry.tags & (PLAIN | MORTAL) == PLAIN
        once = entry.tags & MANY == 0
        slots[n] = entry.slot
        n += holds & alone & once
        found[n_doubts] = 2 * at + alone
        n_doubts += holds & (1 - (alone & once))
    return n, n_doubts


@kernel
def decide(held, n_doubts, message, clock, check, room, n):
    """Append the subscriptions of doubtful entries that match after all; returns how many there are then."""
    subscriptions = check.subscriptions
    for i in range(n_doubts):
        entry = held[room.found[i] >> 1]
        slot = entry.slot
        if not room.found[i] & 1:
            room.counters[VERIFIED] += 1
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

    Returns the probe to go on with, how many matches and visits now are, and what there was too little room for.
    """
    held, sides, present, slots, events = tree.held, tree.sides, room.present, room.slots, room.events
    leaves, leaf_start, found, counters = wave.leaves, wave.leaf_start, room.found, room.counters
    rows, terms, probes, arrivals = sent.messages.rows, sent.messages.terms, wave.probes, sent.slots
    messages, visitors, visits = room.arrivals, room.visitors, room.visits
    hits, flat = room.hits, sides.reshape(sides.size)
    p, last = 0, leaf_start[n_probes] - 1
    while p < n_probes:
        event, n_twins = probes[p].event, 1 + probes[p].twin
        first, end = leaf_start[p], leaf_start[p + n_twins]
        n_rows = 0
        for i in range(first, end):
            n_rows += leaves[i].n_rows
        if n_rows >= found.size:
            return p, n, n_visits, NEED_FOUND
        if n_rows >= slots.size - n or (visits.size > 0 and n_visits + end - first > visits.size):
            return p, n, n_visits, NEED_MATCHES
        message = rows[arrivals[event]]
        place = rounded(math.nan if n_twins == 2 else message.x, message.y)
        mark(terms, message.term_start, message.n_terms, 1, present)
        before = n
        for turn in range(n_twins):
            middle, n_found = n, 0
            for i in range(leaf_start[p + turn], leaf_start[p + turn + 1]):
                fetch_rows(flat, leaves[min(i + _LEAVES_AHEAD, last)])
                n_found = scan_boxes(sides, leaves[i], place[0], place[1], hits, found, n_found)
            n, n_doubts = check_words(tree, found, n_found, place, present, slots, n)
            counters[CANDIDATES] += n - middle + n_doubts
            if n_doubts > 0:
                scatter(terms, sent.messages.counts, message.term_start, message.n_terms, check.idf, room.dense)
                n = decide(held, n_doubts, message, check.clocks[event], check, room, n)
                gather(terms, message.term_start, message.n_terms, room.dense)
            if turn == 1:
                n = drop_doubles(slots, before, middle, n)
        mark(terms, message.term_start, message.n_terms, 0, present)
        events[before:n], messages[before:n] = event, arrivals[event]
        if visits.size > 0:
            for i in range(first, end):
                visitors[n_visits], visits[n_visits] = arrivals[event], leaves[i].part
                n_visits += 1
        counters[VISITED_LEAVES] += end - first
        counters[TOUCHED] += n_rows
        p += n_twins
    return p, n, n_visits, ENOUGH


@kernel
def match_many(tree, sent, check, first, wave, room):
    """Write who matches the arrivals from event `first` on.

    Returns the event to go on with, how many matches and visits, and what there was too little room for, if any: ask
    again from there on. Matches and visits are the caller's then, so there is room again for those of the next events.
    """
    n, n_visits, event, n_events, lack = 0, 0, first, sent.slots.size, ENOUGH
    while event < n_events:
        end = min(event + CHUNK, n_events)
        n_probes = find_leaves(tree, sent, event, end, ROOT, wave)
        if n_probes == NEED_ROOM:
            lack = NEED_WAVE
            break
        p, n, n_visits, lack = match_chunk(tree, sent, check, n_probes, wave, room, n, n_visits)
        if lack != ENOUGH:
            event = wave.probes[p].event
            break
        event = end
    room.counters[MATCHED] += n
    return event, n, n_visits, lack
