"""Bounds by straight distances hold for the distances that are computed."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from nearcast.space.distance import EUCLIDEAN, HAVERSINE, distance
from nearcast.space.hilbert import CURVE_BITS, at_least, at_most, grid_line, hilbert, squared_limit, to_point

LONS = st.one_of(st.sampled_from([-180.0, 180.0, 179.9999999, -179.9999999, 540.0, 0.0]), st.floats(-400.0, 400.0))
LATS = st.one_of(st.sampled_from([-90.0, 90.0, 89.9999999, 0.0, 1e-9]), st.floats(-90.0, 90.0))
PLAIN = st.floats(-1e6, 1e6)


def _squared(metric: int, x1: float, y1: float, x2: float, y2: float) -> float:
    one, other = to_point(metric, x1, y1), to_point(metric, x2, y2)
    return sum((a - b) ** 2 for a, b in zip(one, other, strict=True))


@given(LONS, LATS, LONS, LATS)
@example(0.0, 0.0, 180.0, 0.0)
@example(0.0, 90.0, 77.0, 90.0)
@example(179.9999999, 0.0, -179.9999999, 0.0)
def test_bounds_hold_on_the_sphere(x1, y1, x2, y2):  # type: ignore[no-untyped-def]
    metres, squared = distance(HAVERSINE, x1, y1, x2, y2), _squared(HAVERSINE, x1, y1, x2, y2)
    assert at_least(HAVERSINE, squared) <= metres <= at_most(HAVERSINE, squared)
    assert squared <= squared_limit(HAVERSINE, metres)


def test_a_square_that_overflows_is_still_a_bound() -> None:
    assert at_least(EUCLIDEAN, float("inf")) <= distance(EUCLIDEAN, 0.0, 0.0, 1e155, 0.0)
    assert at_most(EUCLIDEAN, float("inf")) == float("inf")


@given(PLAIN, PLAIN, PLAIN, PLAIN)
@example(0.0, 0.0, 5e-324, 0.0)
@example(0.0, 0.0, 0.0, 7.794455169667081e-160)
def test_bounds_hold_in_the_plane(x1, y1, x2, y2):  # type: ignore[no-untyped-def]
    length, squared = distance(EUCLIDEAN, x1, y1, x2, y2), _squared(EUCLIDEAN, x1, y1, x2, y2)
    assert at_least(EUCLIDEAN, squared) <= length <= at_most(EUCLIDEAN, squared)
    assert squared <= squared_limit(EUCLIDEAN, length)


def test_bounds_are_tight_for_near_places():
    metres = distance(HAVERSINE, 10.0, 50.0, 10.5, 50.3)
    squared = _squared(HAVERSINE, 10.0, 50.0, 10.5, 50.3)
    assert at_least(HAVERSINE, squared) == pytest.approx(metres, rel=1e-9)
    assert at_most(HAVERSINE, squared) == pytest.approx(metres, rel=2e-7)
    assert squared_limit(HAVERSINE, metres) == pytest.approx(squared, rel=1e-9)


def test_neighbours_along_the_curve_are_neighbours_in_the_grid():
    shift = CURVE_BITS - 4
    cells = [(column, row) for column in range(16) for row in range(16)]
    order = sorted(cells, key=lambda cell: hilbert(cell[0] << shift, cell[1] << shift))
    steps = np.abs(np.diff(np.array(order), axis=0)).sum(axis=1)
    assert steps.tolist() == [1] * 255


def test_places_outside_the_bounds_fall_into_the_outermost_cells():
    last = (1 << CURVE_BITS) - 1
    assert [grid_line(value, 0.0, 0.1) for value in (-1e308, -1.0, 0.0, 10.0, 1e308)] == [0, 0, 0, last, last]
    assert grid_line(1e308, -1e308, 0.0) == 0
