"""Bounds hold for every pair of word sets: what they promise is compared with the text similarity itself."""

from __future__ import annotations

import random

import pytest

from engines.similar.scenes import COMPILED, MEASURES
from nearcast.engines.similar.bounds import best_text, counts_words, least_share
from nearcast.text.similarity import MEASURES as NUMBERS
from nearcast.text.similarity import tsim

N_TRIES = 2000 if COMPILED else 200
SLACK = 1e-12


@pytest.mark.parametrize("measure", MEASURES)
def test_shares_and_texts_bound_one_another(measure: str) -> None:
    mode, pick = NUMBERS[measure], random.Random(measure)
    for _ in range(N_TRIES):
        own = [pick.choice([1.0, 1.0, pick.uniform(0.1, 5)]) for _ in range(pick.randint(1, 6))]
        shared = [w for w in own if pick.random() < 0.5]
        others = [pick.uniform(0.1, 5) for _ in range(pick.choice([0, 0, 1, 5, 30]))]
        weight_s, weight_m, n_s, n_m = sum(own), sum(shared) + sum(others), len(own), len(shared) + len(others)
        share = len(shared) / n_s if counts_words(mode) else sum(shared) / weight_s
        text = tsim(mode, sum(shared), len(shared), weight_s, weight_m, n_s, n_m)
        assert text <= best_text(mode, share) + SLACK
        assert least_share(mode, text) <= share + SLACK
        if shared and not others:  # the best message there is for this share
            assert text == pytest.approx(best_text(mode, share), rel=1e-9)


@pytest.mark.parametrize("measure", MEASURES)
def test_ends_of_the_range(measure: str) -> None:
    mode = NUMBERS[measure]
    assert best_text(mode, 0.0) == least_share(mode, 0.0) == least_share(mode, -3.0) == 0.0
    assert best_text(mode, 1.0) == best_text(mode, 1.0 + 1e-15) == least_share(mode, 1.0) == 1.0
    assert least_share(mode, 1.5) > 1.0
