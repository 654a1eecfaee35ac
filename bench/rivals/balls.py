"""Indexes for `Within` as filters of `Nearest`: the box around each search range is filed like a region.

They take the place of the AOIQ-tree in `NearestEngine`, so that everything else is the same for all.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from nearcast.columns.arena import Array, Floats, Ints, Longs, State, ranges, with_room
from nearcast.columns.message_table import MessageLayout, MessageTable
from nearcast.columns.regions import box_rows
from nearcast.columns.subscription_tables import PointLayout, PointTable, WithinRows, WithinTable
from nearcast.engines.contract import EngineContext, Stats
from nearcast.engines.nearest.aoiq.layout import EventRange
from nearcast.engines.nearest.engine import NearestEngine
from nearcast.engines.nearest.search_range import draw_box, level_of
from nearcast.engines.nearest.settings import NearestSettings
from nearcast.engines.within import ApTreeSettings, WithinApTree
from nearcast.jit import kernel
from nearcast.window.live import Steps

_HEIGHT = 10  # a box is filed again when it fits into smaller cells than before, down to this level
_FAR = 1e30


@kernel
def draw_many(filed, subscriptions, buffers, slots, space, boxes):
    """Draw the box around each ball and write it as that of a region."""
    metric, bounds = space.metric, space.bounds
    for i in range(slots.size):
        row, own = subscriptions.rows[slots[i]], filed[slots[i]]
        draw_box(own, metric, row.x, row.y, buffers[slots[i]].floor)
        own.level = level_of(own, metric, row.x, row.y, bounds, _HEIGHT)
        boxes[i, 0], boxes[i, 1] = max(own.x0, -_FAR), max(own.y0, -_FAR)
        boxes[i, 2], boxes[i, 3] = min(own.x1, _FAR), min(own.y1, _FAR)


class BallFilter:
    """Search ranges in an index for `Within`; it has the methods of `AoiqTree`."""

    height = _HEIGHT

    def __init__(self, context: EngineContext, make: Callable[[WithinTable, EngineContext], Any]) -> None:
        self._context = context
        self._make = make
        self.told: MessageTable | None = None  # where a message is that is only asked about
        self._clear()

    def _clear(self) -> None:
        self._table = WithinTable(self._context.vocabulary)
        self._engine = self._make(self._table, self._context)
        self._regions = np.zeros(0, dtype=np.int32)  # by slot of a subscription: that of its region

    def ensure_terms(self, n_terms: int) -> None:
        """Nothing is kept by term here."""

    @property
    def n_filed(self) -> int:
        """Subscriptions."""
        return len(self._table)

    def build(self, filed: Array, subscriptions: PointLayout, buffers: Array, slots: Ints) -> None:
        """File all subscriptions, which are these, again."""
        self._clear()
        self.file(filed, subscriptions, buffers, slots, slots.size)

    def file(self, filed: Array, subscriptions: PointLayout, buffers: Array, slots: Ints, n_new: int) -> None:
        """File these subscriptions by the balls that they have now: all of them new, or none."""
        boxes: Floats = np.empty((slots.size, 4))
        draw_many(filed, subscriptions, buffers, slots, self._context.space.kernel_input, boxes)
        if not n_new:
            with self._table.moving(self._regions[slots], box_rows(boxes)) as before:
                self._follow(self._regions[slots], before)
            return
        rows = subscriptions.rows[slots]
        sizes = rows["n_terms"].astype(np.int64) + 2
        starts = np.cumsum(sizes) - sizes
        clauses = np.zeros(int(sizes.sum()), dtype=np.int32)
        clauses[starts] = rows["n_terms"]
        clauses[ranges(starts + 2, sizes - 2)] = subscriptions.terms[ranges(rows["term_start"], rows["n_terms"])]
        given = WithinRows(np.arange(slots.size), box_rows(boxes), rows["expires"], np.ones(slots.size, dtype=bool))
        regions = self._table.insert(given, clauses, sizes, slots, 0)
        self._regions = with_room(self._regions, int(slots.max(initial=0)) + 1)
        self._regions[slots] = regions
        self._engine.insert(regions)

    def _follow(self, regions: Ints, before: Array) -> None:
        """The boxes of these have changed; nothing is emitted, only the index follows."""
        if isinstance(self._engine, WithinApTree):
            tree = self._engine.tree
            self._engine.answers.refile(regions, before)
            tree.after_move(regions, before)
            tree.maintain(regions.size)
        else:
            self._engine.refile(regions, before)

    def remove(self, filed: Array, slots: Ints) -> None:
        """These subscriptions end."""
        if slots.size:
            self._engine.remove(self._regions[slots])
            self._table.remove(self._regions[slots])

    def find(
        self, filed: Array, steps: Steps, events: EventRange, messages: MessageLayout, pairs: Longs, n_pairs: int
    ) -> tuple[Longs, int]:
        """Candidates for the arrivals of these events, after the `n_pairs` that are there."""
        first, end = events
        part = Steps(
            steps.rows[first:end], steps.arrivals[first:end], steps.lasts[first:end], steps.clocks[first:end],
            np.zeros(end - first + 1, np.int64), steps.expired[:0], steps.withdrawn[:0],
        )  # fmt: skip
        if self.told is None:
            found = self._engine.publish(part)
            regions, at = found.slots, found.events
        else:
            regions, at = self._engine.who_wants(self.told, part)[0], np.zeros(1, np.int32)
        slots = self._table.numbers[regions].astype(np.int64)
        n = n_pairs + slots.size
        pairs = with_room(pairs, n)
        pairs[n_pairs:n] = (at.astype(np.int64) + first) << 32 | slots
        return pairs, n

    def check(self, filed: Array, slots: Ints) -> None:
        """Assert that exactly these are filed."""
        assert np.array_equal(np.sort(self._table.numbers[self._table.used_slots]), np.sort(slots))
        self._engine.check()

    def stats(self) -> Stats:
        work = self._engine.stats()
        own = {name: work[name] for name in ("touched", "candidates") if name in work}
        return {**own, "bytes": work["bytes"] + self._table.nbytes + self._regions.nbytes}

    def state(self) -> State:
        return {}

    def load(self, state: State) -> None:
        """The engine files all again."""


def ap_tree(table: WithinTable, context: EngineContext) -> WithinApTree:
    """AP-Tree without lists of messages, which nobody asks for here."""
    return WithinApTree(table, context, ApTreeSettings(messages="index"))


class BallEngine(NearestEngine):
    """`Nearest` with another index for all words."""

    def __init__(
        self,
        make: Callable[[WithinTable, EngineContext], Any],
        table: PointTable,
        context: EngineContext,
        settings: NearestSettings | None = None,
    ) -> None:
        self._make = make
        super().__init__(table, context, settings)

    def start(self) -> None:
        super().start()
        self.all_words: BallFilter = BallFilter(self.context, self._make)  # type: ignore[assignment]

    def who_wants(self, messages: MessageTable, steps: Steps) -> tuple[Ints, Floats]:
        self.all_words.told = messages
        try:
            return super().who_wants(messages, steps)
        finally:
            self.all_words.told = None
