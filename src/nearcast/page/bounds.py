"""The bounds of a map: around all that it shows."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from nearcast.space.space import Space

Json = Mapping[str, Any]
Bounds = tuple[float, float, float, float]

_PAD = 0.03  # of each side, so that nothing lies on the border
_LEAST = 0.005  # degrees or units of coordinates around a single place
_METRES = 111_195.0  # of a degree of latitude


def bounds_around(messages: Iterable[Json], subscribers: Iterable[Json], space: Space) -> Bounds:
    """Around all places, and around regions as far as they reach into the bounds of the space; these if nothing is."""
    points = [(message["lon"], message["lat"]) for message in messages]
    for subscriber in subscribers:
        for spot in (subscriber, *subscriber.get("moves", ())):
            if spot.get("lon") is not None:
                points.append((spot["lon"], spot["lat"]))
            if spot.get("region") is not None:
                points += _corners(spot["region"], space)
    if not points:
        return space.bounds
    west, east = min(x for x, _ in points), max(x for x, _ in points)
    south, north = min(y for _, y in points), max(y for _, y in points)
    wide, tall = (max(_PAD * (high - low), _LEAST) for low, high in ((west, east), (south, north)))
    return west - wide, south - tall, east + wide, north + tall


def _corners(region: Any, space: Space) -> list[tuple[float, float]]:
    """Two corners of what a region covers inside the space; its middle if that is nothing."""
    west, south, east, north = _extent(region, space.metric == "haversine")
    left, bottom, right, top = space.bounds
    if west > right or east < left or south > top or north < bottom:
        return [((west + east) / 2, (south + north) / 2)]
    return [(max(west, left), max(south, bottom)), (min(east, right), min(north, top))]


def _extent(region: Any, on_earth: bool) -> Bounds:
    if isinstance(region, Sequence):
        west, south, east, north = region
        return (west, south, east, north) if west <= east else (west, south, east + 360.0, north)
    if region["type"] == "Circle":
        lon, lat = region["coordinates"]
        tall = region["radius"] / _METRES if on_earth else region["radius"]
        wide = tall / max(math.cos(math.radians(lat)), 0.01) if on_earth else tall
        return lon - wide, lat - tall, lon + wide, lat + tall
    polygons = region["coordinates"] if region["type"] == "MultiPolygon" else [region["coordinates"]]
    corners = [corner for rings in polygons for corner in rings[0]]
    xs, ys = [corner[0] for corner in corners], [corner[1] for corner in corners]
    return min(xs), min(ys), max(xs), max(ys)
