"""Keys without a clock order messages as their scores at any clock do; and further, where no float could."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nearcast.window.recency import (
    NO_EXPONENT,
    faded,
    faded_rows,
    is_below,
    keys_of,
    order_numbers,
    recency_key,
    score_of_key,
)

TIMES = st.integers(-(2**62), 2**62) | st.integers(-5000, 5000) | st.just(1_700_000_000_000)
HALF_LIVES = st.sampled_from([1, 2, 1000, 3_600_000, 2**53])
BASES = st.sampled_from([0.0, 0.25, 0.5, 1.0, 5e-324]) | st.floats(0.0, 1.0)


def key(base: float, ts: int, half_life: int) -> tuple[int, float]:
    exponent, mantissa = recency_key(np.float64(base), np.int64(ts), np.int64(half_life))
    return int(exponent), float(mantissa)


@given(BASES, TIMES, HALF_LIVES)
def test_a_key_is_what_the_design_says(base: float, ts: int, half_life: int) -> None:
    turns, rest = divmod(ts, half_life)
    mantissa, exponent = math.frexp(base * 2 ** (rest / half_life))
    expected = (turns + exponent, mantissa) if base else (NO_EXPONENT, 0.0)
    found = key(base, ts, half_life)
    assert found[0] == expected[0]
    assert found[1] == pytest.approx(expected[1], rel=1e-15)


def test_half_lives_apart_halve_the_score_exactly_however_long_ago() -> None:
    newer, older = key(0.25, 10**15, 7), key(0.5, 10**15 - 7, 7)
    assert newer == older
    assert key(0.25, 10**15, 7)[0] - key(0.25, 10**15 - 7 * 10**6, 7)[0] == 10**6
    assert is_below(*key(0.0, 2**62, 1), *key(5e-324, -(2**62), 1))
    assert key(0.0, 5, 3) == key(0.0, -8, 3)


@given(BASES, st.integers(0, 10**7), HALF_LIVES)
def test_a_score_fades(base: float, age: int, half_life: int) -> None:
    ts = 1_700_000_000_000
    told = float(faded(np.float64(base), np.int64(ts), np.int64(ts + age), np.int64(half_life)))
    assert told == pytest.approx(base * 2 ** (-float(Fraction(age, half_life))), rel=1e-12, abs=1e-300)
    again = float(score_of_key(*recency_key(base, np.int64(ts), np.int64(half_life)), np.int64(ts + age), half_life))
    assert again == pytest.approx(told, rel=1e-12, abs=1e-290)


def test_the_longest_age_does_not_wrap_around() -> None:
    ends = np.int64(-(2**62)), np.int64(2**62)
    assert float(faded(1.0, ends[0], ends[1], np.int64(2**53))) == 2.0**-1024
    assert float(faded(1.0, ends[0], ends[1], np.int64(1))) == 0.0


def test_rows_are_numbered_in_the_order_of_their_keys() -> None:
    bases = np.array([0.5, 0.25, 0.5, 0.0, 0.7, 0.0])
    ts = np.array([0, 10, 10, 99, 3, 0])
    half_lives = np.array([10, 10, 10, 10, 0, 10])
    exponents, mantissas = keys_of(bases, ts, half_lives)
    assert (exponents[4], mantissas[4]) == (0, 0.7)
    numbers = order_numbers(bases, ts, half_lives)
    assert numbers[0] == numbers[1] < numbers[2]
    assert numbers[3] == numbers[5] < numbers[0]
    assert faded_rows(bases, ts, 20, half_lives).tolist() == [0.125, 0.125, 0.25, 0.0, 0.7, 0.0]
