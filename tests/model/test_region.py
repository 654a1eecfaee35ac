from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from nearcast.errors import InvalidInput
from nearcast.model import Box, Circle, Polygon

TRIANGLE = [(0, 0), (4, 0), (0, 4)]
INNER = ((1.0, 1.0), (2.0, 1.0), (1.0, 2.0))


def refusal(make: Callable[..., Any], *arguments: Any) -> str:
    with pytest.raises(InvalidInput) as caught:
        make(*arguments)
    assert str(caught.value).startswith(caught.value.field + " ")
    return str(caught.value)


def test_box() -> None:
    box = Box(np.float32(1), 2, 3, np.int8(4))
    assert box == Box(1.0, 2.0, 3.0, 4.0)
    assert {type(side) for side in (box.min_lon, box.min_lat, box.max_lon, box.max_lat)} == {float}
    assert Box(0, 0, 0, 0).max_lat == 0.0
    assert Box(170, 0, -170, 1).min_lon == 170.0


def test_box_refuses() -> None:
    assert refusal(Box, "a", 0, 1, 1) == "min_lon must be a number, got 'a'"
    assert refusal(Box, 0, float("nan"), 1, 1) == "min_lat must be finite, got nan"
    assert refusal(Box, 0, 0, float("inf"), 1) == "max_lon must be finite, got inf"
    assert refusal(Box, 0, 0, 1, None) == "max_lat must be a number, got None"
    assert refusal(Box, 0, 2, 1, 1) == "min_lat must be <= max_lat (1.0), got 2.0"


def test_circle() -> None:
    assert Circle(1, 2, 0).radius == 0.0
    assert type(Circle(1, 2, np.int64(5)).radius) is float


def test_circle_refuses() -> None:
    assert refusal(Circle, None, 0, 1) == "lon must be a number, got None"
    assert refusal(Circle, 0, float("inf"), 1) == "lat must be finite, got inf"
    assert refusal(Circle, 0, 0, -1) == "radius must be >= 0, got -1"
    assert refusal(Circle, 0, 0, float("inf")) == "radius must be finite, got inf"
    assert refusal(Circle, 0, 0, True) == "radius must be a number, got True"


def test_polygon_drops_the_closing_point() -> None:
    open_, closed = Polygon(TRIANGLE), Polygon([*TRIANGLE, (0.0, 0.0)])
    assert open_ == closed
    assert open_.points == ((0.0, 0.0), (4.0, 0.0), (0.0, 4.0))
    assert Polygon(TRIANGLE, [[*INNER, INNER[0]]]).rings == (open_.points, INNER)


def test_polygon_takes_arrays_and_crossings() -> None:
    assert Polygon(np.array(TRIANGLE), [np.array(INNER)]) == Polygon(TRIANGLE, (INNER,))
    assert len(Polygon([(0, 0), (2, 2), (2, 0), (0, 2)]).points) == 4
    assert len(Polygon([(0, 0), (1, 1), (2, 2)]).points) == 3


def test_regions_are_values() -> None:
    for region in (Box(0, 0, 1, 1), Circle(0, 0, 1), Polygon(TRIANGLE, [INNER])):
        assert pickle.loads(pickle.dumps(region)) == region
        assert hash(region) == hash(pickle.loads(pickle.dumps(region)))


def test_polygon_refuses() -> None:
    assert refusal(Polygon, None) == "points must be a list of points, got None"
    assert refusal(Polygon, "abc") == "points must be a list of points, got 'abc'"
    assert refusal(Polygon, np.array(1.0)).startswith("points must be a list of points, got array(1.")
    assert refusal(Polygon, []) == "points must have at least 3 different points in each ring, got []"
    few = [(0, 0), (1, 1), (0, 0), (1, 1)]
    assert refusal(Polygon, few) == f"points must have at least 3 different points in each ring, got {few}"
    assert refusal(Polygon, [(0, 0), (1, 1), 5]) == "points must hold (lon, lat) pairs, got 5"
    assert refusal(Polygon, [(0, 0), (1, 1), (2, 0, 0)]) == "points must hold (lon, lat) pairs, got (2, 0, 0)"
    assert refusal(Polygon, [(0, 0), (1, 1), "ab"]) == "points must hold (lon, lat) pairs, got 'ab'"
    assert refusal(Polygon, [(0, 0), (1, 1), np.array(2.0)]).startswith("points must hold (lon, lat) pairs, got array")
    assert refusal(Polygon, [(0, 0), (1, 1), (2, float("nan"))]) == "points must be finite, got nan"
    assert refusal(Polygon, [(0, 0), (1, 1), ("2", 0)]) == "points must be a number, got '2'"
    assert refusal(Polygon, TRIANGLE, 5) == "holes must be a list of rings, got 5"
    assert refusal(Polygon, TRIANGLE, [[(0, 0)]]) == (
        "holes must have at least 3 different points in each ring, got [(0, 0)]"
    )
    assert refusal(Polygon, TRIANGLE, [INNER, [(0, 0), (1, 1), (None, 0)]]) == "holes must be a number, got None"
