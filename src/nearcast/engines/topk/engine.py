"""The engine of `TopK`: Skype."""

from __future__ import annotations

import numpy as np

from nearcast.columns.arena import Floats, Ints, Longs, State, with_room
from nearcast.columns.message_table import MessageLayout, most_terms
from nearcast.columns.subscription_tables import PointTable
from nearcast.engines.contract import NO_CHANGES, Changes, EngineContext, Stats
from nearcast.engines.exact import TOPK
from nearcast.engines.kept.engine import BatchInput, KeptEngine, policy_of
from nearcast.engines.kept.layout import AsOf
from nearcast.engines.topk.dues import Floors
from nearcast.engines.topk.events import EventCall, refile_due, take_held
from nearcast.engines.topk.invariants import check_index
from nearcast.engines.topk.layout import CANDIDATE, MANY, N_BITS, VISIT
from nearcast.engines.topk.match import Probe, find
from nearcast.engines.topk.settings import SkypeSettings
from nearcast.engines.topk.skype_index import SkypeIndex
from nearcast.held import HeldCall
from nearcast.jit import NEED_ROOM
from nearcast.window.live import Steps

FIRST_ROOM = 1024


class TopKSkype(KeptEngine):
    """`TopK` by a subscription index of cells and groups, and by cost-based k-skybands."""

    name = "skype"

    def __init__(self, table: PointTable, context: EngineContext, settings: SkypeSettings | None = None) -> None:
        self.settings = settings or SkypeSettings()
        super().__init__(TOPK, table, context, policy_of(context, self.settings.strategy, self.settings.share))
        self.index = SkypeIndex(context.space, self.settings)
        self._take: HeldCall[EventCall] = HeldCall(take_held)
        nothing = np.zeros(0)
        self._probe = Probe(
            np.zeros(0, np.int32),
            nothing,
            nothing,
            nothing,
            np.zeros(0, np.int64),
            np.zeros(N_BITS),
            np.zeros(FIRST_ROOM, CANDIDATE),
            np.zeros(FIRST_ROOM, VISIT),
        )

    def insert(self, slots: Ints) -> None:
        super().insert(slots)
        self._file(slots)

    def _file(self, slots: Ints) -> None:
        floors = self._floors(self.context.live.clock)
        self.index.file(slots, self.table.layout, self.context.vocabulary.idf, floors)

    def _floors(self, clock: int) -> Floors:
        return Floors(self.results.layout.buffers, self.results.layout.fading, clock)

    def remove(self, slots: Ints) -> None:
        self.index.unfile(slots, self.table.layout)
        super().remove(slots)

    def reweighed(self) -> None:
        self.index.clear()
        self._file(self.table.used_slots)

    def fill(self, slots: Ints) -> Changes:
        elsewhere = self.index.moved(slots, self.table.layout.rows)
        if elsewhere.size:
            self.index.unfile(elsewhere, self.table.layout)
            self._file(elsewhere)
        return super().fill(slots)

    def refill(self, slots: Ints, as_of: AsOf) -> None:
        super().refill(slots, as_of)
        self.index.refile(slots, self.table.layout, self.context.vocabulary.idf, self._floors(as_of.clock))

    def publish(self, steps: Steps) -> Changes:
        if not len(self.table):
            return NO_CHANGES
        slots = np.concatenate([steps.arrivals, steps.withdrawn]) if steps.withdrawn.size else steps.arrivals
        self._make_ready(self.context.live.table.layout, slots)
        return super().publish(steps)

    def _make_ready(self, messages: MessageLayout, slots: Ints) -> None:
        """Make room for the words of these messages."""
        old, most = self._probe, most_terms(messages.rows, slots)
        if most <= old.words.size and (MANY + 1) * most <= old.tails.size:
            return
        self._probe = Probe(
            with_room(old.words, most),
            with_room(old.units, most),
            with_room(old.reaches, most),
            with_room(old.tails, (MANY + 1) * most),
            with_room(old.bits, most),
            *old[5:],
        )

    def _find(self, batch: BatchInput) -> tuple[Ints, Floats]:
        arrivals, index = batch.steps.arrivals, self.index
        self._make_ready(batch.messages, arrivals)
        if index.layout.due_count[0] > 0:
            floors = self._floors(int(batch.steps.clocks[0]))
            refile_due(index.layout, batch.subscriptions, batch.idf, floors, index.shape)
        while True:
            n = find(index.layout, batch, 0, arrivals[0], index.shape.prune_groups, self._probe, self._found)
            if n != NEED_ROOM:
                return self._found.slots[:n].copy(), self._found.ranks[:n].copy()
            self.grow_found()

    def _take_events(self, batch: BatchInput, cursor: Longs) -> int:
        call = EventCall(
            self.index.layout, self.index.shape, batch, cursor, self._probe, self._found, self.results.layout,
            self.results.policy,
        )  # fmt: skip
        task: int = self._take(call)
        return task

    def grow_found(self) -> None:
        super().grow_found()
        n = 2 * self._probe.candidates.size
        self._probe = self._probe._replace(candidates=np.zeros(n, CANDIDATE), visits=np.zeros(n, VISIT))

    def check(self) -> None:
        super().check()
        check_index(self.index.layout, self.index.shape, self.table, self._floors(self.context.live.clock))

    def stats(self) -> Stats:
        stats = super().stats()
        own = self.index.nbytes + sum(array.nbytes for array in self._probe)
        return {**stats, **self.index.stats(), "bytes": stats["bytes"] + own}

    def state(self) -> State:
        return {**super().state(), "index": self.index.state()}

    def load(self, state: State) -> None:
        super().load(state)
        self.index.load(state["index"])
