"""What lives: a batch of messages becomes one ordered list of arrivals and expiries, with sequence and clock.

A message is live as of (last, clock) exactly when `is_live` says so, which reads nothing but its row. Engines can
therefore look at any moment inside a batch after the whole batch has been stored: slots that expire are used again
only after `LiveMessages.release`.
"""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np

from nearcast.columns.arena import Array, Ints, Longs, State, with_room
from nearcast.columns.ids import group_ids
from nearcast.columns.message_table import FOREVER, MISSING, MessageBatch, MessageTable, encode_batch
from nearcast.errors import InvalidInput
from nearcast.jit import allocating, kernel
from nearcast.model.checks import is_a, number, whole
from nearcast.space.space import Space
from nearcast.text.vocabulary import Vocabulary
from nearcast.window.expiries import UNLIMITED, ExpiryHeap, expire_steps
from nearcast.window.index.index import MessageIndex

NOBODY = -1  # no message arrives in this event
UNSET = MISSING  # the clock before the first `ts`

ADMITTED, LATE, DUPLICATE, TOO_FAR_AHEAD = range(4)

_LARGEST_COUNT = 10**30  # as good as none


@dataclass(frozen=True, slots=True)
class Window:
    """How long messages live: the newest `count`, an `age` in seconds, or both; own expiries always count.

    Parameters
    ----------
    count
        Only the newest `count` messages live.
    age
        Messages live for `age` seconds after their `ts`.
    max_ahead
        Messages whose `ts` is more than this many seconds ahead of the clock are refused.
    """

    count: int | None = None
    age: float | None = None
    max_ahead: float | None = None

    def __post_init__(self) -> None:
        if self.count is not None:
            object.__setattr__(self, "count", _count(self.count))
        for field in ("age", "max_ahead"):
            value = getattr(self, field)
            if value is not None:
                object.__setattr__(self, field, _seconds(field, value))
        if self.age is not None and self.age_ms < 1:
            raise InvalidInput("age", self.age, "must be at least a millisecond")

    @property
    def age_ms(self) -> int:
        return UNLIMITED if self.age is None else round(self.age * 1000)


def _count(value: Any) -> int:
    try:
        return whole("count", value, 1, _LARGEST_COUNT)
    except InvalidInput as error:
        if error.rule.startswith("must be <="):
            raise
        raise InvalidInput("count", value, "must be a whole number >= 1") from None


def _seconds(field: str, value: Any) -> float:
    """Seconds as a plain int, if they are one, or float."""
    try:
        seconds = number(field, value)
    except InvalidInput:
        seconds = -1.0
    if not 0.0 <= seconds < UNLIMITED / 1000:
        raise InvalidInput(field, value, "must be a number of seconds >= 0")
    return whole(field, value) if is_a(value, Integral) else seconds


class Limits(NamedTuple):
    """A window as kernels see it."""

    newest: int  # how many live at most
    age_ms: int
    max_ahead_ms: int
    unique_ids: bool


class Admission(NamedTuple):
    """What becomes of each row of a batch."""

    status: Ints  # int32[n]: ADMITTED, LATE, DUPLICATE or TOO_FAR_AHEAD
    ts: Longs  # int64[n]: its time, the clock where none was given
    expires_at: Longs  # int64[n]
    lasts: Longs  # int64[n]: newest sequence after the row
    clocks: Longs  # int64[n]: clock after the row


class Steps(NamedTuple):
    """Events in order: who arrives, who leaves, and the clock."""

    rows: Longs  # int64[n]: the caller's row, or -1 for a step of the clock
    arrivals: Ints  # int32[n]: slot of the message that arrives, or NOBODY
    lasts: Longs  # int64[n]: newest sequence after the event
    clocks: Longs  # int64[n]: clock after the event
    expired_start: Longs  # int64[n + 1]
    expired: Ints  # int32[]: slots that leave in each event


@kernel
def is_live(row, last, clock, count):
    """Does the message of this row live when `last` is the newest sequence and the clock stands at `clock`?"""
    return 0 < row.sequence <= last and row.sequence > last - count and row.expires_at > clock


@allocating
def admit_rows(ts, expires, found, groups, messages, limits, last, clock, out):
    """Decide every row of a batch in order.

    `found` is the slot that holds the row's id already, or -1; rows of one id share a group. An id may come and go
    several times in one batch.
    """
    newest = np.full(ts.size, -1, dtype=np.int64)  # by group: the last row admitted
    for row in range(ts.size):
        at = ts[row]
        if at == MISSING:
            at = 0 if clock == UNSET else clock
        elif clock != UNSET and clock < FOREVER - limits.max_ahead_ms and at > clock + limits.max_ahead_ms:
            out.status[row] = TOO_FAR_AHEAD
            out.lasts[row], out.clocks[row] = last, clock
            continue
        now = max(clock, at)
        ends = expires[row]
        if limits.age_ms != UNLIMITED and at < FOREVER - limits.age_ms:
            ends = min(ends, at + limits.age_ms)
        if ends <= now:
            out.status[row] = LATE
        else:
            if limits.unique_ids:
                before = newest[groups[row]]
                if before >= 0:
                    alive = out.lasts[before] > last - limits.newest and out.expires_at[before] > now
                elif found[row] >= 0:
                    alive = is_live(messages.rows[found[row]], last, now, limits.newest)
                else:
                    alive = False
                if alive:
                    out.status[row] = DUPLICATE
                    out.lasts[row], out.clocks[row] = last, clock
                    continue
                newest[groups[row]] = row
            out.status[row] = ADMITTED
            last += 1
        clock = now
        out.ts[row], out.expires_at[row] = at, ends
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
        self._queue = np.zeros(
            0, dtype=np.int32
        )  # slots by sequence, the newest at _tail - 1; only when the window counts
        self._head = self._tail = 0
        self._expiries = ExpiryHeap()
        self._expired = np.zeros(0, dtype=np.int32)  # scratch

    def admit(self, batch: MessageBatch) -> tuple[Steps, Ints]:
        """Take in a batch; returns the events, and the status of each row. `release` must follow."""
        n = batch.x.size
        messages = self.table.layout
        found = groups = np.zeros(0, dtype=np.int32)
        if self.limits.unique_ids:
            found = self.table.ids.keys.find_many(*batch.ids)
            groups = group_ids(batch.ids)
        out = Admission(np.zeros(n, np.int32), *(np.zeros(n, np.int64) for _ in range(4)))
        admit_rows(batch.ts, batch.expires, found, groups, messages, self.limits, self.last, self.clock, out)
        status = out.status
        chosen = np.flatnonzero(status == ADMITTED)
        events = np.flatnonzero((status == ADMITTED) | (status == LATE))
        arrivals = np.full(n, NOBODY, dtype=np.int32)
        if chosen.size:
            terms = encode_batch(batch, self.vocabulary)
            arrivals[chosen] = self.table.store(
                batch, terms, chosen, out.lasts[chosen], out.ts[chosen], out.expires_at[chosen]
            )
            if self.window is not None:
                self.index.add(self.table.layout, self.vocabulary.idf, arrivals[chosen])
        if events.size:  # a late message fixes the type of ids too
            self.table.ids.type = self.table.ids.type or batch.id_type
        self.n_late += int((status == LATE).sum())
        steps = self._steps(batch.rows[events], arrivals[events], out.lasts[events], out.clocks[events])
        return steps, status

    def advance(self, ts: int) -> Steps:
        """A step of the clock; backwards it does nothing."""
        clock = max(self.clock, ts)
        n = int(clock != self.clock)
        return self._steps(
            np.full(n, -1, np.int64), np.full(n, NOBODY, np.int32), np.full(n, self.last), np.full(n, clock, np.int64)
        )

    def _steps(self, rows: Longs, arrivals: Ints, lasts: Longs, clocks: Longs) -> Steps:
        n = rows.size
        expired_start = np.zeros(n + 1, dtype=np.int64)
        if self.window is not None and n:
            self._make_room(n)
            self._head, self._tail = expire_steps(
                self.table.layout.rows, (arrivals, lasts, clocks), self.limits.newest, self.last,
                (self._queue, self._head, self._tail), self._expiries.layout, expired_start, self._expired,
            )  # fmt: skip
        if n:
            self.last, self.clock = int(lasts[-1]), int(clocks[-1])
        return Steps(rows, arrivals, lasts, clocks, expired_start, self._expired[: expired_start[-1]].copy())

    def _make_room(self, n: int) -> None:
        """Promise the kernel room for `n` events: expiries, heap and queue."""
        self._expired = with_room(self._expired, len(self.table) + n)
        if len(self._expiries) > 2 * len(self.table) + 1024:
            sequences = self.table.layout.rows["sequence"]
            self._expiries.keep(lambda serials, slots: sequences[slots] == serials)
        self._expiries.make_room(n)
        if self.limits.newest != UNLIMITED and self._tail + n > self._queue.size:
            waiting = self._queue[self._head : self._tail].copy()
            self._queue = with_room(self._queue, 2 * (waiting.size + n))
            self._queue[: waiting.size] = waiting
            self._head, self._tail = 0, waiting.size

    def release(self, steps: Steps) -> None:
        """All engines have seen these events: what expired in them is forgotten."""
        if steps.expired.size:
            self.table.free(steps.expired)
            self.index.prune(self.table.layout, self.last, self.clock, self.limits.newest)

    def keep_only(self, held: Array) -> None:
        """Without a window: forget every message that no result holds."""
        stored = self.table.layout.rows["sequence"][: held.size] > 0
        self.table.free(np.flatnonzero(stored & ~held).astype(np.int32))

    def reweigh(self) -> None:
        """The weights of words have changed."""
        live = self.table.live_slots
        self.table.measure(live)
        if self.window is not None:
            self.index.rebuild(self.table.layout, self.vocabulary.idf, live)

    @property
    def nbytes(self) -> int:
        own = self._queue.nbytes + self._expired.nbytes + self._expiries.nbytes
        return self.table.nbytes + self.index.nbytes + own

    def state(self) -> State:
        return {
            "clock": self.clock,
            "last": self.last,
            "late": self.n_late,
            "table": self.table.state(),
            "index": self.index.state(),
            "queue": self._queue[self._head : self._tail],
            "expiries": self._expiries.state(),
        }

    def load(self, state: State) -> None:
        self.clock, self.last, self.n_late = state["clock"], state["last"], state["late"]
        self.table.load(state["table"])
        self.index.load(state["index"])
        self._expiries.load(state["expiries"])
        self._queue, self._head, self._tail = state["queue"], 0, state["queue"].size
