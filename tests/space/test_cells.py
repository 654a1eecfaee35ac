from __future__ import annotations

import math

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from nearcast.space.cells import (
    MAX_LEVEL,
    cell_box,
    cell_edge,
    cell_index,
    grid_box,
    grid_cell,
    morton,
    morton_box,
    morton_cell,
)
from nearcast.space.distance import EUCLIDEAN, HAVERSINE, box_distance, distance, wrap
from nearcast.space.regions import in_box

from .places import lats, lons

Bounds = tuple[float, float, float, float]

numbers = st.floats(-1e3, 1e3) | st.integers(-9, 9).map(float) | st.sampled_from((0.1, 0.3, 1 / 3, 1e-300, 1e300))
levels = st.integers(0, 12) | st.just(MAX_LEVEL)


@st.composite
def bounds_of(draw: st.DrawFn) -> Bounds:
    x0, x1 = sorted((draw(numbers), draw(numbers)))
    y0, y1 = sorted((draw(numbers), draw(numbers)))
    return x0, y0, x1, y1


def interleaved(column: int, row: int, level: int) -> int:
    return sum(((column >> i & 1) << 2 * i) + ((row >> i & 1) << 2 * i + 1) for i in range(level))


@settings(deadline=None)
@given(numbers, st.floats(1e-6, 1e3), st.integers(1, 1000), st.floats(-0.5, 1.5))
@example(0.0, 1.0, 10, 0.3)
@example(0.1, 0.6, 7, 1 / 7)
def test_cell_index_agrees_with_edges(low: float, width: float, n: int, fraction: float) -> None:
    high = low + width
    if not low < high:
        return
    value = low + width * fraction
    i = cell_index(low, high, n, value)
    assert 0 <= i < n
    assert i == 0 or cell_edge(low, high, n, i) <= value
    assert i == n - 1 or value < cell_edge(low, high, n, i + 1)


@settings(deadline=None)
@given(numbers, numbers, numbers, numbers, st.integers(1, 100))
def test_cell_index_never_falls(a: float, b: float, c: float, d: float, n: int) -> None:
    (low, high), (first, second) = sorted((a, b)), sorted((c, d))
    assert cell_index(low, high, n, first) <= cell_index(low, high, n, second)
    assert cell_index(low, high, n, -math.inf) == 0
    assert cell_index(low, high, n, math.inf) == n - 1


def test_edges_belong_to_the_upper_cell() -> None:
    for n in (1, 2, 3, 7, 10, 64):
        for i in range(n):
            edge = cell_edge(0.1, 0.7, n, i)
            assert cell_index(0.1, 0.7, n, edge) == i
            if i:
                assert cell_index(0.1, 0.7, n, math.nextafter(edge, -1.0)) == i - 1


@settings(deadline=None)
@given(numbers, numbers, bounds_of(), st.integers(1, 40), st.integers(1, 40))
def test_grid_box_holds_its_places(x: float, y: float, bounds: Bounds, n_columns: int, n_rows: int) -> None:
    cell = grid_cell(x, y, bounds, n_columns, n_rows)
    assert 0 <= cell < n_columns * n_rows
    box = grid_box(EUCLIDEAN, bounds, n_columns, n_rows, cell)
    assert in_box(*box, x, y)
    assert box == cell_box(EUCLIDEAN, bounds, n_columns, n_rows, cell % n_columns, cell // n_columns)


def test_grid_cells_tile_the_plane() -> None:
    bounds = (0.0, 0.0, 3.0, 2.0)
    assert [grid_cell(x + 0.5, y + 0.5, bounds, 3, 2) for y in (0, 1) for x in (0, 1, 2)] == list(range(6))
    assert grid_box(EUCLIDEAN, bounds, 3, 2, 0) == (-math.inf, -math.inf, 1.0, 1.0)
    assert grid_box(EUCLIDEAN, bounds, 3, 2, 4) == (1.0, 1.0, 2.0, math.inf)
    assert grid_box(EUCLIDEAN, bounds, 3, 2, 5) == (2.0, 1.0, math.inf, math.inf)
    assert grid_cell(-50.0, 1.0, bounds, 3, 2) == 3
    assert grid_cell(50.0, -1e300, bounds, 3, 2) == 2


@settings(deadline=None)
@given(numbers, numbers, bounds_of(), st.integers(0, 12))
def test_morton_nests_and_holds_its_places(x: float, y: float, bounds: Bounds, level: int) -> None:
    code = morton(x, y, bounds, level)
    side = 1 << level
    column = cell_index(bounds[0], bounds[2], side, x)
    row = cell_index(bounds[1], bounds[3], side, y)
    assert code == interleaved(column, row, level)
    assert morton_cell(code) == (column, row)
    assert in_box(*morton_box(EUCLIDEAN, bounds, level, code), x, y)
    for coarser in range(level):
        outer = code >> 2 * (level - coarser)
        assert outer == morton(x, y, bounds, coarser)
        x0, y0, x1, y1 = morton_box(EUCLIDEAN, bounds, level, code)
        ox0, oy0, ox1, oy1 = morton_box(EUCLIDEAN, bounds, coarser, outer)
        assert ox0 <= x0 <= x1 <= ox1
        assert oy0 <= y0 <= y1 <= oy1


@settings(deadline=None)
@given(st.integers(0, 2**31 - 1), st.integers(0, 2**31 - 1))
def test_finest_morton_codes(column: int, row: int) -> None:
    bounds = (0.0, 0.0, 2.0**31, 2.0**31)
    code = morton(float(column), float(row), bounds, MAX_LEVEL)
    assert code == interleaved(column, row, MAX_LEVEL)
    assert morton_cell(code) == (column, row)


@settings(deadline=None)
@given(lons, lats, lons, lats, levels)
@pytest.mark.parametrize(
    "bounds",
    [(-180.0, -90.0, 180.0, 90.0), (-74.3, 40.5, -73.7, 40.9), (170.0, -50.0, 190.0, -30.0), (200.0, 0.0, 300.0, 9.0)],
)
def test_cells_on_the_globe_bound_distances(
    bounds: Bounds, x: float, y: float, cx: float, cy: float, level: int
) -> None:
    """A place filed under its wrapped longitude lies in its cell's box, and no nearer than that box."""
    box = morton_box(HAVERSINE, bounds, level, morton(wrap(x), y, bounds, level))
    assert box[0] <= box[2]
    assert in_box(*box, wrap(x), y)
    assert box_distance(HAVERSINE, cx, cy, *box) <= distance(HAVERSINE, cx, cy, x, y)


def test_outer_cells_end_at_the_date_line() -> None:
    assert morton_box(HAVERSINE, (0.0, 0.0, 8.0, 8.0), 1, 0) == (-180.0, -math.inf, 4.0, 4.0)
    assert morton_box(HAVERSINE, (0.0, 0.0, 8.0, 8.0), 1, 3) == (4.0, 4.0, 180.0, math.inf)
    assert morton_box(EUCLIDEAN, (0.0, 0.0, 8.0, 8.0), 1, 3) == (4.0, 4.0, math.inf, math.inf)


def test_bounds_without_width() -> None:
    bounds = (5.0, 0.0, 5.0, 1.0)
    for x in (4.0, 5.0, 6.0):
        assert in_box(*grid_box(EUCLIDEAN, bounds, 4, 4, grid_cell(x, 0.5, bounds, 4, 4)), x, 0.5)
