"""Bounds of regions hold for every place in them, or outside of them."""

from __future__ import annotations

import numpy as np
import pytest

from engines.similar.scenes import COMPILED
from nearcast.engines.similar.layout import LEAF, NODE, PROBE
from nearcast.engines.similar.region_tree import clear_node, inside, nearest_similarity, outside_similarity, widen
from nearcast.space.distance import EUCLIDEAN, HAVERSINE, distance, ssim, wrap
from nearcast.space.hilbert import to_point

N_TRIES = 400 if COMPILED else 40
REACH = {EUCLIDEAN: 8.0, HAVERSINE: 2_000_000.0}


def places(metric: int, n: int) -> np.ndarray:
    rng = np.random.default_rng(metric)
    wide = [6, 6] if metric == EUCLIDEAN else [190, 90]
    x, y = rng.uniform([-wide[0], -wide[1]], wide, (n, 2)).T
    return np.column_stack((np.round(x, 1) if metric == EUCLIDEAN else x, y))


@pytest.mark.parametrize("metric", [EUCLIDEAN, HAVERSINE])
def test_outside_is_never_nearer_than_said(metric: int) -> None:
    rng = np.random.default_rng(7)
    leaf = np.zeros(1, dtype=LEAF)[0]
    points = places(metric, N_TRIES)
    points[:, 0] = [wrap(x) if metric == HAVERSINE else x for x in points[:, 0].tolist()]
    for _ in range(10):
        sides = np.sort(points[rng.integers(0, N_TRIES, 2)], axis=0)
        leaf.west, leaf.south = np.where(rng.random(2) < 0.3, -np.inf, sides[0])
        leaf.east, leaf.north = np.where(rng.random(2) < 0.3, np.inf, sides[1])
        out = [p for p in points.tolist() if not inside(leaf, *p)][:40]
        for x, y in points[:20].tolist():
            most = outside_similarity(metric, REACH[metric], x, y, leaf)
            if not inside(leaf, x, y):
                assert most == 1.0
            for other in out:
                assert ssim(distance(metric, x, y, *other), REACH[metric]) <= most


@pytest.mark.parametrize("metric", [EUCLIDEAN, HAVERSINE])
def test_a_box_is_never_farther_than_what_it_covers(metric: int) -> None:
    points = places(metric, N_TRIES)
    probe = np.zeros(1, dtype=PROBE)[0]
    probe.metric, probe.max_distance = metric, REACH[metric]
    for first in range(0, N_TRIES - 20, 20):
        nodes = np.zeros(1, dtype=NODE)
        nodes["parent"] = -1
        clear_node(nodes[0])
        covered = points[first : first + 4].tolist()
        for x, y in covered:
            widen(nodes, 0, *to_point(metric, x, y), 3)
        for x, y in points[first : first + 20].tolist():
            probe.x, probe.y, probe.z = to_point(metric, x, y)
            nearest = max(ssim(distance(metric, x, y, *place), REACH[metric]) for place in covered)
            assert nearest <= max(0.0, nearest_similarity(nodes[0], probe))
    assert nodes["least"][0] == 3
