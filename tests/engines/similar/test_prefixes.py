"""Prefixes and levels against all subsets of a subscription's words."""

from __future__ import annotations

import random
from itertools import combinations
from typing import Any

import numpy as np
import pytest

from engines.similar.scenes import COMPILED, MEASURES
from nearcast.engines.similar.bounds import best_text, counts_words
from nearcast.engines.similar.layout import FARTHEST, MOST_LEVELS
from nearcast.engines.similar.prefixes import (
    WORD,
    close_levels,
    level_of,
    order_words,
    place_bound,
    place_suffices,
    prefix_end,
)
from nearcast.text.similarity import MEASURES as NUMBERS

N_TRIES = 150 if COMPILED else 15
TERMS = {5: 0.5, 4: 0.4, 3: 0.3, 2: 0.2, 1: 0.1}  # of the running example in the paper


def ordered(weights: dict[int, float], mode: int = 0) -> Any:
    idf, terms = np.zeros(max(weights) + 1), np.array(sorted(weights), np.int32)
    idf[terms] = [weights[term] for term in terms.tolist()]
    words = np.zeros(terms.size + 2, dtype=WORD)
    order_words(terms, 0, terms.size, idf, mode, words)
    return words


def test_the_heaviest_word_comes_first_and_equal_ones_by_term() -> None:
    words = ordered({7: 1.0, 3: 1.0, 5: 4.0, 1: 2.0})
    assert words["term"][:4].tolist() == [5, 1, 3, 7]
    assert words["suffix"][:5].tolist() == pytest.approx([1, 0.5, 0.25, 0.125, 0])
    assert ordered({7: 1.0, 3: 9.0}, NUMBERS["dice"])["share"][:2].tolist() == [0.5, 0.5]


@pytest.mark.parametrize(("terms", "delta", "tau", "prefix", "star"), [
    ((4, 2, 1), 0.5, 0.8, (4,), False),  # s9
    ((5, 4, 1), 0.6, 0.75, (5,), False),  # s3
    ((5, 4, 1), 0.6, 0.7, (5, 4), False),  # s7
    ((4, 3, 1), 0.5, 0.7, (4, 3), False),  # s2
    ((3, 2, 1), 0.2, 0.7, (3, 2, 1), True),  # s6
])  # fmt: skip
def test_prefixes_of_the_papers_example(
    terms: tuple[int, ...], delta: float, tau: float, prefix: tuple[int, ...], star: bool
) -> None:
    words = ordered({term: TERMS[term] for term in terms})
    end = prefix_end(words, len(terms), 0, delta, tau, 1.0)
    assert tuple(words["term"][:end].tolist()) == prefix
    assert bool(place_suffices(delta, tau, 1.0)) == star


def test_region_and_text_prefixes_of_the_papers_example() -> None:
    words, ends = ordered({term: TERMS[term] for term in (5, 4, 1)}), np.zeros(MOST_LEVELS + 1, np.int32)
    assert prefix_end(words, 3, 0, 0.6, 0.7, 0.9) == 1  # s7 outside its region
    words = ordered({term: TERMS[term] for term in (4, 3, 2)})  # s1: t4 alone is too little, t4 and t2 are not
    assert close_levels(words, 3, 0, 0, 0.5, 0.8, 1.0, ends) == 1
    assert ends[1] == 3


@pytest.mark.parametrize("measure", MEASURES)
def test_what_reaches_tau_shares_a_filed_word_and_enough_of_them(measure: str) -> None:
    mode, pick = NUMBERS[measure], random.Random(measure)
    inside, outside = np.zeros(MOST_LEVELS + 1, np.int32), np.zeros(MOST_LEVELS + 1, np.int32)
    for _ in range(N_TRIES):
        n = pick.randint(1, 6)
        words = ordered({term: pick.choice([1.0, pick.uniform(0.1, 5)]) for term in range(n)}, mode)
        delta, tau = pick.choice([1.0, 0.5, pick.random()]), pick.choice([0.0, 1.0, pick.uniform(0.3, 1)])
        far, base = pick.choice([0.0, 0.5, pick.random()]), pick.randint(0, n - 1)
        n_inside = close_levels(words, n, base, mode, delta, tau, 1.0, inside)
        n_outside = close_levels(words, n, base, mode, delta, tau, far, outside)
        assert n_inside <= n_outside
        for place, n_levels, ends in ((1.0, n_inside, inside), (far, n_outside, outside)):
            end = prefix_end(words, n, mode, delta, tau, place)
            for size in range(1, n + 1):
                for shared in combinations(range(n), size):
                    share = size / n if counts_words(mode) else float(sum(words["share"][list(shared)]))
                    if delta * best_text(mode, share) + (1 - delta) * place < tau:
                        continue
                    assert shared[0] < end
                    bound = place_bound(delta, tau, best_text(mode, words["suffix"][shared[0]]), 1e-12)
                    assert bound <= place * FARTHEST
                    if shared[0] >= base:
                        for level in range(1, n_levels + 1):
                            assert sum(position < ends[level] for position in shared) > level
            if (1 - delta) * place >= tau:
                assert place_suffices(delta, tau, place)
                assert place_bound(delta, tau, 0.0, 1e-12) <= place * FARTHEST
        for level in range(1, n_outside + 1):
            for position in range(n):
                read_by = level_of(position, inside, n_inside, outside, n_outside)
                assert not position < outside[level] or 0 < read_by <= level
                assert level > n_inside or not position < inside[level] or 0 < read_by <= level


def test_where_only_the_place_counts_no_word_is_filed() -> None:
    words = ordered(TERMS)
    assert prefix_end(words, 5, 0, 0.0, 0.0, 1.0) == 0
    assert close_levels(words, 5, 0, 0, 0.0, 0.5, 1.0, np.zeros(MOST_LEVELS + 1, np.int32)) == 0
    assert place_suffices(0.0, 1.0, 1.0)
    assert not place_suffices(1.0, 1e-6, 1.0)
    assert place_bound(0.0, 0.5, 0.0, 0.0) == FARTHEST // 2 - 1  # rounded down
    assert place_bound(1.0, 0.5, 1.0, 0.0) == 0
