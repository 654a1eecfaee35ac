"""Computes the distance of two places, its bounds to a box, and the spatial similarity: kernels.

Everything under haversine is computed from `chord`, the squared half chord sin²(d/2R) that the asin form takes its root
from. Each step towards it keeps its relative accuracy, at the poles, across the date line and for places that nearly
touch, so a bound on it that is loosened by a few roundings holds for every distance that `distance` can return.
"""

from __future__ import annotations

import math

from nearcast.jit import kernel

EUCLIDEAN = 0
HAVERSINE = 1
EARTH_RADIUS_M = 6371008.8

_RADIANS = math.pi / 180.0  # in one degree
_LOOSE = 1e-14  # relative; the roundings in two evaluations of `chord` stay below 5e-15
_FLAT = 2e-15  # relative; the roundings in one evaluation of a slope stay below 1.6e-15
_ROUNDED = 1e-15  # relative; an asin that is off by an ulp or two
_TINY = 1e-290  # below it products lose digits, and a chord says only that two places are very near
_SINE = tuple((-1.0) ** i / math.factorial(2 * i + 1) for i in range(1, 11))  # Taylor's, after the first
_SHRINK = 2.0**-600  # scales huge numbers so that their squares are finite, and back
_GROW = 2.0**600


@kernel
def wrap(x: float) -> float:
    """The longitude in [-180, 180) that names the same meridian as the finite `x`: exact, no rounding."""
    if -180.0 <= x < 180.0:
        return x
    rest = abs(x) % 360.0
    if x < 0.0:
        return 360.0 - rest if rest > 180.0 else -rest
    return rest - 360.0 if rest >= 180.0 else rest


@kernel
def lon_gap(x1: float, x2: float) -> float:
    """Degrees, 0 to 180, between two longitudes in [-180, 180]; rounding never reorders two gaps from one place."""
    gap = abs(x1 - x2)
    if gap <= 180.0:
        return gap
    return min(180.0, (180.0 - max(x1, x2)) + (180.0 + min(x1, x2)))  # keeps the digits that 360 - gap has lost


@kernel
def quick_sine(angle: float) -> float:
    """sin of an angle of at most a right one, within 2 units in the last place, in a third of the time of `math.sin`.

    Taylor's series to the 21st power: what is left out is below 2e-18. Odd to the bit.
    """
    c1, c2, c3, c4, c5, c6, c7, c8, c9, c10 = _SINE
    square = angle * angle
    fourth = square * square
    low = (c1 + c2 * square) + fourth * (c3 + c4 * square)
    high = (c5 + c6 * square) + fourth * (c7 + c8 * square)
    eighth = fourth * fourth
    return angle + angle * (square * (low + eighth * (high + eighth * (c9 + c10 * square))))


@kernel
def cos_lat(y: float) -> float:
    """Cosine of the latitude `y`: to the last digits beside the poles too, and 0 on them."""
    return quick_sine((90.0 - abs(y)) * _RADIANS)


@kernel
def chord(y1: float, y2: float, gap: float) -> float:
    """Squared half chord between latitudes `y1` and `y2` whose longitudes lie `gap` degrees apart."""
    return chord_to(y1, y2, cos_lat(y2), gap)


@kernel
def chord_to(y1: float, y2: float, cos_y2: float, gap: float) -> float:
    """`chord`, to the same bits, for loops over many places that are compared with one whose `cos_lat` is known."""
    return chord_between(y1, cos_lat(y1), y2, cos_y2, gap)


@kernel
def chord_between(y1: float, cos_y1: float, y2: float, cos_y2: float, gap: float) -> float:
    """`chord`, to the same bits, where `cos_lat` of both places is known."""
    across = quick_sine((y1 - y2) * _RADIANS * 0.5)
    along = quick_sine(gap * _RADIANS * 0.5)
    return across * across + cos_y1 * cos_y2 * (along * along)


@kernel
def chord_metres(squared: float) -> float:
    """Distance over the ground that belongs to a squared half chord: the asin form."""
    return 2.0 * EARTH_RADIUS_M * math.asin(math.sqrt(min(1.0, squared)))


@kernel
def plain_length(dx: float, dy: float) -> float:
    """Length of (dx, dy); never smaller when a side grows, infinite only if no finite number is large enough."""
    squared = dx * dx + dy * dy
    if squared > 1e300:
        dx *= _SHRINK
        dy *= _SHRINK
        return math.sqrt(dx * dx + dy * dy) * _GROW
    if squared < 1e-280:
        dx *= _GROW
        dy *= _GROW
        return math.sqrt(dx * dx + dy * dy) * _SHRINK
    return math.sqrt(squared)


@kernel
def distance(metric: int, x1: float, y1: float, x2: float, y2: float) -> float:
    """Distance between two places: coordinate units, or metres under haversine, where longitudes are periodic.

    Swapping the places, or adding whole turns to a longitude (as far as that is exact), gives the same bits.
    """
    if metric == EUCLIDEAN:
        return plain_length(x1 - x2, y1 - y2)
    return chord_metres(chord(y1, y2, lon_gap(wrap(x1), wrap(x2))))


@kernel
def ssim(distance: float, max_distance: float) -> float:
    """Spatial similarity of two places that far apart: 1 at the same place, 0 from `max_distance` on."""
    return max(0.0, 1.0 - distance / max_distance)


@kernel
def box_gaps(x: float, x0: float, x1: float) -> tuple[float, float]:
    """Smallest and largest `lon_gap` from longitude `x` to the longitudes x0..x1, any of them outside [-180, 180].

    A range that is not a whole turn is, after wrapping, an interval or the outside of one. Unless it holds `x`, its
    nearest longitude is one of its ends; unless it holds the meridian opposite `x`, so is its farthest.
    """
    if not x1 - x0 < 360.0:  # a whole turn, or an open side
        return 0.0, 180.0
    x = wrap(x)
    x0 = wrap(x0)
    x1 = wrap(x1)
    opposite = x - 180.0 if x >= 0.0 else x + 180.0
    near = min(lon_gap(x, x0), lon_gap(x, x1))
    far = max(lon_gap(x, x0), lon_gap(x, x1))
    if x0 <= x1:
        return 0.0 if x0 <= x <= x1 else near, 180.0 if x0 <= opposite <= x1 else far
    return 0.0 if x >= x0 or x <= x1 else near, 180.0 if opposite >= x0 or opposite <= x1 else far


@kernel
def _rise(y: float, edge: float, gap: float) -> int:
    """Whether the place at latitude `edge`, `gap` degrees aside, comes nearer to latitude `y` when it goes north.

    1 yes, -1 no, 0 too close to call. The sign is that of the derivative of cos d after `edge`, which is
    sin y cos edge - cos y sin edge cos gap = sin(y - edge) + 2 cos y sin edge sin²(gap/2).
    """
    along = quick_sine(gap * _RADIANS * 0.5)
    first = math.sin((y - edge) * _RADIANS)
    second = 2.0 * cos_lat(y) * math.sin(edge * _RADIANS) * (along * along)
    slack = _FLAT * (abs(first) + abs(second))
    if first + second > slack:
        return 1
    return -1 if first + second < -slack else 0


@kernel
def _foot_cosine(y: float, gap: float) -> float:
    """|cos d| from latitude `y` to the foot of its perpendicular on the meridian `gap` degrees aside."""
    sine = math.sin(y * _RADIANS)
    cosine = cos_lat(y) * math.sin((90.0 - gap) * _RADIANS)
    return math.sqrt(sine * sine + cosine * cosine)


@kernel
def box_distance(metric: int, x: float, y: float, x0: float, y0: float, x1: float, y1: float) -> float:
    """Smallest distance from (x, y) to the closed box: never above `distance` to any point of it.

    Sides may be infinite. Under haversine the box covers longitudes x0..x1, x0 <= x1, any finite numbers, and what it
    covers beyond the poles is ignored; equal to the minimum up to 1e-14 of the squared half chord.

    At a fixed latitude the distance grows with the gap in longitude, so only the meridian of the smallest gap counts.
    If that gap is 0, the difference in latitude is the answer. Else cos d along the meridian is A cos(lat - foot) with
    foot = atan2(sin y, cos y cos gap). For gaps under 90 degrees the foot lies between the poles, and if it lies
    between y0 and y1 (cos d rises at y0 and falls at y1) it is the nearest place: sin d = cos y sin gap, cos d = A.
    From 90 degrees on the foot lies on or beyond a pole, cos d has no maximum inside, and a corner is nearest.
    """
    if metric == EUCLIDEAN:
        return plain_length(max(x0 - x, x - x1, 0.0), max(y0 - y, y - y1, 0.0))
    y0 = min(max(y0, -90.0), 90.0)
    y1 = min(max(y1, -90.0), 90.0)
    gap = box_gaps(x, x0, x1)[0]
    if gap == 0.0:
        squared = chord(max(y0 - y, y - y1, 0.0), 0.0, 0.0)
    elif gap < 90.0 and _rise(y, y0, gap) >= 0 and _rise(y, y1, gap) <= 0:
        sine = cos_lat(y) * math.sin(gap * _RADIANS)
        squared = sine * sine / (2.0 + 2.0 * _foot_cosine(y, gap))
    else:
        squared = min(chord(y, y0, gap), chord(y, y1, gap))
    if squared < _TINY:
        return 0.0
    return chord_metres(squared * (1.0 - _LOOSE)) * (1.0 - _ROUNDED)


@kernel
def box_distance_max(metric: int, x: float, y: float, x0: float, y0: float, x1: float, y1: float) -> float:
    """Largest distance from (x, y) to the closed box: never below `distance` to any point of it; see `box_distance`.

    Only the meridian of the largest gap counts. Along it the farthest place is a corner, or, for gaps above 90 degrees,
    the point opposite the foot, if cos d falls at y0 and rises at y1: there cos d = -A. Where a slope is too close to
    call, the corner is as far as that point to within 6e-15 of a chord that is at least 1/2.
    """
    if metric == EUCLIDEAN:
        return plain_length(max(abs(x - x0), abs(x - x1)), max(abs(y - y0), abs(y - y1)))
    y0 = min(max(y0, -90.0), 90.0)
    y1 = min(max(y1, -90.0), 90.0)
    gap = box_gaps(x, x0, x1)[1]
    squared = max(chord(y, y0, gap), chord(y, y1, gap))
    if gap > 90.0 and _rise(y, y0, gap) < 0 and _rise(y, y1, gap) > 0:
        squared = max(squared, 0.5 + 0.5 * _foot_cosine(y, gap))
    squared = max(squared, _TINY)
    return chord_metres(squared * (1.0 + 2.0 * _LOOSE)) * (1.0 + _ROUNDED)
