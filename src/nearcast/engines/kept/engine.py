"""What the engines that keep results share: events in, changes out; an engine adds how an arrival finds its candidates.

An event goes through phases: messages leave, the arrival's candidates are found and offered, buffers that are short
are refilled, and what changed is said. Kernels go on until there is no room, or until buffers are short; then Python
makes room, or refills, and calls again. An engine's own kernel has this form:

    while cursor[STEP] < steps.arrivals.size:
        if cursor[PHASE] == LEAVING and leave_expired(...) != DONE:
            return NEED_ROOM
        if cursor[PHASE] == FINDING:
            ... write who may want the arrival into `found`, or return FIND_ROOM; then note_found(cursor, n)
        code = keep_found(...)
        if code != DONE:
            return code
        ... whatever the engine does about floors that have changed, subscription by subscription in `touched`
        end_event(cursor, results)
    return DONE
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import NamedTuple

import numpy as np

from nearcast.columns.arena import Array, Floats, Ints, Longs, State, with_room
from nearcast.columns.subscription_tables import PointTable
from nearcast.engines.contract import NO_CHANGES, Changes, EngineContext, Stats
from nearcast.engines.exact import NEAREST
from nearcast.engines.kept.buffers import LINE, N_CHANGES, N_TOUCHED, has_room, leave, n_unsaid, settle
from nearcast.engines.kept.refill import Asking, When, refill_many, side_by_side
from nearcast.engines.kept.results import Results
from nearcast.engines.kept.skyband import STRATEGIES, Policy, is_short, offer
from nearcast.jit import NEED_ROOM, kernel, prefetch
from nearcast.space.space import SpaceInput
from nearcast.window.index.index import frame_of
from nearcast.window.live import Steps

DONE, SHORT, FIND_ROOM = range(3)  # answers, besides NEED_ROOM
LEAVING, FINDING, OFFERING, FILLING, SETTLING = range(5)  # phases of an event
STEP, PHASE, POSITION, N_FOUND = range(4)  # positions in a cursor
N_CURSOR = 4

_FIRST_FOUND = 1024
_SWEPT = 64  # buffers that are looked at for each event, or move, while the pool is swept
_LONG = 64  # subscriptions that are worth sorting before they are evaluated


class Found(NamedTuple):
    """Who may want an arrival."""

    slots: Ints  # int32[n]
    ranks: Floats  # float64[n]


@kernel
def fetch_waiting(results, subscriptions, rows, message):
    """Have read ahead what those who watch a message will touch when it leaves.

    All of it lies anywhere in memory: waiting for one subscription after another took most of the time.
    """
    waiting, buffers, entries = results.waiting, results.buffers, results.entries
    first = results.heads[message]
    at = first
    while at > 0:
        prefetch(subscriptions, waiting[at - 1].slot)
        prefetch(buffers, waiting[at - 1].slot)
        prefetch(buffers, waiting[at - 1].slot + 1)  # a record often ends in the line of the next one
        prefetch(results.watched, waiting[at - 1].slot)
        at = waiting[at - 1].next
    at = first
    while at > 0:
        buffer = buffers[waiting[at - 1].slot]
        for entry in range(buffer.start, buffer.start + buffer.n_entries, LINE):
            prefetch(entries, entry)
        at = waiting[at - 1].next
    at = first
    while at > 0:
        if results.watched[waiting[at - 1].slot].soonest > 0:  # else stamps tell who leaves
            buffer = buffers[waiting[at - 1].slot]
            for entry in range(buffer.start, buffer.start + buffer.n_entries):
                prefetch(rows, entries[entry].message)
        at = waiting[at - 1].next


@kernel
def leave_expired(steps, cursor, messages, subscriptions, results, policy):
    """Take the messages that leave in this event out of all buffers, or stop with NEED_ROOM."""
    event = cursor[STEP]
    now = (event, steps.lasts[event], steps.clocks[event])
    first = steps.expired_start[event]
    while cursor[POSITION] < steps.expired_start[event + 1] - first:
        message = steps.expired[first + cursor[POSITION]]
        fetch_waiting(results, subscriptions.rows, messages.rows, message)
        if not leave(results, subscriptions, messages.rows, message, now, policy):
            return NEED_ROOM
        cursor[POSITION] += 1
    cursor[PHASE] = FINDING
    return DONE


@kernel
def note_found(cursor, n):
    """So many candidates were found."""
    cursor[PHASE], cursor[POSITION], cursor[N_FOUND] = OFFERING, 0, n


@kernel
def offer_found(steps, cursor, messages, found, results, policy):
    """Offer the arrival to its candidates, or stop with NEED_ROOM."""
    event = cursor[STEP]
    while cursor[POSITION] < cursor[N_FOUND]:
        if cursor[POSITION] + 2 < cursor[N_FOUND]:
            prefetch(results.entries, results.buffers[found.slots[cursor[POSITION] + 1]].start)
            prefetch(results.buffers, found.slots[cursor[POSITION] + 2])
            if policy.spare:
                prefetch(results.watched, found.slots[cursor[POSITION] + 2])
        slot = found.slots[cursor[POSITION]]
        if not has_room(results, slot):
            return NEED_ROOM
        offer(results, messages, slot, steps.arrivals[event], found.ranks[cursor[POSITION]], event, policy)
        cursor[POSITION] += 1
    cursor[PHASE] = FILLING
    return DONE


@kernel
def anyone_short(results):
    """Must a buffer be refilled before the event can be settled?"""
    for i in range(results.counters[N_TOUCHED]):
        if is_short(results, results.touched[i]):
            return True
    return False


@kernel
def keep_found(steps, cursor, messages, found, results, policy):
    """Offer the arrival to its candidates; DONE once the event can be settled, else NEED_ROOM or SHORT: call again."""
    if cursor[PHASE] == OFFERING and offer_found(steps, cursor, messages, found, results, policy) == NEED_ROOM:
        return NEED_ROOM
    if cursor[PHASE] == FILLING:
        cursor[PHASE] = SETTLING
        if anyone_short(results):
            return SHORT
    return DONE if results.counters[N_CHANGES] + n_unsaid(results) <= results.changes.size else NEED_ROOM


@kernel
def end_event(cursor, results):
    """Say what changed, and go on to the next event."""
    settle(results, cursor[STEP])
    cursor[STEP] += 1
    cursor[PHASE], cursor[POSITION] = LEAVING, 0


def policy_of(context: EngineContext, strategy: str = "cost", share: float = 0.0) -> Policy:
    """How results are kept under this window."""
    window = context.live.window
    return Policy(context.live.limits.newest, window is not None, STRATEGIES[strategy], share)


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
        self._found = Found(np.zeros(_FIRST_FOUND, np.int32), np.zeros(_FIRST_FOUND))
        self._dense = np.zeros(0)
        self._n_updates = 0

    @abstractmethod
    def _take(self, steps: Steps, cursor: Longs) -> int:
        """Call the engine's kernel, from the cursor on."""

    @property
    def _where(self) -> SpaceInput:
        return self.context.space.kernel_input

    def _scratch(self) -> Floats:
        self._dense = with_room(self._dense, self.context.vocabulary.idf.size)
        return self._dense

    def insert(self, slots: Ints) -> None:
        self.results.open(slots, self.table.rows["k"][slots])

    def remove(self, slots: Ints) -> None:
        self.results.close(slots)

    def publish(self, steps: Steps) -> Changes:
        if not len(self.table) or not steps.arrivals.size:
            return NO_CHANGES
        self.results.begin(self.context.live.table.ids.keys.capacity)
        cursor = np.zeros(N_CURSOR, dtype=np.int64)
        while (code := self._take(steps, cursor)) != DONE:
            event = int(cursor[STEP])
            if code == SHORT:
                self._refill(self.results.short.copy(), event, int(steps.lasts[event]), int(steps.clocks[event]))
            elif code == FIND_ROOM:
                self._find_more()
            else:
                self._grow(cursor)
        self.results.tidy(_SWEPT * steps.arrivals.size)
        return self._changes()

    def _find_more(self) -> None:
        """Room for twice as many candidates."""
        n = 2 * self._found.slots.size
        self._found = Found(np.zeros(n, np.int32), np.zeros(n))

    def _grow(self, cursor: Longs) -> None:
        """Room for what the kernel stopped before: a message that leaves, an offer, or the end of an event."""
        results = self.results
        if cursor[PHASE] in (LEAVING, OFFERING):
            results.make_room_for_offers()
        else:
            results.make_room(0, 0, 0, int(n_unsaid(results.layout)))

    def reweighed(self) -> None:  # noqa: B027 - only an engine that files by weight has something to do
        """The weights of words have changed."""

    def fill(self, slots: Ints) -> Changes:
        live = self.context.live
        self.results.begin(live.table.ids.keys.capacity)
        self._refill(slots, 0, live.last, live.clock)
        self.results.settle(0)
        self.results.tidy(_SWEPT * slots.size)
        self.results.keep_ahead()
        return self._changes()

    def move(self, slots: Ints, before: Array) -> Changes:
        """A moved subscription is evaluated again from its new place."""
        return self.fill(slots)

    def kept(self, slots: Ints) -> tuple[Ints, Ints, Floats]:
        return self.results.kept(slots)

    def resume(self, slots: Ints, n_kept: Ints, messages: Ints, ranks: Floats) -> None:
        table = self.context.live.table
        self.results.begin(table.ids.keys.capacity)
        ends = np.cumsum(n_kept)
        for slot, first, end in zip(slots.tolist(), (ends - n_kept).tolist(), ends.tolist(), strict=True):
            self.results.put(slot, table.layout, messages[first:end], ranks[first:end], 0)
        self.results.settle(0)
        self.results.forget_changes()

    def _refill(self, slots: Ints, event: int, last: int, clock: int) -> None:
        """Find the results of subscriptions anew, as of (last, clock)."""
        live, table, results = self.context.live, self.table, self.results
        rows, idf = table.layout.rows, self.context.vocabulary.idf
        if slots.size > _LONG:
            slots = side_by_side(self.kind, table.layout, slots, self._frame, idf)
            results.make_room_for_many(slots, len(live.table))
        n_live = len(live.table)
        when = When(event, last, clock, live.limits.newest, n_live)
        most = results.limit(int(slots[np.argmax(rows["k"][slots])])) if slots.size else 0
        index = live.index.for_many(slots.size, live.table, idf)
        scratch = index.room_for(int(rows["n_terms"][slots].max(initial=0)), min(most, n_live))
        asking = Asking(index.layout, live.table.layout, idf, self._scratch(), scratch)
        done = 0
        while True:
            done = refill_many(self.kind, slots, done, table.layout, asking, when, results.layout, results.policy)
            if done == slots.size:
                break
            results.make_room_to_replace(int(slots[done]), min(results.limit(int(slots[done])), n_live))
        live.index.credit(index)

    def _changes(self) -> Changes:
        said = self.results.changes
        self._n_updates += said.size
        changes = Changes(
            said["event"].copy(),
            said["slot"].copy(),
            said["message"].copy(),
            said["sign"].copy(),
            self._scores(said["rank"]),
        )
        self.results.forget_changes()
        return changes

    def _scores(self, ranks: Floats) -> Floats:
        return 0.0 - ranks if self.kind == NEAREST else ranks.copy()

    def result(self, slot: int) -> tuple[Ints, Floats]:
        messages, ranks = self.results.result(slot)
        return messages, self._scores(ranks)

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
