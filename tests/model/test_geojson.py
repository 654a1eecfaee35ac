"""Regions as people have them: every form gives the same region, and what is none is named."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import nearcast as nc
from nearcast.model.geojson import as_region, region_from_json, region_to_json

OUTER, HOLE = [(0.0, 0.0), (6.0, 0.0), (6.0, 6.0), (0.0, 6.0)], [(1.0, 1.0), (2.0, 1.0), (2.0, 2.0)]
SHIFTED = [(4.0, 4.0), (8.0, 4.0), (8.0, 8.0), (4.0, 8.0)]
POLYGON = nc.Polygon(OUTER, [HOLE])
UNION = nc.MultiPolygon([POLYGON, nc.Polygon(SHIFTED)])


class Geometry:
    """What shapely's geometries give: tuples of tuples."""

    def __init__(self, region: nc.Polygon | nc.MultiPolygon) -> None:
        found = region_to_json(region)
        self.__geo_interface__ = {"type": found["type"], "coordinates": _tuples(found["coordinates"])}


def _tuples(value: Any) -> Any:
    return tuple(_tuples(item) for item in value) if isinstance(value, list) else value


@pytest.mark.parametrize(
    "region", [POLYGON, UNION, nc.Box(0, 0, 1, 2), nc.Circle(1, 2, 3)], ids=lambda r: type(r).__name__
)
def test_every_form_gives_the_same_region(region: Any) -> None:
    found = region_to_json(region)
    forms = [region, found, json.dumps(found)]
    if isinstance(region, nc.Polygon | nc.MultiPolygon):
        feature = {"type": "Feature", "properties": {"name": "here"}, "geometry": found}
        forms += [Geometry(region), feature, json.dumps(feature)]
    if isinstance(region, nc.Box):
        forms += [tuple(found), np.array(found), [0, 0, -5, 1, 2, 5]]
    for form in forms:
        assert as_region(form) == region
        assert nc.Within(form, "fire").region == region
        assert nc.Within(form, "fire") == nc.Within(region, "fire")


def test_shapely() -> None:
    shapely = pytest.importorskip("shapely")
    assert as_region(shapely.Polygon(OUTER, [HOLE])) == POLYGON
    assert as_region(shapely.box(0, 0, 1, 2)).rings[0][0] in {(1.0, 0.0), (0.0, 0.0)}
    assert as_region(shapely.MultiPolygon([shapely.Polygon(OUTER, [HOLE]), shapely.Polygon(SHIFTED)])) == UNION
    for nothing in (shapely.Point(1, 2), shapely.Polygon(), shapely.LineString([(0, 0), (1, 1)])):
        with pytest.raises(nc.InvalidInput, match=r"^region is malformed"):
            as_region(nothing)


class Odd:
    @property
    def __geo_interface__(self) -> Any:
        raise ZeroDivisionError


@pytest.mark.parametrize(
    ("value", "what"),
    [
        (None, "must be a Box, Circle, Polygon or MultiPolygon, a bbox, GeoJSON or a geometry"),
        (object(), "must be a Box, Circle, Polygon or MultiPolygon"),
        (Odd(), "must be readable"),
        ("POLYGON ((0 0, 1 0, 1 1, 0 0))", "must be JSON when it is a string"),
        ([0, 0, 1], "bbox must be"),
        ({"type": "Point", "coordinates": [1, 2]}, "type must be one of Polygon, MultiPolygon, Circle"),
        ({"type": "MultiPolygon", "coordinates": []}, "polygons must be a list of at least one Polygon"),
        ({"type": "MultiPolygon", "coordinates": 5}, "coordinates must be a list of polygons"),
        ({"type": "MultiPolygon", "coordinates": [5]}, "coordinates must be a list of rings"),
        ({"type": "Feature", "geometry": None}, "geometry must be a geometry"),
        ({"type": "Feature", "geometry": {"type": "Feature", "geometry": {}}}, "type is required"),
    ],
)
def test_what_is_no_region_is_refused(value: Any, what: str) -> None:
    for make in (as_region, lambda region: nc.Within(region, "fire")):
        with pytest.raises(nc.InvalidInput) as caught:
            make(value)
        assert caught.value.field == "region"
        assert what in str(caught.value)


def test_a_union_of_polygons_only() -> None:
    for value in ([], [POLYGON, 5], 5, None):
        with pytest.raises(nc.InvalidInput, match=r"^polygons must be a list of"):
            nc.MultiPolygon(value)  # type: ignore[arg-type]
    assert region_from_json(region_to_json(UNION)) == UNION


PLACES = [(x / 2, y / 2) for x in range(-1, 18) for y in range(-1, 18)]


def test_a_union_holds_what_any_of_its_polygons_holds() -> None:
    """Also where they overlap, where an even number of rings goes around a place."""
    broker = nc.Broker(nc.Space((0, 0, 8, 8), "euclidean"), window=nc.Window(count=1000))
    broker.publish([nc.Message(i, x, y, "fire") for i, (x, y) in enumerate(PLACES)])
    for i, region in enumerate(UNION.polygons):
        broker.subscribe(f"part {i}", nc.Within(region, "fire"))
    broker.subscribe("object", nc.Within(Geometry(UNION), "fire"))
    text = json.dumps(region_to_json(UNION))
    rows = {"id": ["text"], "kind": ["within"], "keywords": ["fire"], "region": [text]}
    assert broker.subscribe_many(pa.table(rows)).rejects == []
    assert broker.subscribe_many(pa.table({**rows, "id": ["struct"], "region": [region_to_json(UNION)]})).rejects == []
    broker.subscribe("moved", nc.Within([20, 20, 21, 21], "fire"))
    broker.move("moved", region=Geometry(UNION))

    def held(name: str) -> set[Any]:
        return {message for message, _ in broker.results(name)}

    assert held("part 0") & held("part 1")
    for name in ("object", "text", "struct", "moved"):
        assert held(name) == held("part 0") | held("part 1")
    broker.check()
