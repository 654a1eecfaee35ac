"""Finds the subscriptions whose buffers a message may enter, and ranks the message exactly for each: kernels.

Words are taken from the rarest on. For each, cells, groups and postings are skipped whose keys say that the rest of the
message from this word on is too short for them, wherever it lies or at least from as far away as it is. What is left is
looked at one by one: first by place, the word at hand and what its other words can add, then by its whole text, then by
the exact score.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from nearcast.columns.arena import Array, Floats, Ints, Longs
from nearcast.columns.fields.conditions import NO_CONDITION, satisfies
from nearcast.columns.scores import gather, scatter
from nearcast.engines.exact import TOPK, rank
from nearcast.engines.topk.keys import bit_of, comes_before, n_bits, point_of
from nearcast.engines.topk.layout import (
    CANDIDATES,
    CELLS,
    CELLS_SKIPPED,
    GROUPS,
    GROUPS_SKIPPED,
    HIDDEN_BITS,
    MANY,
    VERIFIED,
    VISITED,
    WHOLE,
    SubscriptionLayout,
)
from nearcast.jit import NEED_ROOM, allocating, kernel, prefetch
from nearcast.space.hilbert import at_least, box_squared

_LOOSE = 1e-12
_BLUR = 4e-7  # relative; more than a float32 point is off
_AHEAD = 8  # candidates between the steps of reading ahead
_FETCHED = (0, 2, 4, 6)  # postings whose lines of the processor's cache are fetched, for all groups of a cell at once


class MessagePoint(NamedTuple):
    """A message's point and the space."""

    x: float
    y: float
    z: float
    blur: float  # by which distances to rounded points may be too long, besides a share of their own
    metric: int
    max_distance: float


class MessageWord(NamedTuple):
    """One of a message's words."""

    position: int  # among its words, the rarest first
    unit: float  # its weight in the message's unit vector, by WHOLE
    bits: int  # of the words after it


class GroupSpan(NamedTuple):
    """Where the postings of a group lie, and how far they are looked at."""

    start: int
    end: int
    added: float  # what the distance of the cell adds to every key
    near: float  # what the similarity of places does not exceed anywhere in the cell
    most: float  # the scan ends at the first sum, since keys are sorted, that exceeds this


class Probe(NamedTuple):
    """Scratch for one message."""

    words: Ints  # int32[n]: its words, the rarest first
    units: Floats  # float64[n]: their weights in its unit vector
    reaches: Floats  # float64[n]: length of its unit vector from each word on
    tails: Floats  # float64[n * (MANY + 1)]: by word and n: how long n of the words after it can be, by WHOLE
    bits: Longs  # int64[n]: of the words after each
    candidates: Array  # CANDIDATE[]


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
def scan_group(
    postings: Array, span: GroupSpan, point: MessagePoint, word: MessageWord, tails: Floats, candidates: Array, n: int
) -> tuple[int, int]:
    """Add the subscriptions of a group that may want the message to the `n` candidates.

    `tails` says how long the message's vector can be after the word. Returns how many candidates there are then, and
    how many subscriptions were looked at. Takes no layout: when it did, a seventh of the time of a message went into
    counting references to arrays (2026-11-16).

    Paper: [SKYPE] section 5.2, theorems 1 and 2; section 5.3.2, theorem 4.
    Departs: places are compared as they are, instead of by inner and outer bounds; the words after this one count by
    how many the two can share at most, by their bits, instead of by the maximal weight.
    """
    at = span.start
    while at < span.end and postings[at].key + span.added <= span.most:
        posting = postings[at]
        at += 1
        n_shared = n_bits(np.int64(posting.bits) & word.bits)
        if n_shared > 0:
            n_shared = min(n_shared + (posting.mark & MANY), MANY)
        text = posting.own * word.unit + posting.after * tails[n_shared]
        alpha = np.float64(posting.alpha)
        least = posting.floor - (1.0 - alpha) * text - _LOOSE
        if alpha * span.near < least:  # most fail by their words, before their own places are looked at
            continue
        dx, dy, dz = np.float64(posting.x) - point.x, np.float64(posting.y) - point.y, np.float64(posting.z) - point.z
        near = ssim_bound(point, dx * dx + dy * dy + dz * dz)
        if alpha * near >= least:
            candidate = candidates[n]
            candidate.slot, candidate.word, candidate.near = posting.mark >> HIDDEN_BITS, word.position, near
            candidate.floor = posting.floor
            n += 1
    return n, at - span.start


@kernel
def scan_word(
    index: SubscriptionLayout, position: int, point: MessagePoint, probe: Probe, n: int, prune_groups: bool
) -> int:
    """Look through the cells of one of the message's words; returns the number of candidates, or NEED_ROOM.

    Paper: [SKYPE] section 5.4, algorithm 1; section 5.3, theorem 3 and lemma 6.
    Departs: lemma 6 takes the text that the word leaves possible, instead of 1.
    """
    groups, candidates, work, postings = index.groups, probe.candidates, index.work, index.postings
    row = index.lists[probe.words[position]]
    reach = probe.reaches[position]
    word = MessageWord(position, probe.units[position] / WHOLE * (1.0 + _LOOSE), probe.bits[position])
    tails = probe.tails[position * (MANY + 1) : (position + 1) * (MANY + 1)]
    at = np.int64(row.start)
    end = at + row.n_groups
    while at < end:
        first = groups[at]
        after = at + first.n_more + 1
        near = ssim_bound(point, box_squared(point.x, point.y, point.z, first))
        lack = max(0.0, 1.0 - near)
        work[CELLS] += 1
        if prune_groups and first.cell_key + first.cell_tilt * lack > reach:
            work[CELLS_SKIPPED] += 1
            at = after
            continue
        work[GROUPS] += after - at
        for later in range(at, after):
            for posting in _FETCHED:
                prefetch(postings, groups[later].start + posting)
        while at < after:
            group = groups[at]
            added = group.tilt * lack
            at += 1
            if prune_groups and group.key + added > reach:
                work[GROUPS_SKIPPED] += 1
                continue
            if n + group.n > candidates.size:
                return NEED_ROOM
            start = int(np.int64(group.start))
            span = GroupSpan(start, start + group.n, added, near, reach if prune_groups else np.inf)
            n, n_visited = scan_group(postings, span, point, word, tails, candidates, n)
            work[VISITED] += n_visited
    return n


@kernel
def verify(batch: Any, event: int, slot: int, candidates: Array, words: Ints, found: Any) -> int:
    """Write the candidates whose buffers the message enters, and its ranks; returns their number.

    A subscription is taken by the first word that it shares, since what that word lets pass no other need look at.
    `words` are those of the message, the rarest first; the message is scattered.
    """
    idf, dense, clock = batch.idf, batch.dense, batch.steps.clocks[event]
    message = batch.messages.rows[slot]
    rows, scales, terms, counts, conditions = batch.subscriptions
    n = 0
    for i in range(candidates.size):
        if i + 2 * _AHEAD < candidates.size:
            prefetch(rows, candidates[i + 2 * _AHEAD].slot)
            prefetch(scales, candidates[i + 2 * _AHEAD].slot)
        if i + _AHEAD < candidates.size:
            prefetch(terms, rows[candidates[i + _AHEAD].slot].term_start)
            prefetch(counts, rows[candidates[i + _AHEAD].slot].term_start)
        candidate = candidates[i]
        row = rows[candidate.slot]
        if row.expires <= clock:
            continue
        first = words[candidate.word]
        dot = 0.0
        for j in range(row.term_start, row.term_start + row.n_terms):
            term = terms[j]
            if dense[term] != 0.0:
                if comes_before(idf[term], term, idf[first], first):
                    dot = -1.0
                    break
                dot += counts[j] * idf[term] * dense[term]
        if dot < 0.0:
            continue
        scale = scales[candidate.slot]
        text = dot / (scale.norm * message.norm)
        floor = np.float64(candidate.floor)
        if scale.alpha * candidate.near + (1.0 - scale.alpha) * text + _LOOSE < floor:
            continue
        if row.condition != NO_CONDITION and not satisfies(conditions, row.condition, batch.messages.fields, slot):
            continue
        value = rank(TOPK, batch.subscriptions, candidate.slot, message, batch.space, idf, dense)
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
    point = MessagePoint(x, y, z, _BLUR * (abs(x) + abs(y) + abs(z)), space.metric, space.max_distance)
    n = 0
    for position in range(message.n_terms):
        term = probe.words[position]
        if term < index.lists.size and index.lists[term].n_groups > 0:
            n = scan_word(index, position, point, probe, n, prune_groups)
            if n == NEED_ROOM:
                return n
    if n > found.slots.size:
        return NEED_ROOM
    scatter(messages.terms, messages.counts, message.term_start, message.n_terms, idf, dense)
    index.work[CANDIDATES] += n
    n = verify(batch, event, slot, probe.candidates[:n], probe.words, found)
    gather(messages.terms, message.term_start, message.n_terms, dense)
    index.work[VERIFIED] += n
    return n
