"""Finds the subscriptions whose buffers a message may enter, and ranks the message exactly for each: kernels.

Words are taken from the rarest on. For each, cells, groups and postings are skipped whose keys say that the rest of the
message from this word on is too short for them, wherever it lies or at least from as far away as it is. What is left is
looked at one by one: first by place, the word at hand and what its other words can add, first as many words as may be
shared and then those very words, then by its whole text, then by the exact score.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from nearcast.columns.arena import Array, Floats, Ints, Longs
from nearcast.columns.fields.conditions import NO_CONDITION, satisfies
from nearcast.columns.scores import gather, scatter
from nearcast.engines.blocks import block_room
from nearcast.engines.exact import topk_rank
from nearcast.engines.topk.keys import bit_number, bit_of, comes_before, n_bits, point_of
from nearcast.engines.topk.layout import (
    AFTER_BITS,
    ALPHA,
    BITS,
    CANDIDATES,
    CELLS,
    CELLS_SKIPPED,
    FLOOR,
    GROUPS,
    GROUPS_SKIPPED,
    HIDDEN_BITS,
    LANES,
    LENGTHS,
    MANY,
    POINT,
    VERIFIED,
    VISITED,
    WHOLE,
    WIDTH,
    PostingPool,
    SubscriptionLayout,
)
from nearcast.engines.topk.postings import strip_of
from nearcast.engines.topk.sift import Place, Text, place_in_lanes, sift_strip, text_in_lanes
from nearcast.jit import NEED_ROOM, allocating, kernel, lowest_bit, prefetch
from nearcast.space.hilbert import at_least, box_squared
from nearcast.space.rounding import above
from nearcast.window.read_ahead import prefetch_record

_LOOSE = 1e-12
_BLUR = 4e-7  # relative; more than a float32 point is off
_AHEAD = 8  # candidates between the steps of reading ahead
_GROUPS_AHEAD, _STRIPS_AHEAD = 2, 2  # groups that are read ahead, and strips of each
_LINE = 16  # numbers of 32 bits that a line of the processor's cache holds


class MessagePoint(NamedTuple):
    """A message's point and the space."""

    x: float
    y: float
    z: float
    blur: float  # by which distances to rounded points may be too long, besides a share of their own
    metric: int
    max_distance: float
    place: Place  # the same for many postings at once


class MessageWord(NamedTuple):
    """One of a message's words."""

    position: int  # among its words, the rarest first
    unit: float  # its weight in the message's unit vector, by WHOLE
    bits: int  # of the words after it
    text: Text  # the same for many postings at once


class Probe(NamedTuple):
    """Scratch for one message."""

    words: Ints  # int32[n]: its words, the rarest first
    units: Floats  # float64[n]: their weights in its unit vector
    reaches: Floats  # float64[n]: length of its unit vector from each word on
    tails: Floats  # float64[n * (MANY + 1)]: by word and n: how long n of the words after it can be, by WHOLE
    bits: Longs  # int64[n]: of the words after each
    squares: Floats  # float64[N_BITS]: of its unit vector after the word at hand, by the bits of words
    candidates: Array  # CANDIDATE[]
    visits: Array  # VISIT[]


@kernel
def sort_words(messages: Any, message: Any, idf: Floats, probe: Probe) -> None:
    """Write the words of a message, the rarest first, and their unit weights: a shell sort."""
    words, units = probe.words, probe.units
    n = message.n_terms
    for i in range(n):
        words[i] = messages.terms[message.term_start + i]
        units[i] = messages.counts[message.term_start + i] * idf[words[i]] / message.norm
    gap = 1
    while gap < n // 3:
        gap = 3 * gap + 1
    while gap > 0:
        for i in range(gap, n):
            word, unit = words[i], units[i]
            j = i
            while j >= gap and comes_before(idf[word], word, idf[words[j - gap]], words[j - gap]):
                words[j], units[j] = words[j - gap], units[j - gap]
                j -= gap
            words[j], units[j] = word, unit
        gap //= 3


@allocating
def measure_rests(probe: Probe, n: int) -> None:
    """Write, for every word, the lengths of the message's unit vector from it on and after it, and the bits after it.

    Paper: [SKYPE] section 5.2, wtsum and maxwt (equations 5 and 6) and the unseen keywords (equation 7).
    Departs: whoever shares at most r of the words after this one meets at most their r largest weights.
    """
    units, tails = probe.units, probe.tails
    best = np.zeros(MANY)  # squares of the largest weights after the word at hand
    total = 0.0
    bits = 0
    for i in range(n - 1, -1, -1):
        square = units[i] * units[i]
        at = i * (MANY + 1)
        partial = 0.0
        for r in range(MANY):
            tails[at + r] = math.sqrt(partial) / WHOLE * (1.0 + _LOOSE)
            partial += best[r]
        tails[at + MANY] = math.sqrt(total) / WHOLE * (1.0 + _LOOSE)
        total += square
        probe.reaches[i] = math.sqrt(total) * (1.0 + _LOOSE)
        probe.bits[i] = bits
        bits |= bit_of(probe.words[i])
        for r in range(MANY):
            if square > best[r]:
                best[r], square = square, best[r]


@kernel
def ssim_bound(point: MessagePoint, squared: float) -> Any:
    """What the similarity of the message's place does not exceed, for a subscription at this squared distance.

    A point is rounded by a share of its distance from the origin: no more than that of the message, and the way to it.
    """
    away = max(0.0, math.sqrt(squared) * (1.0 - _BLUR) - point.blur)
    return max(0.0, 1.0 - at_least(point.metric, away * away) / point.max_distance) + _LOOSE


@kernel
def wants(pool: PostingPool, at: int, stride: int, point: MessagePoint, word: MessageWord, tails: Floats) -> float:
    """What the similarity of places does not exceed for a posting, or -1 if its subscription cannot want the message.

    `tails` says how long the message's vector can be after the word.
    """
    ints, lanes = pool
    n_shared = n_bits(np.int64(ints[at + BITS * stride]) & word.bits)
    if n_shared > 0:
        n_shared = min(n_shared + (ints[at] & MANY), MANY)
    lengths = np.int64(ints[at + LENGTHS * stride])
    text = (lengths & WHOLE) * word.unit + ((lengths >> AFTER_BITS) & WHOLE) * tails[n_shared]
    dx = np.float64(lanes[at + POINT * stride]) - point.x
    dy = np.float64(lanes[at + (POINT + 1) * stride]) - point.y
    dz = np.float64(lanes[at + (POINT + 2) * stride]) - point.z
    near = ssim_bound(point, dx * dx + dy * dy + dz * dz)
    alpha = np.float64(lanes[at + ALPHA * stride])
    return near if alpha * near + (1.0 - alpha) * text + _LOOSE >= lanes[at + FLOOR * stride] else -1.0


@kernel
def reaches(pool: PostingPool, at: int, stride: int, near: float, word: MessageWord, squares: Floats) -> Any:
    """May the text suffice for a posting whose similarity of places is at most `near`, by the very words it may share?

    Half of those that `wants` lets pass fail here, before anything else of their subscriptions is read (2026-11-20).
    """
    ints, lanes = pool
    shared, total = np.int64(ints[at + BITS * stride]) & word.bits, 0.0
    while shared > 0:
        total += squares[np.int64(lowest_bit(np.uint64(shared)))]
        shared &= shared - 1
    lengths = np.int64(ints[at + LENGTHS * stride])
    after = math.sqrt(total) / WHOLE * (1.0 + _LOOSE)
    text = (lengths & WHOLE) * word.unit + ((lengths >> AFTER_BITS) & WHOLE) * after
    alpha = np.float64(lanes[at + ALPHA * stride])
    return alpha * near + (1.0 - alpha) * text + _LOOSE >= lanes[at + FLOOR * stride]


@kernel
def scan_group(
    pool: PostingPool, group: Any, last: Any, point: MessagePoint, word: MessageWord, probe: Probe, n: int
) -> tuple[Any, Any]:
    """Add the subscriptions of a group that may want the message to the `n` candidates.

    Postings are looked at up to the first whose key exceeds `last`. Returns how many candidates there are then, and how
    many were looked at.
    """
    tails = probe.tails[word.position * (MANY + 1) : (word.position + 1) * (MANY + 1)]
    room = np.int64(block_room(group.room))
    n_visited = np.int64(0)
    for first in range(0, group.n, LANES):
        strip, stride = strip_of(np.int64(group.start), room, np.int64(first))
        n_here = min(group.n - first, LANES)
        fetch_strip(pool, group, first + _STRIPS_AHEAD * LANES)
        found, n_sought = sift_strip(pool, strip, stride, n_here, point.place, word.text, last)
        n_visited += n_sought
        lane = 0
        while found > 0:
            if found & 1:
                near = wants(pool, strip + lane, stride, point, word, tails)
                if near >= 0.0 and reaches(pool, strip + lane, stride, near, word, probe.squares):
                    candidate = probe.candidates[n]
                    candidate.slot, candidate.word = pool.ints[strip + lane] >> HIDDEN_BITS, word.position
                    candidate.near, candidate.floor = near, pool.lanes[strip + lane + FLOOR * stride]
                    n += 1
            found >>= 1
            lane += 1
        if n_sought < n_here:
            break
    return n, n_visited


@kernel
def fetch_strip(pool: PostingPool, group: Any, first: int) -> None:
    """Have the strip of a group read ahead in which a posting lies, if there is one; it may begin inside of a line."""
    if first < group.n:
        strip, stride = strip_of(np.int64(group.start), np.int64(block_room(group.room)), np.int64(first))
        end = strip + WIDTH * stride - 1
        for at in range(strip, end, _LINE):
            prefetch(pool.ints, at)
        prefetch(pool.ints, end)


@kernel
def list_groups(
    index: SubscriptionLayout, position: int, point: MessagePoint, probe: Probe, n: int, prune_groups: bool
) -> int:
    """Add the groups of one of the message's words to the `n` that are to be looked through.

    Returns how many there are then, or NEED_ROOM.

    Paper: [SKYPE] section 5.4, algorithm 1; section 5.3, theorem 3 and lemma 6.
    Departs: lemma 6 takes the text that the word leaves possible, instead of 1.
    """
    groups, work, visits = index.groups, index.work, probe.visits
    row = index.lists[probe.words[position]]
    reach = probe.reaches[position]
    at = np.int64(row.start)
    end = at + row.n_groups
    while at < end:
        cell = index.cells[at]
        after = at + cell.n_more + 1
        lack = max(0.0, 1.0 - ssim_bound(point, box_squared(point.x, point.y, point.z, cell)))
        work[CELLS] += 1
        if prune_groups and cell.key + cell.tilt * lack > reach:
            work[CELLS_SKIPPED] += 1
            at = after
            continue
        work[GROUPS] += after - at
        if n + after - at > visits.size:
            return NEED_ROOM
        while at < after:
            group = groups[at]
            added = group.tilt * lack
            if prune_groups and group.key + added > reach:
                work[GROUPS_SKIPPED] += 1
            else:
                visits[n].group, visits[n].word = at, position
                visits[n].last = above(reach - added) if prune_groups else np.float32(np.inf)
                n += 1
            at += 1
    return n


@kernel
def word_of(probe: Probe, position: int) -> MessageWord:
    """One of the message's words, as groups are looked through for it."""
    unit = probe.units[position] / WHOLE * (1.0 + _LOOSE)
    tails = probe.tails[position * (MANY + 1) : (position + 1) * (MANY + 1)]
    return MessageWord(position, unit, probe.bits[position], text_in_lanes(unit, probe.bits[position], tails))


@kernel
def scan_groups(index: SubscriptionLayout, point: MessagePoint, probe: Probe, n_words: Any, n_visits: int) -> int:
    """Look through the listed groups, those of the message's last words first; the number of candidates, or NEED_ROOM.

    What is looked through later is read ahead. `probe.squares` gets the words after the one at hand.
    """
    pool, groups, visits, squares = index.postings, index.groups, probe.visits, probe.squares
    squares[:] = 0.0
    if n_visits == 0:
        return 0
    first_after, n = np.int64(n_words), 0
    word = word_of(probe, visits[0].word)
    for i in range(min(_GROUPS_AHEAD, n_visits)):
        for strip in range(_STRIPS_AHEAD):
            fetch_strip(pool, groups[visits[i].group], strip * LANES)
    for i in range(n_visits):
        if i + _GROUPS_AHEAD < n_visits:
            for strip in range(_STRIPS_AHEAD):
                fetch_strip(pool, groups[visits[i + _GROUPS_AHEAD].group], strip * LANES)
        visit = visits[i]
        group = groups[visit.group]
        if visit.word != word.position:
            word = word_of(probe, visit.word)
        while first_after > visit.word + 1:
            first_after -= 1
            unit = probe.units[first_after]
            squares[bit_number(probe.words[first_after])] += unit * unit
        if n + group.n > probe.candidates.size:
            return NEED_ROOM
        n, n_visited = scan_group(pool, group, visit.last, point, word, probe, n)
        index.work[VISITED] += n_visited
    return n


@kernel
def shared_product(subscriptions: Any, row: Any, idf: Floats, dense: Floats, first: int, bits: int) -> float:
    """`dot_row` of a subscription with the scattered message, or -1 if they share a rarer word than `first`.

    Most words fail by `bits`, those of the message's words: weights are far apart in memory, and slow to look at.
    """
    terms, counts = subscriptions.terms, subscriptions.counts
    total = 0.0
    for i in range(row.term_start, row.term_start + row.n_terms):
        term = terms[i]
        if bits & bit_of(term) == 0:
            continue
        other = dense[term]
        if other != 0.0:
            if comes_before(idf[term], term, idf[first], first):
                return -1.0
            total += (counts[i] * idf[term]) * other
    return total


@kernel
def verify(batch: Any, event: int, slot: int, candidates: Array, probe: Probe, found: Any) -> int:
    """Write the candidates whose buffers the message enters, and its ranks; returns their number.

    A subscription is taken by the first word that it shares, since what that word lets pass no other need look at. The
    message is scattered, and `probe` has its words.
    """
    if candidates.size == 0:
        return 0
    idf, clock = batch.idf, batch.steps.clocks[event]
    message, subscriptions = batch.messages.rows[slot], batch.subscriptions
    rows, scales, terms, counts, conditions = subscriptions
    bits = probe.bits[0] | bit_of(probe.words[0])
    n = 0
    for i in range(candidates.size):
        if i + 2 * _AHEAD < candidates.size:
            prefetch_record(rows, candidates[i + 2 * _AHEAD].slot)
            prefetch(scales, candidates[i + 2 * _AHEAD].slot)
        if i + _AHEAD < candidates.size:
            prefetch(terms, rows[candidates[i + _AHEAD].slot].term_start)
            prefetch(counts, rows[candidates[i + _AHEAD].slot].term_start)
        candidate = candidates[i]
        row = rows[candidate.slot]
        if row.expires <= clock:
            continue
        product = shared_product(subscriptions, row, idf, batch.dense, probe.words[candidate.word], bits)
        if product <= 0.0:
            continue
        scale = scales[candidate.slot]
        text = product / (scale.norm * message.norm)
        floor = np.float64(candidate.floor)
        if scale.alpha * candidate.near + (1.0 - scale.alpha) * text + _LOOSE < floor:
            continue
        if row.condition != NO_CONDITION and not satisfies(conditions, row.condition, batch.messages.fields, slot):
            continue
        value = topk_rank(row, scale, product, message, batch.space)
        if value >= floor:  # a little below that of the buffer, which has the last word
            found.slots[n], found.ranks[n] = candidate.slot, value
            n += 1
    return n


@kernel
def find(
    index: SubscriptionLayout, batch: Any, event: int, slot: int, prune_groups: bool, probe: Probe, found: Any
) -> int:
    """Write who may want, or hold, the message of a slot, and how it ranks; returns their number, or NEED_ROOM."""
    messages, space, idf, dense = batch.messages, batch.space, batch.idf, batch.dense
    message = messages.rows[slot]
    sort_words(messages, message, idf, probe)
    measure_rests(probe, message.n_terms)
    x, y, z = point_of(space.metric, message.x, message.y)
    blur = _BLUR * (abs(x) + abs(y) + abs(z))
    place = place_in_lanes(space.metric, x, y, z, blur, space.max_distance)
    point = MessagePoint(x, y, z, blur, space.metric, space.max_distance, place)
    n_visits = 0
    for position in range(message.n_terms - 1, -1, -1):
        term = probe.words[position]
        if term < index.lists.size and index.lists[term].n_groups > 0:
            n_visits = list_groups(index, position, point, probe, n_visits, prune_groups)
            if n_visits == NEED_ROOM:
                return NEED_ROOM
    n = scan_groups(index, point, probe, message.n_terms, n_visits)
    if n == NEED_ROOM or n > found.slots.size:
        return NEED_ROOM
    scatter(messages.terms, messages.counts, message.term_start, message.n_terms, idf, dense)
    index.work[CANDIDATES] += n
    n = verify(batch, event, slot, probe.candidates[:n], probe, found)
    gather(messages.terms, message.term_start, message.n_terms, dense)
    index.work[VERIFIED] += n
    return n
