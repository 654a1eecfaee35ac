"""Two trees of regions over the leaves: they find the leaf of a place, and bounds that let a message skip regions.

One tree cuts places at their median, again and again, until a region has no more than `fanout` subscriptions; places
that cannot be told apart are put on EITHER side. The other tree holds what a message may match from anywhere: it only
ever cuts EITHER way.
"""

from __future__ import annotations

import math
from typing import Any

from nearcast.columns.arena import Array
from nearcast.engines.similar.layout import BY_X, EITHER, FARTHEST, LEAF_AXIS
from nearcast.jit import kernel
from nearcast.space.distance import HAVERSINE, box_distance
from nearcast.space.hilbert import at_least, box_squared


@kernel
def find_leaf(nodes: Array, root: int, x: float, y: float) -> Any:
    """The leaf where a place, its longitude wrapped, is filed."""
    at = root
    while nodes[at].axis != LEAF_AXIS:
        node = nodes[at]
        value = x if node.axis == BY_X else y
        at = node.high if node.axis == EITHER or value >= node.cut else node.low
    return nodes[at].leaf


@kernel
def cover(node: Any, x: float, y: float, z: float, bound: int) -> None:
    """Let a node cover a point and a bound."""
    node.x0, node.y0, node.z0 = min(node.x0, x), min(node.y0, y), min(node.z0, z)
    node.x1, node.y1, node.z1 = max(node.x1, x), max(node.y1, y), max(node.z1, z)
    node.least = min(node.least, bound)


@kernel
def widen(nodes: Array, at: int, x: float, y: float, z: float, bound: int) -> None:
    """Let a node and all above it cover a point and a bound: both only grow until the leaf is rebuilt.

    Paper: [STAMP] section VI-B.
    """
    while at >= 0:
        cover(nodes[at], x, y, z, bound)
        at = nodes[at].parent


@kernel
def clear_node(node: Any) -> None:
    """Let a node cover nothing."""
    node.x0, node.y0, node.z0 = math.inf, math.inf, math.inf
    node.x1, node.y1, node.z1 = -math.inf, -math.inf, -math.inf
    node.least = FARTHEST


@kernel
def narrow(nodes: Array, at: int) -> None:
    """Let all nodes above one cover just what their children cover."""
    at = nodes[at].parent
    while at >= 0:
        node = nodes[at]
        low, high = nodes[node.low], nodes[node.high]
        node.x0, node.x1 = min(low.x0, high.x0), max(low.x1, high.x1)
        node.y0, node.y1 = min(low.y0, high.y0), max(low.y1, high.y1)
        node.z0, node.z1 = min(low.z0, high.z0), max(low.z1, high.z1)
        node.least = min(low.least, high.least)
        at = node.parent


@kernel
def nearest_similarity(node: Any, probe: Any) -> Any:
    """The largest spatial similarity that a message can have to anything in the box of a node.

    Paper: [STAMP] equation 7.
    Departs: measures straight lines through the ground, which need no trigonometry; see `space/hilbert.py`.
    """
    distance = at_least(probe.metric, box_squared(probe.x, probe.y, probe.z, node))
    return 1.0 - distance / probe.max_distance * (1.0 - 1e-12)


@kernel
def outside_similarity(metric: int, max_distance: float, x: float, y: float, leaf: Any) -> float:
    """The largest spatial similarity that a place, its longitude wrapped, can have to any place outside a region.

    Paper: [STAMP] equation 8. A place that lies outside itself gets 1.
    """
    end = 180.0 if metric == HAVERSINE else math.inf
    nearest = math.inf
    if leaf.west > -math.inf:
        nearest = min(nearest, box_distance(metric, x, y, -end, -math.inf, leaf.west, math.inf))
    if leaf.east < math.inf:
        nearest = min(nearest, box_distance(metric, x, y, leaf.east, -math.inf, end, math.inf))
    if leaf.south > -math.inf:
        nearest = min(nearest, box_distance(metric, x, y, -math.inf, -math.inf, math.inf, leaf.south))
    if leaf.north < math.inf:
        nearest = min(nearest, box_distance(metric, x, y, -math.inf, leaf.north, math.inf, math.inf))
    return max(0.0, min(1.0, 1.0 - nearest / max_distance * (1.0 - 1e-12)))


@kernel
def inside(leaf: Any, x: float, y: float) -> Any:
    """Does a place, its longitude wrapped, lie in the region of a leaf?"""
    return leaf.west <= x < leaf.east and leaf.south <= y < leaf.north
