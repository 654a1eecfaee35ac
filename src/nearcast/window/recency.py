"""Scores that fade with a half-life: the key that messages are ranked by, which needs no clock, and the score told.

A score that is `base` when its message is new is told as ``base * 2 ** (-(clock - ts) / half_life)``. The order of two
messages never changes with the clock, so results are kept by ``base * 2 ** (ts / half_life)``. No float is large enough
for that: a **key** is its exponent and its mantissa, compared in this order, both computed from the remainder of `ts`
by the half-life alone. A half-life of 0 means that nothing fades; all times are milliseconds.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from nearcast.columns.arena import Array, Floats, Longs
from nearcast.jit import kernel

_LONG_AGO = 2**62
_TINY = -1000  # powers of two that are smaller are not told apart
NO_EXPONENT = -(2**63) + 1  # of the key of zero, which comes last; can be negated


@kernel
def recency_key(base: float, ts: int, half_life: int) -> Any:
    """Exponent and mantissa of the key of a message."""
    if base == 0.0:
        return np.int64(NO_EXPONENT), 0.0
    mantissa, exponent = math.frexp(base * 2.0 ** ((ts % half_life) / half_life))
    return np.int64(ts // half_life + exponent), mantissa


@kernel
def is_below(exponent: Any, mantissa: Any, other_exponent: Any, other_mantissa: Any) -> Any:
    """Is the first key below the second?"""
    return exponent < other_exponent or (exponent == other_exponent and mantissa < other_mantissa)


@kernel
def faded(base: float, ts: int, clock: int, half_life: int) -> Any:
    """The score of a message as it is told when the clock stands there."""
    if ts < clock - _LONG_AGO:  # the difference may be past int64
        return base * 2.0 ** ((float(ts) - float(clock)) / half_life)
    return base * 2.0 ** ((ts - clock) / half_life)


@kernel
def score_of_key(exponent: int, mantissa: float, clock: int, half_life: int) -> Any:
    """What a key is told as when the clock stands there, up to rounding; 0 where no float is small enough."""
    if mantissa <= 0.0:
        return mantissa
    power = exponent - clock // half_life
    if power < _TINY:
        return 0.0
    return math.ldexp(mantissa, int(power)) * 2.0 ** (-(clock % half_life) / half_life)


@kernel
def write_keys(bases: Floats, ts: Longs, half_lives: Longs, exponents: Longs, mantissas: Floats) -> None:
    """Write the key of every row; of those that do not fade, the exponent is 0 and the mantissa the score."""
    for i in range(bases.size):
        exponents[i], mantissas[i] = 0, bases[i]
        if half_lives[i] > 0:
            exponents[i], mantissas[i] = recency_key(bases[i], ts[i], half_lives[i])


@kernel
def fade_rows(scores: Floats, ts: Longs, clocks: Longs, half_lives: Longs) -> None:
    """Let the scores of rows fade."""
    for i in range(scores.size):
        if half_lives[i] > 0:
            scores[i] = faded(scores[i], ts[i], clocks[i], half_lives[i])


def keys_of(bases: Floats, ts: Longs, half_lives: Longs) -> tuple[Longs, Floats]:
    """Exponents and mantissas of rows."""
    exponents: Longs = np.zeros(bases.size, dtype=np.int64)
    mantissas = np.zeros(bases.size)
    write_keys(bases, ts, half_lives, exponents, mantissas)
    return exponents, mantissas


def order_numbers(bases: Floats, ts: Longs, half_lives: Longs) -> Floats:
    """Numbers that are ordered as the keys of rows are: equal where those are equal."""
    exponents, mantissas = keys_of(bases, ts, half_lives)
    order = np.lexsort((mantissas, exponents))
    steps = (np.diff(exponents[order]) != 0) | (np.diff(mantissas[order]) != 0)
    numbers = np.zeros(bases.size)
    numbers[order[1:]] = np.cumsum(steps)
    return numbers


def faded_rows(bases: Floats, ts: Longs, clocks: Array | int, half_lives: Longs) -> Floats:
    """The scores of rows as they are told at these clocks."""
    scores: Floats = bases.copy()
    every: Any = np.broadcast_to(np.asarray(clocks, dtype=np.int64), bases.shape).copy()
    fade_rows(scores, ts, every, half_lives)
    return scores
