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
from nearcast.columns.regions import BOX
from nearcast.columns.subscription_tables import WithinLayout
from nearcast.engines.exact import within_matches
from nearcast.engines.within.descend import CHUNK, NEED_FRONTIER, DescentInput, Frontier, find_leaves
from nearcast.engines.within.layout import (
    BLOCK_SHAPE,
    BLOCK_WORD,
    BLUR,
    HEADER,
    INTS_PER_LINE,
    N_ALONE,
    N_HASHED,
    N_ROWS,
    OPEN_BITS,
    ROOT,
    TINY,
    X_ORIGIN,
    X_SCALE,
    Y_ORIGIN,
    Y_SCALE,
    TreeLayout,
)
from nearcast.engines.within.leaf_block import LAST_CODE, code_of, first_byte, hash_of, lines_for
from nearcast.engines.within.match_order import SortRoom, sort_matches
from nearcast.jit import NEED_ROOM, inlined, kernel, prefetch
from nearcast.space.regions import in_box
from nearcast.space.space import SpaceInput

VISITED_LEAVES, TOUCHED, CANDIDATES, VERIFIED, MATCHED = range(5)  # positions in `counters`
N_COUNTERS = 5
DONE, NEED_FOUND, NEED_MATCHES = 0, -3, -4  # or NEED_FRONTIER: what there was too little room for, if any
_AHEAD = 16  # how many doubtful entries ahead rows and clauses are prefetched
_LEAVES_AHEAD = 5  # how many leaves ahead blocks are prefetched
_FETCHED = 16  # lines of a block that are prefetched at most


class VerifyInput(NamedTuple):
    """What candidates are verified against."""

    subscriptions: WithinLayout
    clocks: Longs  # int64[n_events]
    where: SpaceInput
    sign: int  # of stamps: +1 for arrivals, -1 for messages that are withdrawn, which were stamped when they arrived


class Event(NamedTuple):
    """The arrival at hand."""

    message: int  # slot
    clock: int


class MatchRoom(NamedTuple):
    """Scratch and room of matching."""

    dense: Floats  # float64[n_terms]: 1 for the words of the message, zeros between calls
    seen: Array  # uint8[256]: 1 for the hashes of its words, zeros between calls
    hits: Array  # uint8[]: of the entries of one leaf: 0 for a box that does not hold the place, 1 for a tie, 2 if sure
    doubtful: Longs  # int64[]: entries of one message to verify: 2 * slot + (is it one of several clauses?)
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
            np.zeros(0),
            np.zeros(256, np.uint8),
            np.zeros(4096, np.uint8),
            np.zeros(4096, np.int64),
            np.zeros(0, np.int64),
            *ints,
            np.zeros(n_visits, np.int32),
            np.zeros(n_visits, np.int32),
            np.zeros(N_COUNTERS, np.int64),
        ]
    )


def grown_match_room(room: MatchRoom, shortage: int) -> MatchRoom:
    """The same with twice the room for what there was too little of."""
    growing = ("hits", "doubtful") if shortage == NEED_FOUND else ("events", "arrivals", "slots", "visitors", "visits")
    return room._replace(**{name: with_room(getattr(room, name), 2 * getattr(room, name).size) for name in growing})


@inlined
def mark_words(messages: MessageLayout, slot: int, value: int, dense: Floats, seen: Array) -> None:
    """Set or clear what tells the words of a message, and the keys of its fields, which entries ask for like words."""
    terms, message = messages.terms, messages.rows[slot]
    for i in range(message.term_start, message.term_start + message.n_terms):
        dense[terms[i]], seen[hash_of(terms[i])] = value, value
    mark_keys(messages.fields, slot, value, dense, seen)


@inlined
def mark_keys(fields: FieldLayout, slot: int, value: int, dense: Floats, seen: Array) -> None:
    """Set or clear what tells the keys of a message's fields."""
    for i in range(n_fields(fields, slot)):
        key = fields.values[fields.spans[slot].start + i].key
        dense[key], seen[hash_of(key)] = value, value


@inlined
def prefetch_block(ints: Ints, leaf: Any) -> None:
    """Prefetch the block of a leaf that will be scanned soon."""
    for line in range(leaf.start, leaf.start + min(lines_for(leaf.n_rows), _FETCHED)):
        prefetch(ints, INTS_PER_LINE * line)


class RoundedPlace(NamedTuple):
    """A place among float32 boxes: one with x0 < x_low, x1 > x_high, y0 < y_low and y1 > y_high surely holds it.

    One with x0 > x_high, x1 < x_low, y0 > y_high or y1 < y_low surely does not.
    """

    x_low: np.float32
    x_high: np.float32
    y_low: np.float32
    y_high: np.float32


@kernel
def rounded_place(x: float, y: float) -> RoundedPlace:
    """How far a float32 box must reach to be sure to hold a place. No box is sure to hold a NaN, or not to.

    A side may be off by float32's blur, relative to itself. Sides far from the place are past any blur, those near it
    are about as large as its coordinate.
    """
    low, high = np.float32(-np.inf), np.float32(np.inf)
    over_x, over_y = 4.0 * BLUR * abs(x) + TINY, 4.0 * BLUR * abs(y) + TINY
    return RoundedPlace(
        low if math.isnan(x) else np.nextafter(np.float32(x - over_x), low),
        high if math.isnan(x) else np.nextafter(np.float32(x + over_x), high),
        np.nextafter(np.float32(y - over_y), low),
        np.nextafter(np.float32(y + over_y), high),
    )


@inlined
def scan_block(tree: TreeLayout, block: int, place: RoundedPlace, room: MatchRoom, n: int, n_doubtful: int) -> Any:
    """Append the entries of a block that match the message to room.slots, and those in doubt; how many there are then.

    Unsigned positions and bytes let the processor compare many at once.
    """
    ints, floats, codes, hits = tree.ints, tree.floats, tree.bytes, room.hits
    x, y, x_scale, y_scale = (
        floats[block + X_ORIGIN], floats[block + Y_ORIGIN], floats[block + X_SCALE], floats[block + Y_SCALE],
    )  # fmt: skip
    left, right = code_of(place.x_low, x, x_scale), code_of(place.x_high, x, x_scale)
    bottom, top = code_of(place.y_low, y, y_scale), code_of(place.y_high, y, y_scale)
    shape = ints[block + BLOCK_SHAPE]
    past = (right == 0) | (top == 0) << 1 | (left == LAST_CODE) << 2 | (bottom == LAST_CODE) << 3
    if past & ~shape:
        return n, n_doubtful
    n_alone, n_rows = ints[block + N_ALONE], ints[block + N_ROWS]
    n_known = n_alone + ints[block + N_HASHED]
    begin = 0
    if n_alone > 0 and room.dense[ints[block + BLOCK_WORD]] == 0.0:
        begin = n_alone
    stride = np.uint64(shape >> OPEN_BITS)
    x0s = np.uint64(first_byte(ints, block))
    y0s, x1s, y1s = x0s + stride, x0s + stride + stride, x0s + stride + stride + stride
    x_low, x_high, y_low, y_high = np.uint8(left), np.uint8(right), np.uint8(bottom), np.uint8(top)
    for i in range(np.uint64(begin), np.uint64(n_rows)):
        x0, y0, x1, y1 = codes[x0s + i], codes[y0s + i], codes[x1s + i], codes[y1s + i]
        may = (x0 <= x_high) & (y0 <= y_high) & (x1 >= x_low) & (y1 >= y_low)
        does = (x0 < x_low) & (y0 < y_low) & (x1 > x_high) & (y1 > y_high)
        hits[i] = np.uint8(may) + np.uint8(does)
    slots, doubtful, seen, first, hashes = room.slots, room.doubtful, room.seen, block + HEADER, y1s + stride
    for i in range(begin, n_alone):
        slot, hit = ints[first + i], hits[i]
        slots[n], doubtful[n_doubtful] = slot, 2 * slot
        n += hit >> 1
        n_doubtful += hit & 1
    for i in range(n_alone, n_known):
        doubtful[n_doubtful] = 2 * ints[first + i]
        n_doubtful += (hits[i] != 0) & (seen[codes[hashes + np.uint64(i)]] != 0)
    for i in range(n_known, n_rows):
        doubtful[n_doubtful] = 2 * ints[first + i] + 1
        n_doubtful += hits[i] != 0
    return n, n_doubtful


@inlined
def drop_outside(n_doubtful: int, message: Any, clock: int, subscriptions: WithinLayout, doubtful: Longs) -> int:
    """Keep the doubtful entries that live and whose boxes hold the place, and prefetch their words; how many are left.

    Circles and polygons are left to the exact check.
    """
    rows, clauses = subscriptions.rows, subscriptions.clauses
    n = 0
    for i in range(min(_AHEAD, n_doubtful)):
        prefetch(rows, doubtful[i] >> 1)
    for i in range(n_doubtful):
        prefetch(rows, doubtful[min(i + _AHEAD, n_doubtful - 1)] >> 1)
        row = rows[doubtful[i] >> 1]
        if row.expires <= clock or (
            row.region_kind == BOX and not in_box(row.x0, row.y0, row.x1, row.y1, message.x, message.y)
        ):
            continue
        prefetch(clauses, row.clause_start)
        doubtful[n] = doubtful[i]
        n += 1
    return n


@inlined
def verify_doubtful(
    n_doubtful: int, messages: MessageLayout, event: Event, verify: VerifyInput, room: MatchRoom, n: int
) -> int:
    """Verify doubtful entries and append the subscriptions of those that match; returns how many there are then.

    Conditions come before regions and words: most of them fail.
    """
    subscriptions, message = verify.subscriptions, messages.rows[event.message]
    rows, conditions = subscriptions.rows, subscriptions.conditions
    for i in range(drop_outside(n_doubtful, message, event.clock, subscriptions, room.doubtful)):
        slot = room.doubtful[i] >> 1
        condition = rows[slot].condition
        if condition != NO_CONDITION and not satisfies(conditions, condition, messages.fields, event.message):
            continue
        if not within_matches(subscriptions, slot, message, verify.where, room.dense):
            continue
        if room.doubtful[i] & 1:
            if room.stamps[slot] == verify.sign * message.sequence:
                continue
            room.stamps[slot] = verify.sign * message.sequence
        room.slots[n] = slot
        n += 1
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
    ints, slots, events, doubtful = tree.ints, room.slots, room.events, room.doubtful
    leaves, leaf_start, counters = frontier.leaves, frontier.leaf_start, room.counters
    rows, probes, arrivals = descent.messages.rows, frontier.probes, descent.slots
    visitors, visits, stored = room.visitors, room.visits, descent.stored
    p, last = 0, leaf_start[n_probes] - 1
    while p < n_probes:
        event, n_twins = probes[p].event, 1 + probes[p].twin
        first, end = leaf_start[p], leaf_start[p + n_twins]
        n_rows = 0
        for i in range(first, end):
            n_rows += leaves[i].n_rows
        if n_rows >= doubtful.size:
            return p, n, n_visits, NEED_FOUND
        if n_rows >= slots.size - n or (visits.size > 0 and n_visits + end - first > visits.size):
            return p, n, n_visits, NEED_MATCHES
        message = rows[arrivals[event]]
        place = rounded_place(math.nan if n_twins == 2 else message.x, message.y)
        mark_words(descent.messages, arrivals[event], 1, room.dense, room.seen)
        before = n
        for twin in range(n_twins):
            middle, n_doubtful = n, 0
            for i in range(leaf_start[p + twin], leaf_start[p + twin + 1]):
                prefetch_block(ints, leaves[min(i + _LEAVES_AHEAD, last)])
                n, n_doubtful = scan_block(tree, INTS_PER_LINE * leaves[i].start, place, room, n, n_doubtful)
            counters[CANDIDATES] += n - middle + n_doubtful
            counters[VERIFIED] += n_doubtful
            if n_doubtful > 0:
                arrival = Event(arrivals[event], verify.clocks[event])
                n = verify_doubtful(n_doubtful, descent.messages, arrival, verify, room, n)
            if twin == 1:
                n = drop_duplicates(slots, before, middle, n)
        mark_words(descent.messages, arrivals[event], 0, room.dense, room.seen)
        events[before:n] = event
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
    tree: TreeLayout,
    descent: DescentInput,
    verify: VerifyInput,
    first: int,
    frontier: Frontier,
    room: MatchRoom,
    order: SortRoom,
) -> tuple[int, int, int, int]:
    """Write the subscriptions that match the arrivals from event `first` on, by event and slot.

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
    sort_matches(room.slots, room.events, n, order)
    for i in range(n):
        room.arrivals[i] = descent.stored[room.events[i]]
    return event, n, n_visits, shortage
