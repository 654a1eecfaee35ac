"""Rounds numbers to 32 bits, down or up, so that a bound cuts nothing off: kernels."""

from __future__ import annotations

import numpy as np

from nearcast.jit import kernel

LARGEST = float(np.finfo(np.float32).max)


@kernel
def below(value: float) -> np.float32:
    """The largest float32 that is not above `value`."""
    near = np.float32(value)
    return np.nextafter(near, np.float32(-np.inf)) if near > value else near


@kernel
def above(value: float) -> np.float32:
    """The smallest float32 that is not below `value`."""
    near = np.float32(value)
    return np.nextafter(near, np.float32(np.inf)) if near < value else near


@kernel
def below_any(value: float) -> np.float32:
    """`below` for a number of any size."""
    return np.float32(-np.inf) if value < -LARGEST else below(min(value, LARGEST))


@kernel
def above_any(value: float) -> np.float32:
    """`above` for a number of any size."""
    return np.float32(np.inf) if value > LARGEST else above(max(value, -LARGEST))
