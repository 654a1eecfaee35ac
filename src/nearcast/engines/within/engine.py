"""The engine: `WithinApTree` keeps `Within` subscriptions in an AP-Tree and matches arrivals against it."""

from __future__ import annotations

import numpy as np

from nearcast.columns.arena import Array, Floats, Ints, State, with_room
from nearcast.columns.subscription_tables import WithinTable
from nearcast.engines.contract import NO_CHANGES, Changes, EngineContext, Stats
from nearcast.engines.within.ap_tree import ApTree
from nearcast.engines.within.descend import CHUNK, Sent, new_wave, wider, with_terms
from nearcast.engines.within.invariants import check_lists, check_tree
from nearcast.engines.within.match import (
    CANDIDATES,
    ENOUGH,
    MATCHED,
    NEED_FOUND,
    NEED_WAVE,
    TOUCHED,
    VERIFIED,
    VISITED_LEAVES,
    Check,
    Match,
    match_many,
    new_match,
    roomier,
)
from nearcast.engines.within.moving.answers import MoveAnswers
from nearcast.engines.within.settings import ApTreeSettings
from nearcast.engines.within.shape import shape
from nearcast.window.live import Steps


class WithinApTree:
    """`Within` by AP-Tree.

    Parameters
    ----------
    table
        The subscriptions.
    context
        What all engines of a broker share.
    settings
        Parameters of the tree; the paper's by default.
    """

    keeps_results = False

    def __init__(self, table: WithinTable, context: EngineContext, settings: ApTreeSettings | None = None) -> None:
        self.table = table
        self.context = context
        self.settings = settings or ApTreeSettings()
        self.tree = ApTree(table, context, self.settings)
        self._answers = MoveAnswers(self.tree)
        self._n_messages = 0
        self._room = new_match(4096 if self.tree.lists is not None else 0)
        self._wave = new_wave()
        self._signs, self._scores = np.zeros(0, np.int32), np.zeros(0)  # what every arrival says: ``+``, and no score

    def insert(self, slots: Ints) -> None:
        tree, since = self.tree, self.tree.since
        tree.order.ensure_terms(self.context.vocabulary.capacity)
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
        live, vocabulary, tree = self.context.live, self.context.vocabulary, self.tree
        tree.order.ensure_terms(vocabulary.capacity)
        room = self._ready()
        space = self.context.space
        sent = Sent(steps.arrivals, live.table.layout, tree.order.ranks, space.metric_code)
        check = Check(self.table.layout, steps.clocks, space.kernel_input, vocabulary.idf)
        found: list[tuple[Ints, Ints, Ints]] = []
        event = 0
        while True:
            first = event
            event, n, n_visits, lack = match_many(tree.layout, sent, check, first, self._wave, room)
            found.append((room.events[:n].copy(), room.slots[:n].copy(), room.arrivals[:n].copy()))
            if tree.lists is not None:
                tree.lists.add(tree.arrays, room, n_visits)
            if lack == ENOUGH:
                break
            if lack == NEED_WAVE:
                self._wave = wider(self._wave)
            elif lack == NEED_FOUND or event < first + CHUNK:  # a chunk that is begun again finds its leaves again
                room = self._room = roomier(room, lack)
        tree.recent.take(live.table.layout, steps.arrivals)
        n_arrived = int((steps.arrivals >= 0).sum())
        self._n_messages += n_arrived
        tree.velocities.passed(n_arrived, 0, len(self.table))
        tree.keep(steps.arrivals.size, tree.since)
        events, slots, messages = found[0] if len(found) == 1 else map(np.concatenate, zip(*found, strict=True))
        n = events.size
        if n > self._signs.size:
            self._signs, self._scores = np.ones(n, np.int32), np.full(n, np.nan)
        return Changes(events, slots, messages, self._signs[:n], self._scores[:n])

    def _ready(self) -> Match:
        """Room for all terms, and for all subscriptions once any has several clauses."""
        room, n_terms = self._room, self.context.vocabulary.idf.size
        n_stamps = self.table.slots.capacity if self.tree.n_entries > len(self.table) else 0
        self._wave = with_terms(self._wave, self.tree.order.ranks.size)
        self._room = room._replace(
            present=with_room(room.present, n_terms),
            dense=self._answers.search.dense(),
            stamps=with_room(room.stamps, n_stamps),
        )
        return self._room

    def fill(self, slots: Ints) -> Changes:
        return self._answers.fill(slots)

    def move(self, slots: Ints, before: Array) -> Changes:
        tree, rows = self.tree, self.table.rows
        tree.velocities.moved(slots, before, rows[slots], self.table.slots.capacity)
        tree.velocities.passed(0, slots.size, len(self.table))
        changes = self._answers.moved(slots, before)
        tree.moved(slots, tree.since)
        tree.keep(slots.size, tree.since)
        return changes

    def reweighed(self) -> None:
        """Weights play no part here."""

    def result(self, slot: int) -> tuple[Ints, Floats]:
        return self._answers.search.find(self.table.layout, slot)

    def check(self) -> None:
        self._answers.check()
        check_tree(self.tree)
        check_lists(self.tree)

    def stats(self) -> Stats:
        counters, n, tree = self._room.counters, max(1, self._n_messages), self.tree
        scratch = (*self._room, *self._wave, self._signs, self._scores)
        at = {
            "leaves": VISITED_LEAVES, "touched": TOUCHED, "candidates": CANDIDATES, "verified": VERIFIED,
            "matched": MATCHED,
        }  # fmt: skip
        counts = {"nodes": int(self._wave.n_visited[0]), **{name: int(counters[i]) for name, i in at.items()}}
        return {
            "engine": "ap-tree",
            "messages": self._n_messages,
            **counts,
            "per message": {name: count / n for name, count in counts.items()},
            "entries": tree.n_entries,
            "splits": tree.n_splits,
            "merges": tree.n_merges,
            "rebuilds": tree.n_rebuilds,
            "rebuilding": tree.rebuilding,
            "following": self._answers.work,
            "tree": shape(tree.layout),
            "bytes": tree.nbytes + self._answers.nbytes + sum(array.nbytes for array in scratch),
        }

    def state(self) -> State:
        return {
            "tree": self.tree.state(), "messages": self._n_messages, "counters": self._room.counters,
            "visited": self._wave.n_visited,
        }  # fmt: skip

    def load(self, state: State) -> None:
        self.tree.load(state["tree"])
        self._n_messages = int(state["messages"])
        self._room = self._room._replace(counters=state["counters"].copy())
        self._wave = self._wave._replace(n_visited=state["visited"].copy())
