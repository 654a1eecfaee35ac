"""Turns places into points whose straight distances order them, and into positions along a Hilbert curve: kernels.

Under haversine a place becomes a point on the unit sphere. The straight line between two such points, the chord, grows
with the distance over the ground, knows no date line and no poles, and its bound from a point to a box of points is
a few subtractions. Under euclidean the place is the point.
"""

from __future__ import annotations

import math
from typing import Any

from nearcast.jit import inlined, kernel
from nearcast.space.distance import EARTH_RADIUS_M, HAVERSINE, wrap

CURVE_BITS = 24  # per axis: 2.4 m along the equator if the bounds are the whole earth
SLACK = 1e-14  # of a chord on the unit sphere; the roundings of two points stay below 4e-15

_RADIANS = math.pi / 180.0


@kernel
def to_point(metric: int, x: float, y: float) -> tuple[float, float, float]:
    """The place (x, y) as a point in three dimensions."""
    if metric != HAVERSINE:
        return x, y, 0.0
    lon = wrap(x) * _RADIANS
    lat = y * _RADIANS
    across = math.cos(lat)
    return across * math.cos(lon), across * math.sin(lon), math.sin(lat)


@inlined
def box_squared(x: float, y: float, z: Any, box: Any) -> Any:
    """Squared straight distance from a point to the nearest point of a box."""
    dx = max(box.x0 - x, x - box.x1, 0.0)
    dy = max(box.y0 - y, y - box.y1, 0.0)
    dz = max(box.z0 - z, z - box.z1, 0.0)
    return dx * dx + dy * dy + dz * dz


@inlined
def at_least(metric: int, squared: float) -> Any:
    """A distance that `distance` never falls below for two places whose points lie that far apart, squared.

    The arc 2 asin(c/2) of a chord c is c + c³/24 + 3c⁵/640 + ..., all terms positive, so the first three stay below it.
    """
    # Squares outside this range have lost digits, or overflowed; what is left is still a bound.
    chord = math.sqrt(min(max(0.0, squared - 1e-300), 1e300)) * (1.0 - 1e-12)
    if metric != HAVERSINE:
        return chord
    chord = max(0.0, chord - SLACK)
    square = chord * chord
    return EARTH_RADIUS_M * (chord * (1.0 + square * (1.0 / 24.0 + square * (3.0 / 640.0))))


@kernel
def at_most(metric: int, squared: float) -> float:
    """A distance that `distance` never exceeds for two places whose points lie that far apart, squared."""
    chord = math.sqrt(squared + 1e-300) * (1.0 + 1e-12)
    if metric == HAVERSINE:
        chord = 2.0 * EARTH_RADIUS_M * math.asin(min(1.0, 0.5 * (chord + 4.0 * SLACK)))
    return chord * (1.0 + 1e-7)


@kernel
def squared_limit(metric: int, distance: float) -> float:
    """Squared straight distance that no two places within `distance` of each other exceed."""
    chord = distance
    if metric == HAVERSINE:
        chord = 2.0 * math.sin(min(0.5 * math.pi, distance / (2.0 * EARTH_RADIUS_M))) + SLACK
    chord *= 1.0 + 1e-12
    return chord * chord + 1e-300


@kernel
def hilbert(column: int, row: int) -> int:
    """Position along the Hilbert curve of a cell in a square grid of 2**CURVE_BITS columns and rows."""
    code = 0
    side = 1 << (CURVE_BITS - 1)
    while side > 0:
        right = 1 if column & side else 0
        upper = 1 if row & side else 0
        code = (code << 2) | ((3 * right) ^ upper)
        if upper == 0:
            if right == 1:
                column = ~column
                row = ~row
            column, row = row, column
        side >>= 1
    return code


@kernel
def grid_line(value: float, low: float, scale: float) -> int:
    """Column or row of a coordinate; what lies outside the bounds falls into the outermost."""
    if scale == 0.0:
        return 0
    return int(min(max((value - low) * scale, 0.0), 1.0) * ((1 << CURVE_BITS) - 1))
