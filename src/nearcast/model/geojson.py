"""GeoJSON, a bbox or anything with `__geo_interface__` becomes a region, and a region GeoJSON again."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from nearcast.errors import InvalidInput
from nearcast.model.checks import is_a, one_of, plain_copy, refusal
from nearcast.model.region import REGIONS, Box, Circle, MultiPolygon, Polygon, Region

_TYPES = ("Polygon", "MultiPolygon", "Circle")
_RULE = "must be a Box, Circle, Polygon or MultiPolygon, a bbox, GeoJSON or a geometry"


class HasGeoInterface(Protocol):
    """A geometry of shapely, or of whoever else keeps to its interface."""

    @property
    def __geo_interface__(self) -> Mapping[str, Any]: ...


RegionValue = Region | Mapping[str, Any] | Sequence[float] | str | HasGeoInterface


def as_region(value: Any) -> Region:
    """A region given as one, as GeoJSON, a bbox, a string of JSON, or an object with `__geo_interface__`.

    Raises
    ------
    InvalidInput
        Field ``region``; the rule says which part is wrong.
    """
    region: Region | None = plain_copy("region", value, REGIONS)
    if region is not None:
        return region
    try:
        return _read(value)
    except Exception as error:
        raise refusal("region", value, error, lambda: _read(value)) from error


def _read(value: Any) -> Region:
    if isinstance(value, np.ndarray):
        return region_from_json(value.tolist())
    if not is_a(value, str | list | tuple | Mapping):
        value = getattr(value, "__geo_interface__", value)
    return region_from_json(value)


def region_from_json(obj: Any) -> Region:
    """A region from a GeoJSON bbox, Polygon or MultiPolygon, a Feature of one, or a Circle; also from JSON text.

    Raises
    ------
    InvalidInput
        Field ``region``; the rule says which part is wrong.

    Examples
    --------
    >>> region_from_json({"type": "Circle", "coordinates": [2.35, 48.86], "radius": 500})
    Circle(lon=2.35, lat=48.86, radius=500.0)
    """
    if isinstance(obj, REGIONS):
        return obj
    parsed = obj
    if isinstance(obj, str):
        try:
            parsed = json.loads(obj)
        except (ValueError, RecursionError):
            raise InvalidInput("region", obj, "must be JSON when it is a string") from None
    try:
        if isinstance(parsed, list | tuple):
            return _box(parsed)
        if isinstance(parsed, Mapping):
            return _geometry(parsed)
    except InvalidInput as error:
        raise InvalidInput("region", obj, f"is malformed ({error})") from None
    raise InvalidInput("region", obj, _RULE)


def region_to_json(region: Region) -> Any:
    """A bbox for a box, GeoJSON for polygons (rings closed), and the Circle object."""
    if isinstance(region, Box):
        return [region.min_lon, region.min_lat, region.max_lon, region.max_lat]
    if isinstance(region, Circle):
        return {"type": "Circle", "coordinates": [region.lon, region.lat], "radius": region.radius}
    if isinstance(region, MultiPolygon):
        return {"type": "MultiPolygon", "coordinates": [_rings(polygon) for polygon in region.polygons]}
    return {"type": "Polygon", "coordinates": _rings(region)}


def _rings(polygon: Polygon) -> list[Any]:
    return [[list(point) for point in (*ring, ring[0])] for ring in polygon.rings]


def _geometry(obj: Mapping[str, Any]) -> Region:
    kind = obj.get("type")
    if kind == "Feature":
        inner = obj.get("geometry")
        if not isinstance(inner, Mapping):
            raise InvalidInput("geometry", inner, "must be a geometry")
        return _geometry(inner) if inner.get("type") != "Feature" else _geometry({})
    if kind is None:
        raise InvalidInput("type", None, "is required")
    kind = one_of("type", kind, _TYPES)
    coordinates = obj.get("coordinates")
    if coordinates is None:
        raise InvalidInput("coordinates", None, "is required")
    if kind == "Polygon":
        return _polygon(coordinates)
    if kind == "MultiPolygon":
        if not isinstance(coordinates, list | tuple):
            raise InvalidInput("coordinates", coordinates, "must be a list of polygons")
        return MultiPolygon([_polygon(rings) for rings in coordinates])
    lon, lat = _position(coordinates)
    if obj.get("radius") is None:
        raise InvalidInput("radius", None, "is required")
    return Circle(lon, lat, obj["radius"])


def _box(bbox: list[Any] | tuple[Any, ...]) -> Box:
    if len(bbox) == 6:  # with altitudes
        bbox = [bbox[i] for i in (0, 1, 3, 4)]
    if len(bbox) != 4:
        raise InvalidInput("bbox", bbox, "must be [min_lon, min_lat, max_lon, max_lat]")
    return Box(*bbox)


def _polygon(rings: Any) -> Polygon:
    if not isinstance(rings, list | tuple) or not rings or not all(isinstance(ring, list | tuple) for ring in rings):
        raise InvalidInput("coordinates", rings, "must be a list of rings")
    outer, *holes = [[_position(position) for position in ring] for ring in rings]
    return Polygon(outer, holes)


def _position(value: Any) -> tuple[Any, Any]:
    """Longitude and latitude of a GeoJSON position; an altitude is ignored."""
    if not isinstance(value, list | tuple) or len(value) < 2:
        raise InvalidInput("coordinates", value, "must hold [lon, lat] positions")
    return value[0], value[1]
