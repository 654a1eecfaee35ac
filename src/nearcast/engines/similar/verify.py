"""Candidates become answers: by their places and words as the leaf knows them, then by the exact score: kernels.

A leaf keeps places, delta and tau in 32 bits and shares of words in 16. What it decides with them is loosened by more
than they are rounded, so it only ever lets too many pass.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from nearcast.columns.arena import Floats, Ints
from nearcast.engines.checks import similarity_of
from nearcast.engines.similar.bounds import asked_share
from nearcast.engines.similar.layout import (
    ALIVE,
    ANYWHERE,
    BOUND_SHIFT,
    FARTHEST,
    LOCAL_MASK,
    N_ANSWERS,
    N_CANDIDATES,
    N_CHECKED,
    NEAR,
    STAR,
)
from nearcast.jit import kernel
from nearcast.text.similarity import JACCARD
from nearcast.window.curve import at_least

_ROUNDED = 1.2e-7  # relative: twice the rounding of a coordinate to 32 bits
_TINY = 1e-44  # and where those have no more digits
_LOOSE = 4e-7  # of a score that is computed from 32-bit numbers
_SHARES = 65535
NEVER = -1  # a need that no words can meet


class Matches(NamedTuple):
    """Room for matches of arrivals."""

    events: Ints  # int32[n]
    slots: Ints  # int32[n]
    scores: Floats  # float64[n]


@kernel
def member_similarity(member, probe):
    """The spatial similarity of a member, or a little more: its point is rounded."""
    dx, dy, dz = member.x - probe.x, member.y - probe.y, member.z - probe.z
    slack = (abs(member.x) + abs(member.y) + abs(member.z)) * _ROUNDED + _TINY
    straight = math.sqrt(dx * dx + dy * dy + dz * dz) - slack
    if not straight > 0.0:  # also for a coordinate that 32 bits cannot hold
        return 1.0
    return max(0.0, 1.0 - at_least(probe.metric, straight * straight) / probe.max_distance)


@kernel
def needed_share(member, n_words, place, weight, probe):
    """The share of its words, in 1/65,535, that a member needs at this place: 0 for none, NEVER if all are too few."""
    delta = float(member.share)
    rest = float(member.tau) - (1.0 - delta) * place - _LOOSE
    if rest <= 0.0:
        return 0
    if rest > delta:
        return NEVER
    text = rest / (delta * (1.0 + 1e-6))
    share = asked_share(member.mode, text, n_words, probe.n_terms, weight, probe.weight) * (1.0 - 1e-6)
    return int(share * _SHARES) + 1 if share < 2.0 else NEVER


@kernel
def weigh(index, leaf, n_chosen, rows, scratch):
    """Thin out the candidates of a leaf, and the members that are in no list, by their places; returns how many stay.

    `chosen` then holds members, `needs` what share of their words each needs.

    Paper: [STAMP] lemma 2; equation 5.
    """
    probe, chosen, counts = scratch.probe[0], scratch.chosen, scratch.counts
    n = 0
    for i in range(n_chosen + leaf.n_members - leaf.n_listed):
        bound = 0
        local = leaf.n_listed + i - n_chosen
        if i < n_chosen:
            bound = chosen[i] >> BOUND_SHIFT
            local = chosen[i] & LOCAL_MASK
            counts[local] = 0
        member = index.members[leaf.member_start + local]
        place = member_similarity(member, probe)
        if place * FARTHEST < bound or member.state & ALIVE == 0:
            continue
        weight = rows[member.slot].weight if member.mode == JACCARD else 1.0
        need = needed_share(member, words_end(index, leaf, local) - member.word_start, place, weight, probe)
        if need != NEVER:
            chosen[n], scratch.needs[n] = local, need
            n += 1
    scratch.counters[N_CANDIDATES] += n
    return n


@kernel
def words_end(index, leaf, local):
    """Where the words of a member end."""
    return index.members[leaf.member_start + local + 1].word_start if local + 1 < leaf.n_members else leaf.n_words


@kernel
def is_ours(kind, member, first, n_words, need):
    """Is it this leaf's part to tell of a member whose first shared word is `first`, `n_words` for none?

    Of the leaves that know a subscription, only the one tells of it where its first shared word is filed.
    """
    if first == n_words:
        return member.state & STAR != 0 and need == 0
    if kind == NEAR:
        return first >= member.n_anywhere
    return member.state & STAR != 0 or first < member.n_anywhere


@kernel
def verify(index, leaf, n_chosen, scratch):
    """Turn candidates into slots, leaving out those that share too few words; returns how many are left.

    Paper: [STAMP] function VERIFY.
    Departs: counts down from the whole weight and stops where too little is left; starts from the first word, to see
    whether another leaf has found it.
    """
    chosen, dense = scratch.chosen, scratch.dense
    n_found = 0
    for i in range(n_chosen):
        local, need = chosen[i], scratch.needs[i]
        member = index.members[leaf.member_start + local]
        if need > 0 or leaf.kind == ANYWHERE or member.n_anywhere > 0:
            n_words = words_end(index, leaf, local) - member.word_start
            start = leaf.word_start + member.word_start
            left = _SHARES + 1 + n_words
            first = n_words
            for j in range(n_words):
                if dense[index.terms[start + j]] == 0.0:
                    left -= index.shares[start + j]
                    if left < need:
                        break
                elif first == n_words:
                    first = j
            if left < need or not is_ours(leaf.kind, member, first, n_words, need):
                continue
        chosen[n_found] = member.slot
        n_found += 1
    return n_found


@kernel
def settle(subscriptions, n_found, event, clock, message, where, idf, scratch, out, n):
    """Write those of the found slots whose exact score reaches tau; returns the number written so far.

    Rows lie anywhere in the table. They are copied before the first score is computed: that waits for many of them at
    a time instead of one by one, and halves the time of the whole match (1 M subscriptions, 2026-11-16).
    """
    before = n
    rows, terms = scratch.rows, subscriptions.terms
    for first in range(0, n_found, rows.size):
        last = min(n_found, first + rows.size)
        for i in range(first, last):
            rows[i - first] = subscriptions.rows[scratch.chosen[i]]
        for i in range(last - first):
            scratch.needs[i] = terms[rows[i].term_start]
        for i in range(last - first):
            row = rows[i]
            score = similarity_of(row, terms, message, where, idf, scratch.dense)
            if score >= row.tau and row.expires > clock:
                out.events[n], out.slots[n], out.scores[n] = event, scratch.chosen[first + i], score
                n += 1
    scratch.counters[N_CHECKED] += n_found
    scratch.counters[N_ANSWERS] += n - before
    return n
