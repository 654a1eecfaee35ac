from __future__ import annotations

import math
import random
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from nearcast.space.distance import (
    EARTH_RADIUS_M,
    EUCLIDEAN,
    HAVERSINE,
    box_distance,
    box_distance_max,
    distance,
    quick_sine,
    ssim,
    wrap,
)

from .places import Box, fractions, inner, lats, lon_lat_boxes, lons, plain, plain_boxes

WORLD_M = math.pi * EARTH_RADIUS_M


def chords(x: float, y: float, xs: np.ndarray, ys: np.ndarray) -> np.ndarray:
    """Squared half chords to many places, by vectors in long doubles: shares no formula with the package."""
    degree = np.arctan2(np.longdouble(0), np.longdouble(-1)) / 180
    a, b = np.longdouble(x) * degree, np.longdouble(y) * degree
    xs, ys = np.asarray(xs, np.longdouble) * degree, np.asarray(ys, np.longdouble) * degree
    dx = np.cos(ys) * np.cos(xs) - np.cos(b) * np.cos(a)
    dy = np.cos(ys) * np.sin(xs) - np.cos(b) * np.sin(a)
    dz = np.sin(ys) - np.sin(b)
    return np.asarray((dx * dx + dy * dy + dz * dz) / 4)


def extreme_chord(x: float, y: float, box: Box, sign: int) -> float:
    """Smallest (sign 1) or largest (sign -1) squared half chord to the box, found by zooming into ever finer grids."""
    x0, y0, x1, y1 = box
    turns = [x + 180 * k for k in range(-8, 9) if x0 <= x + 180 * k <= x1]
    xs, ys = np.meshgrid([*np.linspace(x0, x1, 25), *turns], np.linspace(y0, y1, 25))
    values = sign * chords(x, y, xs, ys)
    found = values.min()
    best_rows = values.argmin(axis=0)
    starts = [(xs[0, i], ys[best_rows[i], i], 0.0) for i in (0, 24, *range(25, xs.shape[1]))]  # only up and down
    row, column = np.unravel_index(values.argmin(), values.shape)
    for cx, cy, half_x in (*starts, (xs[row, column], ys[row, column], (x1 - x0) / 16)):
        half_y = (y1 - y0) / 16
        for _ in range(60):
            near = np.linspace(-1, 1, 5)
            gx, gy = np.meshgrid(np.clip(cx + half_x * near, x0, x1), np.clip(cy + half_y * near, y0, y1))
            local = sign * chords(x, y, gx.ravel(), gy.ravel())
            best = local.argmin()
            found = min(found, local[best])
            cx, cy, half_x, half_y = gx.ravel()[best], gy.ravel()[best], half_x * 0.5, half_y * 0.5
    return float(sign * found)


def nearly(chord: float) -> object:
    """A chord as `chords` finds it: vectors lose digits of small distances even in long doubles."""
    eps = float(np.finfo(np.longdouble).eps)
    return pytest.approx(chord, rel=1e-11, abs=20 * eps * math.sqrt(chord) + 20 * eps * eps)


def metres_chord(metres: float) -> float:
    return math.sin(metres / EARTH_RADIUS_M / 2) ** 2


@settings(deadline=None)
@given(lons)
def test_wrap_is_exact(x: float) -> None:
    wrapped = wrap(x)
    assert -180.0 <= wrapped < 180.0
    assert (Fraction(x) - Fraction(wrapped)) % 360 == 0


def test_haversine_known_distances() -> None:
    quarter = WORLD_M / 2
    assert distance(HAVERSINE, 0.0, 0.0, 90.0, 0.0) == pytest.approx(quarter, rel=1e-15)
    assert distance(HAVERSINE, 10.0, 0.0, -30.0, 90.0) == pytest.approx(quarter, rel=1e-15)
    assert distance(HAVERSINE, 0.0, 0.0, 180.0, 0.0) == WORLD_M
    assert distance(HAVERSINE, 12.0, 34.0, -168.0, -34.0) == pytest.approx(WORLD_M, abs=0.5)
    assert distance(HAVERSINE, 17.0, 90.0, -80.0, 90.0) == 0.0
    assert distance(HAVERSINE, 180.0, 12.0, -180.0, 12.0) == 0.0
    # London to Paris, from the law of cosines
    a, b = math.radians(51.5074), math.radians(48.8566)
    cosine = math.sin(a) * math.sin(b) + math.cos(a) * math.cos(b) * math.cos(math.radians(2.3522 + 0.1278))
    assert distance(HAVERSINE, -0.1278, 51.5074, 2.3522, 48.8566) == pytest.approx(
        EARTH_RADIUS_M * math.acos(cosine), rel=1e-12
    )


@settings(deadline=None)
@given(st.floats(-180.0, 180.0), lats, st.floats(-180.0, 180.0), lats)
def test_haversine_agrees_with_vectors(x1: float, y1: float, x2: float, y2: float) -> None:
    expected = float(chords(x1, y1, np.array([x2]), np.array([y2]))[0])
    assert metres_chord(distance(HAVERSINE, x1, y1, x2, y2)) == nearly(expected)


def test_haversine_keeps_digits_of_small_distances() -> None:
    metre = 180.0 / WORLD_M
    west, east = math.nextafter(-180.0, 0.0), math.nextafter(180.0, 0.0)
    for y in (0.0, 60.0, 89.99):
        expected = (2 * (180.0 - east)) / metre * math.cos(math.radians(y))
        assert distance(HAVERSINE, west, y, east, y) == pytest.approx(expected, rel=1e-9)
    below = math.nextafter(90.0, 0.0)
    assert distance(HAVERSINE, 0.0, below, 180.0, below) == pytest.approx(2 * (90.0 - below) / metre, rel=1e-12)


@settings(deadline=None)
@given(st.sampled_from((EUCLIDEAN, HAVERSINE)), lons, lats, lons, lats)
def test_distance_is_symmetric(metric: int, x1: float, y1: float, x2: float, y2: float) -> None:
    assert distance(metric, x1, y1, x2, y2) == distance(metric, x2, y2, x1, y1)
    assert distance(metric, x1, y1, x1, y1) == 0.0


@settings(deadline=None)
@given(lons, lats, lons, lats)
def test_haversine_is_periodic_to_the_bit(x1: float, y1: float, x2: float, y2: float) -> None:
    assert distance(HAVERSINE, x1, y1, x2, y2) == distance(HAVERSINE, wrap(x1), y1, wrap(x2), y2)


@settings(deadline=None)
@given(plain, plain, plain, plain)
@example(1e200, 0.0, 0.0, 1e200)
@example(1e-200, 0.0, 0.0, 1e-200)
@example(5e-324, 0.0, 0.0, 0.0)
@example(1e308, 1e308, -1e308, -1e308)
def test_euclidean_agrees_with_hypot(x1: float, y1: float, x2: float, y2: float) -> None:
    assert distance(EUCLIDEAN, x1, y1, x2, y2) == pytest.approx(math.hypot(x1 - x2, y1 - y2), rel=1e-15, abs=1e-323)


def test_ssim() -> None:
    assert ssim(0.0, 4.0) == 1.0
    assert ssim(1.0, 4.0) == 0.75
    assert ssim(4.0, 4.0) == 0.0
    assert ssim(5.0, 4.0) == 0.0
    assert ssim(math.inf, 4.0) == 0.0


@settings(deadline=None)
@given(lons, lats, lon_lat_boxes(), st.lists(st.tuples(fractions, fractions), max_size=6))
def test_bounds_hold_on_the_globe(x: float, y: float, box: Box, inside: list[tuple[float, float]]) -> None:
    x0, y0, x1, y1 = box
    low = box_distance(HAVERSINE, x, y, *box)
    high = box_distance_max(HAVERSINE, x, y, *box)
    foot = math.degrees(
        math.atan2(math.sin(math.radians(y)), math.cos(math.radians(y)) * math.cos(math.radians(x - x0)))
    )
    places = [(inner(x0, x1, u), inner(y0, y1, v)) for u, v in (*inside, (0, 0), (0, 1), (1, 0), (1, 1))]
    for lat in (foot, -foot, math.nextafter(foot, 90.0), math.nextafter(foot, -90.0)):
        places += [(x0, min(max(lat, y0), y1)), (x1, min(max(lat, y0), y1))]
    places += [(min(max(x + turn, x0), x1), min(max(y, y0), y1)) for turn in (-360.0, 0.0, 360.0, -180.0, 180.0)]
    for qx, qy in places:
        there = distance(HAVERSINE, x, y, qx, qy)
        assert low <= there <= high, (qx, qy)


@settings(deadline=None)
@given(plain, plain, plain_boxes(), st.lists(st.tuples(fractions, fractions), max_size=6))
def test_bounds_hold_in_the_plane(x: float, y: float, box: Box, inside: list[tuple[float, float]]) -> None:
    x0, y0, x1, y1 = box
    low = box_distance(EUCLIDEAN, x, y, *box)
    high = box_distance_max(EUCLIDEAN, x, y, *box)
    nearest = (min(max(x, x0), x1), min(max(y, y0), y1))
    corners = [(a, b) for a in (x0, x1) for b in (y0, y1)]
    for qx, qy in (nearest, *corners, *((inner(x0, x1, u), inner(y0, y1, v)) for u, v in inside)):
        assert low <= distance(EUCLIDEAN, x, y, qx, qy) <= high
    assert low == distance(EUCLIDEAN, x, y, *nearest)
    assert high == max(distance(EUCLIDEAN, x, y, *corner) for corner in corners)


def test_bounds_are_tight_on_the_globe() -> None:
    """Equal to the extremes that a search in long doubles finds, for all sorts of boxes."""
    rng = random.Random(20)
    for _ in range(80):
        x = rng.choice((rng.uniform(-180, 180), rng.uniform(-700, 700), rng.choice((-180.0, 0.0, 180.0))))
        y = rng.choice((rng.uniform(-90, 90), rng.uniform(-90, 90), rng.choice((-90.0, -89.999, 0.0, 90.0))))
        x0 = rng.choice((rng.uniform(-180, 180), rng.uniform(-700, 700), x + rng.uniform(0, 1e-3), x + 180))
        y0 = min(90.0, max(-90.0, rng.choice((rng.uniform(-90, 90), y + rng.uniform(-1e-3, 1e-3), -90.0))))
        x1 = x0 + rng.choice((0.0, 1e-6, 1.0, 60.0, 200.0, 350.0)) * rng.random()
        y1 = min(90.0, max(y0, rng.choice((y0 + 1e-6 * rng.random(), rng.uniform(y0, 90), 90.0))))
        box = (x0, y0, x1, y1)
        for bound, sign in ((box_distance, 1), (box_distance_max, -1)):
            found = extreme_chord(x, y, box, sign)
            told = metres_chord(bound(HAVERSINE, x, y, *box))
            assert told == nearly(found), (x, y, box, sign)


@pytest.mark.parametrize(
    ("place", "box", "degrees"),
    [
        ((0.0, 0.0), (10.0, -5.0, 20.0, 5.0), 10.0),  # the foot is on the near edge
        ((179.0, 0.0), (-179.0, -5.0, -170.0, 5.0), 2.0),  # over the date line
        ((179.0, 0.0), (181.0, -5.0, 190.0, 5.0), 2.0),  # the same box, named otherwise
        ((-541.0, 0.0), (181.0, -5.0, 190.0, 5.0), 2.0),
        ((0.0, 80.0), (180.0, 60.0, 180.0, 70.0), 30.0),  # over the pole
        ((0.0, 80.0), (90.0, 60.0, 270.0, 90.0), 10.0),  # touches the pole
        ((0.0, 90.0), (20.0, -10.0, 30.0, 10.0), 80.0),  # from the pole
        ((0.0, 0.0), (90.0, 30.0, 100.0, 90.0), 90.0),  # every place at a right angle away
        ((0.0, 50.0), (-100.0, 10.0, 100.0, 20.0), 30.0),  # wider than half the globe, and over it
        ((180.0, 50.0), (-85.0, 10.0, 85.0, 90.0), 40.0),  # wider than half the globe, beside it
        ((5.0, 5.0), (-math.inf, 7.0, math.inf, math.inf), 2.0),
        ((5.0, 5.0), (20.0, -math.inf, math.inf, 3.0), 2.0),  # open to the east is every longitude
        ((5.0, 5.0), (0.0, 0.0, 10.0, 10.0), 0.0),
        ((0.0, 0.0), (180.0, 0.0, 180.0, 0.0), 180.0),
    ],
)
def test_box_distance_examples(place: tuple[float, float], box: Box, degrees: float) -> None:
    metres = math.radians(degrees) * EARTH_RADIUS_M
    told = box_distance(HAVERSINE, *place, *box)
    assert told <= metres
    assert told == pytest.approx(metres, rel=1e-12 if degrees < 179 else 1e-6, abs=1e-6)


def test_box_distance_max_examples() -> None:
    for place, box, degrees in (
        ((0.0, 0.0), (10.0, -5.0, 20.0, -5.0), None),
        ((0.0, 10.0), (170.0, -20.0, 190.0, 0.0), 180.0),  # holds the antipode
        ((0.0, 80.0), (100.0, -90.0, 120.0, 0.0), None),  # opposite the foot
        ((0.0, 90.0), (20.0, -10.0, 30.0, 10.0), 100.0),
        ((5.0, 5.0), (-math.inf, -math.inf, math.inf, math.inf), 180.0),
    ):
        told = box_distance_max(HAVERSINE, *place, *box)
        if degrees is None:
            assert metres_chord(told) == pytest.approx(extreme_chord(*place, box, -1), rel=1e-12)
        else:
            assert told == pytest.approx(math.radians(degrees) * EARTH_RADIUS_M, rel=1e-12)
    assert box_distance_max(EUCLIDEAN, 0.0, 0.0, 1.0, 1.0, math.inf, 2.0) == math.inf
    assert box_distance(EUCLIDEAN, 0.0, 0.0, 3.0, 4.0, math.inf, math.inf) == 5.0
    assert box_distance(EUCLIDEAN, 0.0, 0.0, -math.inf, -math.inf, math.inf, math.inf) == 0.0


def test_quick_sine_keeps_its_last_digits() -> None:
    angles = np.concatenate([np.linspace(0.0, 0.5 * math.pi, 2001)[1:], np.logspace(-300, 0, 301)])
    found = np.array([quick_sine(float(angle)) for angle in angles])
    exact = np.sin(angles.astype(np.longdouble))
    assert float(np.max(np.abs(found - exact) / exact)) < 3 * 2.0**-53
    assert [quick_sine(-float(angle)) for angle in angles] == (-found).tolist()
    assert quick_sine(0.0) == 0.0
