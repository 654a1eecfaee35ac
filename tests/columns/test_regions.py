from __future__ import annotations

import os
import random
from itertools import pairwise

import numpy as np
import pytest

from nearcast.columns.regions import BOX, CIRCLE, POLYGON, RegionRows, ShapePool, box_rows, region_rows
from nearcast.model.region import Box, Circle, Polygon, Region
from nearcast.space.space import Space

COMPILED = os.environ.get("NUMBA_DISABLE_JIT", "0") == "0"
PLANE = Space((0, 0, 8, 8), metric="euclidean")
SQUARE = Polygon([(0, 0), (4, 0), (4, 4), (0, 4)], [[(1, 1), (2, 1), (2, 2)]])
REGIONS: list[Region] = [Box(0, 1, 2, 3), Circle(5, 5, 2), SQUARE, Box(1, 1, 1, 1), Polygon([(0, 0), (1, 0), (0, 9)])]


def rings_of(region: Region) -> list[list[tuple[float, float]]]:
    """What the pool should hold of a region."""
    if isinstance(region, Box):
        return []
    if isinstance(region, Circle):
        return [[(region.lon, region.lat), (region.radius, 0.0)]]
    return [[(float(x), float(y)) for x, y in ring] for ring in region.rings]


def unpacked(points: np.ndarray, rings: np.ndarray) -> list[list[tuple[float, float]]]:
    return [[tuple(p) for p in points[a:b].tolist()] for a, b in pairwise(rings)] if rings.size else []


def content(rows: RegionRows) -> list[list[list[tuple[float, float]]]]:
    found = []
    at = 0
    for n in rows.n_rings.tolist():
        found.append(unpacked(rows.points, rows.rings[at : at + n]))
        at += n
    assert at == rows.rings.size
    return found


def test_regions_as_rows() -> None:
    rows = region_rows(REGIONS, PLANE)
    assert rows.shapes.tolist() == [BOX, CIRCLE, POLYGON, BOX, POLYGON]
    assert content(rows) == [rings_of(region) for region in REGIONS]
    assert rows.n_points.tolist() == [0, 2, 7, 0, 3]
    assert rows.boxes[[0, 2, 3, 4]].tolist() == [[0, 1, 2, 3], [0, 0, 4, 4], [1, 1, 1, 1], [0, 0, 1, 9]]
    x0, y0, x1, y1 = rows.boxes[1]
    assert x0 <= 3 <= 7 <= x1
    assert y0 <= 3 <= 7 <= y1
    assert x1 - x0 < 4.001


@pytest.mark.parametrize("chosen", [[], [0], [2], [4, 1], [0, 1, 2, 3, 4], [3, 2, 0], [2, 2]])
def test_taking_some_regions(chosen: list[int]) -> None:
    rows = region_rows(REGIONS, PLANE).take(np.array(chosen, dtype=np.int64))
    expected = region_rows([REGIONS[i] for i in chosen], PLANE)
    for ours, theirs in zip(rows, expected, strict=True):
        assert ours.tolist() == theirs.tolist()


def test_box_rows_are_those_of_boxes() -> None:
    boxes = [Box(0, 1, 2, 3), Box(-1, -1, 1, 1)]
    ours = box_rows(np.array([[0.0, 1, 2, 3], [-1, -1, 1, 1]]))
    for given, expected in zip(ours, region_rows(boxes, PLANE), strict=True):
        assert given.tolist() == expected.tolist()
        assert given.dtype == expected.dtype


class Pool:
    """A ShapePool beside the regions that it should hold."""

    def __init__(self) -> None:
        self.pool = ShapePool()
        self.regions: list[Region] = []
        self.starts = np.zeros(0, dtype=np.int64)
        self.n_rings = np.zeros(0, dtype=np.int32)

    def append(self, regions: list[Region]) -> None:
        rows = region_rows(regions, PLANE)
        self.starts = np.append(self.starts, self.pool.append(rows))
        self.n_rings = np.append(self.n_rings, rows.n_rings.astype(np.int32))
        self.regions += regions

    def keep(self, keep: np.ndarray) -> None:
        self.pool.drop(self.starts[~keep], self.n_rings[~keep])
        self.starts, self.n_rings = self.starts[keep], self.n_rings[keep]
        self.regions = [region for region, stays in zip(self.regions, keep, strict=True) if stays]

    def check(self) -> None:
        layout = self.pool.layout
        points = np.stack([layout.xs, layout.ys], axis=1)
        for region, start, n in zip(self.regions, self.starts, self.n_rings, strict=True):
            assert unpacked(points, layout.ring_start[start : start + n]) == rings_of(region)


def test_a_pool_keeps_its_regions_and_its_size() -> None:
    choice = random.Random(1)
    pool = Pool()
    sizes, n_compacted = [], 0
    rounds = 60 if COMPILED else 40
    for _ in range(rounds):
        pool.append([choice.choice(REGIONS) for _ in range(150)])
        pool.keep(np.array([choice.random() < 0.05 or i >= len(pool.regions) - 20 for i in range(len(pool.regions))]))
        if pool.pool.wasteful:
            pool.starts = pool.pool.compact(pool.starts, pool.n_rings)
            n_compacted += 1
        pool.check()
        if choice.random() < 0.3:
            other = ShapePool()
            other.load(pool.pool.state())
            pool.pool = other
            pool.check()
        sizes.append(pool.pool.nbytes)
    assert n_compacted > 2
    assert max(sizes[rounds // 2 :]) <= max(sizes[: rounds // 2])


def test_boxes_alone_need_no_room() -> None:
    pool = Pool()
    pool.append([Box(0, 0, 1, 1)] * 3)
    pool.keep(np.array([True, False, True]))
    other = ShapePool()
    other.load(pool.pool.state())
    pool.pool = other
    pool.keep(np.array([False, True]))
    pool.append([SQUARE])
    pool.starts = pool.pool.compact(pool.starts, pool.n_rings)
    pool.check()
