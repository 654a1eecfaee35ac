"""Comparisons of many numbers at once say what comparing them one by one says."""

from __future__ import annotations

import numpy as np
import pytest

from nearcast.jit import BITS, LANES, bits_at_least, bits_at_most, count_at_most, kernel, lowest_bit


@kernel
def bits_of(codes, start, value):
    """Where bytes are at most, and at least, a value."""
    return bits_at_most(codes, start, value), bits_at_least(codes, start, value)


@kernel
def positions_of(bits, out):
    """Write the positions of the bits that are set, lowest first; returns how many."""
    n = 0
    while bits != np.uint64(0):
        out[n] = lowest_bit(bits)
        bits &= bits - np.uint64(1)
        n += 1
    return n


@kernel
def count_of(lines, start, n, value):
    """How many of a few lines are at most a value."""
    return count_at_most(lines, start, n, value)


@pytest.mark.parametrize("value", [0, 1, 127, 128, 254, 255])
def test_bits_tell_which_bytes_are_at_most_and_at_least_a_value(value):
    codes = np.random.default_rng(value).integers(0, 256, 3 * BITS, endpoint=False).astype(np.uint8)
    codes[::5] = value
    for start in (0, 1, 63, 2 * BITS):
        here, out = codes[start : start + BITS], np.zeros(BITS, np.int64)
        for bits, right in zip(bits_of(codes, start, np.uint8(value)), (here <= value, here >= value), strict=True):
            n = positions_of(np.uint64(bits), out)
            assert out[:n].tolist() == np.flatnonzero(right).tolist()


@pytest.mark.parametrize("value", [-np.inf, -1.0, 0.0, 0.5, 1.0, np.inf])
def test_lines_at_most_a_value_are_counted(value):
    lines = np.sort(np.random.default_rng(1).normal(size=3 * LANES)).astype(np.float32)
    lines[LANES] = lines[LANES + 1] = 0.5
    for start in (0, 3, LANES):
        for n in (0, 1, 7, LANES):
            right = int((lines[start : start + n] <= value).sum())
            assert count_of(lines, start, n, np.float32(value)) == right
