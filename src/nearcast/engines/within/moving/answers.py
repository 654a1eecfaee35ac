"""What live messages mean to subscriptions that come or move: from the lists of leaves, else from the message index."""

from __future__ import annotations

import numpy as np

from nearcast.columns.arena import Array, Ints, with_room
from nearcast.engines.contract import NO_CHANGES, Changes, together
from nearcast.engines.live_search import LiveSearch, matching_within
from nearcast.engines.within.ap_tree import Tree
from nearcast.engines.within.moving.refile import follow_entries
from nearcast.engines.within.moving.region_diff import (
    N_COUNTS,
    N_TOLD,
    NEED_TOLD,
    NEW,
    OLD,
    SCANNED,
    STAMP,
    VERIFIED,
    Look,
    Told,
)

_OUT = ("found", "slots", "messages", "signs")


class Telling:
    """Answers `fill` and `moved` for the subscriptions of a tree."""

    def __init__(self, tree: Tree) -> None:
        self.tree = tree
        self.search = LiveSearch(matching_within, tree.around)
        self.n_asked = self.n_fell = 0  # subscriptions, and those of them that lists did not suffice for
        out = [np.zeros(4096, np.int32) for _ in range(3)]
        longs = [np.zeros(0, np.int64), np.zeros(4096, np.int64)]
        bounds, counts = np.zeros(8, np.float32), np.zeros(N_COUNTS, np.int64)
        self._told = Told._make([np.zeros(0), *longs, np.zeros(0, np.bool_), *out, bounds, counts])
        self._told.counts[STAMP] = 1

    def fill(self, slots: Ints) -> Changes:
        """Live messages that match these subscriptions."""
        layout = self.tree.table.layout
        if self.tree.lists is None or not slots.size:
            return self.search.fill(layout, slots)
        changes, fell = self._follow(NEW, slots, layout.rows[slots])
        return together([changes, self.search.fill(layout, fell)])

    def moved(self, slots: Ints, before: Array) -> Changes:
        """Refile subscriptions whose rows were `before`, and tell what changes for them."""
        layout = self.tree.table.layout
        changes, fell = self._follow(OLD | NEW, slots, before)
        if self.tree.lists is None:
            return self.search.moved(layout, slots, before)
        chosen = before[self._told.fell[: slots.size]]
        return together([changes, self.search.moved(layout, fell, chosen)])

    def _follow(self, sides: int, slots: Ints, before: Array) -> tuple[Changes, Ints]:
        """What lists say of these subscriptions, and whom they do not suffice for."""
        tree, told = self.tree, self._ready(slots.size)
        if tree.lists is not None:
            tree.lists.hurry(tree.arrays, tree.order, slots.size)
        rows = tree.table.layout.rows[slots]
        olds = tree.order.entries(tree.table, before, np.arange(slots.size, dtype=np.int32))
        news = tree.order.entries(tree.table, rows, slots)
        limits = (tree.settings.leaf, tree.settings.leaf // 2, tree.since)
        look = self._look(sides, before if sides & OLD else before[:0])
        said, done = [NO_CHANGES], 0
        while done < news.size:
            done, code = follow_entries(tree.layout, tree.order.ranks, olds, news, done, limits, look, tree.work, told)
            said.append(self._said())
            if code == NEED_TOLD:
                grown = {name: with_room(getattr(told, name), 2 * getattr(told, name).size) for name in _OUT}
                told = self._told = told._replace(**grown)
            else:
                tree.make_room(code)
        tree.settle(news)
        fell = slots[told.fell[: slots.size]]
        told.counts[STAMP] += slots.size
        self.n_asked += slots.size
        self.n_fell += fell.size
        if tree.lists is not None:
            tree.lists.missed(fell.size)
        changes = together(said)
        return changes.take(~np.isin(changes.slots, fell)) if fell.size else changes, fell

    def _ready(self, n: int) -> Told:
        """Room for a batch of so many subscriptions, all told apart from those before."""
        around, told = self.tree.around, self._told
        self._told = told._replace(
            dense=self.search.dense(),
            stamps=with_room(told.stamps, around.live.table.layout.rows.size),
            fell=with_room(told.fell, n),
        )
        self._told.fell[:n] = False
        return self._told

    def _look(self, sides: int, before: Array) -> Look:
        around, lists, layout = self.tree.around, self.tree.lists, self.tree.table.layout
        return Look(
            around.live.table.layout, layout, layout._replace(rows=before),
            (around.space.metric_code, around.space.max_distance),
            (around.live.last, around.live.clock, around.live.limits.newest), lists.oldest if lists is not None else 0,
            sides, lists is not None,
        )  # fmt: skip

    def _said(self) -> Changes:
        told = self._told
        n = int(told.counts[N_TOLD])
        told.counts[N_TOLD] = 0
        slots, messages, signs = told.slots[:n].copy(), told.messages[:n].copy(), told.signs[:n].copy()
        return Changes(np.zeros(n, np.int32), slots, messages, signs, np.full(n, np.nan))

    @property
    def work(self) -> dict[str, int]:
        """Counts of work."""
        counts = self._told.counts
        return {
            "asked": self.n_asked, "asked_index": self.n_fell, "scanned": int(counts[SCANNED]),
            "compared": int(counts[VERIFIED]),
        }  # fmt: skip

    @property
    def nbytes(self) -> int:
        return sum(array.nbytes for array in self._told) - self._told.dense.nbytes  # which matching uses too

    def check(self) -> None:
        self.search.check()
