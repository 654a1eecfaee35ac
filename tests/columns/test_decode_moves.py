from __future__ import annotations

import json
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nearcast.columns.decode_moves import Moves, from_objects, sure_moves
from nearcast.columns.regions import RegionRows
from nearcast.model.codec import region_from_json
from nearcast.model.event import Move
from nearcast.model.region import Box, Circle
from nearcast.space.space import Space

PLANE = Space((0, 0, 8, 8), metric="euclidean")
GLOBE = Space((-180, -90, 180, 90), "haversine")
SIDE = st.one_of(st.integers(-200, 200), st.floats(-200, 200))


def read(rows: list[dict[str, Any]], space: Space = PLANE) -> list[Moves]:
    names = ("lon", "lat", "min_lon", "min_lat", "max_lon", "max_lat")
    schema = pa.schema([("id", pa.int64()), ("region", pa.string()), *((name, pa.float64()) for name in names)])
    return sure_moves(pa.Table.from_pylist(rows, schema=schema), space, "integer")


@given(st.lists(st.tuples(SIDE, SIDE, SIDE, SIDE), max_size=8), st.sampled_from([PLANE, GLOBE]))
def test_a_bbox_is_read_to_the_bit_as_the_row_wise_door_reads_it(boxes: list[Any], space: Space) -> None:
    parts = read([{"id": n, "region": json.dumps(box)} for n, box in enumerate(boxes)], space)
    n_sure = 0
    for part in parts:
        assert isinstance(part.goals, RegionRows)
        for row, found in zip(part.rows.tolist(), part.goals.boxes.tolist(), strict=True):
            region = region_from_json(json.dumps(boxes[row]))
            space.check_region(region)
            assert isinstance(region, Box)
            assert found == [region.min_lon, region.min_lat, region.max_lon, region.max_lat]
            n_sure += 1
    plain = [box for box in boxes if "e" not in json.dumps(box) and all(abs(side) <= 90 for side in box)]
    assert n_sure >= sum(box[0] <= box[2] and box[1] <= box[3] for box in plain)


@pytest.mark.parametrize(
    "region",
    [
        "[0,0,1]",
        "[0,0,1,1,2]",
        "[00,0,1,1]",
        "[0,0,1e400,1]",
        "[NaN,0,1,1]",
        "[0,0,1,1]x",
        '["0",0,1,1]',
        "0,0,1,1",
        "",
    ],
)
def test_what_is_not_surely_a_bbox_is_left_to_the_row_wise_door(region: str) -> None:
    (part,) = read([{"id": 1, "region": region}, {"id": 2, "region": "[0, 0, 1, 1]"}])
    assert part.rows.tolist() == [1]


def test_places_and_boxes_are_told_apart() -> None:
    sides = {"min_lon": 0.0, "min_lat": 1.0, "max_lon": 2.0, "max_lat": 3.0}
    rows = [
        {"id": 7, **sides},
        {"id": 8, "lon": 4.0, "lat": 5.0},
        {"id": 9, "region": "[0,1,2,3]", **sides},
        {"id": 9, "lon": 1.0, **sides},
        {"id": None, "lon": 1.0, "lat": 1.0},
        {"id": 6, "lon": 1.0},
    ]
    places, boxes = read(rows)
    assert (places.rows.tolist(), places.ids.to_pylist(), places.goals.tolist()) == ([1], [8], [[4.0, 5.0]])
    assert (boxes.rows.tolist(), boxes.ids.to_pylist(), boxes.to_regions) == ([0], [7], True)
    assert boxes.goals.boxes.tolist() == [[0.0, 1.0, 2.0, 3.0]]
    assert sure_moves(pa.table({"id": ["a"], "lon": [1.0], "lat": [1.0]}), PLANE, "integer") == []


def test_objects_become_the_same_columns() -> None:
    given_moves = [(2, Move("a", 1, 2)), (3, Move("b", region=Circle(1, 1, 2))), (5, Move("c", 3, 4))]
    places, regions = from_objects(given_moves, PLANE)
    assert (places.rows.tolist(), places.goals.tolist()) == ([2, 5], [[1, 2], [3, 4]])
    assert regions.goals.points.tolist() == [[1, 1], [2, 0]]
    taken = places.take(np.array([1]))
    assert (taken.rows.tolist(), taken.ids.to_pylist(), taken.goals.tolist()) == ([5], ["c"], [[3, 4]])
    assert from_objects([], PLANE) == []
