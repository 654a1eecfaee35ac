"""The worker index of space-oriented partition: sets of subscriptions, each with a box and an inverted file."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from bench.rivals.words_only import WordsOnly, WordsOnlyEngine
from nearcast.columns.arena import Array, Ints, Longs, State, with_room
from nearcast.columns.message_table import MessageLayout
from nearcast.columns.subscription_tables import PointLayout
from nearcast.engines.contract import Stats
from nearcast.engines.nearest.grid import GridPyramid, GridSettings
from nearcast.space.distance import wrap
from nearcast.space.regions import circle_box
from nearcast.space.space import Space
from nearcast.window.live import Steps

_EVERYWHERE = (-math.inf, -math.inf, math.inf, math.inf)


class RegionLists(GridPyramid):
    """A set is looked into when a message lies in the box around all balls that its members had when they were filed.

    `sets` says in which set the subscription of each slot is, and grows with the slots; beyond its end that is set 0.

    Paper: [DKMSKS] section 3.2, the worker of space-oriented partition.
    """

    def __init__(self, space: Space, sets: Ints) -> None:
        super().__init__(space, GridSettings(finest=0))
        self._space = space
        self.sets = sets
        self._parts: dict[int, tuple[list[float], WordsOnly]] = {}

    def file(
        self, filed: Array, subscriptions: PointLayout, buffers: Array, slots: Ints, n_all: int, n_terms: int
    ) -> None:
        for number, own in self._by_set(slots):
            box, lists = self._parts.setdefault(
                number, ([math.inf, math.inf, -math.inf, -math.inf], WordsOnly(self._space))
            )
            for row, floor in zip(subscriptions.rows[own], buffers["floor"][own].tolist(), strict=True):
                ball = _EVERYWHERE
                if floor != -math.inf:
                    ball = circle_box(self._space.metric_code, float(row["x"]), float(row["y"]), -floor)
                box[:2], box[2:] = map(min, box[:2], ball[:2]), map(max, box[2:], ball[2:])
            lists.file(filed, subscriptions, buffers, own, n_all, n_terms)

    def remove(self, filed: Array, slots: Ints) -> None:
        for number, own in self._by_set(slots):
            self._parts[number][1].remove(filed, own)

    def _by_set(self, slots: Ints) -> Iterator[tuple[int, Ints]]:
        self.sets = with_room(self.sets, int(slots.max(initial=-1)) + 1)
        for number in np.unique(self.sets[slots]).tolist():
            yield number, slots[self.sets[slots] == number]

    def find(
        self, filed: Array, steps: Steps, first: int, end: int, messages: MessageLayout, pairs: Longs
    ) -> tuple[int, int]:
        rows = messages.rows[steps.arrivals]
        xs, ys = rows["x"], rows["y"]
        if self._space.metric == "haversine" and not ((xs >= -180.0) & (xs < 180.0)).all():
            xs = np.array([wrap(x) for x in xs.tolist()])
        n = 0
        for (x0, y0, x1, y1), lists in self._parts.values():
            inside = (steps.arrivals >= 0) & (x0 <= xs) & (xs <= x1) & (y0 <= ys) & (ys <= y1)
            if inside[first:end].any():
                part = steps._replace(arrivals=np.where(inside, steps.arrivals, -1).astype(np.int32))
                done, n_more = lists.find(filed, part, first, end, messages, pairs[n:])
                if done < end:
                    return first, 0  # there must be room for all
                n += n_more
        return end, n

    def check(self, filed: Array, slots: Ints) -> None:
        for number, own in self._by_set(slots):
            self._parts[number][1].check(filed, own)

    def stats(self) -> Stats:
        parts = [lists.stats() for _, lists in self._parts.values()] or [super().stats()]
        return {name: sum(part[name] for part in parts) for name in parts[0]}

    def state(self) -> State:
        return {}

    def load(self, state: State) -> None:
        """All is filed again after this."""


class RegionListsEngine(WordsOnlyEngine):
    """`Nearest` with this index for any word; all are in one set until told otherwise."""

    _sets: Ints = np.zeros(0, dtype=np.int32)

    def start(self) -> None:
        super().start()
        self.any_word: RegionLists = RegionLists(self.context.space, self._sets)

    def put_in_sets(self, sets: Ints) -> None:
        """From now on subscriptions are in these sets, by slot; those that are filed stay where they are."""
        self._sets = self.any_word.sets = sets
