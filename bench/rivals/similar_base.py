"""What the rivals of `Similar` share: the publish loop, cheap bounds for place and text, and the record of a posting.

A place is three coordinates in units of `max_distance`: on the sphere, or in the plane with a third one of 0. The
straight line between two of them is never longer than the distance, and costs no sine. A subscription that still lacks
a spatial similarity `need` looks no farther than `squared_reach`.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import NamedTuple

import numpy as np

from nearcast.columns.arena import Array, Floats, Ints, Longs, State
from nearcast.columns.message_table import MessageLayout, MessageTable
from nearcast.columns.subscription_tables import PointTable
from nearcast.engines.contract import NO_CHANGES, Changes, EngineContext, Stats
from nearcast.engines.oracle import SimilarOracle
from nearcast.engines.oracle.match import Matches
from nearcast.jit import kernel
from nearcast.space.distance import EARTH_RADIUS_M, EUCLIDEAN, HAVERSINE
from nearcast.space.space import SpaceInput
from nearcast.text.similarity import COSINE, DICE, JACCARD, WEIGHTED
from nearcast.window.live import Steps

ACCESSED, CANDIDATES, ANSWERS, NODES, ASKED = range(5)  # positions in the counters; the last numbers the messages
NEVER = 2.0  # a spatial similarity that no place has
LOOSE = 1e-12
SLACK = 1e-3  # of max_distance; float32 coordinates of up to MOST are off by less than a quarter of it
MOST = 1024.0
ROUNDED = 1.00001  # no sum of float32 shares is this many times too small
_ROOM = 4096

Centre = tuple[float, float]


class Asked(NamedTuple):
    """What all kernels that match are given beside their own index."""

    where: SpaceInput
    centre: Centre  # of the bounds, where coordinates in the plane are 0
    idf: Floats
    dense: Floats  # float64[n_terms]: the scattered message
    counters: Longs


@kernel
def to_units(where, centre, x, y):
    """Coordinates of a place in units of max_distance; (inf, inf, inf) if they are too large to be compared."""
    if where.metric == HAVERSINE:
        scale = EARTH_RADIUS_M / where.max_distance
        lon, lat = math.radians(x), math.radians(y)
        level = scale * math.cos(lat)
        u, v, w = level * math.cos(lon), level * math.sin(lon), scale * math.sin(lat)
    else:
        u, v, w = (x - centre[0]) / where.max_distance, (y - centre[1]) / where.max_distance, 0.0
    if not (abs(u) <= MOST and abs(v) <= MOST and abs(w) <= MOST):
        return math.inf, math.inf, math.inf
    return u, v, w


@kernel
def need_of_place(delta, tau, text):
    """The spatial similarity that a subscription lacks when its text similarity is `text`; none if <= 0."""
    lack = tau - delta * text - LOOSE
    if lack <= 0.0:
        return 0.0
    if lack >= (1.0 - delta) * NEVER:
        return NEVER
    return lack / (1.0 - delta)


@kernel
def squared_reach(where, need):
    """The squared line, in units, beyond which no place has this spatial similarity; -1 if there is none at all."""
    if need <= 0.0:
        return math.inf
    if need > 1.0 + LOOSE:
        return -1.0
    reach = max(0.0, 1.0 - need)
    if where.metric != EUCLIDEAN:
        half = reach * where.max_distance / (2.0 * EARTH_RADIUS_M)
        if half < math.pi / 2.0:
            reach = 2.0 * EARTH_RADIUS_M / where.max_distance * math.sin(half)
    return (reach + SLACK) * (reach + SLACK)


@kernel
def ssim_bound(squared):
    """No place at the end of a line of this squared length has more spatial similarity."""
    return max(0.0, 1.0 + SLACK - math.sqrt(max(0.0, squared)))


@kernel
def share_of_text(measure, weight, weight_s, n_s):
    """What a word of this weight adds to the share of a subscription's words: by weight, or by number."""
    return weight / weight_s if measure in (WEIGHTED, JACCARD) else 1.0 / n_s


@kernel
def looseness(measure):
    """Which bound a measure has, from the tightest on; see `text_bound`."""
    return 2 if measure == COSINE else 1 if measure == DICE else 0


@kernel
def text_bound(loose, share):
    """No message that holds this share of a subscription's words, or less, has more text similarity.

    With o = |s∩m| / |s| and |m| >= |s∩m|: dice 2|s∩m| / (|s|+|m|) <= 2o / (1+o), cosine |s∩m| / √(|s||m|) <= √o, and
    o <= 2o / (1+o) <= √o. The weight of s∪m in jaccard is at least that of s.
    """
    share = min(1.0, share)
    if loose == 0:
        return share
    return 2.0 * share / (1.0 + share) if loose == 1 else math.sqrt(share)


class SimilarRival(SimilarOracle):
    """A `Notifier` for `Similar`; live messages for one subscription come from the broker's own index."""

    name = "rival"

    def __init__(self, table: PointTable, context: EngineContext) -> None:
        super().__init__(table, context)
        self.points = table
        self.counters = np.zeros(5, np.int64)
        self._n_filed = 0
        self._room = Matches(np.zeros(_ROOM, np.int32), np.zeros(_ROOM, np.int32), np.zeros(_ROOM))

    @abstractmethod
    def _match_from(self, first: int, steps: Steps, messages: MessageLayout, asked: Asked) -> tuple[int, int]:
        """Write matches from event `first` on to the room, as `oracle.match.match_similar`."""

    @abstractmethod
    def refile(self, slots: Ints) -> None:
        """Subscriptions whose places were changed."""

    @abstractmethod
    def _build(self) -> None:
        """File all subscriptions of the table again."""

    @property
    @abstractmethod
    def nbytes(self) -> int:
        """Of the index."""

    @property
    def _centre(self) -> Centre:
        x0, y0, x1, y1 = self.context.space.bounds
        return (x0 + x1) / 2, (y0 + y1) / 2

    def _matches(self, steps: Steps, told: MessageTable) -> Changes:
        if not self._n_filed or not (steps.arrivals >= 0).any():
            return NO_CHANGES
        size = 2 * self.points.slots.capacity
        if self._room.slots.size < size:
            self._room = Matches(np.empty(size, np.int32), np.empty(size, np.int32), np.empty(size))
        asked = Asked(self._space, self._centre, self.context.vocabulary.idf, self._search.dense(), self.counters)
        messages, found = told.layout, list[Matches]()
        event = 0
        while event < steps.arrivals.size:
            event, n = self._match_from(event, steps, messages, asked)
            found.append(Matches(*(column[:n].copy() for column in self._room)))
        events, slots, scores = (np.concatenate(parts) for parts in zip(*found, strict=True))
        return Changes(events, slots, steps.arrivals[events], np.ones(events.size, np.int32), scores)

    def move(self, slots: Ints, before: Array) -> Changes:
        self.refile(slots)
        return super().move(slots, before)

    def reweighed(self) -> None:
        self._build()

    def check(self) -> None:
        super().check()
        assert self._n_filed == len(self.points)

    def stats(self) -> Stats:
        accessed, candidates, answers, nodes = self.counters[:ASKED].tolist()
        work = {"accessed": accessed, "candidates": candidates, "answers": answers, "nodes": nodes}
        return {"engine": self.name, **work, "bytes": self.nbytes}

    def state(self) -> State:
        return {}

    def load(self, state: State) -> None:
        self._build()
