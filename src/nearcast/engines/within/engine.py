"""The engine: `WithinTree` keeps `Within` subscriptions in an AP-Tree and matches arrivals against it."""

from __future__ import annotations

import numpy as np

from nearcast.columns.arena import Array, Floats, Ints, State, with_room
from nearcast.columns.subscriptions import WithinTable
from nearcast.engines.contract import NO_CHANGES, Changes, Stats, Surroundings
from nearcast.engines.search import LiveSearch, matching_within
from nearcast.engines.within.check import check_tree
from nearcast.engines.within.match import (
    CANDIDATES,
    MATCHED,
    N_COUNTERS,
    TOUCHED,
    VERIFIED,
    VISITED_LEAVES,
    VISITED_NODES,
    Match,
    match_many,
)
from nearcast.engines.within.settings import Settings
from nearcast.engines.within.shape import shape
from nearcast.engines.within.tree import Tree
from nearcast.window.window import Steps

_GROWING = ("nodes", "etas", "settled", "leaves", "sure", "found", "events", "slots", "visits")


class WithinTree:
    """`Within` by AP-Tree.

    Parameters
    ----------
    table
        The subscriptions.
    around
        What all engines of a broker share.
    settings
        Parameters of the tree; the paper's by default.
    """

    def __init__(self, table: WithinTable, around: Surroundings, settings: Settings | None = None) -> None:
        self.table = table
        self.around = around
        self.tree = Tree(table, settings or Settings())
        self._search = LiveSearch(matching_within, around)
        self._n_messages = 0
        few = [np.zeros(256, np.int32) for _ in range(6)]
        many = [np.zeros(4096, np.int32) for _ in range(3)]
        longs = [np.zeros(1, np.int64), np.zeros(N_COUNTERS, np.int64)]
        self._room = Match._make([*few, np.zeros(4096, np.int64), np.zeros(0), np.zeros(0, np.int64), *many, *longs])

    def insert(self, slots: Ints) -> None:
        tree, since = self.tree, self.around.live.last
        tree.order.know(self.around.vocabulary.capacity)
        if slots.size > tree.n_entries:
            tree.build(since)
        else:
            tree.insert(slots, since)
            tree.keep(slots.size, since)

    def remove(self, slots: Ints) -> None:
        self.tree.remove(slots, self.around.live.last)

    def publish(self, steps: Steps) -> Changes:
        if not len(self.table) or not steps.arrivals.size:
            return NO_CHANGES
        live, vocabulary, tree = self.around.live, self.around.vocabulary, self.tree
        tree.order.know(vocabulary.capacity)
        room = self._ready(steps)
        found: list[tuple[Ints, Ints]] = []
        event = 0
        while True:
            event, n = match_many(
                tree.layout, tree.order.ranks, steps, event, live.table.layout, self.table.layout, self._where,
                vocabulary.idf, room,
            )  # fmt: skip
            found.append((room.events[:n].copy(), room.slots[:n].copy()))
            if event == steps.arrivals.size:
                break
            grown = {name: with_room(getattr(room, name), 2 * getattr(room, name).size) for name in _GROWING}
            room = self._room = room._replace(**grown)
        self._n_messages += int((steps.arrivals >= 0).sum())
        tree.recent.take(live.table.layout, steps.arrivals)
        tree.keep(steps.arrivals.size, live.last)
        events, slots = found[0] if len(found) == 1 else (np.concatenate(parts) for parts in zip(*found, strict=True))
        return Changes(
            events, slots, steps.arrivals[events], np.ones(events.size, np.int32), np.full(events.size, np.nan)
        )

    def _ready(self, steps: Steps) -> Match:
        """Room for the words, subscriptions and events of these steps."""
        room, messages = self._room, self.around.live.table.layout.rows
        self._room = room._replace(
            words=with_room(room.words, int(messages["n_terms"][steps.arrivals].max())),
            dense=self._search.dense(),
            stamps=with_room(room.stamps, self.table.slots.capacity),
            visit_start=with_room(room.visit_start, steps.arrivals.size + 1),
        )
        return self._room

    @property
    def _where(self) -> tuple[int, float]:
        return self.around.space.metric_code, self.around.space.max_distance

    def fill(self, slots: Ints) -> Changes:
        return self._search.fill(self.table.layout, slots)

    def moved(self, slots: Ints, before: Array) -> Changes:
        since = self.around.live.last
        self.tree.refile(slots, before, since)
        self.tree.keep(slots.size, since)
        return self._search.moved(self.table.layout, slots, before)

    def reweighed(self) -> None:
        """Weights play no part here."""

    def find(self, slot: int) -> tuple[Ints, Floats]:
        return self._search.find(self.table.layout, slot)

    def check(self) -> None:
        self._search.check()
        check_tree(self.tree)

    def stats(self) -> Stats:
        counters, n, tree = self._room.counters, max(1, self._n_messages), self.tree
        counts = {
            "nodes": VISITED_NODES, "leaves": VISITED_LEAVES, "touched": TOUCHED, "candidates": CANDIDATES,
            "verified": VERIFIED, "matched": MATCHED,
        }  # fmt: skip
        return {
            "engine": "ap-tree",
            "messages": self._n_messages,
            **{name: int(counters[at]) for name, at in counts.items()},
            "per message": {name: float(counters[at] / n) for name, at in counts.items()},
            "entries": tree.n_entries,
            "splits": tree.n_splits,
            "merges": tree.n_merges,
            "rebuilds": tree.n_rebuilds,
            "tree": shape(tree.layout),
            "bytes": tree.nbytes + sum(array.nbytes for array in self._room),
        }

    def state(self) -> State:
        return {"tree": self.tree.state(), "messages": self._n_messages, "counters": self._room.counters}

    def load(self, state: State) -> None:
        self.tree.load(state["tree"])
        self._n_messages = int(state["messages"])
        self._room = self._room._replace(counters=state["counters"].copy())
