"""`Space`: bounds, a metric and a largest distance; it says which places and regions it can answer for."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from nearcast.errors import InvalidInput
from nearcast.model.checks import is_a, number, refusal
from nearcast.model.region import Box, Circle, Region
from nearcast.space.distance import EUCLIDEAN, HAVERSINE, distance

METRICS = {"euclidean": EUCLIDEAN, "haversine": HAVERSINE}

_PLAIN = 'under haversine (plain coordinates: metric="euclidean")'
_LAT_RULE = f"must keep latitudes within [-90, 90] {_PLAIN}"


class SpaceInput(NamedTuple):
    """A space as kernels take it."""

    metric: int  # EUCLIDEAN or HAVERSINE
    max_distance: float
    bounds: tuple[float, float, float, float]  # x0, y0, x1, y1


@dataclass(frozen=True, slots=True, init=False)
class Space:
    """Where messages and subscriptions lie, and how far apart two places are.

    Parameters
    ----------
    bounds
        ``(min_lon, min_lat, max_lon, max_lat)``, where most places are expected. Places outside are
        answered just as exactly.
    metric
        ``"haversine"``: degrees in, metres out. ``"euclidean"``: plain coordinates.
    max_distance
        Where spatial similarity reaches 0; by default the distance between the two corners of `bounds`.

    Raises
    ------
    InvalidInput
        A bound that is not a finite number or out of order, an unknown metric, a `max_distance` that is not above 0, or
        none given for bounds whose corners are one place.

    Examples
    --------
    >>> Space(bounds=(0, 0, 3, 4), metric="euclidean").max_distance
    5.0
    """

    bounds: tuple[float, float, float, float]
    metric: str
    max_distance: float

    def __init__(self, bounds: Sequence[float], metric: str = "haversine", max_distance: float | None = None) -> None:
        plain = str.__str__(metric) if is_a(metric, str) else ""
        if plain not in METRICS:
            raise InvalidInput("metric", metric, 'must be "euclidean" or "haversine"')
        metric = plain
        checked = _checked_bounds(bounds, metric)
        if max_distance is None:
            max_distance = distance(METRICS[metric], *checked)
            if max_distance == 0.0:
                raise InvalidInput("max_distance", None, "must be given for bounds whose corners are one place")
            if math.isinf(max_distance):
                raise InvalidInput("bounds", bounds, "must lie a finite distance apart")
        else:
            given, max_distance = max_distance, number("max_distance", max_distance)
            if max_distance <= 0.0:
                raise InvalidInput("max_distance", given, "must be > 0")
        object.__setattr__(self, "bounds", checked)
        object.__setattr__(self, "metric", metric)
        object.__setattr__(self, "max_distance", max_distance)

    @property
    def metric_code(self) -> int:
        """The metric as kernels take it: `EUCLIDEAN` or `HAVERSINE`."""
        return METRICS[self.metric]

    @property
    def kernel_input(self) -> SpaceInput:
        """The space as kernels take it."""
        return SpaceInput(self.metric_code, self.max_distance, self.bounds)

    def check_point(self, lon: float, lat: float) -> None:
        """Raise `InvalidInput` if the finite (lon, lat) is no place here: past a pole under haversine."""
        if self.metric_code == HAVERSINE and not -90.0 <= lat <= 90.0:
            raise InvalidInput("lat", lat, f"must be within [-90, 90] {_PLAIN}")

    def check_region(self, region: Region) -> None:
        """Raise `InvalidInput` for a corner or centre past a pole, or a date line where there is none."""
        if self.metric_code == HAVERSINE:
            if not all(-90.0 <= lat <= 90.0 for lat in _latitudes(region)):
                raise InvalidInput("region", region, _LAT_RULE)
        elif isinstance(region, Box) and region.min_lon > region.max_lon:
            raise InvalidInput("region", region, "must have min_lon <= max_lon unless the metric is haversine")


def _latitudes(region: Region) -> Iterable[float]:
    """Latitudes of the region's corners, or of its centre: a circle over a pole is fine, a centre past it is not."""
    if isinstance(region, Box):
        return region.min_lat, region.max_lat
    if isinstance(region, Circle):
        return (region.lat,)
    return [lat for ring in region.rings for _, lat in ring]


def _checked_bounds(bounds: Sequence[float], metric: str) -> tuple[float, float, float, float]:
    """The four bounds as floats, or `InvalidInput`."""
    try:
        given = tuple(bounds)
    except TypeError:
        given = ()
    except Exception as error:
        raise refusal("bounds", bounds, error, lambda: tuple(bounds)) from error
    if len(given) != 4:
        raise InvalidInput("bounds", bounds, "must be four numbers (min_lon, min_lat, max_lon, max_lat)")
    min_lon, min_lat, max_lon, max_lat = (number("bounds", side) for side in given)
    if min_lon > max_lon or min_lat > max_lat:
        raise InvalidInput("bounds", bounds, "must have min_lon <= max_lon and min_lat <= max_lat")
    if metric == "haversine" and (min_lat < -90.0 or max_lat > 90.0):
        raise InvalidInput("bounds", bounds, _LAT_RULE)
    return min_lon, min_lat, max_lon, max_lat
