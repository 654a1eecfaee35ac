"""Chance is not drift, drift is found, and emptied parts stay finite."""

from __future__ import annotations

import math

import numpy as np
import pytest

from nearcast.columns.arena import Ints
from nearcast.engines.within.upkeep.drift import PRIOR, divergence, drift

THETA_KL = 0.001


def ints(*values: int) -> Ints:
    return np.array(values, dtype=np.int32)


def test_divergence_is_that_of_smoothed_shares() -> None:
    olds, nows = ints(9, 9, 3, 0, 0, 5, 9), ints(9, 9, 0, 2, 0, 7, 9)
    pairs = [(3 + PRIOR, 0 + PRIOR), (0 + PRIOR, 2 + PRIOR), (5 + PRIOR, 7 + PRIOR)]  # the fifth was and is empty
    n_old, n_now = (sum(column) for column in zip(*pairs, strict=True))
    found, by_chance = divergence(olds, nows, 2, 4)
    assert found == pytest.approx(sum(old / n_old * math.log(old / n_old / (now / n_now)) for old, now in pairs))
    assert drift(olds, nows, 2, 4) == pytest.approx(found - by_chance)


@pytest.mark.parametrize(("n_parts", "n_rows"), [(4, 10_000), (20, 1_000), (200, 1_000), (200, 200_000)])
def test_chance_is_no_drift(n_parts: int, n_rows: int) -> None:
    rng = np.random.default_rng(n_parts)
    shares = 1.0 / np.arange(1, n_parts + 1)
    shares /= shares.sum()
    samples = rng.multinomial(n_rows, shares, size=(40, 2)).astype(np.int32)
    drifts = [drift(olds, nows, 0, n_parts) for olds, nows in samples]
    assert sum(value > THETA_KL for value in drifts) <= 1
    assert np.mean([divergence(olds, nows, 0, n_parts)[0] for olds, nows in samples]) > 0.3 * n_parts / n_rows


def test_real_drift_is_found() -> None:
    rng = np.random.default_rng(1)
    shares = np.linspace(1.0, 3.0, 50)
    olds, nows = (rng.multinomial(20_000, row / row.sum()).astype(np.int32) for row in (shares, shares[::-1]))
    assert drift(olds, nows, 0, 50) > 0.1
    grown = olds.copy()
    grown[7] += 2_000
    assert drift(olds, grown, 0, 50) > THETA_KL


def test_emptied_parts_stay_finite() -> None:
    full, none = np.full(6, 400, dtype=np.int32), np.zeros(6, dtype=np.int32)
    half = ints(400, 400, 400, 0, 0, 0)
    assert 0.3 < drift(full, half, 0, 6) < math.inf
    assert 0.3 < drift(half, full, 0, 6) < math.inf
    assert drift(full, none, 0, 6) < 0.0
    for n in range(2):
        assert drift(full, half, 0, n) == 0.0
