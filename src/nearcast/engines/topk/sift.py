"""Compares a strip of postings with a message, all at once: a kernel that the compiler turns into vector instructions.

Everything is computed in float32 and loosened, so that whoever passes the exact bounds of `match.py` passes here.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numba
import numpy as np

from nearcast.columns.arena import Floats
from nearcast.engines.topk.keys import n_bits
from nearcast.engines.topk.layout import (
    AFTER_BITS,
    ALPHA,
    BITS,
    FLOOR,
    KEY,
    LANES,
    LENGTHS,
    MANY,
    POINT,
    WHOLE,
    PostingPool,
)
from nearcast.jit import kernel
from nearcast.space.distance import EARTH_RADIUS_M, HAVERSINE

_CONFIG: Any = numba.config  # its settings appear at run time, unknown to type checkers
_COMPILED = not _CONFIG.DISABLE_JIT
_NEARER = 1.0 - 2e-6  # distances in float32 are too long by less than this share
_MORE = 1.0 + 1e-6  # weights in float32 are too small by less than this share
_LOOSE = np.float32(3e-6)  # and scores by less than this
_LARGEST = 1e30
_FAR = 1e18  # in units of the largest distance: no message scores for its place, and a square has a float32
_ZERO, _ONE = np.float32(0.0), np.float32(1.0)


class Place(NamedTuple):
    """A message's point in float32, and how distances become similarities."""

    x: Any
    y: Any
    z: Any
    scale: Any  # of differences
    far: Any  # differences count no more than this
    blur: Any  # by which scaled distances may be too long
    share: Any  # of the largest distance that a scaled distance is
    cube: (
        Any  # on a sphere the way over the ground is longer than the straight line: see `at_least` in space/hilbert.py
    )
    fifth: Any


class Text(NamedTuple):
    """One of a message's words, and how much text those after it can add, by how many of them are shared."""

    unit: Any
    bits: Any
    none: Any
    one: Any
    two: Any
    three: Any
    four: Any
    five: Any
    six: Any
    many: Any


@kernel
def place_in_lanes(metric: int, x: float, y: float, z: float, blur: float, max_distance: float) -> Place:
    """A message's place as `sift_strip` takes it."""
    share, scale = min(EARTH_RADIUS_M / max_distance, _LARGEST), 1.0
    if metric != HAVERSINE:
        share, scale = 1.0, min(1.0 / max_distance, _LARGEST)
    far = min(_FAR / max(scale, 1e-20), 1e38)
    curved = 1.0 if metric == HAVERSINE else 0.0
    return Place(
        np.float32(x), np.float32(y), np.float32(z), np.float32(scale * _NEARER), np.float32(far),
        np.float32(min(blur * scale * _MORE, _LARGEST)), np.float32(share),
        np.float32(curved / 24.0), np.float32(curved * 3.0 / 640.0),
    )  # fmt: skip


@kernel
def text_in_lanes(unit: float, bits: int, tails: Floats) -> Text:
    """A message's word as `sift_strip` takes it."""
    return Text(
        np.float32(unit * _MORE), np.int32(bits - ((bits >> 31) << 32)),
        np.float32(tails[0] * _MORE), np.float32(tails[1] * _MORE), np.float32(tails[2] * _MORE),
        np.float32(tails[3] * _MORE), np.float32(tails[4] * _MORE), np.float32(tails[5] * _MORE),
        np.float32(tails[6] * _MORE), np.float32(tails[7] * _MORE),
    )  # fmt: skip


@kernel
def sift_strip(
    pool: PostingPool, strip: int, stride: int, n: int, place: Place, text: Text, last: Any
) -> tuple[Any, Any]:
    """Which of the first `n` postings of a strip may want a message, as bits, and how many keys do not exceed `last`.

    The loop has no way out and writes nothing, so that the compiler can take many postings in one step: 2.1 ns for a
    posting in the cache instead of 11 (2026-11-18). It runs over a full strip, whatever lies behind the last posting.

    Paper: [SKYPE] section 5.2, theorems 1 and 2; section 5.3.2, theorem 4.
    Departs: places are compared as they are, instead of by inner and outer bounds; the words after this one count by
    how many the two can share at most, by their bits, instead of by the maximal weight.
    """
    ints, lanes = pool
    marks, bits = ints[strip : strip + LANES], ints[strip + BITS * stride : strip + BITS * stride + LANES]
    keys = lanes[strip + KEY * stride : strip + KEY * stride + LANES]
    lengths = ints[strip + LENGTHS * stride : strip + LENGTHS * stride + LANES]
    xs = lanes[strip + POINT * stride : strip + POINT * stride + LANES]
    ys = lanes[strip + (POINT + 1) * stride : strip + (POINT + 1) * stride + LANES]
    zs = lanes[strip + (POINT + 2) * stride : strip + (POINT + 2) * stride + LANES]
    floors = lanes[strip + FLOOR * stride : strip + FLOOR * stride + LANES]
    alphas = lanes[strip + ALPHA * stride : strip + ALPHA * stride + LANES]
    found, looked_at = np.int64(0), np.int64(0)
    for lane in range(LANES if _COMPILED else n):
        n_shared = n_bits(np.int64(bits[lane] & text.bits) & 0xFFFFFFFF)
        n_shared = n_shared + (marks[lane] & MANY) if n_shared > 0 else n_shared
        tail = text.none
        tail = text.one if n_shared > 0 else tail
        tail = text.two if n_shared > 1 else tail
        tail = text.three if n_shared > 2 else tail
        tail = text.four if n_shared > 3 else tail
        tail = text.five if n_shared > 4 else tail
        tail = text.six if n_shared > 5 else tail
        tail = text.many if n_shared > 6 else tail
        own, after = np.float32(lengths[lane] & WHOLE), np.float32((lengths[lane] >> AFTER_BITS) & WHOLE)
        dx = min(abs(xs[lane] - place.x), place.far) * place.scale
        dy = min(abs(ys[lane] - place.y), place.far) * place.scale
        dz = min(abs(zs[lane] - place.z), place.far) * place.scale
        away = max(np.float32(math.sqrt(dx * dx + dy * dy + dz * dz)) - place.blur, _ZERO)
        square = away * away
        near = max(_ONE - place.share * (away * (_ONE + square * (place.cube + square * place.fifth))), _ZERO)
        alpha = alphas[lane]
        score = alpha * near + (_ONE - alpha) * (own * text.unit + after * tail)
        sought = keys[lane] <= last
        looked_at |= np.int64(sought) << lane
        found |= np.int64(sought & (score + _LOOSE >= floors[lane])) << lane
    known = (np.int64(1) << n) - 1
    return found & known, n_bits(looked_at & known)
