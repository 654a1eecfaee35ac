"""Rounds numbers to 32 bits, down or up, so that a bound cuts nothing off: kernels."""

from __future__ import annotations

import numpy as np

from nearcast.jit import kernel


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
