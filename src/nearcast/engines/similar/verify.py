"""Verifies candidates, by their places and then by their words, both as the leaf has them: kernels.

A leaf keeps of each member all that its score is made of, so that an answer needs no read of the table, which is far
away in memory. Scores come from the same kernels and the same numbers as in `engines/exact.py`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from nearcast.columns.arena import Array, Floats, Ints
from nearcast.columns.fields.conditions import satisfies
from nearcast.columns.scores import similar_score
from nearcast.engines.exact import similarity_of
from nearcast.engines.similar.layout import (
    ALIVE,
    ASKS,
    BOUND_SHIFT,
    ENDS,
    FARTHEST,
    LOCAL_MASK,
    MARKS,
    MOST_RANKED,
    N_ANSWERS,
    N_CANDIDATES,
    NEAR,
    RANK_SHIFT,
    STAR,
    TERM_MASK,
    Matches,
    MatchInput,
    StampLayout,
    StampScratch,
)
from nearcast.jit import kernel, prefetch
from nearcast.space.distance import HAVERSINE, chord_between, chord_metres, lon_gap, plain_length, ssim
from nearcast.text.similarity import WEIGHTED, tsim

_ROUNDED = 1e-7  # more than 32 bits take from tau, and than the order of a sum takes from a score
_ANY_ORDER = 2  # numbers; the sum of more depends on their order


@kernel
def ordered_weight(words: Ints, start: int, n_words: int, idf: Floats, dense: Floats, ranked: Floats) -> float:
    """The weight of the words of a member, up to MOST_RANKED, that the message has: added in the order of bytes."""
    for j in range(start, start + n_words):
        term = words[j] & TERM_MASK
        ranked[words[j] >> RANK_SHIFT] = idf[term] if dense[term] != 0.0 else 0.0
    weight = 0.0
    for rank in range(n_words):
        weight += ranked[rank]
    return weight


@kernel
def member_similarity(member: Any, probe: Any) -> float:
    """The spatial similarity of a member: the same bits as those of `distance` and `ssim`."""
    if probe.metric != HAVERSINE:
        return ssim(plain_length(member.x - probe.lon, member.y - probe.lat), probe.max_distance)
    gap = lon_gap(member.x, probe.lon)
    squared = chord_between(member.y, member.cos_lat, probe.lat, probe.cos_lat, gap)
    return 0.0 if squared > probe.farthest else ssim(chord_metres(squared), probe.max_distance)


@kernel
def most_text(member: Any, n_words: int, probe: Any) -> float:
    """The largest text similarity that a member can have to the message: all of the smaller side is shared."""
    if member.mode == WEIGHTED:
        return 1.0
    weight, n_shared = min(member.weight, probe.weight), int(min(n_words, probe.n_terms))
    mode, n_s = np.int32(member.mode), np.int32(n_words)
    return tsim(mode, weight, n_shared, member.weight, probe.weight, n_s, probe.n_terms)


@kernel
def words_end(members: Array, leaf: Any, local: int) -> Any:
    """Where the words of a member end."""
    return members[leaf.member_start + local + 1].word_start if local + 1 < leaf.n_members else leaf.n_words


@kernel
def filter_by_place(index: StampLayout, leaf: Any, n_chosen: int, scratch: StampScratch) -> int:
    """Filter the candidates of a leaf, and the members that are in no list, by their places; returns how many are left.

    Those go to `scratch.near`, with their spatial similarities.

    Paper: [STAMP] lemma 2.
    """
    probe, chosen, counts = scratch.probe[0], scratch.chosen, scratch.counts
    near = scratch.near
    members, terms, start, n_listed = index.members, index.terms, leaf.member_start, leaf.n_listed
    for i in range(n_chosen):
        local = chosen[i] & LOCAL_MASK
        prefetch(members, start + local)
        prefetch(members, start + local + 1)  # where it ends
    n = 0
    for i in range(n_chosen + leaf.n_members - n_listed):
        bound = 0
        local = n_listed + i - n_chosen
        if i < n_chosen:
            bound = chosen[i] >> BOUND_SHIFT
            local = chosen[i] & LOCAL_MASK
            counts[local] = 0
        member = members[start + local]
        if member.state & ALIVE == 0:
            continue
        place = member_similarity(member, probe)
        text = most_text(member, words_end(members, leaf, local) - member.word_start, probe)
        if place * FARTHEST < bound or similar_score(member.delta, text, place) < float(member.tau) - _ROUNDED:
            continue
        prefetch(terms, leaf.word_start + member.word_start)
        near[n].local, near[n].place = local, place
        n += 1
    scratch.counters[N_CANDIDATES] += n
    return n


@kernel
def reports_member(kind: int, member: Any, first: int, n_words: int) -> Any:
    """Does this leaf report a member whose first shared word is `first`, or `n_words` for none?

    Of the leaves that hold a subscription, only the one where its first shared word is filed reports it.
    """
    if first == n_words:
        return member.state & STAR != 0
    if kind == NEAR:
        return first >= member.n_anywhere
    return member.state & STAR != 0 or first < member.n_anywhere


@kernel
def verify_candidates(
    index: StampLayout,
    leaf: Any,
    n_near: int,
    given: MatchInput,
    message: Any,
    scratch: StampScratch,
    out: Matches,
    n: int,
) -> int:
    """Write the candidates whose score reaches tau; returns the number written so far.

    Where the leaf has too little, the table decides: if tau is so near that its rounding matters, if the
    subscription expires, or if a sum of weights, which must be taken in the order of the words, has too many.

    Paper: [STAMP] function VERIFY.
    Departs: looks at all words, to have the score and to see whether another leaf reports the member.
    """
    before = n
    probe, near, dense, marks = scratch.probe[0], scratch.near, scratch.dense, scratch.marks
    members, terms, start, kind = index.members, index.terms, leaf.member_start, leaf.kind
    rows, scales, row_terms, _, conditions = given.subscriptions
    idf, space = given.idf, given.space
    events, slots, scores = out.events, out.slots, out.scores
    for i in range(n_near):
        local = near[i].local
        member = members[start + local]
        n_words = words_end(members, leaf, local) - member.word_start
        weight, n_shared, first = 0.0, 0, n_words
        for j in range(n_words):
            term = terms[leaf.word_start + member.word_start + j] & TERM_MASK
            if marks[term & (MARKS - 1)] != 0 and dense[term] != 0.0:
                if n_shared == 0:
                    first = j
                weight += idf[term]
                n_shared += 1
        if not reports_member(kind, member, first, n_words):
            continue
        if n_shared > _ANY_ORDER and n_words <= MOST_RANKED:
            weight = ordered_weight(terms, leaf.word_start + member.word_start, n_words, idf, dense, scratch.ranked)
        mode, tau = np.int32(member.mode), float(member.tau)
        text = tsim(mode, weight, n_shared, member.weight, probe.weight, np.int32(n_words), probe.n_terms)
        score = similar_score(member.delta, text, near[i].place)
        if score < tau - _ROUNDED:
            continue
        unordered = n_shared > _ANY_ORDER and n_words > MOST_RANKED
        if score < tau + _ROUNDED or unordered or member.state & ENDS != 0:
            row, scale = rows[member.slot], scales[member.slot]
            score = similarity_of(row, scale, row_terms, message, space, idf, dense)
            if score < scale.tau or row.expires <= probe.clock:
                continue
        if member.state & ASKS != 0 and not satisfies(
            conditions, rows[member.slot].condition, given.messages.fields, probe.message
        ):
            continue
        events[n], slots[n], scores[n] = probe.event, member.slot, score
        n += 1
    scratch.counters[N_ANSWERS] += n - before
    return n
