"""PS2Stream as a rival: space cut in two again and again, by place or by words, each part given to one shard whole.

After the hybrid partitioning of PS2Stream (Chen et al., ICDE 2017, which DkM-SKS compares with): a part is cut at the
median place, or, where messages and subscriptions have little text in common, by words; its load is the product of its
messages and subscriptions, which tells their number and not their cost. The dearest part is cut until there are some
for every shard; then parts are dealt out by load.
"""

from __future__ import annotations

import heapq

import numpy as np
import pyarrow as pa

from nearcast.columns.arena import Array, Ints
from nearcast.partition.footprint import Footprints, find_footprints
from nearcast.partition.greedy import assign_heaviest_first
from nearcast.partition.partition import Partition
from nearcast.partition.sample import Sample
from nearcast.space.space import Space

_PARTS = 20  # for each shard, as SOP has them
_ALIKE = 0.5  # cosine of words of messages and subscriptions from which on a part is cut by place


class Parts:
    """Messages and subscriptions by number, and how a part of them is cut."""

    def __init__(self, found: Footprints, sample: Sample) -> None:
        self.found, self.sample = found, sample
        with np.errstate(invalid="ignore"):  # endless boxes
            self.places = np.column_stack([found.boxes[:, [0, 2]].mean(1), found.boxes[:, [1, 3]].mean(1)])
        self.places[~np.isfinite(self.places)] = 0.0
        self.spots = np.column_stack([sample.layout.xs, sample.layout.ys])
        self.sizes = np.diff(found.word_start)
        popular = np.append(sample.holding, 0)[found.words]
        owner = np.repeat(np.arange(found.rows.size), self.sizes)
        order = np.lexsort((-popular, owner))
        self.words = found.words[order][found.word_start[:-1]]  # the commonest word of each subscription

    def cosine(self, members: Array, messages: Array) -> float:
        """How alike the words of messages and subscriptions are."""
        layout, n = self.sample.layout, self.sample.n_terms + 1
        said = np.zeros(n)
        lengths = np.diff(layout.term_start)[messages]
        at = np.repeat(layout.term_start[messages] - (np.cumsum(lengths) - lengths), lengths) + np.arange(lengths.sum())
        said += np.bincount(layout.terms[at], minlength=n)
        asked = np.bincount(self.words[members], minlength=n)
        both = float(np.linalg.norm(said) * np.linalg.norm(asked))
        return float(said @ asked) / both if both else 1.0

    def cut(self, members: Array, messages: Array) -> list[tuple[Array, Array]]:
        """Two parts, or one that cannot be cut."""
        if self.cosine(members, messages) >= _ALIKE:
            axis = int(np.ptp(self.places[members], axis=0).argmax())
            border = np.median(self.places[members, axis])
            low, near = self.places[members, axis] < border, self.spots[messages, axis] < border
        else:
            border = np.median(self.words[members])
            low, near = self.words[members] < border, np.ones(messages.size, bool)
        far = ~near if not near.all() else near
        halves = [(members[low], messages[near]), (members[~low], messages[far])]
        return [half for half in halves if half[0].size]


def fit(subscriptions: pa.Table, messages: pa.Table, n_shards: int, space: Space) -> tuple[Partition, Ints]:
    """Split subscriptions; new ones go where there is least to do by their number."""
    sample = Sample(space, messages)
    found = find_footprints(subscriptions, sample)
    parts = Parts(found, sample)
    whole: list[tuple[float, int, Array, Array]] = []
    waiting = [(-float(found.rows.size) * sample.n, 0, np.arange(found.rows.size), np.arange(sample.n))]
    n_made = 0
    while waiting and len(waiting) + len(whole) < _PARTS * n_shards:
        front = heapq.heappop(waiting)
        halves = parts.cut(front[2], front[3]) if front[2].size > 1 else []
        if len(halves) < 2:
            whole.append(front)
            continue
        for members, near in halves:
            n_made += 1
            heapq.heappush(waiting, (-float(members.size) * (1 + near.size), n_made, members, near))
    made = sorted(whole + waiting, key=lambda part: part[:2])
    loads = np.zeros(n_shards)
    takers = assign_heaviest_first(np.array([-part[0] for part in made]), loads)
    shards = np.zeros(subscriptions.num_rows, np.int32)
    for (_, _, members, _), taker in zip(made, takers, strict=True):
        shards[found.rows[members]] = taker
    held = np.bincount(shards, minlength=n_shards).astype(np.float64)
    return Counting(held), shards


class Counting(Partition):
    """New subscriptions go to the shard that holds fewest."""

    def __init__(self, held: np.ndarray) -> None:
        super().__init__(held.size, "count", Sample(Space((0, 0, 1, 1), metric="euclidean")))
        self.loads = held

    def costs(self, subscriptions: pa.Table) -> np.ndarray:
        return np.ones(subscriptions.num_rows)
