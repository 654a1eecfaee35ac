"""Numbers become a `Box`, `Circle`, `Polygon` or `MultiPolygon`: closed regions, the border counts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from nearcast.errors import InvalidInput
from nearcast.model.checks import is_a, number, plain_copy, refusal

Point = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Box:
    """All points between two meridians and two parallels.

    `min_lon > max_lon` means across the date line; a euclidean space refuses it.

    Raises
    ------
    InvalidInput
        For a side that is not a finite number, and for `min_lat > max_lat`.
    """

    min_lon: float
    min_lat: float
    max_lon: float
    max_lat: float

    def __post_init__(self) -> None:
        for side in ("min_lon", "min_lat", "max_lon", "max_lat"):
            object.__setattr__(self, side, number(side, getattr(self, side)))
        if self.min_lat > self.max_lat:
            raise InvalidInput("min_lat", self.min_lat, f"must be <= max_lat ({self.max_lat!r})")


@dataclass(frozen=True, slots=True)
class Circle:
    """All points at most `radius` from a centre: metres under haversine, else coordinate units.

    Raises
    ------
    InvalidInput
        For a value that is not a finite number, and for a negative radius.
    """

    lon: float
    lat: float
    radius: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "lon", number("lon", self.lon))
        object.__setattr__(self, "lat", number("lat", self.lat))
        radius = number("radius", self.radius)
        if radius < 0.0:
            raise InvalidInput("radius", self.radius, "must be >= 0")
        object.__setattr__(self, "radius", radius)


@dataclass(frozen=True, slots=True)
class Polygon:
    """All points that an odd number of rings go around, and every ring itself.

    Parameters
    ----------
    points
        The outer ring: (lon, lat) pairs, at least three different ones. Edges are straight in lon and lat. The last
        point is joined to the first; naming the first again at the end changes nothing. A ring may cross itself.
    holes
        Further rings, the same.

    Raises
    ------
    InvalidInput
        For a point that is not a pair of finite numbers, and for a ring of fewer than three different points.
    """

    points: Sequence[Point]
    holes: Sequence[Sequence[Point]] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "points", _ring("points", self.points))
        holes = tuple(_ring("holes", hole) for hole in _items("holes", self.holes))
        object.__setattr__(self, "holes", holes)

    @property
    def rings(self) -> tuple[tuple[Point, ...], ...]:
        """The outer ring, then the holes; no ring repeats its first point."""
        return tuple(tuple(ring) for ring in (self.points, *self.holes))


@dataclass(frozen=True, slots=True)
class MultiPolygon:
    """All points of any of its polygons: their union, also where they overlap.

    Parameters
    ----------
    polygons
        At least one `Polygon`. Kept as a tuple.

    Raises
    ------
    InvalidInput
        For anything but polygons, and for none.
    """

    polygons: Sequence[Polygon]

    def __post_init__(self) -> None:
        given = _items("polygons", self.polygons)
        polygons = tuple(plain_copy("polygons", polygon, (Polygon,)) for polygon in given)
        if not polygons or None in polygons:
            raise InvalidInput("polygons", self.polygons, "must be a list of at least one Polygon")
        object.__setattr__(self, "polygons", polygons)

    @property
    def rings(self) -> tuple[tuple[Point, ...], ...]:
        """The rings of all polygons, in their order."""
        return tuple(ring for polygon in self.polygons for ring in polygon.rings)


Region = Box | Circle | Polygon | MultiPolygon
REGIONS = (Box, Circle, Polygon, MultiPolygon)


def _items(field: str, value: Any) -> tuple[Any, ...]:
    if is_a(value, Iterable) and not is_a(value, str | bytes):
        try:
            return tuple(value)
        except TypeError:  # an array without dimensions calls itself iterable
            pass
        except Exception as error:
            raise refusal(field, value, error, lambda: tuple(value)) from error
    what = {"holes": "rings", "polygons": "polygons"}.get(field, "points")
    raise InvalidInput(field, value, f"must be a list of {what}")


def _ring(field: str, value: Any) -> tuple[Point, ...]:
    points = tuple(_point(field, item) for item in _items(field, value))
    if len(points) > 1 and points[0] == points[-1]:
        points = points[:-1]
    if len(set(points)) < 3:
        raise InvalidInput(field, value, "must have at least 3 different points in each ring")
    return points


def _point(field: str, value: Any) -> Point:
    if is_a(value, Iterable) and not is_a(value, str | bytes):
        try:
            lon, lat = value
        except (TypeError, ValueError):
            pass
        except Exception as error:
            raise refusal(field, value, error, lambda: tuple(value)) from error
        else:
            return number(field, lon), number(field, lat)
    raise InvalidInput(field, value, "must hold (lon, lat) pairs")
