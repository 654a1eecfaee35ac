"""The engines that keep results: `KeptEngine`, and the loop over events, which can be interrupted and resumed.

An event goes through phases: those who may hold what is withdrawn are found, and it is taken from them; messages
expire; candidates for the arrival are found, and the arrival is offered to them; buffers that are short are refilled;
what changed is emitted. `run_events` takes one event after another through its
phases until somebody else must do something, and returns what that is. Two tasks are for the kernel of the engine,
which has this form; with all others it returns to Python, which makes room or refills, and calls it again:

    while True:
        task = run_events(batch, end, cursor, found, results, policy)
        if task == FIND:
            ... write who may want `message_of(batch, cursor)` into `found`, or return FIND_ROOM; then
            note_found(cursor, n)
        elif task == FOLLOW:
            ... whatever the engine does about floors that have changed, subscription by subscription in `touched`
        else:
            return task
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, NamedTuple

import numpy as np

from nearcast.columns.arena import Array, Floats, Ints, Longs, State, with_room
from nearcast.columns.message_table import MessageLayout, MessageTable
from nearcast.columns.subscription_tables import PointLayout, PointTable
from nearcast.engines.contract import NO_CHANGES, Changes, EngineContext, Stats, net_kept
from nearcast.engines.exact import NEAREST
from nearcast.engines.kept.buffers import emit_changes, has_room, n_pending
from nearcast.engines.kept.layout import LINE, N_CHANGES, N_TOUCHED, AsOf, ResultLayout
from nearcast.engines.kept.refill import SearchInput, refill_many, sort_for_locality
from nearcast.engines.kept.results import Results
from nearcast.engines.kept.skyband import STRATEGIES, Policy, is_short, offer, withdraw
from nearcast.engines.kept.watch import CHAINS, fetch_waiting, follow_chains, leave
from nearcast.held import unchanged
from nearcast.jit import NEED_ROOM, kernel, prefetch
from nearcast.space.space import SpaceInput
from nearcast.window.index.index import frame_of
from nearcast.window.live import Steps
from nearcast.window.read_ahead import prefetch_record
from nearcast.window.recency import faded_rows

DONE, SHORT, FIND_ROOM, FIND, FOLLOW = range(5)  # tasks, besides NEED_ROOM
SEEKING, WITHDRAWING, LEAVING, FINDING, OFFERING, FILLING, EMITTING, ENDING = range(8)  # phases of an event
STEP, PHASE, POSITION, N_FOUND = range(4)  # positions in a cursor
N_CURSOR = 4  # then `CHAINS` numbers that `follow_chains` needs

FIRST_FOUND = 1024
SWEPT = 64  # buffers that are looked at for each event, or move, while the pool is swept
_AHEAD = 6  # candidates between the steps of reading ahead
_FETCHED = 6  # lines of the processor's cache that are fetched of a buffer
LONG = 64  # subscriptions that are worth sorting before they are evaluated


class BatchInput(NamedTuple):
    """What engines read while the events of a batch happen."""

    steps: Steps
    messages: MessageLayout
    subscriptions: PointLayout
    space: SpaceInput
    idf: Floats
    dense: Floats  # float64[n_terms]: scratch for the words of a message, zeros between events


class Found(NamedTuple):
    """Who may want an arrival."""

    slots: Ints  # int32[n]
    ranks: Floats  # float64[n]


@kernel
def leave_expired(batch: BatchInput, cursor: Longs, results: ResultLayout, policy: Policy) -> bool:
    """Take the messages that leave in this event out of all buffers; False if room is needed first, then call again."""
    steps, messages, subscriptions = batch.steps, batch.messages, batch.subscriptions
    event = cursor[STEP]
    as_of = AsOf(event, steps.lasts[event], steps.clocks[event])
    first = steps.expired_start[event]
    while cursor[POSITION] < steps.expired_start[event + 1] - first:
        at = first + cursor[POSITION]
        message = steps.expired[at]
        follow_chains(results, subscriptions.rows, steps.expired, at, cursor[N_CURSOR:])
        for later in range(at + 1 if at > 0 else at, min(at + 2, steps.expired.size)):
            fetch_waiting(results, subscriptions.rows, messages.rows, steps.expired[later])
        if not leave(results, subscriptions, messages.rows, message, as_of, policy):
            return False
        cursor[POSITION] += 1
    return True


@kernel
def message_of(batch: BatchInput, cursor: Longs) -> Any:
    """The message that candidates are to be found for: what is withdrawn in this event, or what arrives."""
    event = cursor[STEP]
    return batch.steps.withdrawn[event] if cursor[PHASE] == SEEKING else batch.steps.arrivals[event]


@kernel
def note_found(cursor: Longs, n: int) -> None:
    """The engine has found `n` candidates."""
    cursor[PHASE] += 1
    cursor[POSITION], cursor[N_FOUND] = 0, n


@kernel
def fetch_found(cursor: Longs, found: Found, results: ResultLayout, policy: Policy) -> None:
    """Have read ahead what the next candidates will touch: what names other places first, then these.

    A buffer is read from its last entry on, up to where a newcomer belongs.
    """
    slots, buffers, at, n = found.slots, results.buffers, cursor[POSITION], cursor[N_FOUND]
    first = at + 2 * _AHEAD
    if at == 0:
        for i in range(min(first, n)):
            prefetch_record(buffers, slots[i])
    if first < n:
        prefetch_record(buffers, slots[first])
        if policy.spare:
            prefetch(results.watched, slots[first])
    if at + _AHEAD < n:
        buffer = buffers[slots[at + _AHEAD]]
        last = buffer.start + buffer.n_entries
        for entry in range(last, max(buffer.start, last - _FETCHED * LINE) - 1, -LINE):
            prefetch(results.entries, entry)


@kernel
def withdraw_found(batch: BatchInput, cursor: Longs, found: Found, results: ResultLayout, policy: Policy) -> bool:
    """Take what is withdrawn from those who hold it, and wake who watches it; False if room is needed first."""
    event = cursor[STEP]
    message = batch.steps.withdrawn[event]
    while cursor[POSITION] < cursor[N_FOUND]:
        fetch_found(cursor, found, results, policy)
        slot = found.slots[cursor[POSITION]]
        if not has_room(results, slot):
            return False
        withdraw(results, batch.messages.rows, slot, message, event)
        cursor[POSITION] += 1
    as_of = AsOf(event, batch.steps.lasts[event], batch.steps.clocks[event])
    return leave(results, batch.subscriptions, batch.messages.rows, message, as_of, policy)


@kernel
def offer_found(batch: BatchInput, cursor: Longs, found: Found, results: ResultLayout, policy: Policy) -> bool:
    """Offer the arrival to its candidates; False if room is needed first, then call again."""
    event = cursor[STEP]
    while cursor[POSITION] < cursor[N_FOUND]:
        fetch_found(cursor, found, results, policy)
        slot = found.slots[cursor[POSITION]]
        if not has_room(results, slot):
            return False
        message, rank = batch.steps.arrivals[event], found.ranks[cursor[POSITION]]
        offer(results, batch.messages, slot, message, rank, event, policy)
        cursor[POSITION] += 1
    return True


@kernel
def anyone_short(results: ResultLayout) -> bool:
    """Must a buffer be refilled before the changes of the event can be emitted?"""
    for i in range(results.counters[N_TOUCHED]):
        if is_short(results, results.touched[i]):
            return True
    return False


@kernel
def run_events(batch: BatchInput, end: int, cursor: Longs, found: Found, results: ResultLayout, policy: Policy) -> int:
    """Take events from the cursor up to `end` through their phases; returns the next task, which is DONE at the end."""
    while cursor[STEP] < end:
        if cursor[PHASE] == SEEKING:
            if batch.steps.withdrawn.size > 0 and batch.steps.withdrawn[cursor[STEP]] >= 0:
                return FIND
            cursor[PHASE] = LEAVING
        if cursor[PHASE] == WITHDRAWING:
            if not withdraw_found(batch, cursor, found, results, policy):
                return NEED_ROOM
            cursor[PHASE], cursor[POSITION] = LEAVING, 0
        if cursor[PHASE] == LEAVING:
            if not leave_expired(batch, cursor, results, policy):
                return NEED_ROOM
            cursor[PHASE] = FINDING
        if cursor[PHASE] == FINDING:
            if batch.steps.arrivals[cursor[STEP]] >= 0:
                return FIND
            note_found(cursor, 0)
        if cursor[PHASE] == OFFERING:
            if not offer_found(batch, cursor, found, results, policy):
                return NEED_ROOM
            cursor[PHASE] = FILLING
        if cursor[PHASE] == FILLING:
            cursor[PHASE] = EMITTING
            if anyone_short(results):
                return SHORT
        if cursor[PHASE] == EMITTING:
            if results.counters[N_CHANGES] + n_pending(results) > results.changes.size:
                return NEED_ROOM
            cursor[PHASE] = ENDING
            if results.counters[N_TOUCHED] > 0:
                return FOLLOW
        emit_changes(results, cursor[STEP])
        cursor[STEP] += 1
        cursor[PHASE], cursor[POSITION] = SEEKING, 0
    return DONE


def policy_of(context: EngineContext, strategy: str = "cost", share: float = 0.0) -> Policy:
    """How results are kept under this window."""
    window = context.live.window
    drops = window is not None and strategy != "kmax"
    return Policy(context.live.limits.newest, window is not None, STRATEGIES[strategy], share, drops)


class KeptEngine(ABC):
    """An engine of TopK or Nearest subscriptions, but for how an arrival finds its candidates."""

    name: str
    keeps_results = True

    def __init__(self, kind: int, table: PointTable, context: EngineContext, policy: Policy | None = None) -> None:
        self.kind = kind
        self.table = table
        self.context = context
        self.results = Results(policy or policy_of(context))
        self._frame = frame_of(context.space)
        self._found = Found(np.zeros(FIRST_FOUND, np.int32), np.zeros(FIRST_FOUND))
        self._dense = np.zeros(0)
        self._cursor = np.zeros(N_CURSOR + CHAINS, dtype=np.int64)
        self._where = context.space.kernel_input
        self._batch_input: BatchInput | None = None
        self._n_updates = 0

    @abstractmethod
    def _take_events(self, batch: BatchInput, cursor: Longs) -> int:
        """Call the engine's kernel, from the cursor on; returns the task that it stopped with."""

    def _scratch(self) -> Floats:
        self._dense = with_room(self._dense, self.context.vocabulary.idf.size)
        return self._dense

    def insert(self, slots: Ints) -> None:
        self.results.open(slots, self.table.rows["k"][slots], self.table.half_lives_of(slots))

    def remove(self, slots: Ints) -> None:
        self.results.close(slots)

    def publish(self, steps: Steps) -> Changes:
        if not len(self.table) or not steps.arrivals.size:
            return NO_CHANGES
        self._begin()
        cursor, batch = self._cursor, self._input(steps, self.context.live.table)
        cursor[:] = 0
        while (task := self._take_events(batch, cursor)) != DONE:
            event = int(cursor[STEP])
            if task == SHORT:
                self.refill(self.results.short.copy(), AsOf(event, int(steps.lasts[event]), int(steps.clocks[event])))
            elif task == FIND_ROOM:
                self.grow_found()
            else:
                self._grow(cursor)
        self.results.maintain(SWEPT * steps.arrivals.size)
        return net_kept(self._changes(), steps)

    def who_wants(self, messages: MessageTable, steps: Steps) -> tuple[Ints, Floats]:
        if not len(self.table):
            return np.zeros(0, np.int32), np.zeros(0)
        return self._find(self._input(steps, messages))

    def _input(self, steps: Steps, messages: MessageTable) -> BatchInput:
        layouts, idf = (messages.layout, self.table.layout), self.context.vocabulary.idf
        parts = steps, *layouts, self._where, idf, self._scratch()
        made = self._batch_input = unchanged(self._batch_input, BatchInput, *parts)
        return made

    @abstractmethod
    def _find(self, batch: BatchInput) -> tuple[Ints, Floats]:
        """Who may want, or hold, the arrival of the first event, as floors are now, and how they rank it."""

    def _begin(self) -> None:
        """Start a batch."""
        if self.context.live.withdraws:
            self.results.expect_withdrawals()
        self.results.begin_batch(self.context.live.table.ids.keys.capacity)

    def grow_found(self) -> None:
        """Room for twice as many candidates."""
        n = 2 * self._found.slots.size
        self._found = Found(np.zeros(n, np.int32), np.zeros(n))

    def _grow(self, cursor: Longs) -> None:
        """Room for what the kernel stopped before: a message that leaves, an offer, or the end of an event."""
        results = self.results
        if cursor[PHASE] in (WITHDRAWING, LEAVING, OFFERING):
            results.make_room_for_offers()
        else:
            results.make_room(0, 0, 0, int(n_pending(results.layout)))

    def reweighed(self) -> None:  # noqa: B027 - only an engine that files by weight has something to do
        """The weights of words have changed."""

    def fill(self, slots: Ints) -> Changes:
        live = self.context.live
        self._begin()
        self.refill(slots, AsOf(0, live.last, live.clock))
        self.results.emit_changes(0)
        self.results.maintain(SWEPT * slots.size)
        self.results.grow_ahead()
        return self._changes()

    def move(self, slots: Ints, before: Array) -> Changes:
        """A moved subscription is evaluated again from its new place."""
        return self.fill(slots)

    def kept(self, slots: Ints) -> tuple[Ints, Ints, Floats]:
        return self.results.kept(slots)

    def resume(self, slots: Ints, n_kept: Ints, messages: Ints, ranks: Floats) -> None:
        table = self.context.live.table
        self._begin()
        ends = np.cumsum(n_kept)
        for slot, first, end in zip(slots.tolist(), (ends - n_kept).tolist(), ends.tolist(), strict=True):
            self.results.put(slot, table.layout, messages[first:end], ranks[first:end], 0)
        self.results.emit_changes(0)
        self.results.discard_changes()

    def refill(self, slots: Ints, as_of: AsOf) -> None:
        """Evaluate subscriptions again."""
        live, table, results = self.context.live, self.table, self.results
        rows, idf = table.layout.rows, self.context.vocabulary.idf
        if slots.size > LONG:
            slots = sort_for_locality(self.kind, table.layout, slots, self._frame, idf)
            results.make_room_for_many(slots, len(live.table))
        n_live = len(live.table)
        most = results.limit(int(slots[np.argmax(rows["k"][slots])])) if slots.size else 0
        index = live.index.for_many(slots.size, live.table, idf)
        scratch = index.room_for(int(rows["n_terms"][slots].max(initial=0)), min(most, n_live))
        search_input = SearchInput(
            index.layout, live.table.layout, n_live, idf, self._scratch(), scratch, results.lifetimes(min(most, n_live))
        )
        done = 0
        while True:
            done = refill_many(
                self.kind, slots, done, table.layout, search_input, as_of, results.layout, results.policy
            )
            if done == slots.size:
                break
            results.make_room_to_replace(int(slots[done]), min(results.limit(int(slots[done])), n_live))
        live.index.credit(index)

    def _changes(self) -> Changes:
        emitted = self.results.changes
        if not emitted.size:
            return NO_CHANGES
        self._n_updates += emitted.size
        changes = Changes(
            emitted["event"].copy(),
            emitted["slot"].copy(),
            emitted["message"].copy(),
            emitted["sign"].copy(),
            self._scores(emitted["rank"]),
        )
        self.results.discard_changes()
        return changes

    def _scores(self, ranks: Floats) -> Floats:
        return 0.0 - ranks if self.kind == NEAREST else ranks.copy()

    def result(self, slot: int) -> tuple[Ints, Floats]:
        messages, ranks = self.results.result(slot)
        scores = self._scores(ranks)
        if self.table.fades:
            half_lives = self.table.half_lives_of(np.full(messages.size, slot, np.int32))
            ts = self.context.live.table.layout.rows["ts"][messages]
            scores = faded_rows(scores, ts, self.context.live.clock, half_lives)
        return messages, scores

    def mark_messages(self, held: Array) -> None:
        self.results.mark_messages(self.table.used_slots, held)

    def check(self) -> None:
        assert not self._dense.any(), "scratch must be clean between calls"
        self.results.check(self.table.used_slots, self.context.live.table.layout)

    def stats(self) -> Stats:
        own = self._dense.nbytes + self._found.slots.nbytes + self._found.ranks.nbytes
        return {
            "engine": self.name,
            **self.results.stats(),
            "updates": self._n_updates,
            "bytes": own + self.results.nbytes,
        }

    def state(self) -> State:
        return {"updates": self._n_updates, "results": self.results.state()}

    def load(self, state: State) -> None:
        self._n_updates = state["updates"]
        self.results.load(state["results"])
