"""The engines that try every subscription: `WithinOracle`, `SimilarOracle` and `KeeperOracle`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from nearcast.columns.arena import Array, Floats, Ints, Longs, State, with_room
from nearcast.columns.subscriptions import PointLayout, PointTable, WithinLayout, WithinTable
from nearcast.engines.checks import NEAREST
from nearcast.engines.contract import NO_CHANGES, Changes, Stats, Surroundings, difference, entering
from nearcast.engines.oracle.match import (
    ARRIVING,
    DONE,
    LEAVING,
    PHASE,
    POSITION,
    SHORT,
    STEP,
    Matches,
    keep_steps,
    match_similar,
    match_within,
)
from nearcast.engines.results import (
    N_DROPPED,
    N_EXPIRED,
    N_KEPT,
    N_OFFERED,
    N_REFILLS,
    Policy,
    Results,
    is_short,
    n_leaving,
    n_unsaid,
)
from nearcast.engines.search import best_live, matching_similar, matching_within
from nearcast.window.window import Steps

_BATCH_ROOM = 4096  # least room for matches, beyond one for every subscription


class _Oracle:
    """What the oracles share: the table, the surroundings, scratch and counts of work."""

    def __init__(self, around: Surroundings) -> None:
        self.around = around
        self._dense = np.zeros(0)
        self._n_tried = 0
        self._n_matched = 0

    def _scratch(self) -> Floats:
        self._dense = with_room(self._dense, self.around.vocabulary.idf.size)
        return self._dense

    @property
    def _where(self) -> tuple[int, float]:
        return self.around.space.metric_code, self.around.space.max_distance

    def check(self) -> None:
        assert not self._dense.any(), "scratch must be clean between calls"

    def state(self) -> State:
        return {"tried": self._n_tried, "matched": self._n_matched}

    def load(self, state: State) -> None:
        self._n_tried, self._n_matched = state["tried"], state["matched"]


class _NotifierOracle(_Oracle):
    """What `Within` and `Similar` share: `match` tries every subscription, `matching` finds live messages for one."""

    def __init__(
        self,
        table: WithinTable | PointTable,
        around: Surroundings,
        match: Callable[..., Any],
        matching: Callable[..., Any],
    ) -> None:
        super().__init__(around)
        self.table = table
        self._match = match
        self._matching = matching

    def publish(self, steps: Steps) -> Changes:
        table = self.table
        n_arrivals = int((steps.arrivals >= 0).sum()) if len(table) else 0
        if not n_arrivals:
            return NO_CHANGES
        size = max(_BATCH_ROOM, 2 * table.slots.capacity)
        room = Matches(np.empty(size, np.int32), np.empty(size, np.int32), np.empty(size))
        live, vocabulary = self.around.live, self.around.vocabulary
        found: list[tuple[Ints, Ints, Floats]] = []
        event = 0
        while event < steps.arrivals.size:
            event, n = self._match(
                steps, event, live.table.layout, table.layout, self._where, vocabulary.idf, self._scratch(), room
            )
            found.append((room.events[:n].copy(), room.slots[:n].copy(), room.scores[:n].copy()))
        events, slots, scores = (np.concatenate(parts) for parts in zip(*found, strict=True))
        self._n_tried += n_arrivals * len(table)
        self._n_matched += events.size
        return Changes(events, slots, steps.arrivals[events], np.ones(events.size, np.int32), scores)

    def insert(self, slots: Ints) -> None:
        """Nothing is filed: every subscription is tried."""

    def remove(self, slots: Ints) -> None:
        """Nothing is filed."""

    def fill(self, slots: Ints) -> Changes:
        return self._fill(self.table.layout, slots, slots)

    def moved(self, slots: Ints, before: Array) -> Changes:
        old = self._fill(self.table.layout._replace(rows=before), np.arange(slots.size, dtype=np.int32), slots)
        return difference(old, self.fill(slots))

    def _fill(self, layout: WithinLayout | PointLayout, rows: Ints, slots: Ints) -> Changes:
        """What the subscriptions in these rows of the layout match, told under their slots."""
        found = [self._find(layout, row) for row in rows.tolist()]
        if not found:
            return NO_CHANGES
        messages, scores = (np.concatenate(column) for column in zip(*found, strict=True))
        return entering(np.repeat(slots, [them.size for them, _ in found]), messages, scores)

    def reweighed(self) -> None:
        """Nothing is filed."""

    def find(self, slot: int) -> tuple[Ints, Floats]:
        return self._find(self.table.layout, slot)

    def _find(self, layout: WithinLayout | PointLayout, row: int) -> tuple[Ints, Floats]:
        if self.around.live.window is None:
            return np.zeros(0, np.int32), np.zeros(0)
        found: tuple[Ints, Floats] = self._matching(layout, row, self.around, self._scratch())
        return found

    def stats(self) -> Stats:
        return {"engine": "oracle", "tried": self._n_tried, "matched": self._n_matched, "bytes": self._dense.nbytes}


class WithinOracle(_NotifierOracle):
    """`Within` by brute force."""

    def __init__(self, table: WithinTable, around: Surroundings) -> None:
        super().__init__(table, around, match_within, matching_within)


class SimilarOracle(_NotifierOracle):
    """`Similar` by brute force."""

    def __init__(self, table: PointTable, around: Surroundings) -> None:
        super().__init__(table, around, match_similar, matching_similar)


class KeeperOracle(_Oracle):
    """`TopK` or `Nearest`: every arrival is offered to every subscription; refills come from the message index."""

    def __init__(self, kind: int, table: PointTable, around: Surroundings) -> None:
        super().__init__(around)
        self.kind = kind
        self.table = table
        window = around.live.window
        self.results = Results(Policy(counts=window is not None and window.count is not None, spare=window is not None))

    def insert(self, slots: Ints) -> None:
        self.results.open(slots, self.table.rows["k"][slots])

    def remove(self, slots: Ints) -> None:
        self.results.close(slots)

    def publish(self, steps: Steps) -> Changes:
        if not len(self.table) or not steps.arrivals.size:
            return NO_CHANGES
        live, results = self.around.live, self.results
        results.begin(live.table.ids.keys.capacity)
        cursor = np.zeros(3, dtype=np.int64)
        while True:
            code = keep_steps(
                self.kind, steps, cursor, live.table.layout, self.table.layout, self._where, self.around.vocabulary.idf,
                self._scratch(), results.layout, results.policy,
            )  # fmt: skip
            if code == DONE:
                break
            if code == SHORT:
                event = int(cursor[STEP])
                for slot in results.touched.copy():
                    if is_short(results.layout, slot):
                        self._evaluate(int(slot), event, int(steps.lasts[event]), int(steps.clocks[event]))
            else:
                self._grow(steps, cursor)
        self._n_tried += int((steps.arrivals >= 0).sum()) * len(self.table)
        return self._changes()

    def _grow(self, steps: Steps, cursor: Longs) -> None:
        """Room for what the kernel stopped before: a message that leaves, one that arrives, or the end of an event."""
        results = self.results
        event, phase = int(cursor[STEP]), int(cursor[PHASE])
        if phase == LEAVING:
            message = steps.expired[steps.expired_start[event] + cursor[POSITION]]
            results.make_room(0, 0, 0, int(n_leaving(results.layout, message)))
        elif phase == ARRIVING:
            results.make_room_for_offers()
        else:
            results.make_room(0, 0, 0, int(n_unsaid(results.layout)))

    def refresh(self, slots: Ints) -> Changes:
        live = self.around.live
        self.results.begin(live.table.ids.keys.capacity)
        for slot in slots.tolist():
            self._evaluate(slot, 0, live.last, live.clock)
        self.results.settle(0)
        return self._changes()

    def _evaluate(self, slot: int, event: int, last: int, clock: int) -> None:
        """Find the result of a subscription anew, as of (last, clock)."""
        limit = self.results.limit(slot)
        found, ranks = best_live(self.kind, self.table, slot, limit, self.around, last, clock)
        self.results.put(slot, found, ranks, event)
        self.results.counters[N_REFILLS] += 1

    def _changes(self) -> Changes:
        said = self.results.changes
        self._n_matched += said.size
        return Changes(
            said["event"].copy(),
            said["slot"].copy(),
            said["message"].copy(),
            said["sign"].copy(),
            self._scores(said["rank"]),
        )

    def _scores(self, ranks: Floats) -> Floats:
        return 0.0 - ranks if self.kind == NEAREST else ranks.copy()

    def result(self, slot: int) -> tuple[Ints, Floats]:
        messages, ranks = self.results.result(slot)
        return messages, self._scores(ranks)

    def mark_messages(self, held: Array) -> None:
        self.results.mark_messages(self.table.used_slots, held)

    def check(self) -> None:
        super().check()
        self.results.check(self.table.used_slots, self.around.live.table.layout)

    def stats(self) -> Stats:
        counters = self.results.counters
        return {
            "engine": "oracle",
            "tried": self._n_tried,
            "offered": int(counters[N_OFFERED]),
            "kept": int(counters[N_KEPT]),
            "dropped": int(counters[N_DROPPED]),
            "expired": int(counters[N_EXPIRED]),
            "refills": int(counters[N_REFILLS]),
            "updates": self._n_matched,
            "bytes": self._dense.nbytes + self.results.nbytes,
        }

    def state(self) -> State:
        return {**super().state(), "results": self.results.state()}

    def load(self, state: State) -> None:
        super().load(state)
        self.results.load(state["results"])
