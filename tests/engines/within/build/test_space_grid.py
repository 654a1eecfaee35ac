"""Cells, lines and their costs against counting by hand; ends exactly on lines, equal boxes, open borders."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from nearcast.columns.arena import Floats
from nearcast.engines.within.build.space_grid import KAPPA, cell_of, even_lines, grid_cost, improved_lines
from nearcast.engines.within.layout import Rectangle

COORDINATE = st.integers(-3, 11).map(float)
INTERVALS = st.lists(st.tuples(COORDINATE, COORDINATE).map(sorted), max_size=12)
PLACES = st.lists(COORDINATE, max_size=8)
LOWER, UPPER = 0.0, 8.0
Interval = list[float]


def plain_cell(lines: list[float], v: float) -> int:
    return sum(line <= v for line in lines)


def plain_cost(intervals: list[Interval], places: list[float], lines: list[float]) -> float:
    edges = [-math.inf, *lines, math.inf]
    clipped = [min(max(edge, LOWER), UPPER) for edge in edges]
    cost = 0.0
    for slab in range(len(lines) + 1):
        weight = sum(low < edges[slab + 1] and high >= edges[slab] for low, high in intervals)
        count = sum(plain_cell(lines, v) == slab for v in places)
        share = (clipped[slab + 1] - clipped[slab]) / (UPPER - LOWER)
        cost += weight * (count + KAPPA * share) / (len(places) + KAPPA)
    return cost


def lines_of(method, intervals: list[Interval], places: list[float], n_slabs: int) -> list[float]:  # type: ignore[no-untyped-def]
    lows = np.array(sorted(low for low, _ in intervals), dtype=np.float64)
    highs = np.array(sorted(high for _, high in intervals), dtype=np.float64)
    lines = np.full(n_slabs + 1, np.nan)
    n = method(lows, highs, np.array(sorted(places), dtype=np.float64), LOWER, UPPER, n_slabs, lines)
    assert 0 <= n < max(1, n_slabs)
    assert np.isnan(lines[n:]).all()
    found: list[float] = lines[:n].tolist()
    assert all(a < b for a, b in zip([LOWER, *found], [*found, UPPER], strict=True))
    return found


@given(st.lists(COORDINATE, unique=True, max_size=9).map(sorted), st.integers(0, 4), COORDINATE)
def test_cell_is_the_number_of_lines_at_or_before(lines: list[float], first: int, v: float) -> None:
    row = np.array([99.0] * first + lines + [-99.0], dtype=np.float64)
    assert cell_of(row, first, len(lines), v) == plain_cell(lines, v)


@given(INTERVALS, PLACES, st.integers(1, 6))
@example([[2.0, 3.0]] * 12, [], 4)
@example([[-3.0, 11.0]] * 3, [], 4)
@example([[0.0, 8.0]] * 3, [8.0], 4)
def test_lines_improve(intervals: list[Interval], places: list[float], n_slabs: int) -> None:
    even = lines_of(even_lines, intervals, places, n_slabs)
    improved = lines_of(improved_lines, intervals, places, n_slabs)
    borders = {v for low, high in intervals for v in (low, math.nextafter(high, math.inf)) if LOWER < v < UPPER}
    assert len(improved) == len(even) == min(n_slabs - 1, len(borders))
    assert plain_cost(intervals, places, improved) <= plain_cost(intervals, places, even) + 1e-9


@given(INTERVALS, PLACES)
def test_one_line_lies_where_it_is_cheapest(intervals: list[Interval], places: list[float]) -> None:
    found = lines_of(improved_lines, intervals, places, 2)
    every = [v for low, high in intervals for v in (low, math.nextafter(high, math.inf)) if LOWER < v < UPPER]
    assert len(found) == min(1, len(every))
    if every:
        costs = [plain_cost(intervals, places, [v]) for v in every]
        assert plain_cost(intervals, places, found) == pytest.approx(min(costs))


def test_equal_boxes_are_fenced_in() -> None:
    fence = [2.0, math.nextafter(3.0, math.inf)]
    assert lines_of(improved_lines, [[2.0, 3.0]] * 9, [], 9) == fence
    many = [[2.0, 3.0]] * 90 + [[4.0 + i / 4, 4.1 + i / 4] for i in range(12)]
    assert lines_of(improved_lines, many, [], 9)[:2] == fence


def test_sample_messages_draw_lines() -> None:
    boxes = [[i / 2, i / 2 + 0.25] for i in range(16)]
    line = lines_of(improved_lines, boxes, [6.1] * 200, 3)
    assert sum(v > 4.0 for v in line) == 2


def test_a_node_without_extent_is_not_split() -> None:
    ends = np.array([1.0, 1.0])
    assert improved_lines(ends, ends, ends, 1.0, 1.0, 4, np.zeros(4)) == 0
    assert improved_lines(ends, ends, ends, 0.0, 5e-324, 4, np.zeros(4)) == 0


def test_lengths_past_the_largest_number() -> None:
    huge, lines = np.array([-1e308, 0.0, 1e308]), np.zeros(3)
    assert improved_lines(huge, huge, huge, -1.5e308, 1.5e308, 4, lines) == 3
    assert (np.diff(lines) > 0).all()


Boxes = list[tuple[Interval, Interval]]


def plain_grid_cost(boxes: Boxes, places: list[Interval], region: Rectangle, x_lines: Floats, y_lines: Floats) -> float:
    cells: dict[tuple[int, int], float] = {}
    xs, ys = ([-math.inf, *lines.tolist(), math.inf] for lines in (x_lines, y_lines))
    cost = 0.0
    for (x0, x1), (y0, y1) in boxes:
        if x0 <= region.x0 and y0 <= region.y0 and x1 >= region.x1 and y1 >= region.y1:
            cost += 1.0
            continue
        for i in range(len(xs) - 1):
            for j in range(len(ys) - 1):
                if x0 < xs[i + 1] and x1 >= xs[i] and y0 < ys[j + 1] and y1 >= ys[j]:
                    cells[i, j] = cells.get((i, j), 0) + 1
    xs, ys = ([min(max(v, LOWER), UPPER) for v in edges] for edges in (xs, ys))
    for (i, j), weight in cells.items():
        count = sum((plain_cell(x_lines.tolist(), x), plain_cell(y_lines.tolist(), y)) == (i, j) for x, y in places)
        share = (xs[i + 1] - xs[i]) * (ys[j + 1] - ys[j]) / (UPPER - LOWER) ** 2
        cost += weight * (count + KAPPA * share) / (len(places) + KAPPA)
    return cost


LINES = st.lists(COORDINATE, unique=True, max_size=4).map(lambda lines: np.array(sorted(lines), dtype=np.float64))
CLOSED, OPEN = Rectangle(LOWER, LOWER, UPPER, UPPER), Rectangle(-math.inf, LOWER, UPPER, math.inf)


@given(
    st.lists(st.tuples(*[st.tuples(COORDINATE, COORDINATE).map(sorted)] * 2), max_size=8),
    st.lists(st.tuples(COORDINATE, COORDINATE).map(list), max_size=6),
    st.sampled_from([CLOSED, OPEN]),
    LINES,
    LINES,
)
@example([([-1.0, 9.0], [0.0, 8.0])], [], CLOSED, np.array([4.0]), np.array([]))
def test_grid_cost(boxes: Boxes, places: list[Interval], region: Rectangle, x_lines: Floats, y_lines: Floats) -> None:
    rows = np.array([(x0, y0, x1, y1) for (x0, x1), (y0, y1) in boxes], dtype=np.float64).reshape(-1, 4)
    points = np.array(places, dtype=np.float64).reshape(-1, 2)
    weights, counts = np.full(40, 77, dtype=np.int32), np.full(40, 77, dtype=np.int32)
    cost = grid_cost(rows, points, region, CLOSED, x_lines, y_lines, weights, counts)
    assert cost == pytest.approx(plain_grid_cost(boxes, places, region, x_lines, y_lines))


def test_a_flat_node_costs_by_its_other_dimension() -> None:
    boxes = np.array([[0.0, 0.0, 0.0, 3.0], [0.0, 4.0, 0.0, 8.0]])
    extent = Rectangle(0.0, 0.0, 0.0, 8.0)
    none, scratch = np.zeros((0, 2)), np.zeros(9, dtype=np.int32)
    cost = grid_cost(boxes, none, extent, extent, np.zeros(0), np.array([4.0]), scratch, scratch.copy())
    assert cost == 1.0
