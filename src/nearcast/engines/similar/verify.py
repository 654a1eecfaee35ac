"""Verifies candidates, by their places and then by their words, both as the leaf has them: kernels.

A leaf keeps of each member all that its score is made of, so that an answer needs no read of the table, which is far
away in memory. Scores come from the same kernels and the same numbers as in `engines/exact.py`.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from nearcast.columns.arena import Array, Floats, Ints, Longs
from nearcast.columns.fields.conditions import satisfies
from nearcast.columns.scores import similar_score
from nearcast.engines.exact import similarity_of
from nearcast.engines.similar.layout import (
    ALIVE,
    ANYWHERE,
    ASKS,
    BOUND_SHIFT,
    ENDS,
    FARTHEST,
    LOCAL_MASK,
    MARKS,
    MET_BY_STAR,
    MOST_RANKED,
    N_ANSWERS,
    N_CANDIDATES,
    NEAR,
    RANK_SHIFT,
    STAR,
    STRIP,
    TERM_MASK,
    Matches,
    MatchInput,
    StampLayout,
    StampScratch,
)
from nearcast.jit import kernel, prefetch
from nearcast.space.distance import HAVERSINE, chord_metres, chord_to, plain_length, ssim
from nearcast.text.similarity import WEIGHTED, tsim

_ROUNDED = 1e-7  # more than 32 bits take from tau, and than the order of a sum takes from a score
NO_TEXT = -1.0  # lists do not tell
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
def measure_chords(xs: Floats, ys: Floats, n: int, probe: Any) -> None:
    """Let the longitudes of `n` places become squared half chords from them to the message: the same bits as `chord`.

    The loop has no way out and no branch, so that the compiler takes many places in one step.
    """
    lon, lat, cosine = probe.lon, probe.lat, probe.cos_lat
    for i in range(n):
        x = xs[i]
        gap = abs(x - lon)
        around = min(180.0, (180.0 - max(x, lon)) + (180.0 + min(x, lon)))
        xs[i] = chord_to(ys[i], lat, cosine, gap if gap <= 180.0 else around)


@kernel
def local_of(chosen: Longs, i: int, n_chosen: int, n_listed: int) -> Any:
    """Which member of the leaf is candidate `i`: one that was chosen, or one that is in no list."""
    return chosen[i] & LOCAL_MASK if i < n_chosen else np.int64(n_listed + i - n_chosen)


@kernel
def most_text(member: Any, n_words: int, probe: Any) -> float:
    """The largest text similarity that a member can have to the message: all of the smaller side is shared."""
    if member.mode == WEIGHTED:
        return 1.0
    weight, n_shared = min(member.weight, probe.weight), int(min(n_words, probe.n_terms))
    mode, n_s = np.int32(member.mode), np.int32(n_words)
    return tsim(mode, weight, n_shared, member.weight, probe.weight, n_s, probe.n_terms)


@kernel
def text_by_lists(candidate: Any, count: int, kind: int, member: Any, n_words: int, probe: Any) -> float:
    """The text similarity of a candidate to the message if lists alone tell it, or NO_TEXT; `count` words named it.

    What the dummy word's list names shares none of its words in this leaf unless one of their lists named it as well:
    their bounds are no higher, and they are in no other part. And whoever has one word shares it.
    """
    if candidate & MET_BY_STAR != 0:
        return 0.0 if count == 1 and (kind == ANYWHERE or member.n_anywhere == 0) else NO_TEXT
    if n_words > 1:
        return NO_TEXT
    return tsim(np.int32(member.mode), member.weight, 1, member.weight, probe.weight, np.int32(1), probe.n_terms)


@kernel
def words_end(members: Array, leaf: Any, local: int) -> Any:
    """Where the words of a member end."""
    return members[leaf.member_start + local + 1].word_start if local + 1 < leaf.n_members else leaf.n_words


@kernel
def filter_by_place(index: StampLayout, leaf: Any, n_chosen: int, scratch: StampScratch) -> int:
    """Filter the candidates of a leaf, and the members that are in no list, by their places; returns how many are left.

    Those go to `scratch.near`, with their scores where lists tell how many words they share, else with their spatial
    similarities: the same bits as those of `distance` and `ssim`.

    Paper: [STAMP] lemma 2.
    """
    probe, chosen, counts = scratch.probe[0], scratch.chosen, scratch.counts
    near, xs, ys = scratch.near, scratch.xs, scratch.ys
    members, terms, start, n_listed, kind = index.members, index.terms, leaf.member_start, leaf.n_listed, leaf.kind
    metric, farthest, max_distance = probe.metric, probe.farthest, probe.max_distance
    for i in range(n_chosen):
        local = chosen[i] & LOCAL_MASK
        prefetch(members, start + local)
        prefetch(members, start + local + 1)  # where it ends
    n, n_all, first = 0, n_chosen + leaf.n_members - n_listed, 0
    while first < n_all:
        end = min(first + STRIP, n_all)
        if metric == HAVERSINE:
            for i in range(first, end):
                member = members[start + local_of(chosen, i, n_chosen, n_listed)]
                xs[i - first], ys[i - first] = member.x, member.y
            measure_chords(xs, ys, end - first, probe)
        for i in range(first, end):
            local = local_of(chosen, i, n_chosen, n_listed)
            member = members[start + local]
            n_words = words_end(members, leaf, local) - member.word_start
            text, bound = NO_TEXT, 0
            if i < n_chosen:
                text = text_by_lists(chosen[i], counts[local], kind, member, n_words, probe)
                bound = (chosen[i] & ~MET_BY_STAR) >> BOUND_SHIFT
                counts[local] = 0
            if member.state & ALIVE == 0:
                continue
            if metric == HAVERSINE:
                squared = xs[i - first]
                place = 0.0 if squared > farthest else ssim(chord_metres(squared), max_distance)
            else:
                place = ssim(plain_length(member.x - probe.lon, member.y - probe.lat), max_distance)
            is_scored = text >= 0.0
            score = similar_score(member.delta, text if is_scored else most_text(member, n_words, probe), place)
            if place * FARTHEST < bound or score < float(member.tau) - _ROUNDED:
                continue
            if not is_scored:
                prefetch(terms, leaf.word_start + member.word_start)
            near[n].local, near[n].value, near[n].is_scored = local, score if is_scored else place, is_scored
            n += 1
        first = end
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
def score_by_words(
    index: StampLayout, leaf: Any, local: Any, place: float, idf: Floats, scratch: StampScratch
) -> tuple[float, bool]:
    """The score of a member, and whether its last bits are right; minus infinity if another leaf reports it."""
    probe, dense, marks, terms = scratch.probe[0], scratch.dense, scratch.marks, index.terms
    member = index.members[leaf.member_start + local]
    start = leaf.word_start + member.word_start
    n_words = words_end(index.members, leaf, local) - member.word_start
    weight, n_shared, first = 0.0, 0, n_words
    for j in range(n_words):
        term = terms[start + j] & TERM_MASK
        if marks[term & (MARKS - 1)] != 0 and dense[term] != 0.0:
            if n_shared == 0:
                first = j
            weight += idf[term]
            n_shared += 1
    if not reports_member(leaf.kind, member, first, n_words):
        return -math.inf, True
    if n_shared > _ANY_ORDER and n_words <= MOST_RANKED:
        weight = ordered_weight(terms, start, n_words, idf, dense, scratch.ranked)
    mode = np.int32(member.mode)
    text = tsim(mode, weight, n_shared, member.weight, probe.weight, np.int32(n_words), probe.n_terms)
    return similar_score(member.delta, text, place), n_shared <= _ANY_ORDER or n_words <= MOST_RANKED


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
    Departs: looks at all words, to have the score and to see whether another leaf reports the member; at none where
    lists have told the score.
    """
    before = n
    probe, near, members = scratch.probe[0], scratch.near, index.members
    rows, scales, row_terms, _, conditions = given.subscriptions
    idf, space = given.idf, given.space
    events, slots, scores = out.events, out.slots, out.scores
    for i in range(n_near):
        local = np.int64(near[i].local)
        member = members[leaf.member_start + local]
        tau, score, is_exact = float(member.tau), near[i].value, True
        if near[i].is_scored == 0:
            score, is_exact = score_by_words(index, leaf, local, score, idf, scratch)
        if score < tau - _ROUNDED:
            continue
        if score < tau + _ROUNDED or not is_exact or member.state & ENDS != 0:
            row, scale = rows[member.slot], scales[member.slot]
            score = similarity_of(row, scale, row_terms, message, space, idf, scratch.dense)
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
