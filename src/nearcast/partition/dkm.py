"""DkM-SKS section 4: cuts subscriptions into sets by space and words, and spreads each set over all shards."""

from __future__ import annotations

import heapq
from typing import Any

import numpy as np

from nearcast.columns.arena import Floats, Ints
from nearcast.jit import kernel
from nearcast.partition.costs import UNITS, enclose, weigh_in_box
from nearcast.partition.footprint import Footprints
from nearcast.partition.greedy import assign_heaviest_first, assign_in_turn, assign_parts
from nearcast.partition.quadtree_sets import Order, Set, Weighed
from nearcast.partition.sample import Rectangle, Sample

_GROUPS = 4  # parts of HYBRID-PARTITION, as many as quarters
_LEAST_WIDTH = 1e-9  # of the extent of all sets: how wide the box of a new subscription is at least


class Splitter:
    """Cuts subscriptions into sets and weighs these.

    Paper: [DKMSKS] section 4.
    Departs: boxes of different size are in different sets from the start. A set is charged for the box around all of
    its members' boxes, so that one large ball would make all its neighbours seem dear; the worker's grid separates
    sizes in the same way. Endless boxes, of those who find fewer than k in the sample, are such a size.
    """

    def __init__(self, footprints: Footprints, sample: Sample) -> None:
        self.footprints = footprints
        self.sample = sample
        self.order = Order(footprints, sample, by_size=True)
        self.costs: Floats = np.zeros(footprints.rows.size)
        self._counts = np.zeros(sample.n_terms + 1, np.int64)

    def weighed(self, part: Set) -> Weighed:
        """The set with its box and cost; its members' costs are noted."""
        members = self.order.of(part)
        box = enclose(self.footprints, members)
        layout = self.sample.layout
        return Weighed(-weigh_in_box(self.footprints, members, layout, box, self._counts, UNITS, self.costs), part, box)

    def groups(self, part: Set) -> list[Set]:
        """The set cut into groups of like cost.

        Paper: [DKMSKS] section 4.2, HYBRID-PARTITION.
        """
        self.weighed(part)
        return self.order.regroup(
            part, assign_heaviest_first(self.costs[self.order.of(part)], np.zeros(_GROUPS)), _GROUPS
        )

    def parts(self, part: Set, gamma2: int) -> list[Weighed]:
        """The better of the two cuts.

        Paper: [DKMSKS] algorithm 2, lines 5 to 17.
        Departs: a set that is all in one place is cut by cost, however large it is.
        """
        quarters = [self.weighed(quarter) for quarter in self.order.quarters(part)]
        if len(quarters) > 1 and part.after - part.first > gamma2:
            return quarters
        before = self.order.of(part).copy(), self.order.codes[part.first : part.after].copy()
        groups = [self.weighed(group) for group in self.groups(part)]
        if len(quarters) == 1 or sum(-one.minus_cost for one in quarters) >= sum(-one.minus_cost for one in groups):
            return groups
        self.order.members[part.first : part.after], self.order.codes[part.first : part.after] = before
        return quarters

    def split(self, n_sets: int, gamma2: int) -> list[Weighed]:
        """At least `n_sets` sets, unless every subscription is one; by falling cost.

        Paper: [DKMSKS] algorithm 2.
        """
        single: list[Weighed] = []
        waiting = [self.weighed(part) for part in self.order.sets]
        heapq.heapify(waiting)
        while waiting and len(waiting) + len(single) < n_sets:
            front = heapq.heappop(waiting)
            if front.set.after - front.set.first == 1:
                single.append(front)
            else:
                for part in self.parts(front.set, gamma2):
                    heapq.heappush(waiting, part)
        return sorted(single + waiting)

    def commonest_words(self) -> Ints:
        """Of each subscription the word that most messages hold; -1 for those without words."""
        footprints = self.footprints
        holding = np.append(self.sample.holding, 0)[footprints.words]
        n_words = np.diff(footprints.word_start)
        owner = np.repeat(np.arange(n_words.size), n_words)
        words = np.append(footprints.words[np.lexsort((holding, owner))], -1)  # of each owner the commonest last
        last: Ints = words[np.where(n_words > 0, footprints.word_start[1:] - 1, -1)]
        return last

    def assign(self, sets: list[Weighed], n_shards: int, parts: Floats | None) -> tuple[Ints, Floats]:
        """The shard of every subscription and the load of every shard, by the parts of costs or the costs of sets.

        Paper: [DKMSKS] algorithm 3.
        Departs: parts of costs, what is looked at and what is checked, are evened out each. In a set, those who share
        their commonest word come one after another: a message that holds it then finds as many of them in every shard.
        """
        rank = np.empty(self.costs.size, np.int64)
        for number, one in enumerate(sets):
            rank[self.order.of(one.set)] = number
        shards = np.empty(rank.size, np.int32)
        if parts is not None:
            sums = np.zeros((n_shards, parts.shape[1]))
            order = np.lexsort((-parts.sum(axis=1), self.commonest_words(), rank))
            shards[order] = assign_parts(parts[order], sums)
            return shards, sums.sum(axis=1)
        for one in sets:
            self.weighed(one.set)
        loads = np.zeros(n_shards)
        order = np.lexsort((-self.costs, rank))
        shards[order] = assign_in_turn(self.costs[order], loads)
        return shards, loads


@kernel
def overlapping_most(boxes: Any, levels: Any, set_boxes: Any, set_levels: Any, extent: Any, best: Any) -> None:
    """For each box the set of its size whose box it overlaps most, of equal ones the smallest; -1 for none.

    Paper: [DKMSKS] section 4.4, equation 7.
    Departs: sets that a box lies in whole all overlap it alike; the smallest of them says most about it.
    """
    margin_x, margin_y = _LEAST_WIDTH * (extent.x1 - extent.x0), _LEAST_WIDTH * (extent.y1 - extent.y0)
    for i in range(levels.size):
        x0, y0 = max(boxes[i, 0], extent.x0) - margin_x, max(boxes[i, 1], extent.y0) - margin_y
        x1, y1 = min(boxes[i, 2], extent.x1) + margin_x, min(boxes[i, 3], extent.y1) + margin_y
        best[i], most, least = -1, 0.0, 0.0
        for j in range(set_levels.size):
            if set_levels[j] != levels[i]:
                continue
            width = min(x1, set_boxes[j, 2] + margin_x) - max(x0, set_boxes[j, 0] - margin_x)
            height = min(y1, set_boxes[j, 3] + margin_y) - max(y0, set_boxes[j, 1] - margin_y)
            if width <= 0.0 or height <= 0.0:
                continue
            area = (set_boxes[j, 2] - set_boxes[j, 0]) * (set_boxes[j, 3] - set_boxes[j, 1])
            overlap = width * height
            if overlap > most or (overlap == most and area < least):
                best[i], most, least = j, overlap, area


def set_costs(footprints: Footprints, sample: Sample, set_boxes: Floats, set_levels: Ints) -> Floats:
    """Cost of new subscriptions, each as if it were in the set that it overlaps most, or by itself if there is none.

    Paper: [DKMSKS] section 4.4.
    """
    best = np.empty(footprints.rows.size, np.int32)
    bounds = np.array(sample.space.bounds)
    ends = np.vstack([bounds, np.where(np.isfinite(set_boxes), set_boxes, bounds)])
    low, high = ends.min(0)[:2], ends.max(0)[2:]
    within = np.clip(set_boxes, np.tile(low, 2), np.tile(high, 2))
    overlapping_most(
        footprints.boxes, footprints.levels, within, set_levels, Rectangle(*low.tolist(), *high.tolist()), best
    )
    costs, counts = np.zeros(best.size), np.zeros(sample.n_terms + 1, np.int64)
    order = np.argsort(best, kind="stable")
    for members in np.split(order, np.flatnonzero(np.diff(best[order])) + 1):
        if members.size and best[members[0]] >= 0:
            box = Rectangle(*set_boxes[best[members[0]]].tolist())
            weigh_in_box(footprints, members, sample.layout, box, counts, UNITS, costs)
        else:
            for member in members:
                box = Rectangle(*footprints.boxes[member].tolist())
                weigh_in_box(footprints, np.array([member]), sample.layout, box, counts, UNITS, costs)
    return costs
