"""`WithinApTree`: keeps `Within` subscriptions in an AP-Tree and matches arrivals against it."""

from __future__ import annotations

import numpy as np

from nearcast.columns.arena import Array, Floats, Ints, State, with_room
from nearcast.columns.message_table import MessageTable
from nearcast.columns.subscription_tables import WithinTable
from nearcast.engines.contract import NO_CHANGES, Changes, EngineContext, Stats, net_matches
from nearcast.engines.within.ap_tree import ApTree
from nearcast.engines.within.descend import CHUNK, NEED_FRONTIER, DescentInput, grown_frontier, new_frontier, with_terms
from nearcast.engines.within.invariants import check_lists, check_tree
from nearcast.engines.within.layout import KEYWORD, N_LEAVES, NOTHING, ROOT, TreeLayout
from nearcast.engines.within.match import (
    CANDIDATES,
    DONE,
    MATCHED,
    NEED_FOUND,
    TOUCHED,
    VERIFIED,
    VISITED_LEAVES,
    MatchCall,
    MatchRoom,
    VerifyInput,
    bytes_of_room,
    grown_match_room,
    match_held,
    new_match_room,
    with_new_found,
)
from nearcast.engines.within.moving.answers import MoveAnswers
from nearcast.engines.within.settings import ApTreeSettings
from nearcast.held import HeldCall
from nearcast.window.live import Steps

_GIVEN_AWAY = 1 << 17  # matches; as many make new arrays cheaper than copies


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
        self.answers = MoveAnswers(self.tree)
        self._new_patterns = context.vocabulary.patterns.follow()
        self._n_messages = 0
        self.room = new_match_room(4096 if self.tree.lists is not None else 0)
        self._frontier = new_frontier()
        self._signs, self._scores = np.zeros(0, np.int32), np.zeros(0)  # of every change: ``+``, and no score
        self._where = context.space.kernel_input
        self._match_many: HeldCall[MatchCall] = HeldCall(match_held)

    def insert(self, slots: Ints) -> None:
        tree = self.tree
        tree.order.ensure_terms(self.context.vocabulary.capacity)
        tree.unrank(self._new_patterns.take())
        if slots.size > tree.n_entries:
            tree.build()
        else:
            tree.insert(slots)
            tree.maintain(slots.size)

    def remove(self, slots: Ints) -> None:
        self.tree.remove(slots)

    def publish(self, steps: Steps) -> Changes:
        if self.tree.lists is not None:
            self.tree.lists.observe(steps)
        if not len(self.table) or not steps.arrivals.size:
            return NO_CHANGES
        live, tree = self.context.live, self.tree
        tree.order.ensure_terms(self.context.vocabulary.capacity)
        n_arrived = steps.n_arrivals
        changes = self._match(steps, 1, live.table) if n_arrived else NO_CHANGES
        if steps.withdrawn.size:
            sequences = live.table.layout.rows["sequence"]
            held = self._match(steps.of_withdrawn(), -1, live.table)
            changes = net_matches(held, changes, self.table.rows["since"], sequences)
        self._n_messages += n_arrived
        tree.velocities.observe(n_arrived, 0, len(self.table))
        tree.maintain(steps.arrivals.size)
        return changes

    def who_wants(self, messages: MessageTable, steps: Steps) -> tuple[Ints, Floats]:
        if not len(self.table):
            return np.zeros(0, np.int32), np.zeros(0)
        self.tree.order.ensure_terms(self.context.vocabulary.capacity)
        stamps = self._ready().stamps
        self.room = self.room._replace(stamps=np.zeros(stamps.size, np.int64))  # its sequence is that of others
        try:
            found = self._match(steps, -1, messages)
        finally:
            self.room = self.room._replace(stamps=stamps)
        return found.slots, found.scores

    def _match(self, steps: Steps, sign: int, table: MessageTable) -> Changes:
        """Who matches the arrivals, all as ``+``; a negative sign says that they are withdrawn, and never listed."""
        tree = self.tree
        room = self._ready()
        messages, arrivals = table.with_patterns(steps.arrivals)
        descent = DescentInput(arrivals, messages, tree.order.ranks, self._where.metric, steps.arrivals, table.rows)
        verify = VerifyInput(
            self.table.layout, steps.clocks, self._where, sign, tree.pairs, self.table.layout.conditions.rows.size > 1
        )
        found: list[tuple[Ints, Ints, Ints]] = []
        event = 0
        while True:
            first = event
            call = MatchCall(tree.layout, descent, verify, self._frontier, room)
            event, n, n_visits, shortage = self._match_many(call, first)
            if n:
                found.append(self._taken(n))
                room = self.room
            if tree.lists is not None and sign > 0:
                tree.lists.add_visits(tree.arrays, room, n_visits)
            if shortage == DONE:
                break
            if shortage == NEED_FRONTIER:
                self._frontier = grown_frontier(self._frontier)
            elif shortage == NEED_FOUND or event < first + CHUNK:  # a chunk that is begun again finds its leaves again
                room = self.room = grown_match_room(room, shortage)
        if sign > 0:
            tree.recent.observe(messages, arrivals)
        if not found:
            return NO_CHANGES
        events, slots, matched = found[0] if len(found) == 1 else map(np.concatenate, zip(*found, strict=True))
        n = events.size
        if n > self._signs.size:
            self._signs, self._scores = np.ones(n, np.int32), np.full(n, np.nan)
        return Changes(events, slots, matched, self._signs[:n], self._scores[:n])

    def _taken(self, n: int) -> tuple[Ints, Ints, Ints]:
        """Events, slots and messages of the first `n` matches found; many are not copied but given away."""
        slots, events, arrivals = (column[:n] for column in self.room.found)
        if n < _GIVEN_AWAY:
            return events.copy(), slots.copy(), arrivals.copy()
        self.room = with_new_found(self.room, self.room.found.slots.size)
        return events, slots, arrivals

    def _ready(self) -> MatchRoom:
        """Make room for all terms, and for all subscriptions once any has several clauses."""
        room = self.room
        n_stamps = self.table.slots.capacity if self.tree.n_entries > len(self.table) else 0
        n_terms, dense = self.tree.order.ranks.size, self.answers.search.dense()
        if 2 * n_terms > self._frontier.leads.size:
            self._frontier = with_terms(self._frontier, n_terms)
        if dense is not room.dense or n_stamps > room.stamps.size:
            room = self.room = room._replace(dense=dense, stamps=with_room(room.stamps, n_stamps))
        return room

    def fill(self, slots: Ints) -> Changes:
        return self.answers.fill(slots)

    def move(self, slots: Ints, before: Array) -> Changes:
        tree, rows = self.tree, self.table.rows
        tree.velocities.observe_moves(slots, before, rows[slots], self.table.slots.capacity)
        tree.velocities.observe(0, slots.size, len(self.table))
        changes = self.answers.move(slots, before)
        tree.after_move(slots, before)
        tree.maintain(slots.size)
        return changes

    def reweighed(self) -> None:
        """Weights play no part here."""

    def result(self, slot: int) -> tuple[Ints, Floats]:
        return self.answers.search.find(self.table.layout, slot)

    def check(self) -> None:
        self.answers.check()
        check_tree(self.tree)
        check_lists(self.tree)

    def stats(self) -> Stats:
        counters, n, tree = self.room.counters, max(1, self._n_messages), self.tree
        scratch = (*self._frontier, self._signs, self._scores)
        at = {
            "leaves": VISITED_LEAVES, "touched": TOUCHED, "candidates": CANDIDATES, "verified": VERIFIED,
            "matched": MATCHED,
        }  # fmt: skip
        counts = {"nodes": int(self._frontier.n_visited[0]), **{name: int(counters[i]) for name, i in at.items()}}
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
            "following": self.answers.work,
            "tree": _shape(tree.layout),
            "bytes": tree.nbytes
            + self.answers.nbytes
            + bytes_of_room(self.room)
            + sum(array.nbytes for array in scratch),
        }

    def state(self) -> State:
        return {
            "tree": self.tree.state(), "messages": self._n_messages, "counters": self.room.counters,
            "visited": self._frontier.n_visited,
        }  # fmt: skip

    def load(self, state: State) -> None:
        self.tree.load(state["tree"])
        self._n_messages = int(state["messages"])
        self.room = self.room._replace(counters=state["counters"].copy())
        self._frontier = self._frontier._replace(n_visited=state["visited"].copy())


def _shape(tree: TreeLayout) -> Stats:
    """Keyword nodes, space nodes, leaves and their entries, from the root down, level by level."""
    levels = []
    parts = np.array([ROOT])
    while parts.size:
        children = tree.parts["child"][parts]
        nodes, leaves = children[children > NOTHING], parts[children < NOTHING]
        by_words = int((tree.nodes["kind"][nodes] == KEYWORD).sum())
        held = int(tree.parts["now"][leaves].sum())
        levels.append(
            {"keyword nodes": by_words, "space nodes": nodes.size - by_words, "leaves": leaves.size, "entries": held}
        )
        first, n_parts = tree.nodes["first"][nodes].astype(np.int64), tree.nodes["n_parts"][nodes] + 1
        starts = np.cumsum(n_parts, dtype=np.int64) - n_parts
        parts = np.repeat(first - starts, n_parts) + np.arange(int(n_parts.sum()))
    return {"leaves": int(tree.heads[N_LEAVES]), "levels": levels}
