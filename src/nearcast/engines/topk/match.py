"""A message goes in; the subscriptions whose buffers it may enter come out, with its exact ranks: kernels.

Words are taken from the rarest on. For each, cells, groups and postings are skipped whose keys say that the rest of the
message from this word on is too short for them, wherever it lies or at least from as far away as it is. What is left is
looked at one by one: first by place, the word at hand and what its other words can add, then by its whole text, then by
the exact score.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from nearcast.columns.arena import Array, Floats, Ints, Longs
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
)
from nearcast.jit import NEED_ROOM, allocating, kernel, prefetch
from nearcast.space.hilbert import at_least, box_squared

_LOOSE = 1e-12
_BLUR = 4e-7  # relative; more than a float32 point is off
_AHEAD = 8  # what is looked at so much later is fetched
_FETCHED = (0, 2, 4, 6)  # postings whose lines of the processor's cache are fetched, for all groups of a cell at once


class Aim(NamedTuple):
    """A message's point and the space."""

    x: float
    y: float
    z: float
    blur: float  # by which distances to rounded points may be too long, besides a share of their own
    metric: int
    max_distance: float


class Probe(NamedTuple):
    """Scratch for one message."""

    words: Ints  # int32[n]: its words, the rarest first
    units: Floats  # float64[n]: their weights in its unit vector
    reaches: Floats  # float64[n]: length of its unit vector from each word on
    tails: Floats  # float64[n * (MANY + 1)]: by word and number of others: how long so many after it can be, by WHOLE
    bits: Longs  # int64[n]: of the words after each
    candidates: Array  # CANDIDATE[]


@kernel
def sort_words(messages, message, idf, probe):
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
def measure_rests(probe, n):
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
def ssim_bound(aim, squared):
    """What the nearness of the message does not exceed to a subscription whose rounded point lies so far off, squared.

    A point is rounded by a share of what it lies from the origin: no more than the message does, and the way to it.
    """
    away = max(0.0, math.sqrt(squared) * (1.0 - _BLUR) - aim.blur)
    return max(0.0, 1.0 - at_least(aim.metric, away * away) / aim.max_distance) + _LOOSE


@kernel
def scan_group(postings, span, limits, aim, own, tails, room):
    """Add the subscriptions of a group that may want the message to the candidates; returns how many there are then.

    `span` is where the group's postings lie; `limits` are what the cell's distance adds to every key, and where the
    group ends: at the first key, since keys are sorted, that exceeds it; `own` is the message's word, its weight by
    WHOLE and the bits of the words after it, `tails` how long these can be; `room` are candidates and how many there
    are. Returns also how many subscriptions were looked at. Takes no layout: when it did, a seventh of the time of a
    message went into counting references to arrays (2026-11-16).

    Paper: [SKYPE] section 5.2, theorems 1 and 2; section 5.3.2, theorem 4.
    Departs: places are compared as they are, instead of by inner and outer bounds; the words after this one count by
    how many the two can share at most, by their bits, instead of by the maximal weight.
    """
    start, end = span
    lack, last = limits
    word, unit, bits = own
    candidates, n = room
    at = start
    while at < end and postings[at].key + lack <= last:
        posting = postings[at]
        at += 1
        n_shared = n_bits(np.int64(posting.bits) & bits)
        if n_shared > 0:
            n_shared = min(n_shared + (posting.mark & MANY), MANY)
        text = posting.own * unit + posting.after * tails[n_shared]
        dx, dy, dz = np.float64(posting.x) - aim.x, np.float64(posting.y) - aim.y, np.float64(posting.z) - aim.z
        near = ssim_bound(aim, dx * dx + dy * dy + dz * dz)
        alpha = np.float64(posting.alpha)
        if alpha * near + (1.0 - alpha) * text + _LOOSE >= posting.floor:
            candidate = candidates[n]
            candidate.slot, candidate.word, candidate.near = posting.mark >> HIDDEN_BITS, word, near
            candidate.floor = posting.floor
            n += 1
    return n, at - start


@kernel
def scan_word(index, word, aim, probe, n, prune):
    """Look through the cells of one of the message's words; returns the number of candidates, or NEED_ROOM.

    Paper: [SKYPE] section 5.4, algorithm 1; section 5.3, theorem 3 and lemma 6.
    Departs: lemma 6 takes the text that the word leaves possible, instead of 1.
    """
    groups, candidates, work, postings = index.groups, probe.candidates, index.work, index.postings
    row = index.lists[probe.words[word]]
    reach = probe.reaches[word]
    own = (word, probe.units[word] / WHOLE * (1.0 + _LOOSE), probe.bits[word])
    tails = probe.tails[word * (MANY + 1) : (word + 1) * (MANY + 1)]
    at = np.int64(row.start)
    end = at + row.n_groups
    while at < end:
        first = groups[at]
        after = at + first.n_more + 1
        lack = max(0.0, 1.0 - ssim_bound(aim, box_squared(aim.x, aim.y, aim.z, first)))
        work[CELLS] += 1
        if prune and first.cell_key + first.cell_tilt * lack > reach:
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
            if prune and group.key + added > reach:
                work[GROUPS_SKIPPED] += 1
                continue
            if n + group.n > candidates.size:
                return NEED_ROOM
            span = (np.int64(group.start), np.int64(group.start) + group.n)
            limits = (added, reach if prune else np.inf)
            n, n_visited = scan_group(postings, span, limits, aim, own, tails, (candidates, n))
            work[VISITED] += n_visited
    return n


@kernel
def verify(candidates, arrival, messages, subscriptions, where, words, found):
    """Write the candidates whose buffers the message enters, and its ranks; returns their number.

    A subscription is taken by the first word that it shares, since what that word lets pass no other need look at.
    `arrival` is (message, clock), `words` are idf, the scattered message, and its words, the rarest first.
    """
    slot, clock = arrival
    idf, dense, ordered = words
    message = messages.rows[slot]
    rows, scales, terms, counts = subscriptions
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
        first = ordered[candidate.word]
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
        if scale.share * candidate.near + (1.0 - scale.share) * text + _LOOSE < floor:
            continue
        value = rank(TOPK, subscriptions, candidate.slot, message, where, idf, dense)
        if value >= floor:  # a little below that of the buffer, which has the last word
            found.slots[n], found.ranks[n] = candidate.slot, value
            n += 1
    return n


@kernel
def find(index, arrival, messages, subscriptions, where, words, probe, found):
    """Write who may want an arrival (message, clock), and how it ranks; returns their number, or NEED_ROOM.

    `words` are idf, scratch for the scattered message, and whether cells and groups are skipped as a whole.
    """
    idf, dense, prune = words
    message = messages.rows[arrival[0]]
    sort_words(messages, message, idf, probe)
    measure_rests(probe, message.n_terms)
    x, y, z = point_of(where[0], message.x, message.y)
    aim = Aim(x, y, z, _BLUR * (abs(x) + abs(y) + abs(z)), where[0], where[1])
    n = 0
    for word in range(message.n_terms):
        if probe.words[word] < index.lists.size and index.lists[probe.words[word]].n_groups > 0:
            n = scan_word(index, word, aim, probe, n, prune)
            if n == NEED_ROOM:
                return n
    if n > found.slots.size:
        return NEED_ROOM
    scatter(messages.terms, messages.counts, message.term_start, message.n_terms, idf, dense)
    index.work[CANDIDATES] += n
    n = verify(probe.candidates[:n], arrival, messages, subscriptions, where, (idf, dense, probe.words), found)
    gather(messages.terms, message.term_start, message.n_terms, dense)
    index.work[VERIFIED] += n
    return n
