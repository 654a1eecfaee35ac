"""Space, as the design defines it, in plain Python: distances, similarities and regions; a part of `definitions.py`."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Iterable
from fractions import Fraction
from itertools import pairwise
from typing import NamedTuple

from nearcast.model.region import Box, Circle, MultiPolygon, Polygon

Region = Box | Circle | Polygon | MultiPolygon

TOLERANCE = 1e-9  # scores this near (relative) to a threshold or to each other may fall either way
ROUNDING = 1e-15  # relative error that a few float operations may leave
ANGLE_M = 1e-7  # metres: what rounding an angle to a double may move a place by
EARTH_RADIUS_M = 6_371_008.8


class Refused(Exception):
    """The event cannot be honoured and has changed nothing."""


class Span(NamedTuple):
    """A number, and the lowest and highest that rounding may make of it."""

    value: float
    low: float
    high: float


def haversine_m(lon1: float, lat1: float, lon2: float, lat2: float) -> Span:
    """Metres over the sphere, asin form. Near the antipode that form loses half its digits, and the span shows it."""
    if (lon1, lat1) == (lon2, lat2):
        return Span(0.0, 0.0, 0.0)
    rise = math.sin(math.radians(lat2 - lat1) / 2) ** 2
    gap = math.remainder(lon2, 360) - math.remainder(
        lon1, 360
    )  # longitudes are periodic, and huge ones still have digits
    run = math.sin(math.radians(gap) / 2) ** 2
    h = rise + math.cos(math.radians(lat1)) * math.cos(math.radians(lat2)) * run
    exact, less, more = (
        2 * EARTH_RADIUS_M * math.asin(math.sqrt(min(1.0, h * f))) for f in (1, 1 - ROUNDING, 1 + ROUNDING)
    )
    return Span(exact, max(0.0, less - ANGLE_M), more + ANGLE_M)


def euclidean(x1: float, y1: float, x2: float, y2: float) -> Span:
    """Distance in plain coordinates."""
    exact = math.hypot(x2 - x1, y2 - y1)
    return Span(exact, exact * (1 - ROUNDING), exact * (1 + ROUNDING))


@dataclasses.dataclass(frozen=True)
class Ground:
    """The space that places lie in, as `nearcast.Space` takes it."""

    bounds: tuple[float, float, float, float]
    metric: str
    max_distance: float | None = None

    def distance(self, lon1: float, lat1: float, lon2: float, lat2: float) -> Span:
        return (haversine_m if self.metric == "haversine" else euclidean)(lon1, lat1, lon2, lat2)

    def ssim(self, distance: Span) -> Span:
        full = self.full_distance
        return Span(
            max(0.0, 1 - distance.value / full.value),
            max(0.0, 1 - distance.high / full.low),
            max(0.0, 1 - distance.low / full.high),
        )

    @functools.cached_property
    def full_distance(self) -> Span:
        """Where spatial similarity reaches 0."""
        given = self.max_distance
        return self.distance(*self.bounds) if given is None else Span(given, given, given)

    def check_places(self, places: Iterable[tuple[float, float]]) -> None:
        if self.metric == "haversine" and any(abs(lat) > 90 for _, lat in places):
            raise Refused("a latitude past the pole")

    def check_region(self, region: Region) -> None:
        if isinstance(region, Box):
            self.check_places([(region.min_lon, region.min_lat), (region.max_lon, region.max_lat)])
            if region.min_lon > region.max_lon and self.metric != "haversine":
                raise Refused("a box across the date line of a plane")
        elif isinstance(region, Circle):
            self.check_places([(region.lon, region.lat)])
        else:
            self.check_places([place for ring in rings_of(region) for place in ring])


def rings_of(polygon: Polygon | MultiPolygon) -> list[list[tuple[float, float]]]:
    """The outer ring and the holes, each closed; those of every polygon."""
    if isinstance(polygon, MultiPolygon):
        return [ring for part in polygon.polygons for ring in rings_of(part)]
    rings = [[(lon, lat) for lon, lat in ring] for ring in (polygon.points, *polygon.holes)]
    return [ring if ring[0] == ring[-1] else [*ring, ring[0]] for ring in rings]


def in_polygon(polygon: Polygon, lon: float, lat: float) -> bool:
    """Even-odd over all rings, each border inside; in rational numbers, so that a border is a border."""
    x, y, inside = Fraction(lon), Fraction(lat), False
    for ring in rings_of(polygon):
        for (lon1, lat1), (lon2, lat2) in pairwise(ring):
            x1, y1, x2, y2 = map(Fraction, (lon1, lat1, lon2, lat2))
            side = (x2 - x1) * (y - y1) - (x - x1) * (y2 - y1)
            if side == 0 and min(x1, x2) <= x <= max(x1, x2) and min(y1, y2) <= y <= max(y1, y2):
                return True
            if (y1 > y) != (y2 > y) and (side > 0) == (y2 > y1):
                inside = not inside
    return inside


def in_region(ground: Ground, region: Region, lon: float, lat: float) -> tuple[bool, bool]:
    """Is the place inside, and is that beyond the doubt of rounding?"""
    if isinstance(region, Box):
        if not region.min_lat <= lat <= region.max_lat:
            return False, True
        if region.min_lon <= region.max_lon:
            return region.min_lon <= lon <= region.max_lon, True
        return lon >= region.min_lon or lon <= region.max_lon, True
    if isinstance(region, Polygon):
        return in_polygon(region, lon, lat), True
    if isinstance(region, MultiPolygon):
        return any(in_polygon(polygon, lon, lat) for polygon in region.polygons), True
    away = ground.distance(region.lon, region.lat, lon, lat)
    doubt = away.low * (1 - TOLERANCE) <= region.radius < away.high * (1 + TOLERANCE)
    if doubt and ground.metric == "euclidean":
        squared = (Fraction(lon) - Fraction(region.lon)) ** 2 + (Fraction(lat) - Fraction(region.lat)) ** 2
        if squared == Fraction(region.radius) ** 2:
            return True, True
    return away.value <= region.radius, not doubt
