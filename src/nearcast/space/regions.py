"""Tests whether a place lies in a box, circle or polygon, and finds a box around each: kernels.

All regions are closed. Boxes and polygons compare coordinates as they are given and never wrap; a circle is what lies
within its radius by `distance`, so under haversine it also holds a place whose longitude is whole turns away.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from nearcast.jit import allocating, kernel
from nearcast.model.region import MultiPolygon, Point, Polygon
from nearcast.space.distance import EARTH_RADIUS_M, EUCLIDEAN, cos_lat, distance, wrap

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

_LOOSE = 1e-14  # relative, far above the roundings it stands for, far below a metre on Earth
_FILTER = 3.5e-16  # relative; a difference of two products of differences is off by at most 3.3307e-16 of their sum
_TINY = 1e-290  # chords below it have lost digits, or are 0 for places that differ
_LIMB = 24  # bits in one limb of an exact sum, so that six products can be added before carrying
_N_LIMBS = 182  # 4,368 bits: the product of any two floats lies between 2**-2252 and 2**2048 bit by bit
_LOW = (1 << 27) - 1  # lower half of a 53-bit or 54-bit whole number


class PolygonLayout(NamedTuple):
    """Rings of many polygons in one pool; a polygon is the range of rings [lo, hi).

    Ring r has the points ring_start[r]:ring_start[r + 1], the last joined to the first without being repeated. The
    rings of a polygon lie side by side and so do their points, thus it reads the entries lo to hi, both included, of
    `ring_start`. Polygons laid end to end may share that last entry; where rows are reused, each keeps its own. A union
    of polygons is one range as well, with an empty ring between each two of them.
    """

    xs: Floats  # float64[n_points]: longitude of each point
    ys: Floats  # float64[n_points]: latitude of each point
    ring_start: Ints  # int64[n_rings + 1]: first point of each ring


def flat_polygon(polygon: Polygon | MultiPolygon) -> PolygonLayout:
    """The polygon alone in a pool: rings [0, number of rings), those between the polygons of a union included."""
    polygons = polygon.polygons if isinstance(polygon, MultiPolygon) else (polygon,)
    rings: list[Sequence[Point]] = []
    for part in polygons:
        rings += ((), *part.rings) if rings else part.rings
    points = np.array([point for ring in rings for point in ring], dtype=np.float64)
    ring_start = np.zeros(len(rings) + 1, dtype=np.int64)
    np.cumsum([len(ring) for ring in rings], out=ring_start[1:])
    return PolygonLayout(points[:, 0].copy(), points[:, 1].copy(), ring_start)


@kernel
def in_box(x0: float, y0: float, x1: float, y1: float, x: float, y: float) -> bool:
    """Whether (x, y) lies in the closed box; x0 > x1 means across the date line."""
    if not y0 <= y <= y1:
        return False
    if x0 <= x1:
        return x0 <= x <= x1
    return x >= x0 or x <= x1


@kernel
def in_circle(metric: int, cx: float, cy: float, radius: float, x: float, y: float) -> bool:
    """Whether (x, y) lies at most `radius` from (cx, cy)."""
    return distance(metric, cx, cy, x, y) <= radius


@kernel
def in_polygon(layout: PolygonLayout, lo: int, hi: int, x: float, y: float) -> bool:
    """Whether (x, y) lies on a ring of the polygon [lo, hi), or inside an odd number of them; exact for all floats.

    Counts the edges that a ray towards growing x crosses. An edge owns its lower end and not its upper one, so that a
    ray through a corner counts it once; orientation is asked only of edges whose bounding box holds the place. An empty
    ring ends one polygon of a union and starts the next.
    """
    inside = False
    for ring in range(lo, hi):
        start = layout.ring_start[ring]
        end = layout.ring_start[ring + 1]
        if start == end:
            if inside:
                return True
            continue
        ax = float(layout.xs[end - 1])  # a plain float also where nothing is compiled
        ay = float(layout.ys[end - 1])
        for point in range(start, end):
            bx = float(layout.xs[point])
            by = float(layout.ys[point])
            if min(ay, by) <= y <= max(ay, by) and x <= max(ax, bx):
                crosses = (ay > y) != (by > y)
                if x < min(ax, bx):
                    inside = inside != crosses
                elif ay == by:
                    return True
                else:
                    side = orientation(ax, ay, bx, by, x, y)
                    if side == 0:
                        return True
                    inside = inside != (crosses and (side > 0) == (by > ay))
            ax = bx
            ay = by
    return inside


@kernel
def _sign(value: float) -> int:
    if value == 0.0:
        return 0
    return 1 if value > 0.0 else -1


@kernel
def orientation(ax: float, ay: float, bx: float, by: float, x: float, y: float) -> int:
    """1, 0 or -1 as (x, y) lies left of, on or right of the line from a to b: exact for all finite numbers.

    The sign of (ax - x)(by - y) - (ay - y)(bx - x). Signs of differences are exact in floats and often decide alone;
    then the products do, if they differ by more than their error; the rest is summed in whole numbers.
    """
    left_x = ax - x
    left_y = by - y
    right_x = bx - x
    right_y = ay - y
    left = _sign(left_x) * _sign(left_y)
    right = _sign(right_x) * _sign(right_y)
    if left != right:
        return 1 if left > right else -1
    if left == 0:
        return 0
    det = left_x * left_y - right_x * right_y
    size = abs(left_x * left_y) + abs(right_x * right_y)
    if size > 1e-280 and abs(det) > _FILTER * size:  # false if anything overflowed
        return 1 if det > 0.0 else -1
    return _exact_orientation(ax, ay, bx, by, x, y)


@allocating
def _exact_orientation(ax: float, ay: float, bx: float, by: float, x: float, y: float) -> int:
    """`orientation` by the six products of the determinant, added up without any rounding."""
    limbs = np.zeros(_N_LIMBS, dtype=np.int64)  # only for places within a rounding of an edge
    _add_product(limbs, ax, by)
    _add_product(limbs, -ax, y)
    _add_product(limbs, -x, by)
    _add_product(limbs, -ay, bx)
    _add_product(limbs, ay, x)
    _add_product(limbs, y, bx)
    carry = 0
    nonzero = False
    for i in range(_N_LIMBS):
        total = limbs[i] + carry
        carry = total >> _LIMB
        nonzero = nonzero or total != carry << _LIMB
    if carry < 0:
        return -1
    return 1 if nonzero else 0


@kernel
def _add_product(limbs: Ints, a: float, b: float) -> None:
    """Add a * b to the number that `limbs` holds in units of 2**-2252."""
    if a == 0.0 or b == 0.0:
        return
    fraction_a, exponent_a = math.frexp(a)
    fraction_b, exponent_b = math.frexp(b)
    whole_a = int(fraction_a * 9007199254740992.0)  # 2**53
    whole_b = int(fraction_b * 9007199254740992.0)
    place = exponent_a + exponent_b + 2146
    _add_at(limbs, (whole_a & _LOW) * (whole_b & _LOW), place)
    _add_at(limbs, (whole_a >> 27) * (whole_b & _LOW), place + 27)
    _add_at(limbs, (whole_a & _LOW) * (whole_b >> 27), place + 27)
    _add_at(limbs, (whole_a >> 27) * (whole_b >> 27), place + 54)


@kernel
def _add_at(limbs: Ints, value: int, place: int) -> None:
    """Add value * 2**place, |value| <= 2**54, half by half so that no limb overflows."""
    limbs[place // _LIMB] += (value & _LOW) << (place % _LIMB)
    limbs[(place + 27) // _LIMB] += (value >> 27) << ((place + 27) % _LIMB)


@kernel
def polygon_box(layout: PolygonLayout, lo: int, hi: int) -> tuple[float, float, float, float]:
    """Smallest box (x0, y0, x1, y1) around the polygon [lo, hi)."""
    x0, y0, x1, y1 = math.inf, math.inf, -math.inf, -math.inf
    for point in range(layout.ring_start[lo], layout.ring_start[hi]):
        x0 = min(x0, float(layout.xs[point]))
        y0 = min(y0, float(layout.ys[point]))
        x1 = max(x1, float(layout.xs[point]))
        y1 = max(y1, float(layout.ys[point]))
    return x0, y0, x1, y1


@kernel
def _around(middle: float, reach: float) -> tuple[float, float]:
    """An interval that holds middle - reach and middle + reach, whatever the rounding."""
    low = middle - reach
    high = middle + reach
    return low - abs(low) * _LOOSE, high + abs(high) * _LOOSE


@kernel
def circle_box(metric: int, cx: float, cy: float, radius: float) -> tuple[float, float, float, float]:
    """A box (x0, y0, x1, y1) around the circle: every place with `in_circle` lies in it.

    Under haversine the box is over wrapped longitudes: (wrap(x), y) lies in it. A circle that reaches a pole or the
    date line gets all of them, (-inf, inf). Else its easternmost place lies where a meridian touches it, with a right
    angle between radius and meridian: sin(gap) = sin(radius) / cos(cy).
    """
    if metric == EUCLIDEAN:
        x0, x1 = _around(cx, radius * (1.0 + _LOOSE))
        y0, y1 = _around(cy, radius * (1.0 + _LOOSE))
        return x0, y0, x1, y1
    half = radius / (2.0 * EARTH_RADIUS_M)
    # What counts is the distance as computed: its chord is right to _LOOSE, itself it is not near the far side.
    squared = math.sin(half) * math.sin(half) * (1.0 + _LOOSE) if half < 0.5 * math.pi else 1.0
    if squared >= 1.0:
        return -math.inf, -90.0, math.inf, 90.0
    angle = 2.0 * math.asin(math.sqrt(max(squared, _TINY))) * (1.0 + _LOOSE)
    y0, y1 = _around(cy, math.degrees(angle))
    sine = math.sin(angle) * (1.0 + _LOOSE)
    if y0 <= -90.0 or y1 >= 90.0 or sine >= cos_lat(cy):
        return -math.inf, max(y0, -90.0), math.inf, min(y1, 90.0)
    gap = math.degrees(math.asin(min(1.0, sine / cos_lat(cy) * (1.0 + _LOOSE)))) * (1.0 + _LOOSE)
    x0, x1 = _around(wrap(cx), gap)
    if x0 <= -180.0 or x1 >= 180.0:
        return -math.inf, y0, math.inf, y1
    return x0, y0, x1, y1
