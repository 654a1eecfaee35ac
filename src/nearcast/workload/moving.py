"""Subscribers that travel a road network: nodes and edges in, tables of moves out.

AP-Tree (5.2.1) moves its subscriptions with a network-based generator over the roads of Oldenburg and San Joaquin,
takes 30 seconds as one timestamp, watches 100 of them, and lets a share of the subscriptions (their mobility) report a
new place at each. Here every traveller starts at a random node, follows the shortest way to a random destination at its
own speed, and then chooses the next. Destinations are a fixed sample of nodes, so that all ways fit in one table.
"""

from __future__ import annotations

import heapq
import os
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.csv

from nearcast.errors import InvalidInput
from nearcast.workload.schema import BOX, MOVES_BOX, MOVES_POINT, Bounds, Floats, Ints, generator, starts, table
from nearcast.workload.zipf import START_TS

MEDIUM = 0.005  # way of an average traveller in one timestamp, as a share of the longer side of the network
STEP_MS = 30_000

_ROUTES, _TRAVEL, _REPORTS = 5, 6, 7  # what a seed is used for


@dataclass(frozen=True, slots=True)
class Network:
    """Roads: nodes with places, and edges that can be travelled both ways."""

    x: Floats  # float64[n_nodes]
    y: Floats  # float64[n_nodes]
    edge_start: Ints  # int64[n_nodes + 1]: node v owns edges edge_start[v]:edge_start[v + 1]
    targets: Ints  # int64[2 * n_edges]: the other end
    lengths: Floats  # float64[2 * n_edges]

    @classmethod
    def of(cls, x: Floats, y: Floats, ends: Ints, lengths: Floats | None = None) -> Network:
        """A network from places and pairs of node numbers; without lengths, edges are straight."""
        if x.size == 0 or ends.size == 0 or ends.min() < 0 or ends.max() >= x.size:
            raise InvalidInput("ends", ends.shape, "must be pairs of nodes that exist, at least one")
        if lengths is None:
            lengths = np.hypot(x[ends[:, 0]] - x[ends[:, 1]], y[ends[:, 0]] - y[ends[:, 1]])
        sources, targets = np.concatenate((ends[:, 0], ends[:, 1])), np.concatenate((ends[:, 1], ends[:, 0]))
        order = np.argsort(sources, kind="stable")
        counts = np.bincount(sources, minlength=x.size)
        return cls(x, y, starts(counts), targets[order], np.tile(lengths, 2)[order])

    @classmethod
    def read(cls, nodes: str | os.PathLike[str], edges: str | os.PathLike[str]) -> Network:
        """Two CSV files: ``node_id, x, y`` and ``edge_id, from_node, to_node, length``."""
        node = pa.csv.read_csv(nodes)
        ids = node["node_id"].to_numpy()
        order = np.argsort(ids)
        edge = pa.csv.read_csv(edges)
        named = np.column_stack((edge["from_node"].to_numpy(), edge["to_node"].to_numpy()))
        ends = np.searchsorted(ids[order], named)
        if (ids[order][np.minimum(ends, ids.size - 1)] != named).any():
            raise InvalidInput("edges", os.fspath(edges), "must join nodes of the nodes file")
        x, y = node["x"].to_numpy()[order], node["y"].to_numpy()[order]
        return cls.of(x, y, ends, edge["length"].to_numpy())

    @property
    def bounds(self) -> Bounds:
        """The box around all nodes."""
        return float(self.x.min()), float(self.y.min()), float(self.x.max()), float(self.y.max())

    def ways_to(self, destination: int) -> tuple[Ints, Floats]:
        """For each node, the edge to take towards `destination` and the way that is left.

        The edge is -1 at the destination and where no way leads there.
        """
        starting, targets, lengths = self.edge_start.tolist(), self.targets.tolist(), self.lengths.tolist()
        left = [np.inf] * len(self.x)
        hop = [-1] * len(self.x)
        left[destination] = 0.0
        queue = [(0.0, destination)]
        while queue:
            way, node = heapq.heappop(queue)
            if way > left[node]:
                continue
            for edge in range(starting[node], starting[node + 1]):
                other, longer = targets[edge], way + lengths[edge]
                if longer < left[other]:
                    left[other] = longer
                    hop[other] = node
                    heapq.heappush(queue, (longer, other))
        return self._edges_between(np.array(hop)), np.array(left)

    def _edges_between(self, hop: Ints) -> Ints:
        """The shortest edge from each node to the node it goes to next, or -1."""
        owner = np.repeat(np.arange(self.x.size), np.diff(self.edge_start))
        fitting = np.flatnonzero(hop[owner] == self.targets)
        fitting = fitting[np.argsort(-self.lengths[fitting], kind="stable")]
        edges = np.full(self.x.size, -1, np.int64)
        edges[owner[fitting]] = fitting
        return edges


class Traffic:
    """`n` travellers on a network; `step` moves them all by one timestamp.

    Parameters
    ----------
    speed
        Average way in one timestamp, as a share of the longer side of the network (`MEDIUM`); each traveller keeps its
        own pace, between half and one and a half times that.
    bounds
        Where places are reported: the network is stretched to fill it. Its own coordinates by default.
    """

    def __init__(
        self,
        network: Network,
        n: int,
        seed: int,
        *,
        speed: float = MEDIUM,
        bounds: Bounds | None = None,
        n_destinations: int = 32,
    ) -> None:
        if not speed > 0:
            raise InvalidInput("speed", speed, "must be > 0")
        rng = generator(seed, _ROUTES)
        nodes = rng.permutation(network.x.size)[:n_destinations]
        self.network = network
        self.bounds = bounds or network.bounds
        self._ways = np.stack([network.ways_to(int(node))[0] for node in nodes])
        self._rng = generator(seed, _TRAVEL)
        low_x, low_y, top_x, top_y = network.bounds
        self._pace = speed * max(top_x - low_x, top_y - low_y) * self._rng.uniform(0.5, 1.5, n)
        self._node = self._rng.integers(0, network.x.size, n)
        self._goal = self._rng.integers(0, nodes.size, n)
        self._edge = self._ways[self._goal, self._node]
        self._gone = np.zeros(n)  # way gone on the edge

    def places(self) -> tuple[Floats, Floats]:
        """Where everybody is: x and y within `bounds`."""
        network = self.network
        on_edge = self._edge >= 0
        edge = np.maximum(self._edge, 0)
        ahead = np.where(on_edge, network.targets[edge], self._node)
        length = network.lengths[edge]
        part = np.where(on_edge & (length > 0), self._gone / np.where(length > 0, length, 1.0), 0.0)
        x = network.x[self._node] + part * (network.x[ahead] - network.x[self._node])
        y = network.y[self._node] + part * (network.y[ahead] - network.y[self._node])
        low_x, low_y, top_x, top_y = network.bounds
        wide, high = (top_x - low_x) or 1.0, (top_y - low_y) or 1.0
        return (
            self.bounds[0] + (x - low_x) / wide * (self.bounds[2] - self.bounds[0]),
            self.bounds[1] + (y - low_y) / high * (self.bounds[3] - self.bounds[1]),
        )

    def step(self) -> None:
        """Everybody goes on for one timestamp."""
        network = self.network
        self._gone += self._pace
        arrived = np.flatnonzero((self._edge < 0) | (self._gone >= network.lengths[self._edge]))
        while arrived.size:
            edge = self._edge[arrived]
            moving = arrived[edge >= 0]
            self._gone[moving] -= network.lengths[self._edge[moving]]
            self._node[moving] = network.targets[self._edge[moving]]
            self._edge[arrived] = self._ways[self._goal[arrived], self._node[arrived]]
            # At the goal, or cut off from it: choose the next and wait there until the next timestamp.
            still = arrived[self._edge[arrived] < 0]
            self._goal[still] = self._rng.integers(0, len(self._ways), still.size)
            self._edge[still] = self._ways[self._goal[still], self._node[still]]
            self._gone[still] = 0.0
            arrived = arrived[
                (self._edge[arrived] >= 0) & (self._gone[arrived] >= network.lengths[self._edge[arrived]])
            ]
            arrived = arrived[self._gone[arrived] > 0]


def moves(
    traffic: Traffic,
    ids: Ints,
    seed: int,
    *,
    n_steps: int = 100,
    mobility: float = 0.4,
    sides: tuple[Floats, Floats] | None = None,
    start_ts: int = START_TS,
    step_ms: int = STEP_MS,
) -> Iterator[pa.Table]:
    """One table of moves for each timestamp.

    Parameters
    ----------
    ids
        int64[n]: the subscription of each traveller.
    mobility
        Share of the travellers that report at a timestamp, chosen again each time.
    sides
        Width and height of each traveller's box; the moves then carry a box around the place instead of the place.
    """
    if not 0 <= mobility <= 1:
        raise InvalidInput("mobility", mobility, "must be from 0 to 1")
    rng = generator(seed, _REPORTS)
    for number in range(1, n_steps + 1):
        traffic.step()
        reporting = np.flatnonzero(rng.random(ids.size) < mobility)
        x, y = (places[reporting] for places in traffic.places())
        columns: dict[str, object] = {"id": ids[reporting], "ts": start_ts + number * step_ms}
        if sides is None:
            yield table(MOVES_POINT, reporting.size, {**columns, "lon": x, "lat": y})
        else:
            columns |= _boxes(x, y, sides[0][reporting], sides[1][reporting])
            yield table(MOVES_BOX, reporting.size, columns)


def on_roads(
    subscriptions: pa.Table,
    network: Network,
    seed: int,
    *,
    bounds: Bounds,
    speed: float = MEDIUM,
    n_steps: int = 100,
    mobility: float = 0.4,
    start_ts: int = START_TS,
) -> tuple[pa.Table, Iterator[pa.Table]]:
    """Put subscriptions on a road network: the table with their first places, and their moves.

    The table holds either boxes, which keep their size, or subscriptions with a place; not both.
    """
    boxed = subscriptions["min_lon"].null_count == 0
    if not boxed and subscriptions["lon"].null_count:
        raise InvalidInput("subscriptions", subscriptions.num_rows, "must all have a box, or all a place")
    traffic = Traffic(network, subscriptions.num_rows, seed, speed=speed, bounds=bounds)
    x, y = traffic.places()
    sides = None
    if boxed:
        low_x, low_y, top_x, top_y = (subscriptions[name].to_numpy() for name in BOX)
        sides = (top_x - low_x, top_y - low_y)
        placed = _boxes(x, y, *sides)
    else:
        placed = {"lon": x, "lat": y}
    for name, values in placed.items():
        at = subscriptions.column_names.index(name)
        subscriptions = subscriptions.set_column(at, name, pa.array(values))
    ids = subscriptions["id"].to_numpy()
    return subscriptions, moves(traffic, ids, seed, n_steps=n_steps, mobility=mobility, sides=sides, start_ts=start_ts)


def _boxes(x: Floats, y: Floats, wide: Floats, high: Floats) -> dict[str, Floats]:
    return dict(zip(BOX, (x - wide / 2, y - high / 2, x + wide / 2, y + high / 2), strict=True))
