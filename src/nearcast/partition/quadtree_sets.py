"""Cuts subscriptions into sets that lie together in space, into quarters again and again: a quadtree of places.

Subscriptions stand in the order of their quadtree cells (Morton codes), so that a set is a stretch of them, and cutting
it a search for the borders.

DkM-SKS sections 3.2 and 4.2.
"""

from __future__ import annotations

import heapq
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from nearcast.columns.arena import Array, Floats, Longs
from nearcast.jit import kernel
from nearcast.partition.costs import UNITS, enclose
from nearcast.partition.footprint import Footprints
from nearcast.partition.sample import Rectangle, Sample, count_box
from nearcast.space.cells import morton

_LEVEL = 20  # of the cells whose order subscriptions stand in: 2**20 columns and rows


class Set(NamedTuple):
    """A stretch of the order."""

    first: int
    after: int


class Weighed(NamedTuple):
    """A set, its box R and its cost; sorts by falling cost."""

    minus_cost: float
    set: Set
    box: Rectangle


@kernel
def codes_of(xs: Any, ys: Any, bounds: Any, codes: Any) -> None:
    """Morton code of each place."""
    for i in range(xs.size):
        codes[i] = morton(xs[i], ys[i], bounds, _LEVEL)


class Order:
    """Subscriptions in the order of their cells.

    Parameters
    ----------
    by_size
        Whether boxes of different size stand apart, the largest first: then no set mixes them.
    """

    def __init__(self, footprints: Footprints, sample: Sample, by_size: bool) -> None:
        codes = np.empty(footprints.rows.size, np.int64)
        codes_of(*_middles(footprints.boxes, sample.space.bounds), sample.space.bounds, codes)
        self.members: Longs = np.lexsort((codes, footprints.levels)) if by_size else np.argsort(codes, kind="stable")
        self.codes = codes[self.members]
        levels = footprints.levels[self.members] if by_size else np.zeros(codes.size, np.int32)
        cuts = [0, *(np.flatnonzero(np.diff(levels)) + 1).tolist(), codes.size]
        self.sets = _stretches(cuts)

    def of(self, part: Set) -> Longs:
        """The subscriptions of a set."""
        return self.members[part.first : part.after]

    def quarters(self, part: Set) -> list[Set]:
        """The set cut into quarters of the smallest cell around it, empty ones left out; itself if it is one place.

        Paper: [DKMSKS] section 4.2, SPACE-ONLY-PARTITION.
        Departs: quarterings that would leave all in one quarter are skipped.
        """
        codes = self.codes[part.first : part.after]
        differing = int(codes[0] ^ codes[-1])
        if differing == 0:
            return [part]
        shift = (differing.bit_length() - 1) // 2 * 2
        quarters = codes >> shift
        borders = np.searchsorted(quarters, np.arange(quarters[0], quarters[-1] + 2)) + part.first
        return _stretches(borders.tolist())

    def regroup(self, part: Set, groups: Array, n_groups: int) -> list[Set]:
        """The set cut by the group of each member; inside a group the order stays."""
        by_group = part.first + np.argsort(groups, kind="stable")
        self.members[part.first : part.after] = self.members[by_group]
        self.codes[part.first : part.after] = self.codes[by_group]
        borders = part.first + np.concatenate([[0], np.cumsum(np.bincount(groups, minlength=n_groups))])
        return _stretches(borders.tolist())


def _stretches(borders: list[int]) -> list[Set]:
    """The sets between borders, empty ones left out."""
    return [Set(first, after) for first, after in pairwise(borders) if first < after]


def space_sets(footprints: Footprints, sample: Sample, n_sets: int) -> tuple[Order, list[Weighed]]:
    """Sets by space alone: the dearest is quartered until there are `n_sets` or more, or each is one place.

    Paper: [DKMSKS] section 3.2, space-oriented partition.
    """
    order = Order(footprints, sample, by_size=False)

    def weighed(part: Set) -> Weighed:
        """Paper: [DKMSKS] equations 2 and 3."""
        members = order.of(part)
        box = enclose(footprints, members)
        share = (1 + count_box(sample.layout, box)) / (1 + sample.n)
        return Weighed(-share * float(UNITS[footprints.kinds[members]].sum()), part, box)

    whole: list[Weighed] = []
    waiting = [weighed(part) for part in order.sets]
    while waiting and len(waiting) + len(whole) < n_sets:
        front = heapq.heappop(waiting)
        quarters = order.quarters(front.set)
        if len(quarters) == 1:
            whole.append(front)
        else:
            for quarter in quarters:
                heapq.heappush(waiting, weighed(quarter))
    return order, sorted(whole + waiting)


def _middles(boxes: Floats, bounds: tuple[float, float, float, float]) -> tuple[Floats, Floats]:
    """The middle of each box; of an endless side that of the bounds."""
    middles = []
    for low, high in ((0, 2), (1, 3)):
        with np.errstate(invalid="ignore"):
            middle = boxes[:, low] / 2 + boxes[:, high] / 2
        middles.append(np.where(np.isfinite(middle), middle, (bounds[low] + bounds[high]) / 2))
    return middles[0], middles[1]
