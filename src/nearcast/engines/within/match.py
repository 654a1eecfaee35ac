"""Matches arrivals against the tree: scans the leaves that each reaches, and verifies what needs it: kernels.

Paper: [APTREE] section 3.2.3, algorithm 1, from the leaves on.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from nearcast.columns.arena import Array, Floats, Ints, Longs, with_room
from nearcast.columns.fields.conditions import NO_CONDITION, satisfies
from nearcast.columns.fields.values import FieldLayout, n_fields
from nearcast.columns.message_table import MessageLayout
from nearcast.columns.scores import gather, scatter
from nearcast.columns.subscription_tables import WithinLayout
from nearcast.engines.exact import within_matches
from nearcast.engines.within.descend import CHUNK, NEED_FRONTIER, DescentInput, Frontier, find_leaves
from nearcast.engines.within.layout import (
    ASKS,
    BLUR,
    CONDITION_BITS,
    MANY,
    MORTAL,
    N_STEERING,
    PLAIN,
    ROOT,
    TINY,
    TreeLayout,
)
from nearcast.jit import NEED_ROOM, kernel, prefetch
from nearcast.space.space import SpaceInput

VISITED_LEAVES, TOUCHED, CANDIDATES, VERIFIED, MATCHED = range(5)  # positions in `counters`
N_COUNTERS = 5
DONE, NEED_FOUND, NEED_MATCHES = 0, -3, -4  # or NEED_FRONTIER: what there was too little room for, if any
_AHEAD = 16  # how many entries ahead words are prefetched
_LEAVES_AHEAD = 3  # how many leaves ahead boxes are prefetched
_FETCHED = 64  # boxes of a leaf that are prefetched at most


class VerifyInput(NamedTuple):
    """What candidates are verified against."""

    subscriptions: WithinLayout
    clocks: Longs  # int64[n_events]
    where: SpaceInput
    idf: Floats
    sign: int  # of stamps: +1 for arrivals, -1 for messages that are withdrawn, which were stamped when they arrived


class Event(NamedTuple):
    """The arrival at hand."""

    message: int  # slot
    clock: int


class MatchRoom(NamedTuple):
    """Scratch and room of matching."""

    present: Array  # uint8[n_terms]: 1 for the words of the message, zeros between calls
    hits: Array  # uint8[]: entries of one leaf whose boxes hold the place; as long as `found`
    found: Longs  # int64[]: entries of one message whose boxes hold the place: 2 * row + (does the box surely hold it?)
    doubtful: Longs  # int64[]: those that do not decide alone: 2 * row + (are place and words sure?)
    dense: Floats  # float64[n_terms]: the words of the message, zeros between calls
    stamps: Longs  # int64[n_slots]: the last message that a subscription of several clauses was found for
    events: Ints  # int32[]: out: the event of each match
    arrivals: Ints  # int32[]: out: its message
    slots: Ints  # int32[]: out: the subscription
    visitors: Ints  # int32[]: out: messages, and
    visits: Ints  # int32[]: out: the parts of leaves that they came to; without room these are not kept
    counters: Longs  # int64[N_COUNTERS]


def new_match_room(n_visits: int) -> MatchRoom:
    """Little room of every kind."""
    ints = [np.zeros(4096, np.int32) for _ in range(3)]
    return MatchRoom._make(
        [
            np.zeros(0, np.uint8),
            np.zeros(4096, np.uint8),
            np.zeros(4096, np.int64),
            np.zeros(4096, np.int64),
            np.zeros(0),
            np.zeros(0, np.int64),
            *ints,
            np.zeros(n_visits, np.int32),
            np.zeros(n_visits, np.int32),
            np.zeros(N_COUNTERS, np.int64),
        ]
    )


def grown_match_room(room: MatchRoom, shortage: int) -> MatchRoom:
    """The same with twice the room for what there was too little of."""
    growing = (
        ("hits", "found", "doubtful")
        if shortage == NEED_FOUND
        else ("events", "arrivals", "slots", "visitors", "visits")
    )
    return room._replace(**{name: with_room(getattr(room, name), 2 * getattr(room, name).size) for name in growing})


@kernel
def set_present(terms: Ints, start: int, n_terms: int, value: int, present: Array) -> None:
    """Set or clear the flags of the words of a message."""
    for i in range(start, start + n_terms):
        present[terms[i]] = value


@kernel
def set_keys_present(fields: FieldLayout, slot: int, value: int, present: Array) -> None:
    """Set or clear the flags of the keys of a message's fields, which stand among the words of entries."""
    for i in range(n_fields(fields, slot)):
        present[fields.values[fields.spans[slot].start + i].key] = value


@kernel
def prefetch_boxes(flat: Array, leaf: Any) -> None:
    """Prefetch the boxes of a leaf that will be scanned soon. `flat` are all sides, one after another."""
    n = flat.size // 4
    for at in range(leaf.start, leaf.start + min(leaf.n_rows, _FETCHED), 16):
        for side in range(4):
            prefetch(flat, side * n + at)


class RoundedPlace(NamedTuple):
    """A place among float32 boxes: one with x0 < x_low, x1 > x_high, y0 < y_low and y1 > y_high surely holds it."""

    x: np.float32
    y: np.float32
    x_low: np.float32
    x_high: np.float32
    y_low: np.float32
    y_high: np.float32


@kernel
def rounded_place(x: float, y: float) -> RoundedPlace:
    """A place as float32, and how far a box must reach to be sure to hold it.

    A side may be off by float32's blur, relative to itself. Sides far from the place are past any blur, those near it
    are about as large as its coordinate.
    """
    low, high = np.float32(-np.inf), np.float32(np.inf)
    over_x, over_y = 4.0 * BLUR * abs(x) + TINY, 4.0 * BLUR * abs(y) + TINY
    return RoundedPlace(
        np.float32(x),
        np.float32(y),
        np.nextafter(np.float32(x - over_x), low),
        np.nextafter(np.float32(x + over_x), high),
        np.nextafter(np.float32(y - over_y), low),
        np.nextafter(np.float32(y + over_y), high),
    )


@kernel
def scan_boxes(sides: Any, leaf: Any, x: Any, y: Any, hits: Any, found: Any, n: Any) -> Any:
    """Append the entries of a leaf whose boxes hold (x, y), all rounded; returns how many there are then.

    A NaN for x is in every box, and sure in none. Rounding
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
        n += np.int64(hits[i])
    return n


@kernel
def check_words(
    tree: TreeLayout,
    found: Longs,
    n_found: int,
    place: RoundedPlace,
    present: Array,
    slots: Ints,
    n: int,
    doubtful: Longs,
) -> tuple[int, int]:
    """Append the subscriptions of found entries that surely match; how many there are, and how many are doubtful.

    An entry decides alone where it can. The others whose words hold go to `doubtful`. Not sure are places within
    float32's blur of the box, circles, polygons, negated words, conditions, and whatever expires.
    """
    held, sides, words = tree.held, tree.sides, tree.words
    n_doubtful = 0
    for i in range(n_found):
        ahead = found[min(i + _AHEAD, n_found - 1)] >> 1
        prefetch(words, N_STEERING * ahead)
        prefetch(held, ahead)
        at, covered = found[i] >> 1, found[i] & 1
        entry, first = held[at], N_STEERING * at
        holds = present[words[first]] & present[words[first + 1]]
        holds &= present[words[first + 2]] & present[words[first + 3]]
        alone = covered | ((sides[0, at] < place.x_low) & (sides[1, at] < place.y_low))
        alone &= covered | ((sides[2, at] > place.x_high) & (sides[3, at] > place.y_high))
        alone &= entry.tags & (PLAIN | MORTAL) == PLAIN
        once = entry.tags & (MANY | ASKS) == 0
        slots[n] = entry.slot
        n += holds & alone & once
        doubtful[n_doubtful] = 2 * at + alone
        n_doubtful += holds & (1 - (alone & once))
    return n, n_doubtful


@kernel
def drop_unwanted(
    held: Array, n_doubtful: int, fields: FieldLayout, message: int, subscriptions: WithinLayout, doubtful: Longs
) -> tuple[int, int]:
    """Keep the doubtful entries whose conditions hold; how many are left, and of how many place or words are not sure.

    Before all else, since it needs neither the region nor the words: most conditions fail.
    """
    rows, conditions = subscriptions.rows, subscriptions.conditions
    for i in range(n_doubtful):
        prefetch(conditions.rows, held[doubtful[i] >> 1].tags >> CONDITION_BITS)
    n = n_unsure = 0
    for i in range(n_doubtful):
        entry = held[doubtful[i] >> 1]
        if entry.tags & ASKS:
            condition = entry.tags >> CONDITION_BITS
            if condition == NO_CONDITION:
                condition = rows[entry.slot].condition
            if not satisfies(conditions, condition, fields, message):
                continue
        doubtful[n] = doubtful[i]
        n_unsure += 1 - (doubtful[i] & 1)
        n += 1
    return n, n_unsure


@kernel
def verify_doubtful(
    held: Array, n_doubtful: int, messages: MessageLayout, event: Event, verify: VerifyInput, room: MatchRoom, n: int
) -> int:
    """Verify doubtful entries and append the subscriptions of those that match; returns how many there are then."""
    subscriptions, message, terms = verify.subscriptions, messages.rows[event.message], messages.terms
    n_unsure = n_doubtful
    if subscriptions.conditions.rows.size > 1:
        n_doubtful, n_unsure = drop_unwanted(
            held, n_doubtful, messages.fields, event.message, subscriptions, room.doubtful
        )
    if n_unsure > 0:
        scatter(terms, messages.counts, message.term_start, message.n_terms, verify.idf, room.dense)
    for i in range(n_doubtful):
        entry = held[room.doubtful[i] >> 1]
        slot = entry.slot
        if not room.doubtful[i] & 1:
            room.counters[VERIFIED] += 1
            if entry.tags & MORTAL and subscriptions.rows[slot].expires <= event.clock:
                continue
            if not within_matches(subscriptions, slot, message, verify.where, room.dense):
                continue
        if entry.tags & MANY:
            if room.stamps[slot] == verify.sign * message.sequence:
                continue
            room.stamps[slot] = verify.sign * message.sequence
        room.slots[n] = slot
        n += 1
    if n_unsure > 0:
        gather(terms, message.term_start, message.n_terms, room.dense)
    return n


@kernel
def drop_duplicates(slots: Ints, first: int, middle: int, n: int) -> int:
    """Keep of slots[middle:n] only what is not in slots[first:middle]; returns the new end."""
    end = middle
    for i in range(middle, n):
        duplicate = False
        for j in range(first, middle):
            duplicate = duplicate or slots[j] == slots[i]
        if not duplicate:
            slots[end] = slots[i]
            end += 1
    return end


@kernel
def match_chunk(
    tree: TreeLayout,
    descent: DescentInput,
    verify: VerifyInput,
    n_probes: int,
    frontier: Frontier,
    room: MatchRoom,
    n: int,
    n_visits: int,
) -> tuple[int, int, int, int]:
    """Append the subscriptions that match a chunk of messages whose leaves are found.

    Returns the probe to resume with, the numbers of matches and visits so far, and what there was too little room for.
    """
    held, sides, present, slots, events = tree.held, tree.sides, room.present, room.slots, room.events
    leaves, leaf_start, found, counters = frontier.leaves, frontier.leaf_start, room.found, room.counters
    rows, terms, probes, arrivals = descent.messages.rows, descent.messages.terms, frontier.probes, descent.slots
    messages, visitors, visits, stored = room.arrivals, room.visitors, room.visits, descent.stored
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
        place = rounded_place(math.nan if n_twins == 2 else message.x, message.y)
        set_present(terms, message.term_start, message.n_terms, 1, present)
        set_keys_present(descent.messages.fields, arrivals[event], 1, present)
        before = n
        for twin in range(n_twins):
            middle, n_found = n, 0
            for i in range(leaf_start[p + twin], leaf_start[p + twin + 1]):
                prefetch_boxes(flat, leaves[min(i + _LEAVES_AHEAD, last)])
                n_found = scan_boxes(sides, leaves[i], place.x, place.y, hits, found, n_found)
            n, n_doubtful = check_words(tree, found, n_found, place, present, slots, n, room.doubtful)
            counters[CANDIDATES] += n - middle + n_doubtful
            if n_doubtful > 0:
                arrival = Event(arrivals[event], verify.clocks[event])
                n = verify_doubtful(held, n_doubtful, descent.messages, arrival, verify, room, n)
            if twin == 1:
                n = drop_duplicates(slots, before, middle, n)
        set_present(terms, message.term_start, message.n_terms, 0, present)
        set_keys_present(descent.messages.fields, arrivals[event], 0, present)
        events[before:n], messages[before:n] = event, stored[event]
        if visits.size > 0:
            for i in range(first, end):
                visitors[n_visits], visits[n_visits] = stored[event], leaves[i].part
                n_visits += 1
        counters[VISITED_LEAVES] += end - first
        counters[TOUCHED] += n_rows
        p += n_twins
    return p, n, n_visits, DONE


@kernel
def match_many(
    tree: TreeLayout, descent: DescentInput, verify: VerifyInput, first: int, frontier: Frontier, room: MatchRoom
) -> tuple[int, int, int, int]:
    """Write the subscriptions that match the arrivals from event `first` on.

    Returns the event to resume with, the numbers of matches and visits, and DONE or what there was too little room for.
    The caller takes the matches and visits before it resumes, so there is room again for those of the next events.
    """
    n, n_visits, event, n_events, shortage = 0, 0, first, descent.slots.size, DONE
    while event < n_events:
        end = min(event + CHUNK, n_events)
        n_probes = find_leaves(tree, descent, event, end, ROOT, frontier)
        if n_probes == NEED_ROOM:
            shortage = NEED_FRONTIER
            break
        p, n, n_visits, shortage = match_chunk(tree, descent, verify, n_probes, frontier, room, n, n_visits)
        if shortage != DONE:
            event = frontier.probes[p].event
            break
        event = end
    room.counters[MATCHED] += n
    return event, n, n_visits, shortage
