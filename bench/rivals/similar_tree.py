"""The R-tree of the rivals of `Similar`, loaded in bulk by sort-tile-recursive: places go in, nodes come out.

Nodes do not split: what is inserted later goes to the leaf whose box grows least, and all is loaded again when
there are twice as many subscriptions. Each node has the extremes of what lies below it. There may be several trees,
one for each *part* of the subscriptions.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from bench.rivals.similar_base import NEVER, looseness
from nearcast.columns.arena import Array, Floats, Ints, Longs, ranges, record
from nearcast.jit import kernel
from nearcast.space.distance import HAVERSINE, wrap

NO_NODE = -1

NODE = record(
    ("x0", "f8"),
    ("y0", "f8"),
    ("x1", "f8"),
    ("y1", "f8"),
    ("low_delta", "f8"),
    ("high_delta", "f8"),
    ("low_tau", "f8"),
    ("need", "f8"),  # least spatial similarity that a token filed here or below lacks
    ("parent", "i4"),
    ("first", "i4"),  # its children follow each other; a leaf has none
    ("n", "i4"),
    ("loosest", "i4"),  # how loose text bounds below it are, see `looseness`
)


class Tree(NamedTuple):
    """Nodes, and where subscriptions are."""

    nodes: Array  # NODE[n_nodes]
    roots: Ints  # int32[n_parts]: NO_NODE for a part without subscriptions
    leaves: Ints  # int32[n_slots]: leaf of each subscription


@kernel
def wrapped(metric, x, out):
    """Longitudes as boxes hold them."""
    for i in range(x.size):
        out[i] = wrap(x[i]) if metric == HAVERSINE else x[i]


@kernel
def widen(nodes, node, subscriptions, slots):
    """Widen the extremes of the leaves `node` of these subscriptions, and of all nodes above."""
    for i in range(slots.size):
        row, scale = subscriptions.rows[slots[i]], subscriptions.scales[slots[i]]
        at = node[i]
        while at != NO_NODE:
            below = nodes[at]
            below.low_delta, below.high_delta = min(below.low_delta, scale.delta), max(below.high_delta, scale.delta)
            below.low_tau = min(below.low_tau, scale.tau)
            below.loosest = max(below.loosest, looseness(row.mode))
            at = below.parent


@kernel
def descend(nodes, root, x, y):
    """The leaf whose box, and whose ancestors' boxes, grow least to hold the place; they are grown."""
    at = root
    while True:
        node = nodes[at]
        node.x0, node.x1 = min(node.x0, x), max(node.x1, x)
        node.y0, node.y1 = min(node.y0, y), max(node.y1, y)
        if node.n == 0:
            return at
        best, least = node.first, math.inf
        for child in range(node.first, node.first + node.n):
            box = nodes[child]
            growth = max(box.x0 - x, x - box.x1, 0.0) + max(box.y0 - y, y - box.y1, 0.0)
            if growth < least:
                best, least = child, growth
        at = best


@kernel
def place_all(tree, rows, slots, parts, metric):
    """Give every subscription its leaf."""
    for i in range(slots.size):
        row = rows[slots[i]]
        x = wrap(row.x) if metric == HAVERSINE else row.x
        tree.leaves[slots[i]] = descend(tree.nodes, tree.roots[parts[i]], x, row.y)


def load(rows: Array, slots: Ints, parts: Ints, n_parts: int, fanout: int, metric: int) -> Tree:
    """Trees over the subscriptions in these slots; `parts` says for each to which tree it belongs."""
    x, y = np.empty(slots.size), rows["y"][slots]
    wrapped(metric, rows["x"][slots], x)
    tree = Tree(np.zeros(0, NODE), np.full(n_parts, NO_NODE, np.int32), np.full(rows.size, NO_NODE, np.int32))
    for part in np.unique(parts).tolist():
        mine = np.flatnonzero(parts == part)
        nodes, leaves = _load_part(x[mine], y[mine], fanout)
        n_before = tree.nodes.size
        nodes["first"] += n_before
        nodes["parent"][:-1] += n_before
        tree.leaves[slots[mine]] = leaves + n_before
        tree = tree._replace(nodes=np.concatenate([tree.nodes, nodes]))
        tree.roots[part] = tree.nodes.size - 1
    tree.nodes["low_delta"], tree.nodes["low_tau"], tree.nodes["need"] = 1.0, 1.0, NEVER
    return tree


def _load_part(x: Floats, y: Floats, fanout: int) -> tuple[Array, Longs]:
    """Nodes of one tree, leaves first and the root last, and the leaf of each place."""
    order = _tiles(x, y, fanout)
    leaves = np.empty(x.size, np.int64)
    leaves[order] = np.arange(x.size) // fanout
    level = _over(x[order], y[order], x[order], y[order], fanout)
    levels: list[Array] = []
    n_made = 0
    while True:
        order = _tiles((level["x0"] + level["x1"]) / 2, (level["y0"] + level["y1"]) / 2, fanout)
        if not levels:
            leaves = np.argsort(order)[leaves]
        level = level[order]
        levels.append(level)
        if level.size == 1:
            break
        above = _over(*(level[side] for side in ("x0", "y0", "x1", "y1")), fanout)
        above["first"] = n_made + np.arange(0, level.size, fanout)
        above["n"] = np.diff(above["first"], append=n_made + level.size)
        n_made, level = n_made + level.size, above
    nodes = np.concatenate(levels).view(NODE)  # records again
    inner = np.flatnonzero(nodes["n"])
    nodes["parent"] = NO_NODE
    nodes["parent"][ranges(nodes["first"][inner].astype(np.int64), nodes["n"][inner])] = np.repeat(
        inner, nodes["n"][inner]
    )
    return nodes, leaves


def _tiles(x: Floats, y: Floats, most: int) -> Longs:
    """The order in which every `most` places in a row make a tile: by x in slabs, in a slab by y."""
    n_tiles = math.ceil(x.size / most)
    slab = most * math.ceil(n_tiles / math.ceil(math.sqrt(n_tiles)))
    order = np.argsort(x, kind="stable")
    within = np.lexsort((y[order], np.arange(x.size) // slab))
    return np.asarray(order[within], np.int64)


def _over(x0: Floats, y0: Floats, x1: Floats, y1: Floats, most: int) -> Array:
    """Nodes with boxes around every `most` boxes in a row."""
    starts = np.arange(0, x0.size, most)
    nodes = np.zeros(starts.size, NODE)
    nodes["x0"], nodes["y0"] = np.minimum.reduceat(x0, starts), np.minimum.reduceat(y0, starts)
    nodes["x1"], nodes["y1"] = np.maximum.reduceat(x1, starts), np.maximum.reduceat(y1, starts)
    return nodes
