"""Regions as columns: a box around each, and circles and polygons in one pool of points and rings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from nearcast.columns.arena import Array, Floats, Ints, Longs, Ragged, State, ranges
from nearcast.held import unchanged
from nearcast.model.region import Box, Circle, Region
from nearcast.space.regions import PolygonLayout, circle_box, flat_polygon
from nearcast.space.space import Space

BOX, CIRCLE, POLYGON = range(3)


class RegionRows(NamedTuple):
    """Regions one after another; those of circles and polygons have points, a box has none.

    A circle is kept as two points, its centre and (radius, 0), so that one pool serves both.
    """

    boxes: Floats  # float64[n, 4]: the box itself, or one around the circle or polygon
    shapes: Ints  # int32[n]: BOX, CIRCLE or POLYGON
    points: Floats  # float64[n_points, 2]
    rings: Longs  # int64[]: first point of every ring and, at the end of each region, one past its last point
    n_points: Longs  # int64[n]
    n_rings: Longs  # int64[n]: entries of `rings`, 0 for a box

    def take(self, rows: Longs) -> RegionRows:
        """Only these regions."""
        point_start, ring_start = np.cumsum(self.n_points) - self.n_points, np.cumsum(self.n_rings) - self.n_rings
        n_points, n_rings = self.n_points[rows], self.n_rings[rows]
        shift = point_start[rows] - (np.cumsum(n_points) - n_points)
        rings = self.rings[ranges(ring_start[rows], n_rings)] - np.repeat(shift, n_rings)
        points = self.points[ranges(point_start[rows], n_points)]
        return RegionRows(self.boxes[rows], self.shapes[rows], points, rings, n_points, n_rings)


def region_rows(regions: list[Region], space: Space) -> RegionRows:
    """Regions as the table keeps them."""
    boxes, shapes, points, rings = [], [], [np.zeros((0, 2))], [np.zeros(0, np.int64)]
    n_points, n_rings = [], []
    used = 0
    for region in regions:
        if isinstance(region, Box):
            box, shape = (region.min_lon, region.min_lat, region.max_lon, region.max_lat), BOX
            own, starts = points[0], rings[0]
        elif isinstance(region, Circle):
            box, shape = circle_box(space.metric_code, region.lon, region.lat, region.radius), CIRCLE
            own, starts = np.array([(region.lon, region.lat), (region.radius, 0.0)]), np.array([0, 2])
        else:
            flat = flat_polygon(region)
            own, starts = np.stack([flat.xs, flat.ys], axis=1), flat.ring_start
            box, shape = (*own.min(axis=0).tolist(), *own.max(axis=0).tolist()), POLYGON
        boxes.append(box)
        shapes.append(shape)
        points.append(own)
        rings.append(starts + used)
        n_points.append(len(own))
        n_rings.append(len(starts))
        used += len(own)
    return RegionRows(
        np.array(boxes, dtype=np.float64).reshape(-1, 4), np.array(shapes, dtype=np.int32), np.concatenate(points),
        np.concatenate(rings), np.array(n_points, dtype=np.int64), np.array(n_rings, dtype=np.int64),
    )  # fmt: skip


def box_rows(boxes: Floats) -> RegionRows:
    """Boxes only, given as float64[n, 4]."""
    none = np.zeros(len(boxes), dtype=np.int64)
    return RegionRows(boxes, np.full(len(boxes), BOX, np.int32), np.zeros((0, 2)), np.zeros(0, np.int64), none, none)


def joined_regions(parts: Sequence[RegionRows]) -> RegionRows:
    """Regions one after another."""
    used = np.cumsum([0, *(len(part.points) for part in parts)])
    rings = [part.rings + shift for part, shift in zip(parts, used, strict=False)]
    columns = [np.concatenate(column) for column in zip(*parts, strict=True)]
    return RegionRows(*columns)._replace(rings=np.concatenate(rings))


class ShapePool:
    """Points and rings of circles and polygons; a table keeps, for each, where its rings start and how many entries."""

    def __init__(self) -> None:
        self._points = Ragged(xs=np.float64, ys=np.float64)
        self._rings = Ragged(ring_start=np.int64)
        self._layout: PolygonLayout | None = None

    @property
    def layout(self) -> PolygonLayout:
        pools = self._points.pools
        parts = pools["xs"], pools["ys"], self._rings.pools["ring_start"]
        layout = self._layout = unchanged(self._layout, PolygonLayout, *parts)
        return layout

    def append(self, regions: RegionRows) -> Longs:
        """Add the points of these regions; returns where the rings of each start."""
        shift = self._points.used
        self._points.append(regions.n_points, xs=regions.points[:, 0], ys=regions.points[:, 1])
        return self._rings.append(regions.n_rings, ring_start=regions.rings + shift)

    def drop(self, starts: Longs, n_rings: Array) -> None:
        """Regions that are gone."""
        self._points.drop(self._n_points(starts, n_rings))
        self._rings.drop(n_rings)

    def _n_points(self, starts: Longs, n_rings: Array) -> Longs:
        """How many points each region has, given the entries of its rings; a box has none of either."""
        pool = self._rings.pools["ring_start"]
        last = np.maximum(starts + n_rings - 1, 0)
        return np.where(n_rings > 0, pool[last] - pool[np.minimum(starts, last)], 0)

    def take(self, starts: Longs, n_rings: Array) -> tuple[Floats, Longs, Longs]:
        """A copy of the points and rings of these regions, and how many points each has, as in `RegionRows`."""
        n_points = self._n_points(starts, n_rings)
        rings = self._rings.pools["ring_start"][ranges(starts, n_rings)]
        first = np.zeros(starts.size, dtype=np.int64)
        first[n_rings > 0] = self._rings.pools["ring_start"][starts[n_rings > 0]]
        where = ranges(first, n_points)
        points = np.stack([self._points.pools["xs"][where], self._points.pools["ys"][where]], axis=1)
        return points, rings - np.repeat(first - (np.cumsum(n_points) - n_points), n_rings), n_points

    @property
    def wasteful(self) -> bool:
        return self._points.wasteful or self._rings.wasteful

    def compact(self, starts: Longs, n_rings: Array) -> Longs:
        """Keep only these regions; returns where their rings start now."""
        shaped = n_rings > 0
        old = self._rings.pools["ring_start"][starts[shaped]]
        new = self._points.compact(old, self._n_points(starts[shaped], n_rings[shaped]))
        starts = self._rings.compact(starts, n_rings)
        where = ranges(starts[shaped], n_rings[shaped])
        self._rings.pools["ring_start"][where] += np.repeat(new - old, n_rings[shaped])
        return starts

    @property
    def nbytes(self) -> int:
        return self._points.nbytes + self._rings.nbytes

    def state(self) -> State:
        return {"points": self._points.state(), "rings": self._rings.state()}

    def load(self, state: State) -> None:
        self._points.load(state["points"])
        self._rings.load(state["rings"])
