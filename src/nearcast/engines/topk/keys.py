"""Computes what subscriptions are filed under: how much text each needs at least, and where it lies: kernels.

A message m enters the buffer of subscription s if floor <= alpha S + (1 - alpha) T, with S the nearness and T the
cosine. So T must reach need + tilt (1 - S), where need = (floor - alpha) / (1 - alpha) and tilt = alpha / (1 - alpha).
Words are ordered from the rarest to the most frequent; if w is the first that s and m share, T is at most the length of
the unit vector of s from w on, its *reach*, times that of m. Hence the key, need / reach: below it, plus
tilt (1 - S), no message's rest of words from w on is long enough.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from nearcast.columns.arena import Floats, Ints
from nearcast.engines.topk.layout import N_BITS, SPREAD_BITS, WHOLE, Shape
from nearcast.jit import kernel
from nearcast.space.distance import HAVERSINE
from nearcast.space.hilbert import grid_line, hilbert, to_point

_LOOSE = 1e-12
_BLUR = 1e-6  # relative; more than a float32 is off
_SHARP = 1e-9  # an alpha that is nearer to 1 leaves nothing to the text
_STEEPEST = 1e9
_FARTHEST = 1e38  # float32 holds no point much farther out
_ALPHA_BLUR = 1e-7  # more than a float32 between 0 and 1 is off


@kernel
def rounded_down(value: float) -> Any:
    """A float32 that is not above the value."""
    return np.float32(value - _BLUR * abs(value) - _LOOSE)


@kernel
def share_of(value: float) -> int:
    """What a posting keeps of a length within [0, 1]: no less."""
    return min(math.ceil(value * WHOLE), WHOLE)


@kernel
def point_of(metric: int, x: float, y: float) -> tuple[float, float, float]:
    """The point of a place, drawn into the range of float32: no two points lie farther apart for that."""
    x, y, z = to_point(metric, x, y)
    return (
        min(max(x, -_FARTHEST), _FARTHEST),
        min(max(y, -_FARTHEST), _FARTHEST),
        min(max(z, -_FARTHEST), _FARTHEST),
    )


@kernel
def floor_of(floor: float) -> Any:
    """The floor as the filter uses it.

    Alphas are rounded to float32, which changes a score by less than `_ALPHA_BLUR`: whoever reaches the floor with the
    subscription's own alpha reaches this one with the rounded alpha.
    """
    return rounded_down(floor - _ALPHA_BLUR)


@kernel
def face_of(face: Any, row: Any, scale: Any, floor: float, metric: int) -> None:
    """Write what the filter reads of a subscription: all keys and bounds are taken from it, never from the table."""
    x, y, z = point_of(metric, row.x, row.y)
    face.x, face.y, face.z = np.float32(x), np.float32(y), np.float32(z)
    face.floor, face.alpha = floor_of(floor), np.float32(scale.alpha)


@kernel
def comes_before(weight: float, term: int, other_weight: float, other_term: int) -> bool:
    """Is a word rarer than another?"""
    return weight > other_weight or (weight == other_weight and term < other_term)


@kernel
def bit_number(term: int) -> Any:
    """Which of `N_BITS` bits stands for a word: by Fibonacci hashing."""
    return ((np.int64(term) * 2654435769) >> 27) & (N_BITS - 1)


@kernel
def bit_of(term: int) -> Any:
    """The bit that stands for a word."""
    return 1 << bit_number(term)


@kernel
def n_bits(bits: Any) -> Any:
    """How many of 32 bits are set."""
    bits = bits - ((bits >> 1) & 0x55555555)
    bits = (bits & 0x33333333) + ((bits >> 2) & 0x33333333)
    bits = (bits + (bits >> 4)) & 0x0F0F0F0F
    return ((bits * 0x01010101) >> 24) & 0xFF


class Rest(NamedTuple):
    """A subscription from one of its words on."""

    own: float  # weight of the word in the subscription's unit vector
    after: float  # length of that vector after the word
    bits: int  # of the words after it
    n_hidden: int  # how many of these share a bit with another


@kernel
def rest_of(terms: Ints, counts: Ints, row: Any, scale: Any, idf: Floats, at: int) -> Rest:
    """The `Rest` of a subscription from its word at a position on."""
    term = terms[at]
    weight = idf[term]
    total = 0.0
    n_rest, bits = 0, 0
    for i in range(row.term_start, row.term_start + row.n_terms):
        other = idf[terms[i]]
        if comes_before(weight, term, other, terms[i]):
            total += (counts[i] * other) * (counts[i] * other)
            n_rest += 1
            bits |= bit_of(terms[i])
    return Rest(counts[at] * weight / scale.norm, math.sqrt(total) / scale.norm, bits, n_rest - n_bits(bits))


@kernel
def reach_of(own: float, after: float) -> float:
    """Length of a unit vector from a word on."""
    return min(1.0, math.sqrt(own * own + after * after) * (1.0 + _LOOSE))


@kernel
def text_needed(floor: float, alpha: float) -> float:
    """The cosine that a message at the very place of the subscription needs, or less."""
    if floor == -np.inf or 1.0 - alpha < _SHARP:
        return -np.inf
    return (floor - _LOOSE - alpha) / (1.0 - alpha)


@kernel
def key_of(floor: float, alpha: float, reach: float) -> Any:
    """What a posting is sorted by.

    Paper: [SKYPE] section 5.3, kScore* of theorems 3 and 4.
    Departs: divides by the subscription's own weights, so that one number stands for both sides of theorem 4; bounds
    cosines by the lengths of vectors (Cauchy-Schwarz) instead of by sums times maxima.
    """
    need = text_needed(floor, alpha)
    return rounded_down(need / reach if need > 0.0 else need)


@kernel
def tilt_of(alpha: float) -> Any:
    """How much more text a message needs for each unit of nearness that it lacks."""
    return rounded_down(min(alpha / max(1.0 - alpha, 1e-300), _STEEPEST))


@kernel
def code_of(face: Any, slot: int, shape: Shape) -> Any:
    """Where along the curve a subscription lies, then some bits of its slot. Latitudes are taken by their sines.

    Whoever has the same words, place and alpha would otherwise be in one group, in which everybody is searched one by
    one: 200,000 alike took 39 s to end (2026-12).
    """
    x, y = np.float64(face.x), np.float64(face.y)
    if shape.metric == HAVERSINE:
        x, y = np.float64(math.atan2(y, x) * (180.0 / math.pi)), np.float64(face.z)
    place = hilbert(grid_line(x, shape.x, shape.x_scale), grid_line(y, shape.y, shape.y_scale))
    return place << SPREAD_BITS | ((np.int64(slot) * 2654435769) & 0xFFFFFFFF) >> (32 - SPREAD_BITS)
