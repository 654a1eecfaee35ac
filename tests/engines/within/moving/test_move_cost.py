"""Costs of movement against the equations worked by hand; convoys wear a node out, crowds that mill about do not."""

from __future__ import annotations

import math

import numpy as np
import pytest

from nearcast.columns.arena import Array, Floats
from nearcast.engines.within.layout import Rectangle
from nearcast.engines.within.moving.move_cost import (
    Pace,
    location_update_cost,
    nodes_passed,
    penalty,
    reconstruction_cost,
    reconstruction_interval,
)
from nearcast.engines.within.upkeep.drift import drift

PACE = Pace(16, 40.0, 0.001, 2.0, 50)
EXTENT = Rectangle(2.0, -1.0, 10.0, 3.0)


def scene(n: int, dx: float, dy: float, spread: float = 0.5) -> tuple[Floats, Array]:
    """Boxes crowded to the left of the node, which all move alike."""
    rng = np.random.default_rng(n)
    corners = np.column_stack([rng.uniform(2.0, 2.0 + 8.0 * spread, n), rng.uniform(-1.0, 3.0, n)])
    return np.hstack([corners, corners + 0.25]), np.tile(np.array([dx, dy], dtype=np.float32), (n, 1))


def scratch() -> Array:
    return np.full((2, PACE.fanout), 77, dtype=np.int32)


def interval(boxes: Floats, moves: Array) -> int:
    olds, nows = scratch()
    return int(reconstruction_interval(boxes, moves, EXTENT, PACE, olds, nows))


def test_nodes_passed() -> None:
    moves = np.array([[0.0, 0.0], [2.0, 0.0], [-4.0, 1.0], [80.0, 0.0], [1.0, -1.0]], dtype=np.float32)
    assert nodes_passed(moves, EXTENT) == 0.0 + 0.25 + 0.75 + 1.0 + 0.375
    flat = Rectangle(2.0, 1.0, 10.0, 1.0)
    assert nodes_passed(moves, flat) == 0.0 + 0.25 + 1.0 + 1.0 + 1.0


def test_location_update_cost() -> None:
    assert location_update_cost(3.0, 5, 16, 2.0) == 2 * 3.0 * (5 * 4.0) / 2.0


@pytest.mark.parametrize(("n_rows", "height"), [(40 * 16, 1.0), (40 * 256, 2.0), (40, 0.0), (3, 0.0)])
def test_reconstruction_cost(n_rows: int, height: float) -> None:
    expected = (n_rows * 4.0 + n_rows * 4.0 + 16 * 70) * (height + 1.0) / 5
    assert reconstruction_cost(n_rows, 70, PACE, 5) == pytest.approx(expected)


def plain_interval(boxes: Floats, moves: Array) -> int:
    """Algorithm 8 in the words of arrays."""
    side = math.isqrt(min(PACE.fanout, len(boxes) // 16))
    low, high = np.array(EXTENT[:2]), np.array(EXTENT[2:])
    centres = (np.maximum(low, boxes[:, :2]) + np.minimum(high, boxes[:, 2:])) / 2

    def counts(epoch: int) -> Array:
        at = np.mod((centres + epoch * moves.astype(np.float64) - low) / (high - low), 1.0)
        cells = np.minimum(side - 1, (at * side).astype(int))
        return np.bincount(cells[:, 0] * side + cells[:, 1], minlength=side * side).astype(np.int32)

    start = counts(0)
    for epoch in range(1, PACE.max_epochs):
        if drift(start, counts(epoch), 0, side * side) > PACE.theta_kl:
            return epoch
    return PACE.max_epochs


@pytest.mark.parametrize("speed", [0.0, 0.01, 0.1, -0.4, 2.5])
def test_interval_of_a_convoy(speed: float) -> None:
    boxes, moves = scene(300, speed, -speed / 3)
    assert interval(boxes, moves) == plain_interval(boxes, moves)


def test_the_faster_the_sooner() -> None:
    intervals = [interval(*scene(300, speed, 0.0)) for speed in (0.0, 0.02, 0.1, 0.5)]
    assert intervals[0] == PACE.max_epochs
    assert intervals[0] >= intervals[1] > intervals[2] > intervals[3] >= 1


def test_who_mills_about_wears_nothing_out() -> None:
    boxes, moves = scene(400, 0.0, 0.0, spread=1.0)
    moves[:] = np.random.default_rng(2).normal(0.0, 0.3, moves.shape)
    assert interval(boxes, moves) == PACE.max_epochs


def test_few_and_flat_and_endless_boxes() -> None:
    boxes, moves = scene(3, 1.0, 1.0)
    assert interval(boxes, moves) == PACE.max_epochs
    boxes[:, 0], boxes[:, 2] = -np.inf, np.inf
    assert interval(boxes, moves) == PACE.max_epochs
    olds, nows = scratch()
    for extent in (Rectangle(2.0, -1.0, 2.0, -1.0), Rectangle(-1.5e308, -1.0, 1.5e308, 3.0)):
        assert reconstruction_interval(boxes, moves, extent, PACE, olds, nows) == PACE.max_epochs
    moves[:] = np.inf
    assert interval(boxes, moves) == PACE.max_epochs
    assert nodes_passed(moves, Rectangle(-1.5e308, -1.5e308, 1.5e308, 1.5e308)) == 3.0


def test_penalty_is_the_sum_and_scales_with_the_rows() -> None:
    boxes, moves = scene(300, 0.1, 0.0)
    expected = location_update_cost(600 * (0.1 / 8.0), 5, PACE.fanout, PACE.update_epochs)
    expected += reconstruction_cost(600, 70, PACE, interval(boxes, moves))
    assert penalty(boxes, moves, EXTENT, PACE, 600, 70, 5, scratch()) == pytest.approx(expected)
    assert penalty(boxes, 0 * moves, EXTENT, PACE, 600, 70, 5, scratch()) == 0.0
