"""Finds the live messages that matter to subscriptions that are new or move: in lists of leaves, or in the index.

Paper: [APTREE] section 4.2.5.
"""

from __future__ import annotations

import numpy as np

from nearcast.columns.arena import Array, Ints, with_room
from nearcast.engines.contract import NO_CHANGES, Changes, together
from nearcast.engines.live_search import LiveSearch, matching_within
from nearcast.engines.within.ap_tree import ApTree
from nearcast.engines.within.moving.leaf_messages import LiveBounds
from nearcast.engines.within.moving.refile import MovedEntries, refile_entries
from nearcast.engines.within.moving.region_diff import (
    N_CHANGES,
    N_COUNTS,
    NEED_CHANGES,
    NEW,
    OLD,
    SCANNED,
    STAMP,
    VERIFIED,
    DiffInput,
    DiffRoom,
)

_GROWING = ("found", "crossing", "slots", "messages", "signs")


class MoveAnswers:
    """Answers `fill` and `move` for the subscriptions of a tree."""

    def __init__(self, tree: ApTree) -> None:
        self.tree = tree
        self.search = LiveSearch(matching_within, tree.context)
        self.n_asked = self.n_by_index = 0  # subscriptions, and those of them that lists did not suffice for
        out = [np.zeros(4096, np.int32) for _ in range(3)]
        longs = [np.zeros(0, np.int64), np.zeros(4096, np.int64), np.zeros(4096, np.int64)]
        bounds, counts = np.zeros(8, np.float32), np.zeros(N_COUNTS, np.int64)
        self._room = DiffRoom._make([np.zeros(0), *longs, np.zeros(0, np.bool_), *out, bounds, counts])
        self._room.counts[STAMP] = 1

    def fill(self, slots: Ints) -> Changes:
        """Live messages that match these subscriptions."""
        layout = self.tree.table.layout
        if self.tree.lists is None or not slots.size:
            return self.search.fill(layout, slots)
        changes, incomplete = self._ask_lists(NEW, slots, layout.rows[slots])
        return together([changes, self.search.fill(layout, incomplete)])

    def move(self, slots: Ints, before: Array) -> Changes:
        """Refile subscriptions whose rows were `before`; what changes for them: nothing where no message lives."""
        layout = self.tree.table.layout
        changes, incomplete = self.refile(slots, before)
        if not len(self.tree.context.live.table):
            return NO_CHANGES
        if self.tree.lists is None:
            return self.search.moved(layout, slots, before)
        chosen = before[self._room.incomplete[: slots.size]]
        return together([changes, self.search.moved(layout, incomplete, chosen)])

    def refile(self, slots: Ints, before: Array) -> tuple[Changes, Ints]:
        """Refile subscriptions whose rows were `before`; the changes by lists, and whom these are incomplete for."""
        return self._ask_lists(OLD | NEW, slots, before)

    def _ask_lists(self, sides: int, slots: Ints, before: Array) -> tuple[Changes, Ints]:
        tree, room = self.tree, self._ready(slots.size)
        if tree.lists is not None:
            tree.lists.finish_catch_up(tree.arrays, tree.order, slots.size)
        rows = tree.table.layout.rows[slots]
        olds = tree.order.entries(tree.table, before, np.arange(slots.size, dtype=np.int32))
        moved = MovedEntries(olds, tree.order.entries(tree.table, rows, slots))
        tree.note_pairs(moved.news)
        limits, diff = tree.limits, self._diff_input(sides, before if sides & OLD else before[:0])
        found, done = [NO_CHANGES], 0
        while done < moved.news.size:
            done, code = refile_entries(tree.layout, tree.order.ranks, moved, done, limits, diff, tree.work, room)
            found.append(self._take_changes())
            if code == NEED_CHANGES:
                grown = {name: with_room(getattr(room, name), 2 * getattr(room, name).size) for name in _GROWING}
                room = self._room = room._replace(**grown)
            else:
                tree.make_room(code)
        tree.apply_deferred(moved.news)
        incomplete = slots[room.incomplete[: slots.size]]
        room.counts[STAMP] += slots.size
        self.n_asked += slots.size
        self.n_by_index += incomplete.size
        if tree.lists is not None:
            tree.lists.count_misses(incomplete.size)
        changes = together(found)
        return changes.take(~np.isin(changes.slots, incomplete)) if incomplete.size else changes, incomplete

    def _ready(self, n: int) -> DiffRoom:
        """Room for a batch of `n` subscriptions."""
        context, room = self.tree.context, self._room
        self._room = room._replace(
            dense=self.search.dense(),
            stamps=with_room(room.stamps, context.live.table.layout.rows.size),
            incomplete=with_room(room.incomplete, n),
        )
        self._room.incomplete[:n] = False
        return self._room

    def _diff_input(self, sides: int, before: Array) -> DiffInput:
        context, lists, layout = self.tree.context, self.tree.lists, self.tree.table.layout
        live = LiveBounds(context.live.last, context.live.clock, context.live.limits.newest)
        return DiffInput(
            context.live.table.layout, layout, layout._replace(rows=before), context.space.metric_code, live,
            lists.oldest if lists is not None else 0, sides, lists is not None, context.live.table.pattern_input,
        )  # fmt: skip

    def _take_changes(self) -> Changes:
        room = self._room
        n = int(room.counts[N_CHANGES])
        room.counts[N_CHANGES] = 0
        slots, messages, signs = room.slots[:n].copy(), room.messages[:n].copy(), room.signs[:n].copy()
        return Changes(np.zeros(n, np.int32), slots, messages, signs, np.full(n, np.nan))

    @property
    def work(self) -> dict[str, int]:
        """Counts of work."""
        counts = self._room.counts
        return {
            "asked": self.n_asked, "asked_index": self.n_by_index, "scanned": int(counts[SCANNED]),
            "compared": int(counts[VERIFIED]),
        }  # fmt: skip

    @property
    def nbytes(self) -> int:
        return sum(array.nbytes for array in self._room) - self._room.dense.nbytes  # which matching uses too

    def check(self) -> None:
        self.search.check()
