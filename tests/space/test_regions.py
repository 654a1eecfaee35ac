from __future__ import annotations

import math
import random
import sys
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from nearcast.model.region import Polygon
from nearcast.space.distance import EARTH_RADIUS_M, EUCLIDEAN, HAVERSINE, distance, wrap
from nearcast.space.regions import (
    PolygonLayout,
    circle_box,
    flat_polygon,
    in_box,
    in_circle,
    in_polygon,
    orientation,
    polygon_box,
)

from .places import lats, lons, plain

Point = tuple[float, float]

any_float = st.floats(allow_nan=False, allow_infinity=False)
coarse = st.integers(-4, 4).map(float) | st.sampled_from((0.1, 0.2, 0.3, 0.7, 1 / 3, 5e-324, 1e-200))
coordinates = coarse | st.integers(-64, 64).map(lambda i: i / 8) | any_float
points = st.tuples(coordinates, coordinates)


@st.composite
def rings(draw: st.DrawFn) -> list[Point]:
    return draw(
        st.lists(points, min_size=3, max_size=7).filter(lambda ring: len(set(ring)) >= 3 and ring[0] != ring[-1])
    )


def exact_orientation(a: Point, b: Point, p: Point) -> int:
    ax, ay, bx, by, x, y = (Fraction(value) for value in (*a, *b, *p))
    det = (ax - x) * (by - y) - (ay - y) * (bx - x)
    return (det > 0) - (det < 0)


def exact_in_polygon(polygon: Polygon, x: float, y: float) -> bool:
    """Closed even-odd rule in exact fractions, by where each edge meets the line through the place."""
    inside = False
    px, py = Fraction(x), Fraction(y)
    for ring in polygon.rings:
        corners = [(Fraction(a), Fraction(b)) for a, b in ring]
        for (ax, ay), (bx, by) in zip(corners, corners[1:] + corners[:1], strict=True):
            if ay == by:
                if py == ay and min(ax, bx) <= px <= max(ax, bx):
                    return True
                continue
            if min(ay, by) <= py <= max(ay, by):
                meets = ax + (py - ay) / (by - ay) * (bx - ax)
                if meets == px:
                    return True
                if meets > px and (ay > py) != (by > py):
                    inside = not inside
    return inside


def neighbours(value: float) -> tuple[float, float, float]:
    top = sys.float_info.max
    return max(math.nextafter(value, -math.inf), -top), value, min(math.nextafter(value, math.inf), top)


def check_polygon(polygon: Polygon, places: list[Point]) -> None:
    layout = flat_polygon(polygon)
    for x, y in places:
        assert in_polygon(layout, 0, len(polygon.rings), x, y) == exact_in_polygon(polygon, x, y), (polygon, x, y)


def test_in_box() -> None:
    for x, y, inside in ((1.0, 2.0, True), (3.0, 4.0, True), (2.0, 4.1, False), (0.9, 3.0, False), (3.1, 3.0, False)):
        assert in_box(1.0, 2.0, 3.0, 4.0, x, y) == inside
    for x, inside in ((170.0, True), (180.0, True), (-180.0, True), (-170.0, True), (190.0, True), (0.0, False)):
        assert in_box(170.0, 0.0, -170.0, 1.0, x, 1.0) == inside
    assert not in_box(170.0, 0.0, -170.0, 1.0, 180.0, 1.1)
    assert not in_box(-175.0, 0.0, -165.0, 1.0, 190.0, 0.5)  # a box never wraps


def test_in_circle() -> None:
    assert in_circle(EUCLIDEAN, 1.0, 1.0, 5.0, 4.0, 5.0)
    assert not in_circle(EUCLIDEAN, 1.0, 1.0, 5.0, 4.0, math.nextafter(5.0, 6.0))
    assert in_circle(HAVERSINE, 179.9, 0.0, 30_000.0, -179.9, 0.0)
    assert in_circle(HAVERSINE, 179.9, 0.0, 30_000.0, 180.1, 0.0)
    assert not in_circle(HAVERSINE, 179.9, 0.0, 20_000.0, -179.9, 0.0)
    assert in_circle(HAVERSINE, 0.0, 90.0, 0.0, 123.0, 90.0)


@settings(deadline=None)
@given(points, points, points)
@example((0.0, 0.0), (3.0, 1.0), (0.3, 0.1))
@example((0.0, 0.0), (1e308, 1e308), (-1e308, -1e308))
@example((1e308, -1e308), (-1e308, 1e308), (5e-324, 0.0))
@example((0.0, 0.0), (1e-320, 3e-320), (2e-320, 6e-320))
@example((1.0, 1.0), (1.0 + 2**-52, 1.0 + 2**-51), (1.0 - 2**-53, 1.0 - 2**-52))
def test_orientation_is_exact(a: Point, b: Point, p: Point) -> None:
    expected = exact_orientation(a, b, p)
    assert orientation(*a, *b, *p) == expected
    assert orientation(*b, *a, *p) == -expected


def test_orientation_near_lines_of_any_slope() -> None:
    """Places on a line, rounded off it, and one float beside it: the judges are whole fractions."""
    rng = random.Random(5)
    seen = {-1: 0, 0: 0, 1: 0}
    for _ in range(1500):
        scale = 2.0 ** rng.choice((-1060, -400, -60, -3, 0, 20, 400, 960))
        step = (float(rng.randint(-9, 9)), float(rng.randint(-9, 9)))
        start = (float(rng.randint(-99, 99)), float(rng.randint(-99, 99)))
        many = rng.randint(1, 7)
        a = (start[0] * scale, start[1] * scale)
        b = ((start[0] + many * step[0]) * scale, (start[1] + many * step[1]) * scale)
        if rng.random() < 0.5:
            j = rng.randint(-3, 9)
            p = ((start[0] + j * step[0]) * scale, (start[1] + j * step[1]) * scale)  # exactly on the line
        else:
            t = rng.random()
            p = (a[0] + t * (b[0] - a[0]), a[1] + t * (b[1] - a[1]))
        for q in ((x, p[1]) for x in neighbours(p[0])):
            expected = exact_orientation(a, b, q)
            seen[expected] += 1
            assert orientation(*a, *b, *q) == expected, (a, b, q)
    assert min(seen.values()) > 500


@settings(deadline=None)
@given(rings(), st.lists(rings(), max_size=2), st.lists(points, max_size=5), st.data())
def test_in_polygon_is_exact(
    ring: list[Point], holes: list[list[Point]], places: list[Point], data: st.DataObject
) -> None:
    polygon = Polygon(ring, holes)
    (ax, ay), (bx, by) = data.draw(st.sampled_from(ring)), data.draw(st.sampled_from(ring))
    middle = (ax / 2 + bx / 2, ay / 2 + by / 2)
    check_polygon(polygon, [*places, *ring, middle, (ax, by), *((x, middle[1]) for x in neighbours(middle[0]))])


def test_in_polygon_on_edges_of_any_slope() -> None:
    """Polygons whose edges pass through known lattice points, with places on, and one float off, those edges."""
    rng = random.Random(7)
    on_border = 0
    for _ in range(150):
        scale = 2.0 ** rng.choice((-30, -3, 0))
        many = rng.randint(2, 5)
        corners = [(rng.randint(-9, 9) * many, rng.randint(-9, 9) * many) for _ in range(rng.randint(3, 6))]
        if len(set(corners)) < 3 or corners[0] == corners[-1]:
            continue
        shift = rng.choice((0.0, 1.0, 77.0))
        at = [(x * scale + shift, y * scale + shift) for x, y in corners]
        places = []
        for (ax, ay), (bx, by) in zip(corners, corners[1:] + corners[:1], strict=True):
            j = rng.randint(0, many)
            x = (ax + (bx - ax) // many * j) * scale + shift  # exact: differences are multiples of `many`
            y = (ay + (by - ay) // many * j) * scale + shift
            places += [(u, v) for u in neighbours(x) for v in neighbours(y)]
            assert in_polygon(flat_polygon(Polygon(at)), 0, 1, x, y)
            on_border += 1
        check_polygon(Polygon(at), places)
    assert on_border > 300


def test_in_polygon_examples() -> None:
    square_with_hole = flat_polygon(Polygon([(0, 0), (4, 0), (4, 4), (0, 4)], [[(1, 1), (3, 1), (3, 3), (1, 3)]]))
    for x, y, inside in (
        (0.5, 0.5, True),
        (2.0, 2.0, False),
        (1.0, 2.0, True),  # on the hole's border
        (3.0, 3.0, True),
        (4.0, 4.0, True),
        (4.0, 2.0, True),
        (-1.0, 0.0, False),  # level with an edge
        (-1.0, 4.0, False),
        (5.0, 1.0, False),
    ):
        assert in_polygon(square_with_hole, 0, 2, x, y) == inside
    bow_tie = flat_polygon(Polygon([(0, 0), (2, 2), (2, 0), (0, 2)]))
    assert in_polygon(bow_tie, 0, 1, 0.5, 1.0)
    assert not in_polygon(bow_tie, 0, 1, 1.0, 0.5)
    assert in_polygon(bow_tie, 0, 1, 1.0, 1.0)


def test_polygons_share_a_pool() -> None:
    polygons = [
        Polygon([(0, 0), (4, 0), (0, 4)]),
        Polygon([(0, 0), (4, 0), (4, 4), (0, 4)], [[(1, 1), (3, 1), (3, 3), (1, 3)]]),
        Polygon([(1, 1), (2, 1), (1, 2)]),
    ]
    alone = [flat_polygon(polygon) for polygon in polygons]
    xs = np.concatenate([layout.xs for layout in alone])
    ys = np.concatenate([layout.ys for layout in alone])
    starts = np.cumsum([0, *(layout.xs.size for layout in alone)])
    # one polygon after another, sharing the entry between them; then out of order, each with its own last entry
    shared = np.array([0, 3, 7, 11, 14], dtype=np.int64)
    apart = np.concatenate([alone[i].ring_start + starts[i] for i in (2, 0, 1)])
    rng = random.Random(3)
    for _ in range(200):
        x, y = rng.randint(-1, 5) / 1.0, rng.uniform(-1, 5)
        for i, (lo, hi), (far_lo, far_hi) in ((0, (0, 1), (2, 3)), (1, (1, 3), (4, 6)), (2, (3, 4), (0, 1))):
            expected = in_polygon(alone[i], 0, len(polygons[i].rings), x, y)
            assert in_polygon(PolygonLayout(xs, ys, shared), lo, hi, x, y) == expected
            assert in_polygon(PolygonLayout(xs, ys, apart), far_lo, far_hi, x, y) == expected
    assert polygon_box(PolygonLayout(xs, ys, shared), 1, 3) == (0.0, 0.0, 4.0, 4.0)
    assert polygon_box(PolygonLayout(xs, ys, apart), 0, 1) == (1.0, 1.0, 2.0, 2.0)


@settings(deadline=None)
@given(plain, plain, st.floats(0.0, 1e3) | st.sampled_from((0.0, 5e-324, 1e-200, 1e308)), plain, plain)
def test_circle_box_in_the_plane(cx: float, cy: float, radius: float, x: float, y: float) -> None:
    x0, y0, x1, y1 = circle_box(EUCLIDEAN, cx, cy, radius)
    for qx, qy in ((x, y), *((u, cy) for u in neighbours(cx + radius)), *((cx, v) for v in neighbours(cy - radius))):
        if math.isfinite(qx) and math.isfinite(qy) and in_circle(EUCLIDEAN, cx, cy, radius, qx, qy):
            assert in_box(x0, y0, x1, y1, qx, qy)
    if max(abs(cx), abs(cy), radius) < 1e300:
        slack = 1e-13 * (abs(cx) + abs(cy) + radius)
        assert (x1 - x0) / 2 <= radius + slack
        assert (y1 - y0) / 2 <= radius + slack


radii = st.sampled_from((0.0, 5e-324, 1e-200, 1e-6, 1.0, 1e4, 1e6, 1e7, math.pi * EARTH_RADIUS_M, 1e8))


@settings(deadline=None)
@given(lons, lats, radii | st.floats(0.0, 2.1e7), lons, lats, st.floats(0.0, 360.0))
@example(0.0, 0.0, 0.0, 1e-200, 1e-200, 0.0)
@example(0.0, 0.0, math.pi * EARTH_RADIUS_M - 0.01, 180.0, 0.0, 0.0)
def test_circle_box_on_the_globe(cx: float, cy: float, radius: float, x: float, y: float, bearing: float) -> None:
    x0, y0, x1, y1 = circle_box(HAVERSINE, cx, cy, radius)
    a, b, turn = radius / EARTH_RADIUS_M, math.radians(cy), math.radians(bearing)
    rim_y = math.asin(max(-1.0, min(1.0, math.sin(b) * math.cos(a) + math.cos(b) * math.sin(a) * math.cos(turn))))
    rim_x = math.atan2(math.sin(turn) * math.sin(a) * math.cos(b), math.cos(a) - math.sin(b) * math.sin(rim_y))
    rim = (wrap(cx) + math.degrees(rim_x), math.degrees(rim_y))
    for qx, qy in ((x, y), (cx, cy), rim, *((u, rim[1]) for u in neighbours(rim[0])), (x1 if x1 < 180.0 else x, cy)):
        if in_circle(HAVERSINE, cx, cy, radius, qx, qy):
            assert in_box(x0, y0, x1, y1, wrap(qx), qy)


def test_circle_box_on_the_globe_is_tight() -> None:
    rng = random.Random(9)
    closed = 0
    for _ in range(300):
        cx, cy, radius = rng.uniform(-180, 180), rng.uniform(-90, 90), 10 ** rng.uniform(-3, 7)
        x0, y0, x1, y1 = circle_box(HAVERSINE, cx, cy, radius)
        if math.isinf(x0):
            reaches_pole = 90 - abs(cy) <= math.degrees(radius / EARTH_RADIUS_M) * (1 + 1e-9)
            touching_y = math.sin(math.radians(cy)) / math.cos(radius / EARTH_RADIUS_M)
            gap = 180 - abs(cx)
            across = distance(HAVERSINE, cx, cy, cx + gap, math.degrees(math.asin(max(-1, min(1, touching_y)))))
            assert reaches_pole or across <= radius * (1 + 1e-9)
            continue
        closed += 1
        touching_y = math.degrees(math.asin(math.sin(math.radians(cy)) / math.cos(radius / EARTH_RADIUS_M)))
        for side in (x0, x1):
            assert distance(HAVERSINE, cx, cy, side, touching_y) == pytest.approx(radius, rel=1e-6, abs=1e-6)
        for side in (y0, y1):
            assert distance(HAVERSINE, cx, cy, cx, side) == pytest.approx(radius, rel=1e-6, abs=1e-6)
    assert closed > 100


@pytest.mark.parametrize(
    ("circle", "box"),
    [
        ((10.0, 89.0, 200_000.0), (-math.inf, None, math.inf, 90.0)),
        ((10.0, -89.0, 200_000.0), (-math.inf, -90.0, math.inf, None)),
        ((179.9, 0.0, 200_000.0), (-math.inf, None, math.inf, None)),
        ((-179.9, 0.0, 200_000.0), (-math.inf, None, math.inf, None)),
        ((180.0, 0.0, 0.0), (-math.inf, None, math.inf, None)),
        ((0.0, 0.0, 3e7), (-math.inf, -90.0, math.inf, 90.0)),
    ],
)
def test_circle_box_at_poles_and_date_line(circle: tuple[float, float, float], box: tuple[float | None, ...]) -> None:
    for told, expected in zip(circle_box(HAVERSINE, *circle), box, strict=True):
        assert expected is None or told == expected
