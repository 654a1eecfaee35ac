"""The engine: `WithinTree` keeps `Within` subscriptions in an AP-Tree and matches arrivals against it."""

from __future__ import annotations

import numpy as np

from nearcast.columns.arena import Array, Floats, Ints, State, with_room
from nearcast.columns.subscriptions import WithinTable
from nearcast.engines.contract import NO_CHANGES, Changes, Stats, Surroundings
from nearcast.engines.within.check import check_lists, check_tree
from nearcast.engines.within.match import (
    CANDIDATES,
    MATCHED,
    TOUCHED,
    VERIFIED,
    VISITED_LEAVES,
    VISITED_NODES,
    Match,
    match_many,
    new_match,
)
from nearcast.engines.within.settings import Settings
from nearcast.engines.within.shape import shape
from nearcast.engines.within.telling import Telling
from nearcast.engines.within.tree import Tree
from nearcast.window.window import Steps

_BY_WORD = ("words", "firsts", "nodes", "etas", "settled", "leaves", "sure")
_GROWING = ("nodes", "etas", "settled", "leaves", "sure", "doubts", "events", "slots", "visits")


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
        self.tree = Tree(table, around, settings or Settings())
        self._telling = Telling(self.tree)
        self._n_messages = 0
        self._room = new_match(4096 if self.tree.lists is not None else 0)

    def insert(self, slots: Ints) -> None:
        tree, since = self.tree, self.tree.since
        tree.order.know(self.around.vocabulary.capacity)
        if slots.size > tree.n_entries:
            tree.build(since)
        else:
            tree.insert(slots, since)
            tree.keep(slots.size, since)

    def remove(self, slots: Ints) -> None:
        self.tree.remove(slots, self.tree.since)

    def publish(self, steps: Steps) -> Changes:
        if self.tree.lists is not None:
            self.tree.lists.passed(steps)
        if not len(self.table) or not steps.arrivals.size:
            return NO_CHANGES
        live, vocabulary, tree = self.around.live, self.around.vocabulary, self.tree
        tree.order.know(vocabulary.capacity)
        room = self._ready(steps)
        found: list[tuple[Ints, Ints]] = []
        event = 0
        while True:
            first = event
            event, n = match_many(
                tree.layout, tree.order.ranks, steps, event, live.table.layout, self.table.layout, self._where,
                vocabulary.idf, room,
            )  # fmt: skip
            found.append((room.events[:n].copy(), room.slots[:n].copy()))
            if tree.lists is not None:
                tree.lists.add(tree.arrays, steps, first, event, room)
            if event == steps.arrivals.size:
                break
            grown = {name: with_room(getattr(room, name), 2 * getattr(room, name).size) for name in _GROWING}
            room = self._room = room._replace(**grown)
        tree.recent.take(live.table.layout, steps.arrivals)
        n_arrived = int((steps.arrivals >= 0).sum())
        self._n_messages += n_arrived
        tree.velocities.passed(n_arrived, 0, len(self.table))
        tree.keep(steps.arrivals.size, tree.since)
        events, slots = found[0] if len(found) == 1 else (np.concatenate(parts) for parts in zip(*found, strict=True))
        return Changes(
            events, slots, steps.arrivals[events], np.ones(events.size, np.int32), np.full(events.size, np.nan)
        )

    def _ready(self, steps: Steps) -> Match:
        """Room for the words, subscriptions and events of these steps."""
        room, messages = self._room, self.around.live.table.layout.rows
        n_words = int(messages["n_terms"][steps.arrivals[steps.arrivals >= 0]].max(initial=0)) + 2
        self._room = room._replace(
            **{name: with_room(getattr(room, name), n_words) for name in _BY_WORD},
            leads=with_room(room.leads, 2 * self.tree.order.ranks.size),
            dense=self._telling.search.dense(),
            stamps=with_room(room.stamps, self.table.slots.capacity),
            visit_start=with_room(room.visit_start, steps.arrivals.size + 1),
        )
        return self._room

    @property
    def _where(self) -> tuple[int, float]:
        return self.around.space.metric_code, self.around.space.max_distance

    def fill(self, slots: Ints) -> Changes:
        return self._telling.fill(slots)

    def moved(self, slots: Ints, before: Array) -> Changes:
        tree, rows = self.tree, self.table.rows
        tree.velocities.moved(slots, before, rows[slots], self.table.slots.capacity)
        tree.velocities.passed(0, slots.size, len(self.table))
        changes = self._telling.moved(slots, before)
        tree.moved(slots, tree.since)
        tree.keep(slots.size, tree.since)
        return changes

    def reweighed(self) -> None:
        """Weights play no part here."""

    def find(self, slot: int) -> tuple[Ints, Floats]:
        return self._telling.search.find(self.table.layout, slot)

    def check(self) -> None:
        self._telling.check()
        check_tree(self.tree)
        check_lists(self.tree)

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
            "following": self._telling.work,
            "tree": shape(tree.layout),
            "bytes": tree.nbytes + self._telling.nbytes + sum(array.nbytes for array in self._room),
        }

    def state(self) -> State:
        return {"tree": self.tree.state(), "messages": self._n_messages, "counters": self._room.counters}

    def load(self, state: State) -> None:
        self.tree.load(state["tree"])
        self._n_messages = int(state["messages"])
        self._room = self._room._replace(counters=state["counters"].copy())
