from __future__ import annotations

import dataclasses
import math
import pickle
from typing import Any

import numpy as np
import pytest

from nearcast.errors import InvalidInput
from nearcast.model.region import Box, Circle, Polygon
from nearcast.space import EUCLIDEAN, HAVERSINE, Space
from nearcast.space.distance import EARTH_RADIUS_M

WORLD = (-180.0, -90.0, 180.0, 90.0)


def test_max_distance_defaults_to_the_corners() -> None:
    assert Space((0, 0, 3, 4), metric="euclidean").max_distance == 5.0
    assert Space(WORLD).metric == "haversine"
    assert Space(WORLD, "haversine").max_distance == math.pi * EARTH_RADIUS_M
    assert Space((0, 0, 3, 4), metric="euclidean", max_distance=float(np.float64(7))).max_distance == 7.0
    assert Space((2, 2, 2, 2), metric="euclidean", max_distance=1).max_distance == 1.0


def test_fields_are_plain_and_frozen() -> None:
    space = Space(np.array([0, 1, 2, 3]).tolist(), metric="haversine", max_distance=5)
    assert space.bounds == (0.0, 1.0, 2.0, 3.0)
    assert all(type(side) is float for side in (*space.bounds, space.max_distance))
    assert space == Space([0, 1, 2, 3], "haversine", 5.0)
    assert hash(space) == hash(Space([0, 1, 2, 3], "haversine", 5.0))
    assert pickle.loads(pickle.dumps(space)) == space
    assert (Space(WORLD, metric="euclidean").metric_code, Space(WORLD, "haversine").metric_code) == (
        EUCLIDEAN,
        HAVERSINE,
    )
    with pytest.raises(dataclasses.FrozenInstanceError):
        space.metric = "euclidean"  # type: ignore[misc]


@pytest.mark.parametrize(
    ("given", "field", "message"),
    [
        ({"bounds": (0, 0, 1)}, "bounds", "bounds must be four numbers (min_lon, min_lat, max_lon, max_lat)"),
        ({"bounds": 5}, "bounds", "bounds must be four numbers"),
        ({"bounds": (0, 0, math.nan, 1)}, "bounds", "bounds must be finite, got nan"),
        ({"bounds": (0, 0, "a", 1)}, "bounds", "bounds must be a number, got 'a'"),
        ({"bounds": (1, 0, 0, 1)}, "bounds", "bounds must have min_lon <= max_lon and min_lat <= max_lat"),
        ({"bounds": (0, 1, 1, 0)}, "bounds", "bounds must have min_lon <= max_lon and min_lat <= max_lat"),
        ({"bounds": (0, 0, 100, 100)}, "bounds", 'under haversine (plain coordinates: metric="euclidean")'),
        ({"bounds": (0, -91, 1, 0), "metric": "haversine"}, "bounds", "latitudes within [-90, 90] under haversine"),
        ({"bounds": (-1e308, 0, 1e308, 0), "metric": "euclidean"}, "bounds", "bounds must lie a finite distance apart"),
        ({"bounds": (2, 2, 2, 2)}, "max_distance", "max_distance must be given for bounds whose corners are one place"),
        ({"bounds": (-180, 5, 180, 5), "metric": "haversine"}, "max_distance", "max_distance must be given"),
        ({"bounds": WORLD, "metric": "manhattan"}, "metric", 'metric must be "euclidean" or "haversine"'),
        ({"bounds": WORLD, "metric": 1}, "metric", "got 1"),
        ({"bounds": WORLD, "max_distance": 0}, "max_distance", "max_distance must be > 0, got 0"),
        ({"bounds": WORLD, "max_distance": -1.0}, "max_distance", "max_distance must be > 0, got -1.0"),
        ({"bounds": WORLD, "max_distance": math.inf}, "max_distance", "max_distance must be finite, got inf"),
        ({"bounds": WORLD, "max_distance": "far"}, "max_distance", "max_distance must be a number, got 'far'"),
        ({"bounds": WORLD, "max_distance": True}, "max_distance", "max_distance must be a number, got True"),
    ],
)
def test_refused_spaces(given: dict[str, Any], field: str, message: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        Space(**given)
    assert caught.value.field == field
    assert message in str(caught.value)


def test_check_point() -> None:
    Space(WORLD, metric="euclidean").check_point(500.0, 500.0)
    haversine = Space(WORLD, "haversine")
    haversine.check_point(500.0, -90.0)
    with pytest.raises(
        InvalidInput, match=r"lat must be within \[-90, 90\] under haversine .plain coordinates: metric=.euclidean.."
    ):
        haversine.check_point(0.0, 90.1)


def test_check_region() -> None:
    haversine, plain = Space(WORLD, "haversine"), Space(WORLD, metric="euclidean")
    across = Box(170, 0, -170, 10)
    haversine.check_region(across)
    with pytest.raises(InvalidInput, match="region must have min_lon <= max_lon unless the metric is haversine"):
        plain.check_region(across)
    haversine.check_region(Circle(0, 90, 1000))
    past = (
        Box(0, -91, 1, 0),
        Box(0, 0, 1, 91),
        Circle(0, -90.5, 1),
        Polygon([(0, 0), (1, 0), (0, 95)]),
        Polygon([(0, 0), (9, 0), (0, 9)], [[(1, 1), (2, 1), (1, -99)]]),
    )
    for region in past:
        plain.check_region(region)
        with pytest.raises(InvalidInput, match=r"region must keep latitudes within \[-90, 90\] under haversine"):
            haversine.check_region(region)
    haversine.check_region(Polygon([(0, 0), (400, 0), (0, 90)]))
