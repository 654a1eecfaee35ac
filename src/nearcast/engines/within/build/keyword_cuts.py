"""Cuts the words of a node, which are in rank order, into runs that cost little: kernels.

A cut is a run of words: cut i holds the words `ends[i - 1]` up to, but without, `ends[i]`; the first starts at word 0.
`weights[w]` subscriptions are filed under word w, and a message that reaches the node holds it with probability
`hits[w]`. A cut is entered when one of its words is met, and then all of its subscriptions are tried: it costs
their number times the probability, and a node the sum over its cuts.

Paper: [APTREE] section 3.3.1, equation 1; section 3.3.2, algorithms 2 and 3.
Departs: the sum of the words' probabilities stands for that of the cut, but never exceeds 1: a message holds many
words, so the sum over frequent ones does.
"""

from __future__ import annotations

import math

import numpy as np

from nearcast.columns.arena import Floats, Ints, Longs
from nearcast.jit import allocating, kernel


@kernel
def even_cuts(weights: Longs, hits: Floats, n_words: int, n_cuts: int, ends: Ints) -> int:
    """Write cuts that hold about the same sum of √(weight * hit), none without words; returns how many.

    Paper: [APTREE] section 3.3.2, equation 4: cuts of the same weight are the cheapest if words are as frequent in
    messages as in subscriptions, when √(weight * hit) is in proportion to the weight.
    Departs: the root is right without that condition too, if no word stands out: a cut of n words costs about
    n² * weight * hit of one of them, and the sum over cuts is least when n * √(weight * hit) is the same for all. From
    there `improved_cuts` ends 0 to 9 % above the cheapest cuts, from equal weights up to 3 times as high (Zipf words,
    as frequent or not in messages, 2026-11-16). A cut aims at its share of what is left, not of everything, so that a
    word larger than a share takes nothing from the cuts after it.
    """
    n_cuts = min(n_cuts, n_words)
    left = 0.0
    for word in range(n_words):
        left += math.sqrt(weights[word] * hits[word])
    word = 0
    for cut in range(n_cuts - 1):
        n_left = n_cuts - cut
        held = math.sqrt(weights[word] * hits[word])
        word += 1
        while n_words - word >= n_left:  # each later cut needs a word
            step = math.sqrt(weights[word] * hits[word])
            if (2.0 * held + step) * n_left > 2.0 * left:  # its middle lies beyond the share
                break
            held += step
            word += 1
        left -= held
        ends[cut] = word
    if n_cuts > 0:
        ends[n_cuts - 1] = n_words
    return n_cuts


@kernel
def improved_cuts(weights: Longs, hits: Floats, n_words: int, n_cuts: int, ends: Ints) -> int:
    """Write even cuts, then move each border to where the two cuts beside it cost least; returns how many cuts.

    Paper: [APTREE] section 3.3.2, algorithm 3.
    Keeps: never costlier than `even_cuts`, up to rounding.
    """
    n_cuts = even_cuts(weights, hits, n_words, n_cuts, ends)
    first = 0
    for cut in range(1, n_cuts):
        end = ends[cut]
        right_weight, right_hit = 0, 0.0
        for word in range(first, end):
            right_weight += weights[word]
            right_hit += hits[word]
        left_weight, left_hit = 0, 0.0
        best, best_cost = ends[cut - 1], np.inf
        for word in range(first, end - 1):
            left_weight += weights[word]
            left_hit += hits[word]
            right_weight -= weights[word]
            right_hit -= hits[word]
            cost = left_weight * min(1.0, left_hit) + right_weight * min(1.0, right_hit)
            if cost < best_cost:
                best, best_cost = word + 1, cost
        ends[cut - 1] = best
        first = best
    return n_cuts


@allocating
def optimal_cuts(weights: Longs, hits: Floats, n_words: int, n_cuts: int, ends: Ints) -> int:
    """Write the cheapest cuts; returns how many. Takes time n_cuts * n_words²: a measure for the others.

    Paper: [APTREE] section 3.3.2, algorithm 2, equations 2 and 3.
    """
    n_cuts = min(n_cuts, n_words)
    costs = np.full((n_cuts + 1, n_words + 1), np.inf)  # [cuts, first]: of the words from `first` on, in that many cuts
    choices = np.zeros((n_cuts + 1, n_words + 1), dtype=np.int32)  # where the first of these cuts ends
    costs[0, n_words] = 0.0
    for cuts in range(1, n_cuts + 1):
        for first in range(n_words - cuts, -1, -1):
            weight, hit = 0, 0.0
            for end in range(first + 1, n_words - cuts + 2):
                weight += weights[end - 1]
                hit += hits[end - 1]
                cost = weight * min(1.0, hit) + costs[cuts - 1, end]
                if cost < costs[cuts, first]:
                    costs[cuts, first] = cost
                    choices[cuts, first] = end
    first = 0
    for cut in range(n_cuts):
        first = choices[n_cuts - cut, first]
        ends[cut] = first
    return n_cuts
