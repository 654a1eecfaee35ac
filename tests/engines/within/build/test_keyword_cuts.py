"""Cuts hold every word once; the cheapest of all partitions is found, and a near one in one pass."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nearcast.columns.arena import Floats, Ints, Longs
from nearcast.engines.within.build.keyword_cuts import even_cuts, improved_cuts, optimal_cuts

WORDS = st.lists(st.tuples(st.integers(0, 9), st.sampled_from([0.0, 0.0625, 0.125, 0.5, 0.75])), max_size=7)


def cost_of(weights: Longs, hits: Floats, ends: list[int]) -> float:
    starts = [0, *ends][: len(ends)]
    return sum(
        weights[start:end].sum() * min(1.0, hits[start:end].sum()) for start, end in zip(starts, ends, strict=True)
    )


def cut(method, weights: Longs, hits: Floats, n_cuts: int) -> Ints:  # type: ignore[no-untyped-def]
    ends = np.full(n_cuts + 1, -7, dtype=np.int32)
    n = method(weights, hits, weights.size, n_cuts, ends)
    assert n == min(n_cuts, weights.size)
    assert (ends[n:] == -7).all()
    assert (np.diff(ends[:n], prepend=0) > 0).all(), "a cut without words"
    assert not n or ends[n - 1] == weights.size
    return ends[:n]


def arrays(words: list[tuple[int, float]]) -> tuple[Longs, Floats]:
    return np.array([w for w, _ in words], dtype=np.int64), np.array([p for _, p in words], dtype=np.float64)


@given(WORDS, st.integers(1, 6))
def test_against_every_partition(words: list[tuple[int, float]], n_cuts: int) -> None:
    weights, hits = arrays(words)
    n = min(n_cuts, weights.size)
    cheapest = 0.0
    if n:
        inner = combinations(range(1, weights.size), n - 1)
        cheapest = min(cost_of(weights, hits, [*borders, weights.size]) for borders in inner)
    costs = []
    for method in (optimal_cuts, improved_cuts, even_cuts):
        ends = cut(method, weights, hits, n_cuts)
        costs.append(cost_of(weights, hits, ends.tolist()))
    assert costs[0] == pytest.approx(cheapest)
    assert costs[0] <= costs[1] + 1e-9
    assert costs[1] <= costs[2] + 1e-9


def test_even_cuts_weigh_the_same_if_messages_are_like_subscriptions() -> None:
    weights = np.array([3, 1, 2, 6, 1, 1, 1, 1, 1, 1], dtype=np.int64)
    assert cut(even_cuts, weights, weights / 64, 3).tolist() == [3, 4, 10]


def test_words_that_no_message_holds_need_no_cut() -> None:
    weights, hits = np.array([5, 5, 5, 5, 5, 5], dtype=np.int64), np.array([0.0, 0.0, 0.0, 0.5, 0.5, 0.5])
    assert cut(even_cuts, weights, hits, 3).tolist() == [4, 5, 6]


def test_a_heavy_word_leaves_the_other_cuts_their_share() -> None:
    weights = np.array([100, *[1] * 12], dtype=np.int64)
    assert cut(even_cuts, weights, weights / 128, 4).tolist() == [1, 5, 9, 13]
    assert cut(even_cuts, weights[::-1].copy(), weights[::-1] / 128, 4).tolist() == [10, 11, 12, 13]


def test_one_pass_comes_close_to_the_best() -> None:
    rng = np.random.default_rng(5)
    n_words = 60
    weights = np.maximum(1, (300 / np.arange(1, n_words + 1)).astype(np.int64))[::-1].copy()
    hits = rng.permutation(1.0 / np.arange(2, n_words + 2)) / 8
    best, near, even = (
        cost_of(weights, hits, cut(method, weights, hits, 12).tolist())
        for method in (optimal_cuts, improved_cuts, even_cuts)
    )
    assert best <= near <= 1.1 * best
    assert near < 0.97 * even
