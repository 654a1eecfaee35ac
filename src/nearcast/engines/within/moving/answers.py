"""What live messages mean to subscriptions that come or move: from the lists of leaves, else from the message index."""

from __future__ import annotations

import numpy as np

from nearcast.columns.arena import Array, Ints, with_room
from nearcast.engines.contract import NO_CHANGES, Changes, together
from nearcast.engines.live_search import LiveSearch, matching_within
from nearcast.engines.within.ap_tree import ApTree
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
    DiffInput,
    DiffRoom,
)

_OUT = ("found", "slots", "messages", "signs")


class MoveAnswers:
    """Answers `fill` and `moved` for the subscriptions of a tree."""

    def __init__(self, tree: ApTree) -> None:
        self.tree = tree
        self.search = LiveSearch(matching_within, tree.context)
        self.n_asked = self.n_fell = 0  # subscriptions, and those of them that lists did not suffice for
        out = [np.zeros(4096, np.int32) for _ in range(3)]
        longs = [np.zeros(0, np.int64), np.zeros(4096, np.int64)]
        bounds, counts = np.zeros(8, np.float32), np.zeros(N_COUNTS, np.int64)
        self._room = DiffRoom._make([np.zeros(0), *longs, np.zeros(0, np.bool_), *out, bounds, counts])
        self._room.counts[STAMP] = 1

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
        chosen = before[self._room.fell[: slots.size]]
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
                told = self._room = told._replace(**grown)
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

    def _ready(self, n: int) -> DiffRoom:
        """Room for a batch of so many subscriptions, all told apart from those before."""
        context, told = self.tree.context, self._room
        self._room = told._replace(
            dense=self.search.dense(),
            stamps=with_room(told.stamps, context.live.table.layout.rows.size),
            fell=with_room(told.fell, n),
        )
        self._room.fell[:n] = False
        return self._room

    def _look(self, sides: int, before: Array) -> DiffInput:
        context, lists, layout = self.tree.context, self.tree.lists, self.tree.table.layout
        return DiffInput(
            context.live.table.layout, layout, layout._replace(rows=before),
            context.space.kernel_input,
            (context.live.last, context.live.clock, context.live.limits.newest),
            lists.oldest if lists is not None else 0, sides, lists is not None,
        )  # fmt: skip

    def _said(self) -> Changes:
        told = self._room
        n = int(told.counts[N_TOLD])
        told.counts[N_TOLD] = 0
        slots, messages, signs = told.slots[:n].copy(), told.messages[:n].copy(), told.signs[:n].copy()
        return Changes(np.zeros(n, np.int32), slots, messages, signs, np.full(n, np.nan))

    @property
    def work(self) -> dict[str, int]:
        """Counts of work."""
        counts = self._room.counts
        return {
            "asked": self.n_asked, "asked_index": self.n_fell, "scanned": int(counts[SCANNED]),
            "compared": int(counts[VERIFIED]),
        }  # fmt: skip

    @property
    def nbytes(self) -> int:
        return sum(array.nbytes for array in self._room) - self._room.dense.nbytes  # which matching uses too

    def check(self) -> None:
        self.search.check()
