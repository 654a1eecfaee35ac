"""The engines that try every subscription: `WithinOracle`, `SimilarOracle` and `KeptOracle`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from nearcast.columns.arena import Array, Floats, Ints, Longs, State
from nearcast.columns.message_table import MessageLayout, MessageTable
from nearcast.columns.subscription_tables import PointTable, WithinTable
from nearcast.engines.contract import NO_CHANGES, Changes, EngineContext, Stats, net_matches
from nearcast.engines.kept.engine import BatchInput, Found, KeptEngine
from nearcast.engines.kept.layout import AsOf
from nearcast.engines.live_search import LiveSearch, matching_similar, matching_within
from nearcast.engines.oracle.best_live import best_live
from nearcast.engines.oracle.match import Matches, find_everyone, match_similar, match_within, take_events
from nearcast.space.space import SpaceInput
from nearcast.window.live import Steps

_BATCH_ROOM = 4096  # least room for matches, beyond one for every subscription


class _NotifierOracle:
    """What `Within` and `Similar` share: `match` tries every subscription, `matching` finds live messages for one."""

    keeps_results = False

    def __init__(
        self,
        table: WithinTable | PointTable,
        context: EngineContext,
        match: Callable[..., Any],
        matching: Callable[..., Any],
    ) -> None:
        self.context = context
        self.table = table
        self._match = match
        self._search = LiveSearch(matching, context)
        self._n_tried = 0
        self._n_matched = 0

    @property
    def _space(self) -> SpaceInput:
        return self.context.space.kernel_input

    def publish(self, steps: Steps) -> Changes:
        table = self.context.live.table
        matched = self._matches(steps, table)
        if not steps.withdrawn.size:
            return matched
        held = self._matches(steps.of_withdrawn(), table)
        return net_matches(held, matched, self.table.rows["since"], table.layout.rows["sequence"])

    def _matches(self, steps: Steps, told: MessageTable) -> Changes:
        """Who matches the arrivals, all as ``+``."""
        table = self.table
        n_arrivals = int((steps.arrivals >= 0).sum()) if len(table) else 0
        if not n_arrivals:
            return NO_CHANGES
        size = max(_BATCH_ROOM, 2 * table.slots.capacity)
        room = Matches(np.empty(size, np.int32), np.empty(size, np.int32), np.empty(size))
        vocabulary = self.context.vocabulary
        messages, arrivals = self._rows_of(told, steps.arrivals)
        own = steps._replace(arrivals=arrivals)
        found: list[tuple[Ints, Ints, Floats]] = []
        event = 0
        while event < steps.arrivals.size:
            event, n = self._match(
                own, event, messages, table.layout, self._space, vocabulary.idf, self._search.dense(), room
            )
            found.append((room.events[:n].copy(), room.slots[:n].copy(), room.scores[:n].copy()))
        events, slots, scores = (np.concatenate(parts) for parts in zip(*found, strict=True))
        self._n_tried += n_arrivals * len(table)
        self._n_matched += events.size
        return Changes(events, slots, steps.arrivals[events], np.ones(events.size, np.int32), scores)

    def who_wants(self, messages: MessageTable, steps: Steps) -> tuple[Ints, Floats]:
        found = self._matches(steps, messages) if len(self.table) else NO_CHANGES
        return found.slots, found.scores

    def _rows_of(self, table: MessageTable, arrivals: Ints) -> tuple[MessageLayout, Ints]:
        """Rows of messages, and where each of them stands."""
        return table.layout, arrivals

    def insert(self, slots: Ints) -> None:
        """Nothing is filed: every subscription is tried."""

    def remove(self, slots: Ints) -> None:
        """Nothing is filed."""

    def fill(self, slots: Ints) -> Changes:
        return self._search.fill(self.table.layout, slots)

    def move(self, slots: Ints, before: Array) -> Changes:
        return self._search.moved(self.table.layout, slots, before)

    def reweighed(self) -> None:
        """Nothing is filed."""

    def result(self, slot: int) -> tuple[Ints, Floats]:
        return self._search.find(self.table.layout, slot)

    def check(self) -> None:
        self._search.check()

    def stats(self) -> Stats:
        return {
            "engine": "oracle",
            "tried": self._n_tried,
            "matched": self._n_matched,
            "bytes": self._search.nbytes,
        }

    def state(self) -> State:
        return {"tried": self._n_tried, "matched": self._n_matched}

    def load(self, state: State) -> None:
        self._n_tried, self._n_matched = state["tried"], state["matched"]


class WithinOracle(_NotifierOracle):
    """`Within` by brute force."""

    def __init__(self, table: WithinTable, context: EngineContext) -> None:
        super().__init__(table, context, match_within, matching_within)

    def _rows_of(self, table: MessageTable, arrivals: Ints) -> tuple[MessageLayout, Ints]:
        return table.with_patterns(arrivals)


class SimilarOracle(_NotifierOracle):
    """`Similar` by brute force."""

    def __init__(self, table: PointTable, context: EngineContext) -> None:
        super().__init__(table, context, match_similar, matching_similar)


class KeptOracle(KeptEngine):
    """`TopK` or `Nearest`: every arrival is offered to every subscription, and refills ask one after another."""

    name = "oracle"

    def __init__(self, kind: int, table: PointTable, context: EngineContext) -> None:
        super().__init__(kind, table, context)
        self._n_tried = 0

    def _take_events(self, batch: BatchInput, cursor: Longs) -> int:
        task: int = take_events(self.kind, batch, cursor, self._found, self.results.layout, self.results.policy)
        return task

    def publish(self, steps: Steps) -> Changes:
        self._n_tried += int((steps.arrivals >= 0).sum()) * len(self.table)
        return super().publish(steps)

    def _find(self, batch: BatchInput) -> tuple[Ints, Floats]:
        found = Found(np.zeros(self.table.rows.size, np.int32), np.zeros(self.table.rows.size))
        n = find_everyone(self.kind, batch, 0, int(batch.steps.arrivals[0]), found)
        return found.slots[:n], found.ranks[:n]

    def refill(self, slots: Ints, as_of: AsOf) -> None:
        messages, context = self.context.live.table.layout, self.context
        for slot in slots.tolist():
            found, ranks = best_live(
                self.kind, self.table, slot, self.results.limit(slot), context, as_of.last, as_of.clock
            )
            self.results.put(slot, messages, found, ranks, as_of.event)

    def stats(self) -> Stats:
        return {**super().stats(), "tried": self._n_tried}

    def state(self) -> State:
        return {**super().state(), "tried": self._n_tried}

    def load(self, state: State) -> None:
        super().load(state)
        self._n_tried = state["tried"]
