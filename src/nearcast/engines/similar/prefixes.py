"""Computes the prefixes of a subscription: which words are filed, with which bounds and levels: kernels.

Words are ordered by weight, heaviest first, equal ones by term. If position i is the first that a message shares, no
more than the share of the words from i on, its **suffix**, is shared. All prefixes follow from that.

STAMP sections III to V.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from nearcast.columns.arena import Array, Floats, Ints, Longs, record
from nearcast.engines.similar.bounds import best_text, counts_words, least_share, needed_text, slack_for
from nearcast.engines.similar.layout import FARTHEST, MOST_LEVELS
from nearcast.jit import kernel

WORD = record(("weight", "f8"), ("share", "f8"), ("suffix", "f8"), ("term", "i4"), ("rank", "i4"))


class Draft(NamedTuple):
    """Scratch of the kernels that write."""

    words: Array  # WORD[]: of the subscription at hand, heaviest first, and one beyond the end
    inside: Ints  # int32[MOST_LEVELS + 1]: where the levels end for messages inside the region
    outside: Ints  # int32[MOST_LEVELS + 1]: and for those outside
    keys: Longs  # int64[]: entries of a leaf that are to be written to its lists


def new_draft(n_words: int, n_keys: int) -> Draft:
    """Scratch for subscriptions of up to `n_words` words, and up to `n_keys` keys."""
    levels = [np.zeros(MOST_LEVELS + 1, np.int32) for _ in range(2)]
    return Draft._make([np.zeros(n_words + 1, dtype=WORD), *levels, np.zeros(n_keys, np.int64)])


@kernel
def order_words(terms: Ints, start: int, n_terms: int, idf: Floats, mode: int, words: Array) -> None:
    """Put a row's words into `words[:n_terms]`, heaviest first, with shares, suffixes and former positions."""
    for i in range(n_terms):
        words[i].term = terms[start + i]
        words[i].weight = idf[terms[start + i]]
        words[i].rank = i
    gap = 1
    while gap < n_terms // 3:
        gap = 3 * gap + 1
    while gap > 0:
        for i in range(gap, n_terms):
            term, weight, rank = words[i].term, words[i].weight, words[i].rank
            j = i
            while j >= gap and (
                words[j - gap].weight < weight or (words[j - gap].weight == weight and words[j - gap].term > term)
            ):
                words[j] = words[j - gap]
                j -= gap
            words[j].term, words[j].weight, words[j].rank = term, weight, rank
        gap //= 3
    total = 0.0
    for i in range(n_terms):
        if counts_words(mode):
            words[i].weight = 1.0
        total += words[i].weight
    words[n_terms].suffix = 0.0
    for i in range(n_terms - 1, -1, -1):
        words[i].share = words[i].weight / total
        words[i].suffix = words[i + 1].suffix + words[i].share


@kernel
def prefix_end(words: Array, n_terms: int, mode: int, delta: float, tau: float, place: float) -> int:
    """The first position that is no reason to look at a subscription when the spatial similarity is at most `place`.

    Paper: [STAMP] equations 2 (place 1) and 10 (the largest similarity outside the region).
    Departs: asks for the score instead of the text threshold, so delta 1 divides by nothing. With place 0 it says which
    words suffice from anywhere. With delta 0 there are none: the place alone decides.
    """
    if delta == 0.0:
        return 0
    end = 0
    while end < n_terms and (
        delta * best_text(mode, words[end].suffix) + (1.0 - delta) * place >= tau - slack_for(n_terms)
    ):
        end += 1
    return end


@kernel
def place_suffices(delta: float, tau: float, place: float) -> bool:
    """May a subscription match without a shared word when the spatial similarity is at most `place`?"""
    return (1.0 - delta) * place >= tau - slack_for(0)


@kernel
def place_bound(delta: float, tau: float, text: float, slack: float) -> int:
    """The spatial similarity that this text similarity leaves to be reached, in 1/256, rounded down.

    Paper: [STAMP] equation 4.
    Departs: delta 1 leaves nothing to the place; only texts that suffice alone are filed then.
    """
    rest = tau - delta * text - slack
    if rest <= 0.0:
        return 0
    if rest >= 1.0 - delta:
        return FARTHEST - 1
    return min(FARTHEST - 1, int((rest / (1.0 - delta) * (1.0 - 1e-12)) * FARTHEST))


@kernel
def close_levels(
    words: Array, n_terms: int, base: int, mode: int, delta: float, tau: float, place: float, ends: Ints
) -> int:
    """How many levels a subscription closes, and where: ends[k] for k from 1 on.

    Level k is closed at position q if the k heaviest words from `base` on and all from q on are together too few. A
    message that matches, and shares nothing before `base`, then shares more than k words before q. This count needs no
    weights, and holds whatever k words were shared before.

    Paper: [STAMP] equations 11 and 14.
    Departs: algorithm 3 also compares the place with a bound that presumes the k heaviest words were shared and the
    words from t on; where more than k were shared before t it drops matches. Counting alone never does.
    """
    if delta == 0.0:
        return 0
    slack = slack_for(n_terms)
    need = least_share(mode, needed_text(delta, tau, place, slack)) * (1.0 - 1e-12) - slack
    n_levels = 0
    heaviest = 0.0
    end = base
    while n_levels < MOST_LEVELS and base + n_levels < n_terms:
        heaviest += words[base + n_levels].share
        if heaviest >= need:
            break
        while end < n_terms and heaviest + words[end].suffix >= need:
            end += 1
        n_levels += 1
        ends[n_levels] = end
    return n_levels


@kernel
def level_of(position: int, inside: Ints, n_inside: int, outside: Ints, n_outside: int) -> int:
    """The level at which a later word is read: its own inside the region, where that has no more, that outside; or 0.

    Levels end no later outside than inside, so once level k was read, all words that either needs were read.
    """
    for level in range(1, n_inside + 1):
        if position < inside[level]:
            return level
    for level in range(n_inside + 1, n_outside + 1):
        if position < outside[level]:
            return level
    return 0
