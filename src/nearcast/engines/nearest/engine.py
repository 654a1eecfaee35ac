"""The engine: `NearestEngine` keeps the k nearest of every subscription, with an index for all words and one for any.

Events are taken in batches: the indexes find which subscriptions each arrival of a batch may concern, the results take
the events one after another, and then the indexes follow the search ranges that have changed.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from nearcast.columns.arena import Floats, Ints, Longs, State, with_room
from nearcast.columns.message_table import MessageLayout
from nearcast.columns.subscription_tables import PointTable
from nearcast.engines.contract import EngineContext, Stats
from nearcast.engines.exact import ALL_WORDS, NEAREST
from nearcast.engines.kept.engine import DONE, STEP, BatchInput, Found, KeptEngine, policy_of
from nearcast.engines.kept.layout import AsOf
from nearcast.engines.nearest.aoiq import AoiqTree
from nearcast.engines.nearest.aoiq.layout import EventRange
from nearcast.engines.nearest.batch import (
    EXTRA,
    N_MOVED,
    N_PAIRS,
    N_READ,
    NOBODY,
    VERIFIED,
    CandidateBatch,
    DeepestLevels,
    EventCall,
    add_extras,
    redraw_boxes,
    take_held,
    verify_candidates,
)
from nearcast.engines.nearest.grid import GridPyramid
from nearcast.engines.nearest.search_range import FILED
from nearcast.engines.nearest.settings import NearestSettings
from nearcast.held import HeldCall
from nearcast.jit import NEED_ROOM
from nearcast.window.live import Steps

MOST_EVENTS = 1024  # of a candidate batch
PAIRS = 1 << 16  # room for candidates of a batch, unless one event has more
_NO_PAIRS: Longs = np.zeros(0, dtype=np.int64)
_NOT_WIDENED: Ints = np.zeros(0, dtype=np.int32)
_NOBODY_HOLDS = CandidateBatch(
    _NO_PAIRS, np.zeros(N_READ, np.int64), _NOT_WIDENED, np.zeros(0, EXTRA), _NOT_WIDENED, _NOT_WIDENED, 0
)


class NearestEngine(KeptEngine):
    """`Nearest`, all words and any word.

    Parameters
    ----------
    table
        The subscriptions.
    context
        What all engines of a broker share.
    settings
        Parameters of both indexes and of the buffers.
    """

    name = "nearest"

    def __init__(self, table: PointTable, context: EngineContext, settings: NearestSettings | None = None) -> None:
        self.settings = settings or NearestSettings()
        super().__init__(NEAREST, table, context, policy_of(context, self.settings.strategy, self.settings.share))
        self.start()
        self._pairs = np.empty(PAIRS, dtype=np.int64)
        self._extras = np.zeros(MOST_EVENTS, dtype=EXTRA)
        self._take: HeldCall[EventCall] = HeldCall(take_held)
        self._runs = [(np.zeros(0, np.int32), np.zeros(N_READ, np.int64)) for _ in range(2)]
        self._moved = np.zeros(0, dtype=np.int32)
        self._n_verified = 0

    def start(self) -> None:
        """Nothing is filed."""
        self.all_words = AoiqTree(self.context.space, self.settings.aoiq)
        self.any_word = GridPyramid(self.context.space, self.settings.grid)
        self.filed = np.zeros(0, dtype=FILED)
        self._batch: BatchInput | None = None  # the batch under way
        self._candidates: CandidateBatch | None = None
        self._holders: CandidateBatch | None = None  # of what is withdrawn in it
        self._n_extras = 0
        self._grown: list[int] = []  # subscriptions whose ranges grew in it
        self._widened = np.zeros(0, dtype=np.int32)  # number of the last growth of each, zeros between batches

    def _by_mode(self, slots: Ints) -> tuple[Ints, Ints]:
        """Those that ask for all words, and those that ask for any."""
        for_all = self.table.rows["mode"][slots] == ALL_WORDS
        return slots.compress(for_all), slots.compress(~for_all)

    def insert(self, slots: Ints) -> None:
        super().insert(slots)
        self.filed = with_room(self.filed, self.table.slots.capacity)
        of_all, of_any = self._by_mode(slots)
        if of_all.size:
            self.all_words.ensure_terms(self.context.vocabulary.capacity)
        if of_all.size > self.all_words.n_filed:
            self._build_all()
        else:
            self._file_all(of_all, of_all.size)
        self._file_any(of_any)

    def _build_all(self) -> None:
        buffers = self.results.layout.buffers
        self.all_words.build(self.filed, self.table.layout, buffers, self._by_mode(self.table.used_slots)[0])

    def _file_all(self, slots: Ints, n_new: int) -> None:
        if slots.size:
            self.all_words.file(self.filed, self.table.layout, self.results.layout.buffers, slots, n_new)

    def _file_any(self, slots: Ints) -> None:
        if slots.size:
            self.any_word.file(
                self.filed, self.table.layout, self.results.layout.buffers, slots, len(self.table),
                self.context.vocabulary.capacity,
            )  # fmt: skip

    def _file(self, slots: Ints) -> None:
        """File those that are filed already by the ranges that they have now."""
        of_all, of_any = self._by_mode(slots)
        self._file_all(of_all, 0)
        self._file_any(of_any)

    def remove(self, slots: Ints) -> None:
        of_all, of_any = self._by_mode(slots)
        self.all_words.remove(self.filed, of_all)
        self.any_word.remove(self.filed, of_any)
        super().remove(slots)

    def _take_events(self, batch: BatchInput, cursor: Longs) -> int:
        while True:
            if self._candidates is None:
                if cursor[STEP] == batch.steps.arrivals.size:
                    return DONE
                self._open(batch, int(cursor[STEP]))
            runs: Any = self._candidates, self._holders
            results = self.results
            kept = results.layout, results.policy
            task: int = self._take(EventCall(batch, runs[0], runs[1], cursor, self._found, *kept))
            if task != DONE:
                return task
            self.close_batch()

    def _open(self, batch: BatchInput, event: int) -> None:
        """Find the candidates of the next events."""
        steps, messages = batch.steps, batch.messages
        if self.all_words.n_filed:
            self.all_words.ensure_terms(self.context.vocabulary.capacity)
        end = min(event + MOST_EVENTS, steps.arrivals.size)
        while True:
            done, n = self.any_word.find(self.filed, steps, event, end, messages, self._pairs)
            if done > event:
                break
            self._pairs = np.empty(2 * self._pairs.size, dtype=np.int64)
        self._pairs, n = self.all_words.find(self.filed, steps, EventRange(event, done), messages, self._pairs, n)
        pairs, held, n_held = self._pairs, _NO_PAIRS, 0
        if n > 1:
            pairs[:n].sort()
        if steps.withdrawn.size:
            pairs = pairs[:n].copy()
            held = self._find_holders(batch, EventRange(event, done))
            n_held = held.size
        self._moved = with_room(self._moved, n + n_held)
        self._batch = batch
        self._candidates, self._holders = self._run_of(0, pairs, n, done), _NOBODY_HOLDS
        if steps.withdrawn.size:
            self._holders = self._run_of(1, held, n_held, done)

    def _run_of(self, which: int, pairs: Longs, n: int, end: int) -> CandidateBatch:
        """The first pairs as the candidates of events up to `end`, none of which has happened."""
        assert self._batch is not None
        first_extras, read = self._runs[which]
        first_extras = with_room(first_extras, self._batch.steps.arrivals.size)
        first_extras[:end] = NOBODY
        self._runs[which] = first_extras, read
        read[:] = 0
        read[N_PAIRS] = n
        return CandidateBatch(pairs, read, first_extras, self._extras, _NOT_WIDENED, self._moved, end)

    def _find_holders(self, batch: BatchInput, events: EventRange) -> Longs:
        """Who may hold what is withdrawn in these events: pairs, in order."""
        return np.sort(self._pairs_of(batch.steps.of_withdrawn(), batch.messages, events))

    def _pairs_of(self, steps: Steps, messages: MessageLayout, events: EventRange) -> Longs:
        """Candidates of all these events, in the array that is there for them."""
        while True:
            done, n = self.any_word.find(self.filed, steps, *events, messages, self._pairs)
            if done == events[1]:
                break
            self._pairs = np.empty(2 * self._pairs.size, dtype=np.int64)
        self._pairs, n = self.all_words.find(self.filed, steps, events, messages, self._pairs, n)
        return self._pairs[:n]

    def _find(self, batch: BatchInput) -> tuple[Ints, Floats]:
        if self.all_words.n_filed:
            self.all_words.ensure_terms(self.context.vocabulary.capacity)
        arrivals = batch.steps.arrivals
        pairs = np.unique(self._pairs_of(batch.steps, batch.messages, EventRange(0, 1)))
        slots = pairs.astype(np.int32)
        found = Found(slots, np.empty(slots.size))
        n = verify_candidates(batch, 0, arrivals[0], slots.size, pairs, self.results.layout, found)
        self._n_verified += slots.size
        return slots[:n], found.ranks[:n]

    def close_batch(self) -> None:
        """After a batch, let the indexes follow the ranges that have changed in it."""
        candidates, holders = self._candidates, self._holders
        assert candidates is not None
        assert holders is not None
        self._n_verified += int(candidates.read[VERIFIED] + holders.read[VERIFIED])
        slots = candidates.moved[: candidates.read[N_MOVED]]
        if self._grown:
            slots = np.concatenate([slots, np.array(self._grown, dtype=np.int32)])
            self._widened[self._grown] = 0
        self._batch = self._candidates = self._holders = None
        self._grown, self._n_extras = [], 0
        if slots.size:
            self._follow_ranges(slots)

    def _follow_ranges(self, slots: Ints) -> None:
        """Draw the boxes of ranges that shrank, and file again where finer cells will do."""
        moved = np.empty(slots.size, dtype=np.int32)
        deepest = DeepestLevels(self.all_words.height, self.any_word.deepest(len(self.table)))
        n = redraw_boxes(
            self.filed, self.table.layout, self.results.layout.buffers, slots, self._where,
            deepest, moved,
        )  # fmt: skip
        if n:
            self._file(moved[:n])

    def resume(self, slots: Ints, n_kept: Ints, messages: Ints, ranks: Floats) -> None:
        super().resume(slots, n_kept, messages, ranks)
        self._file(slots)

    def refill(self, slots: Ints, as_of: AsOf) -> None:
        """Evaluate again, file by the new ranges, and compare these with the rest of the batch."""
        super().refill(slots, as_of)
        self._file(slots)
        if self._batch is None or self._candidates is None or self._holders is None:
            return
        self._widened = with_room(self._widened, self.table.slots.capacity)
        self._share_extras()
        for slot in slots.tolist():
            self._grown.append(slot)
            self._add_extras(slot, as_of.event, self._batch.steps.arrivals, arriving=True)
            if self._batch.steps.withdrawn.size:
                self._add_extras(slot, as_of.event, self._batch.steps.withdrawn, arriving=False)

    def _share_extras(self) -> None:
        """Let both sets of candidates see extras and growths as they are now."""
        assert self._candidates is not None
        assert self._holders is not None
        self._candidates, self._holders = (
            found._replace(extras=self._extras, widened=self._widened) for found in (self._candidates, self._holders)
        )

    def _add_extras(self, slot: int, event: int, coming: Ints, arriving: bool) -> None:
        """Compare a range that has grown with what is left of the batch: with what arrives, or what is withdrawn."""
        while True:
            candidates = self._candidates if arriving else self._holders
            assert self._batch is not None
            assert candidates is not None
            version = len(self._grown)
            n = add_extras(self._batch, candidates, coming, self.filed, slot, version, event, self._n_extras)
            if n != NEED_ROOM:
                break
            self._extras = with_room(self._extras, 2 * self._extras.size)
            self._share_extras()
        self._n_extras = n

    def check(self) -> None:
        super().check()
        assert not self._widened.any()
        assert self._candidates is None
        of_all, of_any = self._by_mode(self.table.used_slots)
        self.all_words.check(self.filed, of_all)
        self.any_word.check(self.filed, of_any)

    def stats(self) -> Stats:
        own = self.filed[: self.table.slots.capacity].nbytes + self._widened.nbytes
        own += self._pairs.nbytes + self._extras.nbytes
        shared, of_all, of_any = super().stats(), self.all_words.stats(), self.any_word.stats()
        return {
            **shared,
            "candidates": self._n_verified,
            "all": of_all,
            "any": of_any,
            "bytes": shared["bytes"] + own + of_all["bytes"] + of_any["bytes"],
        }

    def refile(self) -> None:
        """File all subscriptions again, by the ranges that they have."""
        self.start()
        self.filed = with_room(self.filed, self.table.slots.capacity)
        self.all_words.ensure_terms(self.context.vocabulary.capacity)
        self._build_all()
        self._file_any(self._by_mode(self.table.used_slots)[1])

    def state(self) -> State:
        own = {"verified": self._n_verified, "filed": self.filed}
        return {**super().state(), **own, "all": self.all_words.state(), "any": self.any_word.state()}

    def load(self, state: State) -> None:
        super().load(state)
        self.start()
        self._n_verified, self.filed = state["verified"], state["filed"].copy()
        self.all_words.load(state["all"])
        self.any_word.load(state["any"])
