"""How far each Nearest subscription still looks: a box around its ball, kept where indexes read it.

A message farther away than the floor of a buffer (`engines/kept`) can no longer enter it, so the **ball** around the
place of the subscription with that radius is all that an index must cover. A buffer without a floor is **open**: its
ball is everything. Balls shrink as better messages come, which only makes an old filing cover too much, and grow when a
subscription is evaluated again, which must be followed at once.

Boxes are float32, rounded outward, and lie over wrapped longitudes under haversine: they filter, the distance decides.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from nearcast.columns.arena import record
from nearcast.jit import kernel
from nearcast.space.distance import EUCLIDEAN, wrap
from nearcast.space.regions import circle_box

_BLUR, _TINY = 2.4e-7, 1e-37  # float32 is off by less than this share of a coordinate, or than this near zero
_HUGE = 3e38  # beyond it float32 has only infinity
NO_WORD = -1

FILED = record(
    ("x0", "f4"),  # the box around the ball
    ("y0", "f4"),
    ("x1", "f4"),
    ("y1", "f4"),
    ("generation", "i4"),  # entries of another generation are dead; it only grows, so slots may be used again
    ("n_rows", "i4"),  # entries of its generation
    ("word", "i4"),  # that an entry's list does not decide on, or NO_WORD
    ("level", "u1"),  # of the cells that it is filed in
    packed=True,
)


@kernel
def below(value: float) -> Any:
    """The value, or a float32 not far below it."""
    return np.float32(min(value - abs(value) * _BLUR - _TINY, _HUGE)) if value > -_HUGE else np.float32(-math.inf)


@kernel
def above(value: float) -> Any:
    """The value, or a float32 not far above it."""
    return np.float32(max(value + abs(value) * _BLUR + _TINY, -_HUGE)) if value < _HUGE else np.float32(math.inf)


@kernel
def draw_box(own: Any, metric: int, x: float, y: float, floor: float) -> bool:
    """Put the box around a subscription's ball into its row, of `FILED`; returns whether it is another one."""
    x0, y0, x1, y1 = -math.inf, -math.inf, math.inf, math.inf
    if floor != -math.inf:
        x0, y0, x1, y1 = circle_box(metric, x, y, -floor)
    x0, y0, x1, y1 = below(x0), below(y0), above(x1), above(y1)
    same = own.x0 == x0 and own.y0 == y0 and own.x1 == x1 and own.y1 == y1
    own.x0, own.y0, own.x1, own.y1 = x0, y0, x1, y1
    return not same


@kernel
def level_of(own: Any, metric: int, x: float, y: float, bounds: tuple[float, float, float, float], deepest: int) -> int:
    """The deepest level of a quadtree whose cells are at least as wide and high as the box; 0 for an open one."""
    if metric != EUCLIDEAN:
        x = wrap(x)
    half_x, half_y = max(own.x1 - x, x - own.x0), max(own.y1 - y, y - own.y0)
    width, height = bounds[2] - bounds[0], bounds[3] - bounds[1]
    level = 0
    while level < deepest and 2.01 * half_x <= width * 0.5 and 2.01 * half_y <= height * 0.5:
        width *= 0.5
        height *= 0.5
        level += 1
    return level
