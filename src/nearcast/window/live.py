"""Turns a batch of messages into one ordered list of arrivals, withdrawals and expiries, with sequence and clock.

`LiveMessages` admits or refuses every row of a batch, stores and indexes what is admitted, and finds who expires in
which event. A batch of updates withdraws the live messages whose ids it has; `retract` withdraws one. Engines consume
the `Steps`; `release` then frees the slots of what has left.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from nearcast.columns.arena import Array, Ints, Longs, State, with_room
from nearcast.columns.decode_messages import MessageBatch, encode_batch
from nearcast.columns.ids import OneKey, group_ids
from nearcast.columns.message_table import MessageLayout, MessageTable
from nearcast.columns.times import FOREVER, MISSING
from nearcast.held import HeldCall, opened, unchanged
from nearcast.jit import allocating, kernel
from nearcast.model.message import Message
from nearcast.space.space import Space
from nearcast.text.key_kernels import KeysLayout, find_one
from nearcast.text.one_text import N_NEW, TextCall, encode_text
from nearcast.text.vocabulary import Vocabulary
from nearcast.window.expiries import TAIL, UNLIMITED, CountQueue, ExpiryHeap, HeapLayout, expire_steps, queued
from nearcast.window.index.index import MessageIndex
from nearcast.window.window import Limits, Window, is_live

NOBODY = -1  # no message arrives in this event
UNSET = MISSING  # the clock before the first `ts`

ADMITTED, LATE, DUPLICATE, TOO_FAR_AHEAD = range(4)
ELSEWHERE = -1  # of a message that comes alone: it takes the way of batches


class GivenRows(NamedTuple):
    """What admission reads of each row of a batch."""

    ts: Longs  # int64[n]: or MISSING
    expires: Longs  # int64[n]: or FOREVER
    found: Ints  # int32[n]: the slot that holds the row's id already, or -1; empty if ids need not be unique
    groups: Ints  # int32[n]: rows of one id share a group; empty likewise
    updates: bool  # a live message with the row's id is withdrawn, and no reason to refuse the row


class Admission(NamedTuple):
    """What becomes of each row of a batch."""

    status: Ints  # int32[n]: ADMITTED, LATE, DUPLICATE or TOO_FAR_AHEAD
    ts: Longs  # int64[n]: its time, the clock where none was given
    expires_at: Longs  # int64[n]
    lasts: Longs  # int64[n]: newest sequence after the row
    clocks: Longs  # int64[n]: clock after the row
    withdrawn: (
        Ints  # int32[n]: slot of what it withdraws, NOBODY, or -2 - r for what row r brought; empty but in updates
    )


class Steps(NamedTuple):
    """Events in order: who arrives, who leaves, and the clock. What is withdrawn leaves first."""

    rows: Longs  # int64[n]: the caller's row, or -1 for a step of the clock
    arrivals: Ints  # int32[n]: slot of the message that arrives, or NOBODY
    lasts: Longs  # int64[n]: newest sequence after the event
    clocks: Longs  # int64[n]: clock after the event
    expired_start: Longs  # int64[n + 1]
    expired: Ints  # int32[]: slots that leave in each event
    withdrawn: Ints  # int32[n]: slot of the message that is withdrawn, or NOBODY; nothing if none can be

    @property
    def n_arrivals(self) -> int:
        """In how many of these events a message arrives."""
        arrivals = self.arrivals
        return int(arrivals[0] >= 0) if arrivals.size == 1 else int(np.count_nonzero(arrivals >= 0))

    def of_withdrawn(self) -> Steps:
        """The same events as if what is withdrawn arrived, so that those who match it are found as for an arrival."""
        return self._replace(arrivals=self.withdrawn)


class Arrival(NamedTuple):
    """What becomes of one row, but for its id."""

    status: int  # ADMITTED, LATE or TOO_FAR_AHEAD
    ts: int
    expires_at: int
    clock: int  # after it


@kernel
def arrive(ts: int, expires: int, limits: Limits, clock: int) -> Arrival:
    """Decide one row by its times."""
    at = ts
    if at == MISSING:
        at = 0 if clock == UNSET else clock
    elif clock != UNSET and clock < FOREVER - limits.max_ahead_ms and at > clock + limits.max_ahead_ms:
        return Arrival(TOO_FAR_AHEAD, at, expires, clock)
    now = max(clock, at)
    ends = expires
    if limits.age_ms != UNLIMITED and at < FOREVER - limits.age_ms:
        ends = min(ends, at + limits.age_ms)
    return Arrival(LATE if ends <= now else ADMITTED, at, ends, now)


class ReceiveCall(NamedTuple):
    """A message that comes alone, and what decides about it."""

    text: TextCall  # what it says
    ids: KeysLayout
    key: OneKey  # its id
    rows: Array  # MESSAGE[]
    limits: Limits
    out: Longs  # int64[4]: its time, when it expires, the clock after it, and what it withdraws


@kernel
def receive(held: Any, ts: int, expires: int, last: int, clock: int, updates: bool) -> Any:
    """Decide about a single message, a `Held` call, and encode its text.

    Returns how many words have no weight yet, or ELSEWHERE if it must take the way of batches.
    """
    call = opened(held)
    arrival = arrive(ts, expires, call.limits, clock)
    withdrawn: Any = NOBODY
    if arrival.status != ADMITTED:
        return ELSEWHERE
    if call.limits.unique_ids:
        found = find_one(call.ids, call.key.data, 0, call.key.starts[1])
        then = clock if updates else arrival.clock
        if found >= 0 and is_live(call.rows[found], last, then, call.limits.newest):
            if not updates:
                return ELSEWHERE
            withdrawn = found
    if encode_text(call.text.table, call.text.keys, call.text.idf, call.text.room) < 0:
        return ELSEWHERE
    out = call.out
    out[0], out[1], out[2], out[3] = arrival.ts, arrival.expires_at, arrival.clock, withdrawn
    return call.text.room.counts[N_NEW]


class ExpireCall(NamedTuple):
    """Events, and what tells who leaves in them."""

    rows: Array  # MESSAGE[]
    steps: Steps
    expired: Ints  # int32[]: out, instead of those of the steps
    queue: CountQueue
    heap: HeapLayout


@kernel
def expire_held(held: Any, count: int, last: int) -> None:
    """`expire_steps` for a `Held` call."""
    call = opened(held)
    given = call.steps
    steps = Steps(
        given.rows, given.arrivals, given.lasts, given.clocks, given.expired_start, call.expired, given.withdrawn
    )
    expire_steps(call.rows, steps, count, last, call.queue, call.heap)


_NO_SLOTS: Ints = np.zeros(0, dtype=np.int32)
_EXPIRED = Steps._fields.index("expired")


def one_step() -> Steps:
    """Room for a single event."""
    longs, ints = [np.zeros(n, np.int64) for n in (1, 1, 1, 2)], [np.zeros(1, np.int32) for _ in range(2)]
    return Steps(longs[0], ints[0], longs[1], longs[2], longs[3], _NO_SLOTS, ints[1])


@allocating
def admit_rows(
    given: GivenRows, messages: MessageLayout, limits: Limits, last: int, clock: int, out: Admission
) -> None:
    """Decide every row of a batch in order. An id may come and go several times in one batch.

    An update asks who lives before its event, a publish who lives after the clock has moved.
    """
    newest = np.full(given.ts.size, -1, dtype=np.int64)  # by group: the last row admitted
    for row in range(given.ts.size):
        arrival = arrive(given.ts[row], given.expires[row], limits, clock)
        out.status[row] = arrival.status
        if arrival.status == TOO_FAR_AHEAD:
            out.lasts[row], out.clocks[row] = last, clock
            continue
        now = arrival.clock
        if arrival.status == ADMITTED:
            if limits.unique_ids:
                before, found = newest[given.groups[row]], given.found[row]
                then = clock if given.updates else now
                if before >= 0:
                    alive = out.lasts[before] > last - limits.newest and out.expires_at[before] > then
                elif found >= 0:
                    alive = is_live(messages.rows[found], last, then, limits.newest)
                else:
                    alive = False
                if given.updates:
                    out.withdrawn[row] = NOBODY if not alive else found if before < 0 else -2 - before
                elif alive:
                    out.status[row] = DUPLICATE
                    out.lasts[row], out.clocks[row] = last, clock
                    continue
                newest[given.groups[row]] = row
            last += 1
        clock = now
        out.ts[row], out.expires_at[row] = arrival.ts, arrival.expires_at
        out.lasts[row], out.clocks[row] = last, clock


class LiveMessages:
    """The live messages and their index; the only place that decides what lives."""

    def __init__(self, space: Space, window: Window | None, vocabulary: Vocabulary) -> None:
        self.window = window
        limits = window or Window()
        self.limits = Limits(
            UNLIMITED if limits.count is None else min(int(limits.count), UNLIMITED),
            limits.age_ms,
            FOREVER if limits.max_ahead is None else round(limits.max_ahead * 1000),
            window is not None,
        )
        self.vocabulary = vocabulary
        self.table = MessageTable(vocabulary, unique_ids=window is not None)
        self.index = MessageIndex(space)
        self.clock = UNSET
        self.last = 0
        self.n_late = 0
        self.n_withdrawn = 0
        self.withdraws = False  # from the first update or retraction on
        self._queue = CountQueue(np.zeros(0, dtype=np.int32), np.zeros(2, dtype=np.int64))
        self._expiries = ExpiryHeap()
        self._expired = np.zeros(0, dtype=np.int32)  # scratch
        self._leaving = self._expired  # as much of it as was used last
        self._known_steps: Steps | None = None  # the steps that were made last
        self._one = one_step()
        self._one_published = self._one._replace(withdrawn=_NO_SLOTS)
        self._received = np.zeros(4, dtype=np.int64)
        self._receive: HeldCall[ReceiveCall] = HeldCall(receive)
        self._expire: HeldCall[ExpireCall] = HeldCall(expire_held)
        self._takes_one = vocabulary.analysis.analyzer.is_plain

    def decide(self, batch: MessageBatch, updates: bool = False) -> Admission:
        """What becomes of each row of a batch if it is taken in now; nothing changes."""
        n, found = batch.x.size, np.zeros(0, dtype=np.int32)
        groups = found
        if self.limits.unique_ids:
            found = self.table.ids.keys.find_many(*batch.ids)
            groups = group_ids(batch.ids)
        withdrawn = np.full(n if updates else 0, NOBODY, dtype=np.int32)
        ts, expires_at, lasts, clocks = (np.zeros(n, np.int64) for _ in range(4))
        out = Admission(np.zeros(n, np.int32), ts, expires_at, lasts, clocks, withdrawn)
        given = GivenRows(batch.ts, batch.expires, found, groups, updates)
        admit_rows(given, self.table.layout, self.limits, self.last, self.clock, out)
        return out

    def leaving(self, last: int, clock: int) -> Ints:
        """The messages that would leave in an event after which these are the newest sequence and the clock."""
        if self.window is None:
            return np.zeros(0, np.int32)
        rows = self.table.layout.rows
        counted = queued(self._queue)[: last - self.last]
        slots = np.unique(np.concatenate([counted, self._expiries.due(clock)]))
        own = rows[slots]
        gone = (own["sequence"] <= last - self.limits.newest) | (own["expires_at"] <= clock)
        left: Ints = slots[gone & (own["sequence"] > 0)]
        return left

    def admit(self, batch: MessageBatch, updates: bool = False) -> tuple[Steps, Ints]:
        """Take in a batch; returns the events, and the status of each row. `release` must follow.

        With `updates` a live message with the id of a row is withdrawn in the row's event.
        """
        n, out = batch.x.size, self.decide(batch, updates)
        status, withdrawn = out.status, out.withdrawn
        if status.any():
            chosen, events = np.flatnonzero(status == ADMITTED), np.flatnonzero(status <= LATE)
            self.n_late += events.size - chosen.size
        else:
            chosen = events = np.arange(n)
        arrivals = np.full(n, NOBODY, dtype=np.int32)
        if chosen.size:
            terms = encode_batch(batch, self.vocabulary, self.table.keeps_order)
            arrivals[chosen] = self.table.store(
                batch, terms, chosen, out.lasts[chosen], out.ts[chosen], out.expires_at[chosen]
            )
            if self.window is not None:
                self.index.add(self.table.layout, self.vocabulary.idf, arrivals[chosen])
        if events.size:  # a late message fixes the type of ids too
            self.table.ids.type = self.table.ids.type or batch.id_type
        if updates:
            of_batch = withdrawn < NOBODY
            withdrawn[of_batch] = arrivals[-2 - withdrawn[of_batch]]
            self._withdraw(withdrawn, out.lasts)
            withdrawn = withdrawn[events]
        steps = self._steps(batch.rows[events], arrivals[events], out.lasts[events], out.clocks[events], withdrawn)
        return steps, status

    def admit_one(self, message: Message, updates: bool = False) -> Steps | None:
        """Take in a single message, as `admit` would; None, and nothing has happened, if it must go that way.

        What is refused or late goes there, and what has no text, or fields. The arrays of the step are written again
        by the next.
        """
        text, table = message.text, self.table
        if text is None or message.fields or not self._takes_one or table.ids.type is None:
            return None
        ids, one_text = table.ids, table.one_text
        if not ids.spell(message.id) or not one_text.hold(text):
            return None
        ts, expires = message.ts, message.expires
        call = ReceiveCall(one_text.call, ids.keys.layout, ids.one, table.rows, self.limits, self._received)
        ts, expires = MISSING if ts is None else ts, FOREVER if expires is None else expires
        n_new = self._receive(call, ts, expires, self.last, self.clock, updates)
        if n_new == ELSEWHERE:
            return None
        if n_new:
            one_text.weigh_new()
        at, expires_at, clock, withdrawn = self._received.tolist()
        last, step = self.last + 1, self._one
        slot = table.store_one(message.lon, message.lat, last, at, expires_at)
        step.arrivals[0], step.lasts[0], step.clocks[0] = slot, last, clock
        if self.window is not None:
            self.index.add(table.layout, self.vocabulary.idf, step.arrivals)
        if not updates:
            return self._steps_of(self._one_published)
        step.withdrawn[0] = withdrawn
        self._withdraw(step.withdrawn, step.lasts)
        return self._steps_of(step)

    def _withdraw(self, slots: Ints, lasts: Longs) -> None:
        """Note that messages are withdrawn, each by the newest sequence after its event; NOBODY where none is."""
        self.withdraws = True
        gone = np.flatnonzero(slots >= 0)
        if gone.size:
            self.table.withdraw(slots[gone], lasts[gone])
            self.index.withdraw(self.table.rows["sequence"][slots[gone]])
            self.n_withdrawn += gone.size

    def retract(self, slot: int) -> Steps:
        """A live message is withdrawn; `release` must follow."""
        step = self._one
        step.arrivals[0], step.withdrawn[0], step.lasts[0], step.clocks[0] = NOBODY, slot, self.last, self.clock
        self._withdraw(step.withdrawn, step.lasts)
        return self._steps_of(step)

    def advance(self, ts: int) -> Steps:
        """A step of the clock; backwards it does nothing."""
        clock = max(self.clock, ts)
        n = int(clock != self.clock)
        return self._steps(
            np.full(n, -1, np.int64), np.full(n, NOBODY, np.int32), np.full(n, self.last), np.full(n, clock, np.int64),
            np.zeros(0, np.int32),
        )  # fmt: skip

    def _steps(self, rows: Longs, arrivals: Ints, lasts: Longs, clocks: Longs, withdrawn: Ints) -> Steps:
        expired_start = np.zeros(rows.size + 1, dtype=np.int64)
        return self._steps_of(Steps(rows, arrivals, lasts, clocks, expired_start, self._expired, withdrawn))

    def _steps_of(self, steps: Steps) -> Steps:
        """The same with those who leave in each event; the clock moves."""
        n = steps.rows.size
        if not n:
            return steps._replace(expired=_NO_SLOTS)
        if self.window is not None:
            self._make_room(n)
            call = ExpireCall(self.table.rows, steps, self._expired, self._queue, self._expiries.layout)
            self._expire(call, self.limits.newest, self.last)
        self.last, self.clock = int(steps.lasts[-1]), int(steps.clocks[-1])
        n_expired = steps.expired_start.item(n)
        if not n_expired and steps.expired is _NO_SLOTS:
            return steps
        parts = *steps[:_EXPIRED], self._leave(n_expired), steps.withdrawn
        known = self._known_steps = unchanged(self._known_steps, Steps, *parts)
        return known

    def _leave(self, n: int) -> Ints:
        """The first `n` of those who leave: the same array as long as there are as many, so that it stays held."""
        if not n:
            return _NO_SLOTS
        if self._leaving.size != n or self._leaving.base is not self._expired:
            self._leaving = self._expired[:n]
        return self._leaving

    def _make_room(self, n: int) -> None:
        """Make room for `n` events: expiries, heap and queue."""
        n_live = len(self.table)
        self._expired = with_room(self._expired, n_live + n)
        if len(self._expiries) > 2 * n_live + 1024:
            sequences = self.table.rows["sequence"]
            self._expiries.keep(lambda serials, slots: sequences[slots] == serials)
        self._expiries.make_room(n)
        if self.limits.newest != UNLIMITED and self._queue.ends[TAIL] + n > self._queue.slots.size:
            waiting = queued(self._queue).copy()
            slots = with_room(self._queue.slots, 2 * (waiting.size + n))
            slots[: waiting.size] = waiting
            self._queue = CountQueue(slots, np.array([0, waiting.size]))

    def forget_arrivals(self, steps: Steps) -> None:
        """Without a window: free what arrived in these events, which nobody needs any more."""
        self.table.free(steps.arrivals[steps.arrivals >= 0])

    def release(self, steps: Steps) -> None:
        """Free what left in these events; all engines have seen them."""
        gone = steps.expired
        if steps.withdrawn.size:
            gone = np.concatenate([gone, steps.withdrawn[steps.withdrawn >= 0]])
        if gone.size:
            self.table.free(gone)
            self.index.prune(self.table.layout, self.last, self.clock, self.limits.newest)

    def keep_only(self, held: Array) -> None:
        """Without a window: free every message that no result holds."""
        stored = self.table.rows["sequence"][: held.size] > 0
        self.table.free(np.flatnonzero(stored & ~held).astype(np.int32))

    def reweigh(self) -> None:
        """The weights of words have changed."""
        live = self.table.live_slots
        self.table.measure(live)
        if self.window is not None:
            self.index.rebuild(self.table.layout, self.vocabulary.idf, live)

    @property
    def nbytes(self) -> int:
        own = self._queue.slots.nbytes + self._expired.nbytes + self._expiries.nbytes
        return self.table.nbytes + self.index.nbytes + own

    def state(self) -> State:
        return {
            "clock": self.clock,
            "last": self.last,
            "late": self.n_late,
            "withdrawn": self.n_withdrawn,
            "withdraws": self.withdraws,
            "table": self.table.state(),
            "index": self.index.state(),
            "queue": queued(self._queue),
            "expiries": self._expiries.state(),
        }

    def load(self, state: State) -> None:
        self.clock, self.last = state["clock"], state["last"]
        self.n_late, self.n_withdrawn, self.withdraws = state["late"], state["withdrawn"], state["withdraws"]
        self.table.load(state["table"])
        self.index.load(state["index"])
        self._expiries.load(state["expiries"])
        self._queue = CountQueue(state["queue"], np.array([0, state["queue"].size]))
