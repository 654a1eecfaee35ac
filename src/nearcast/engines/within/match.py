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
from nearcast.columns.subscription_tables import WithinLayout, clauses_hold
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
from nearcast.engines.within.match_order import SortRoom, Span, sort_matches
from nearcast.held import opened
from nearcast.jit import BITS, NEED_ROOM, bits_at_least, bits_at_most, inlined, kernel, lowest_bit, prefetch
from nearcast.space.regions import in_box
from nearcast.space.space import SpaceInput

VISITED_LEAVES, TOUCHED, CANDIDATES, VERIFIED, MATCHED = range(5)  # positions in `counters`
N_COUNTERS = 5
DONE, NEED_FOUND, NEED_MATCHES = 0, -3, -4  # or NEED_FRONTIER: what there was too little room for, if any
_FIRST_DOUBTFUL = 1 << 14
_LEAVES_AHEAD = 5  # how many leaves ahead blocks are prefetched
_FETCHED = 16  # lines of a block that are prefetched at most
_NO_BITS, _ONE_BIT, _ALL_BITS = np.uint64(0), np.uint64(1), np.uint64(2**64 - 1)
PROBE_SHIFT, SLOT_BITS = 33, 0xFFFFFFFF  # an entry in doubt: probe, slot, and is it one of several clauses?


class VerifyInput(NamedTuple):
    """What candidates are verified against."""

    subscriptions: WithinLayout
    clocks: Longs  # int64[n_events]
    where: SpaceInput
    sign: int  # of stamps: +1 for arrivals, -1 for messages that are withdrawn, which were stamped when they arrived


class Strips(NamedTuple):
    """A rounded place as codes of a block's frame: uint8 each."""

    left: Any
    right: Any
    bottom: Any
    top: Any


class MatchRoom(NamedTuple):
    """Scratch and room of matching."""

    dense: Floats  # float64[n_terms]: 1 for the words of the message, zeros between calls
    seen: Array  # uint8[256]: 1 for the hashes of its words, zeros between calls
    doubtful: Longs  # int64[]: entries to verify: a probe, a slot, and is it one of several clauses?
    stamps: Longs  # int64[n_slots]: the last message that a subscription of several clauses was found for
    events: Ints  # int32[]: the event of each match, as it was found
    slots: Ints  # int32[]: the subscription
    arrivals: Ints  # int32[]: out: the message of each match, in order
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
            np.zeros(_FIRST_DOUBTFUL, np.int64),
            np.zeros(0, np.int64),
            *ints,
            np.zeros(n_visits, np.int32),
            np.zeros(n_visits, np.int32),
            np.zeros(N_COUNTERS, np.int64),
        ]
    )


def grown_match_room(room: MatchRoom, shortage: int) -> MatchRoom:
    """The same with twice the room for what there was too little of."""
    if shortage == NEED_FOUND:
        return room._replace(doubtful=with_room(room.doubtful, 2 * room.doubtful.size))
    growing = ("events", "arrivals", "slots", "visitors", "visits")
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
    are about as large as its coordinate. What is added covers rounding to float32 as well.
    """
    over_x, over_y = 5.0 * BLUR * abs(x) + 2.0 * TINY, 5.0 * BLUR * abs(y) + 2.0 * TINY
    if math.isnan(x):
        x, over_x = 0.0, np.inf
    return RoundedPlace(np.float32(x - over_x), np.float32(x + over_x), np.float32(y - over_y), np.float32(y + over_y))


@kernel
def low_bits(n: Any) -> Any:
    """The lowest `n` bits set, none if there are none, all 64 if there are more."""
    if n <= 0:
        return np.uint64(0)
    return _ALL_BITS >> np.uint64(BITS - min(n, BITS))


@inlined
def boxes_met(codes: Array, at: Any, stride: Any, strip: Strips) -> tuple[Any, Any]:
    """Which of up to 64 boxes from a byte on may hold a place, and which surely do not lie about its strip, as bits."""
    x0s, y0s, x1s, y1s = at, at + stride, at + 2 * stride, at + 3 * stride
    may = (
        bits_at_most(codes, x0s, strip.right)
        & bits_at_most(codes, y0s, strip.top)
        & bits_at_least(codes, x1s, strip.left)
        & bits_at_least(codes, y1s, strip.bottom)
    )
    tie = (
        bits_at_least(codes, x0s, strip.left)
        | bits_at_least(codes, y0s, strip.bottom)
        | bits_at_most(codes, x1s, strip.right)
        | bits_at_most(codes, y1s, strip.top)
    )
    return may, may & ~tie


@inlined
def scan_block(
    tree: TreeLayout, block: int, probe: int, place: RoundedPlace, rows: Array, room: MatchRoom, n: int, n_doubtful: int
) -> Any:
    """Append the entries of a block that match the message to room.slots, and those in doubt; how many there are then.

    Up to 64 entries are compared at a time, and only those that meet the place are looked at one by one. Rows of those
    in doubt are prefetched.
    """
    ints, floats, codes, slots, doubtful, seen = (
        tree.ints,
        tree.floats,
        tree.bytes,
        room.slots,
        room.doubtful,
        room.seen,
    )
    x, y, x_scale, y_scale = (
        floats[block + X_ORIGIN], floats[block + Y_ORIGIN], floats[block + X_SCALE], floats[block + Y_SCALE],
    )  # fmt: skip
    left, right = code_of(place.x_low, x, x_scale), code_of(place.x_high, x, x_scale)
    bottom, top = code_of(place.y_low, y, y_scale), code_of(place.y_high, y, y_scale)
    shape = ints[block + BLOCK_SHAPE]
    past = (right == 0) | (top == 0) << 1 | (left == LAST_CODE) << 2 | (bottom == LAST_CODE) << 3
    if past & ~shape:
        return n, n_doubtful
    n_alone, n_rows = np.int64(ints[block + N_ALONE]), np.int64(ints[block + N_ROWS])
    n_known = n_alone + ints[block + N_HASHED]
    begin = np.int64(0)
    if n_alone > 0 and room.dense[ints[block + BLOCK_WORD]] == 0.0:
        begin = n_alone
    strip = Strips(np.uint8(left), np.uint8(right), np.uint8(bottom), np.uint8(top))
    stride, at, first, kinds = (
        np.int64(shape >> OPEN_BITS),
        first_byte(ints, block),
        block + HEADER,
        rows["region_kind"],
    )
    hashes = at + 4 * stride
    i = begin
    while i < n_rows:
        may, surely = boxes_met(codes, at + i, stride, strip)
        may &= low_bits(n_rows - i)
        surely &= low_bits(n_alone - i)
        may &= ~surely
        while surely != _NO_BITS:
            slots[n] = ints[first + i + lowest_bit(surely)]
            n += 1
            surely &= surely - _ONE_BIT
        while may != _NO_BITS:
            row = i + lowest_bit(may)
            may &= may - _ONE_BIT
            slot, several = np.int64(ints[first + row]), row >= n_known
            doubtful[n_doubtful] = np.int64(probe) << PROBE_SHIFT | slot << 1 | (1 if several else 0)
            holds = (row < n_alone) | several | (seen[codes[hashes + row]] != 0)
            if holds:
                prefetch(rows, slot)
                prefetch(kinds, slot)
                n_doubtful += 1
        i += BITS
    return n, n_doubtful


@kernel
def drop_outside(n_doubtful: int, descent: DescentInput, verify: VerifyInput, probes: Array, doubtful: Longs) -> int:
    """Keep the doubtful entries that live and whose boxes hold the place, and prefetch their words; how many are left.

    Circles and polygons are left to the exact check.
    """
    rows, clauses = verify.subscriptions.rows, verify.subscriptions.clauses
    messages, arrivals, clocks = descent.messages.rows, descent.slots, verify.clocks
    n = 0
    for i in range(n_doubtful):
        event = probes[doubtful[i] >> PROBE_SHIFT].event
        row, message = rows[doubtful[i] >> 1 & SLOT_BITS], messages[arrivals[event]]
        if row.expires <= clocks[event] or (
            row.region_kind == BOX and not in_box(row.x0, row.y0, row.x1, row.y1, message.x, message.y)
        ):
            continue
        prefetch(clauses, row.clause_start)
        doubtful[n] = doubtful[i]
        n += 1
    return n


@kernel
def is_among(slots: Ints, first: int, end: int, slot: int) -> bool:
    """Is a slot among slots[first:end]?"""
    for i in range(first, end):
        if slots[i] == slot:
            return True
    return False


@kernel
def verify_doubtful(
    n_doubtful: int, descent: DescentInput, verify: VerifyInput, probes: Array, room: MatchRoom, n: int
) -> int:
    """Verify doubtful entries and append the subscriptions of those that match; returns how many there are then.

    They come message by message. Conditions come before regions and words: most of them fail. A message that is looked
    for under two longitudes is only ever in doubt, so that what both find shows here.
    """
    subscriptions, messages, doubtful, slots = verify.subscriptions, descent.messages, room.doubtful, room.slots
    rows, conditions, arrivals = subscriptions.rows, subscriptions.conditions, descent.slots
    n_left = drop_outside(n_doubtful, descent, verify, probes, doubtful)
    event, before = -1, n
    for i in range(n_left):
        probe = probes[doubtful[i] >> PROBE_SHIFT]
        if probe.event != event:
            if event >= 0:
                mark_words(messages, arrivals[event], 0, room.dense, room.seen)
            event, before = probe.event, n
            mark_words(messages, arrivals[event], 1, room.dense, room.seen)
        slot, message = doubtful[i] >> 1 & SLOT_BITS, messages.rows[arrivals[event]]
        condition = rows[slot].condition
        if condition != NO_CONDITION and not satisfies(conditions, condition, messages.fields, arrivals[event]):
            continue
        if rows[slot].region_kind == BOX:  # checked by `drop_outside`
            if not clauses_hold(subscriptions, slot, room.dense):
                continue
        elif not within_matches(subscriptions, slot, message, verify.where, room.dense):
            continue
        if doubtful[i] & 1:
            if room.stamps[slot] == verify.sign * message.sequence:
                continue
            room.stamps[slot] = verify.sign * message.sequence
        elif probes[max((doubtful[i] >> PROBE_SHIFT) - 1, 0)].twin and is_among(slots, before, n, slot):
            continue
        slots[n], room.events[n] = slot, event
        n += 1
    if event >= 0:
        mark_words(messages, arrivals[event], 0, room.dense, room.seen)
    return n


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

    What is in doubt is verified for many messages together, so that rows and clauses are in the cache by then.

    Returns the probe to resume with, the numbers of matches and visits so far, and what there was too little room for.
    """
    ints, slots, doubtful, rows = tree.ints, room.slots, room.doubtful, verify.subscriptions.rows
    leaves, leaf_start, counters = frontier.leaves, frontier.leaf_start, room.counters
    probes, arrivals, messages = frontier.probes, descent.slots, descent.messages
    p, last, n_doubtful, n_before, shortage = 0, leaf_start[n_probes] - 1, 0, n, DONE
    while p < n_probes:
        event, n_twins = probes[p].event, 1 + probes[p].twin
        first, end = leaf_start[p], leaf_start[p + n_twins]
        n_rows = 0
        for i in range(first, end):
            n_rows += leaves[i].n_rows
        if n_doubtful > 0 and n_rows >= doubtful.size - n_doubtful:
            n, n_doubtful = verify_doubtful(n_doubtful, descent, verify, probes, room, n), 0
        if n_rows >= doubtful.size:
            shortage = NEED_FOUND
        elif n_rows + n_doubtful >= slots.size - n or (
            room.visits.size > 0 and n_visits + end - first > room.visits.size
        ):
            shortage = NEED_MATCHES
        if shortage != DONE:
            break
        message = messages.rows[arrivals[event]]
        place = rounded_place(math.nan if n_twins == 2 else message.x, message.y)
        mark_words(messages, arrivals[event], 1, room.dense, room.seen)
        middle, had = n, n_doubtful
        for i in range(first, end):
            prefetch_block(ints, leaves[min(i + _LEAVES_AHEAD, last)])
            block, probe = INTS_PER_LINE * leaves[i].start, leaves[i].probe
            n, n_doubtful = scan_block(tree, block, probe, place, rows, room, n, n_doubtful)
        room.events[middle:n] = event
        mark_words(messages, arrivals[event], 0, room.dense, room.seen)
        counters[CANDIDATES] += n - middle + n_doubtful - had
        counters[VERIFIED] += n_doubtful - had
        if room.visits.size > 0:
            for i in range(first, end):
                room.visitors[n_visits], room.visits[n_visits] = descent.stored[event], leaves[i].part
                n_visits += 1
        counters[VISITED_LEAVES] += end - first
        counters[TOUCHED] += n_rows
        p += n_twins
    n = verify_doubtful(n_doubtful, descent, verify, probes, room, n)
    counters[MATCHED] += n - n_before
    return p, n, n_visits, shortage


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
    sort_matches(room.slots, room.events, n, Span(first, event), order)
    for i in range(n):
        room.arrivals[i] = descent.stored[order.events[i]]
    return event, n, n_visits, shortage


class MatchCall(NamedTuple):
    """All that `match_many` reads and writes."""

    tree: TreeLayout
    descent: DescentInput
    verify: VerifyInput
    frontier: Frontier
    room: MatchRoom
    order: SortRoom


@kernel
def match_held(held: Any, first: int) -> tuple[int, int, int, int]:
    """`match_many` for a `Held` call."""
    call = opened(held)
    return match_many(call.tree, call.descent, call.verify, first, call.frontier, call.room, call.order)
