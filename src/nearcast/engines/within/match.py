"""Matches arrivals against the tree: scans the leaves that each reaches, and verifies what needs it: kernels.

Paper: [APTREE] section 3.2.3, algorithm 1, from the leaves on.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from nearcast.columns.arena import Array, Floats, Ints, Longs, with_room
from nearcast.columns.fields.conditions import NO_CONDITION, in_range, satisfies
from nearcast.columns.fields.decode import LIST, NUMBER
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
    FIELD,
    HEADER,
    INTS_PER_LINE,
    LOW_ORIGIN,
    LOW_SCALE,
    N_ALONE,
    N_HASHED,
    N_ROWS,
    NO_WORD,
    ROOT,
    TINY,
    X_ORIGIN,
    X_SCALE,
    Y_ORIGIN,
    Y_SCALE,
    TreeLayout,
)
from nearcast.engines.within.leaf_block import (
    LAST_CODE,
    code_of,
    field_at,
    first_byte,
    hash_of,
    is_ranged,
    lines_for,
    room_of,
)
from nearcast.engines.within.match_order import (
    DIGIT,
    KEY_BITS,
    MOST_GROUPED,
    Group,
    Matches,
    bits_of,
    sort_keys_of,
    write_matches,
)
from nearcast.held import opened
from nearcast.jit import BITS, NEED_ROOM, bits_at_least, bits_at_most, inlined, kernel, lowest_bit, prefetch
from nearcast.space.regions import in_box
from nearcast.space.rounding import above_any, below_any
from nearcast.space.space import SpaceInput

VISITED_LEAVES, TOUCHED, CANDIDATES, VERIFIED, MATCHED = range(5)  # positions in `counters`
N_COUNTERS = 5
DONE, NEED_FOUND, NEED_MATCHES = 0, -3, -4  # or NEED_FRONTIER: what there was too little room for, if any
_FIRST_DOUBTFUL = 1 << 14
_MOST_DOUBTED = 2048  # entries in doubt that are verified together, but for those of one message
_LEAVES_AHEAD = 5  # how many leaves ahead blocks are prefetched
_FETCHED = 16  # lines of a block that are prefetched at most
_NO_BITS, _ONE_BIT, _ALL_BITS = np.uint64(0), np.uint64(1), np.uint64(2**64 - 1)
PROBE_SHIFT, SLOT_SHIFT, SLOT_BITS = 34, 2, 0xFFFFFFFF  # an entry in doubt: probe, slot, and these two:
_ZERO = 5e-324  # stands for a number that is 0, as 0 says that there is none; no code tells them apart
INSIDE, SEVERAL = 2, 1  # does its box surely hold the place? Is it one of several clauses?


class VerifyInput(NamedTuple):
    """What candidates are verified against."""

    subscriptions: WithinLayout
    clocks: Longs  # int64[n_events]
    where: SpaceInput
    sign: int  # of stamps: +1 for arrivals, -1 for messages that are withdrawn, which were stamped when they arrived
    pairs: Ints  # int32[2 * n_slots]: two words that decide where the place is sure; NO_WORD if they do not
    asks: bool  # does any subscription have a condition?


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
    doubtful: Longs  # int64[]: entries of a group of messages to verify
    stamps: Longs  # int64[n_slots]: the last message that a subscription of several clauses was found for
    keys: Ints  # int32[]: matches of the group, as they were found; as long as `doubtful`
    spare: Ints  # int32[]: the same length
    counts: Ints  # int32[]: for each digit of a key
    found: Matches  # out
    visitors: Ints  # int32[]: out: messages, and
    visits: Ints  # int32[]: out: the parts of leaves that they came to; without room these are not kept
    counters: Longs  # int64[N_COUNTERS]


def new_match_room(n_visits: int) -> MatchRoom:
    """Little room of every kind."""
    keys, spare = np.zeros(_FIRST_DOUBTFUL, np.int32), np.zeros(_FIRST_DOUBTFUL, np.int32)
    found = Matches(*(np.zeros(4096, np.int32) for _ in Matches._fields))
    return MatchRoom(
        np.zeros(0), np.zeros(256, np.uint8), np.zeros(_FIRST_DOUBTFUL, np.int64), np.zeros(0, np.int64),
        keys, spare, np.zeros(1 << DIGIT, np.int32), found, np.zeros(n_visits, np.int32), np.zeros(n_visits, np.int32),
        np.zeros(N_COUNTERS, np.int64),
    )  # fmt: skip


def grown_match_room(room: MatchRoom, shortage: int) -> MatchRoom:
    """The same with twice the room for what there was too little of."""
    growing = ("doubtful", "keys", "spare") if shortage == NEED_FOUND else ("visitors", "visits")
    grown: dict[str, Any] = {name: with_room(getattr(room, name), 2 * getattr(room, name).size) for name in growing}
    n_found = room.found.slots.size * (1 if shortage == NEED_FOUND else 2)
    return with_new_found(room._replace(**grown), n_found)


def with_new_found(room: MatchRoom, n: int) -> MatchRoom:
    """The same with new arrays for `n` matches, as the old ones were too small or given away."""
    return room._replace(found=Matches(*(np.empty(n, np.int32) for _ in Matches._fields)))


def bytes_of_room(room: MatchRoom) -> int:
    """Bytes of what stays; many matches are given away, and what is made for the next ones is not touched yet."""
    return sum(getattr(room, name).nbytes for name in room._fields if name != "found")


@inlined
def mark_words(messages: MessageLayout, slot: int, value: int, dense: Floats, seen: Array) -> None:
    """Set or clear what tells the words of a message, and the keys of its fields, which entries ask for like words."""
    terms, message = messages.terms, messages.rows[slot]
    for i in range(message.term_start, message.term_start + message.n_terms):
        dense[terms[i]], seen[hash_of(terms[i])] = value, value
    mark_keys(messages.fields, slot, value, dense, seen)


@inlined
def mark_keys(fields: FieldLayout, slot: int, value: int, dense: Floats, seen: Array) -> None:
    """Set or clear what tells the keys of a message's fields, and by name its numbers; those that are 0 are _ZERO."""
    for i in range(n_fields(fields, slot)):
        field = fields.values[fields.spans[slot].start + i]
        if field.type == NUMBER:
            number = field.number if field.number != 0.0 else _ZERO
            dense[field.name] = number if value else 0.0
        if field.type != LIST:
            dense[field.key], seen[hash_of(field.key)] = value, value


@inlined
def prefetch_block(ints: Ints, leaf: Any) -> None:
    """Prefetch the block of a leaf that will be scanned soon."""
    for line in range(leaf.start, leaf.start + min(lines_for(leaf.n_rows, False), _FETCHED)):
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


@kernel
def codes_of_number(tree: TreeLayout, block: int, dense: Floats) -> Any:
    """The message's number, rounded down and up, as codes of a ranged block; LAST_CODE and 0 if there is none."""
    at = field_at(tree.ints, block)
    number = dense[tree.ints[at + FIELD]]
    if number == 0.0:
        return LAST_CODE, 0
    origin, scale = tree.floats[at + LOW_ORIGIN], tree.floats[at + LOW_SCALE]
    return code_of(below_any(number), origin, scale), code_of(above_any(number), origin, scale)


@kernel
def ranges_met(codes: Array, at: Any, stride: Any, low: Any, high: Any) -> tuple[Any, Any]:
    """Which of up to 64 ranges may hold a number between two codes, and which surely do, as bits.

    Without a number, when `low` is above `high`, those may that ask for none, and none surely does.
    """
    small, large = np.uint8(low), np.uint8(high)
    may = bits_at_most(codes, at, large) & bits_at_least(codes, at + stride, small)
    tie = bits_at_least(codes, at, small) | bits_at_most(codes, at + stride, large)
    return may, may & ~tie if low <= high else _NO_BITS


@inlined
def scan_block(
    tree: TreeLayout,
    leaf: Any,
    event_key: int,
    place: RoundedPlace,
    pairs: Ints,
    room: MatchRoom,
    n: int,
    n_doubtful: int,
) -> Any:
    """Append the entries of a leaf that match the message to room.keys, and those in doubt; how many there are then.

    Up to 64 entries are compared at a time, and only those that meet the place are looked at one by one. The words of
    those in doubt are prefetched.
    """
    ints, floats, codes, keys, doubtful, seen = (
        tree.ints,
        tree.floats,
        tree.bytes,
        room.keys,
        room.doubtful,
        room.seen,
    )
    block, probe = INTS_PER_LINE * leaf.start, np.int64(leaf.probe) << PROBE_SHIFT
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
    stride, at, first = np.int64(room_of(shape)), first_byte(ints, block), block + HEADER
    hashes, ranged = at + 4 * stride, is_ranged(shape)
    low, high = 0, 0
    if ranged:
        low, high = codes_of_number(tree, block, room.dense)
    i = begin
    while i < n_rows:
        may, inside = boxes_met(codes, at + i, stride, strip)
        if ranged:
            may_hold, surely_holds = ranges_met(codes, hashes + stride + i, stride, low, high)
            may, inside = may & may_hold, inside & surely_holds
        surely = inside & low_bits(n_alone - i)
        may &= low_bits(n_rows - i) & ~surely
        while surely != _NO_BITS:
            keys[n] = event_key | ints[first + i + lowest_bit(surely)]
            n += 1
            surely &= surely - _ONE_BIT
        while may != _NO_BITS:
            bit = lowest_bit(may)
            row = i + bit
            may &= may - _ONE_BIT
            slot, several = np.int64(ints[first + row]), row >= n_known
            is_inside = INSIDE if inside >> np.uint64(bit) & _ONE_BIT else 0
            doubtful[n_doubtful] = probe | slot << SLOT_SHIFT | is_inside | (SEVERAL if several else 0)
            holds = (row < n_alone) | several | (seen[codes[hashes + row]] != 0)
            if holds:
                prefetch(pairs, 2 * slot)
                n_doubtful += 1
        i += BITS
    return n, n_doubtful


@kernel
def decide_pairs(
    first: int, n_doubtful: int, event_key: int, verify: VerifyInput, room: MatchRoom, n: int
) -> tuple[int, int]:
    """Decide about the doubtful entries from `first` on, all of one message, whose place is sure and words are few.

    Rows of those that stay in doubt are prefetched. Returns how many matches and how many doubtful there are then.
    """
    pairs, doubtful, keys, dense, rows = verify.pairs, room.doubtful, room.keys, room.dense, verify.subscriptions.rows
    kinds, left = rows["region_kind"], first
    for i in range(first, n_doubtful):
        slot = doubtful[i] >> SLOT_SHIFT & SLOT_BITS
        word, other = pairs[2 * slot], pairs[2 * slot + 1]
        if doubtful[i] & INSIDE and word != NO_WORD:
            keys[n] = event_key | slot
            n += 1 if (dense[word] != 0.0) & (dense[other] != 0.0) else 0
            continue
        prefetch(rows, slot)
        prefetch(kinds, slot)
        doubtful[left] = doubtful[i]
        left += 1
    return n, left


@kernel
def drop_outside(n_doubtful: int, descent: DescentInput, verify: VerifyInput, probes: Array, doubtful: Longs) -> int:
    """Keep the doubtful entries that live, and whose boxes hold the place; how many.

    Their words are prefetched, or first their conditions. Circles and polygons are left to the exact check.
    """
    rows, clauses, conditions = verify.subscriptions.rows, verify.subscriptions.clauses, verify.subscriptions.conditions
    messages, arrivals, clocks = descent.messages.rows, descent.slots, verify.clocks
    n = 0
    for i in range(n_doubtful):
        event = probes[doubtful[i] >> PROBE_SHIFT].event
        row, message = rows[doubtful[i] >> SLOT_SHIFT & SLOT_BITS], messages[arrivals[event]]
        if row.expires <= clocks[event] or (
            row.region_kind == BOX and not in_box(row.x0, row.y0, row.x1, row.y1, message.x, message.y)
        ):
            continue
        if row.condition != NO_CONDITION:
            prefetch(conditions.rows, row.condition)
        else:
            prefetch(clauses, row.clause_start)
        doubtful[n] = doubtful[i]
        n += 1
    return n


@kernel
def drop_unsatisfied(
    n_doubtful: int, descent: DescentInput, verify: VerifyInput, probes: Array, doubtful: Longs, ranges_only: bool
) -> int:
    """Keep the doubtful entries whose conditions are satisfied, or which have none; how many.

    With `ranges_only` conditions are asked for the range of a number alone, and their comparisons are prefetched for
    the next turn. Most fail, so that their words are never looked at; those of the others are prefetched then.
    """
    rows, clauses, conditions = verify.subscriptions.rows, verify.subscriptions.clauses, verify.subscriptions.conditions
    fields, arrivals, comparisons = descent.messages.fields, descent.slots, conditions.comparisons
    n = 0
    for i in range(n_doubtful):
        row = rows[doubtful[i] >> SLOT_SHIFT & SLOT_BITS]
        if row.condition != NO_CONDITION:
            message, condition = arrivals[probes[doubtful[i] >> PROBE_SHIFT].event], conditions.rows[row.condition]
            if ranges_only:
                if condition.ranged != NO_WORD and not in_range(condition, fields, message):
                    continue
                prefetch(comparisons, condition.start)
            else:
                if not satisfies(conditions, row.condition, fields, message):
                    continue
                prefetch(clauses, row.clause_start)
        doubtful[n] = doubtful[i]
        n += 1
    return n


@kernel
def is_among(keys: Ints, first: int, end: int, key: int) -> bool:
    """Is a key among keys[first:end]?"""
    for i in range(first, end):
        if keys[i] == key:
            return True
    return False


@kernel
def verify_doubtful(
    n_doubtful: int, descent: DescentInput, verify: VerifyInput, probes: Array, room: MatchRoom, group: Group, n: int
) -> int:
    """Verify doubtful entries and append the keys of those that match; returns how many there are then.

    They come message by message. A message that is looked for under two longitudes is only ever in doubt, so that what
    both find shows here.
    """
    subscriptions, messages, doubtful, keys = verify.subscriptions, descent.messages, room.doubtful, room.keys
    rows, arrivals = subscriptions.rows, descent.slots
    n_left = drop_outside(n_doubtful, descent, verify, probes, doubtful)
    if verify.asks and n_left > 0:
        n_left = drop_unsatisfied(n_left, descent, verify, probes, doubtful, True)
        n_left = drop_unsatisfied(n_left, descent, verify, probes, doubtful, False)
    event, before = -1, n
    for i in range(n_left):
        probe = probes[doubtful[i] >> PROBE_SHIFT]
        if probe.event != event:
            if event >= 0:
                mark_words(messages, arrivals[event], 0, room.dense, room.seen)
            event, before = probe.event, n
            mark_words(messages, arrivals[event], 1, room.dense, room.seen)
        slot, message = doubtful[i] >> SLOT_SHIFT & SLOT_BITS, messages.rows[arrivals[event]]
        key = (event - group.first) << group.slot_bits | slot
        if rows[slot].region_kind == BOX:  # checked by `drop_outside`
            if not clauses_hold(subscriptions, slot, room.dense):
                continue
        elif not within_matches(subscriptions, slot, message, verify.where, room.dense):
            continue
        if doubtful[i] & SEVERAL:
            if room.stamps[slot] == verify.sign * message.sequence:
                continue
            room.stamps[slot] = verify.sign * message.sequence
        elif probes[max((doubtful[i] >> PROBE_SHIFT) - 1, 0)].twin and is_among(keys, before, n, key):
            continue
        keys[n] = key
        n += 1
    if event >= 0:
        mark_words(messages, arrivals[event], 0, room.dense, room.seen)
    return n


@inlined
def put_in_order(n: int, group: Group, stored: Ints, room: MatchRoom, n_out: int) -> int:
    """Write the matches of a group, `n` keys so far without order, behind the others; how many there are then."""
    in_spare = sort_keys_of(room.keys, room.spare, n, room.counts)
    write_matches(room.spare if in_spare else room.keys, n, group, stored, room.found, n_out)
    return n_out + n


class Pending(NamedTuple):
    """Of a group: matches, and entries in doubt."""

    n: int
    n_doubtful: int


class Found(NamedTuple):
    """How far matching came."""

    resume: int  # the probe, or the event, to resume with
    n: int  # matches
    n_visits: int
    shortage: int  # DONE, or what there was too little room for


@inlined
def shortage_for(n_rows: Any, n_leaves: int, n: int, n_visits: int, room: MatchRoom) -> int:
    """What there is too little room for behind `n` matches, if a message meets this many rows and leaves."""
    if n_rows >= room.doubtful.size:
        return NEED_FOUND
    if n_rows >= room.found.slots.size - n or (room.visits.size > 0 and n_visits + n_leaves > room.visits.size):
        return NEED_MATCHES
    return DONE


@inlined
def scan_leaves(
    tree: TreeLayout, descent: DescentInput, verify: VerifyInput, p: int, frontier: Frontier, room: MatchRoom,
    group: Group, pending: Pending,
) -> Pending:  # fmt: skip
    """Scan the leaves of the message whose first probe is `p`."""
    leaves, leaf_start, counters, probe = frontier.leaves, frontier.leaf_start, room.counters, frontier.probes[p]
    last, n, n_doubtful = leaves.size - 1, pending.n, pending.n_doubtful
    slot, event_key = descent.slots[probe.event], (probe.event - group.first) << group.slot_bits
    message = descent.messages.rows[slot]
    place = rounded_place(math.nan if probe.twin else message.x, message.y)
    mark_words(descent.messages, slot, 1, room.dense, room.seen)
    for i in range(leaf_start[p], leaf_start[p + 1 + probe.twin]):
        prefetch_block(tree.ints, leaves[min(i + _LEAVES_AHEAD, last)])
        n, n_doubtful = scan_block(tree, leaves[i], event_key, place, verify.pairs, room, n, n_doubtful)
    counters[CANDIDATES] += n - pending.n + n_doubtful - pending.n_doubtful
    n, n_doubtful = decide_pairs(pending.n_doubtful, n_doubtful, event_key, verify, room, n)
    counters[VERIFIED] += n_doubtful - pending.n_doubtful
    mark_words(descent.messages, slot, 0, room.dense, room.seen)
    return Pending(n, n_doubtful)


@kernel
def match_chunk(
    tree: TreeLayout, descent: DescentInput, verify: VerifyInput, n_probes: int, frontier: Frontier, room: MatchRoom,
    n: int, n_visits: int,
) -> Found:  # fmt: skip
    """Write the subscriptions that match a chunk of messages whose leaves are found, behind `n` others.

    What is in doubt is verified for a group of messages together, so that rows and clauses are in the cache by then.
    """
    leaves, leaf_start, probes, stored = frontier.leaves, frontier.leaf_start, frontier.probes, descent.stored
    bits, counters = bits_of(verify.subscriptions.rows.size), room.counters
    p, pending, shortage, before = 0, Pending(0, 0), DONE, n
    group = Group(probes[0].event, bits)
    while p < n_probes:
        event, after = probes[p].event, p + 1 + probes[p].twin
        first, end, n_rows = leaf_start[p], leaf_start[after], np.int64(0)
        for i in range(first, end):
            n_rows += leaves[i].n_rows
        n_pending = pending.n + pending.n_doubtful
        full = n_pending > MOST_GROUPED or pending.n_doubtful > _MOST_DOUBTED or n_rows >= room.keys.size - n_pending
        shortage = shortage_for(n_rows, end - first, n + n_pending, n_visits, room)
        if full or shortage != DONE or (event - group.first) >> (KEY_BITS - bits) > 0:
            n_grouped = verify_doubtful(pending.n_doubtful, descent, verify, probes, room, group, pending.n)
            n = put_in_order(n_grouped, group, stored, room, n)
            group, pending = Group(event, bits), Pending(0, 0)
            shortage = shortage_for(n_rows, end - first, n, n_visits, room)
        if shortage != DONE:
            break
        pending = scan_leaves(tree, descent, verify, p, frontier, room, group, pending)
        if room.visits.size > 0:
            for i in range(first, end):
                room.visitors[n_visits], room.visits[n_visits] = stored[event], leaves[i].part
                n_visits += 1
        counters[VISITED_LEAVES] += end - first
        counters[TOUCHED] += n_rows
        p = after
    n_grouped = verify_doubtful(pending.n_doubtful, descent, verify, probes, room, group, pending.n)
    n = put_in_order(n_grouped, group, stored, room, n)
    counters[MATCHED] += n - before
    return Found(p, n, n_visits, shortage)


@kernel
def match_many(
    tree: TreeLayout, descent: DescentInput, verify: VerifyInput, first: int, frontier: Frontier, room: MatchRoom
) -> Found:
    """Write the subscriptions that match the arrivals from event `first` on to room.found, by event and slot.

    The caller takes the matches and visits before it resumes, so there is room again for those of the next events.
    """
    n, n_visits, event, n_events, shortage = 0, 0, first, descent.slots.size, DONE
    while event < n_events:
        end = min(event + CHUNK, n_events)
        n_probes = find_leaves(tree, descent, event, end, ROOT, frontier)
        if n_probes == NEED_ROOM:
            shortage = NEED_FRONTIER
            break
        if n_probes > 0:
            p, n, n_visits, shortage = match_chunk(tree, descent, verify, n_probes, frontier, room, n, n_visits)
            if shortage != DONE:
                event = frontier.probes[p].event
                break
        event = end
    return Found(event, n, n_visits, shortage)


class MatchCall(NamedTuple):
    """All that `match_many` reads and writes."""

    tree: TreeLayout
    descent: DescentInput
    verify: VerifyInput
    frontier: Frontier
    room: MatchRoom


@kernel
def match_held(held: Any, first: int) -> Found:
    """`match_many` for a `Held` call."""
    call = opened(held)
    return match_many(call.tree, call.descent, call.verify, first, call.frontier, call.room)
