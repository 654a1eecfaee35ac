"""Results that are kept: for each subscription the best k messages and some spare ones, and who holds which message.

A subscription's **buffer** is sorted best first. It holds, of the live messages that rank above its **floor**, all
but those that surely never enter the result: those that k better ones outlive (a k-skyband). The first k entries are
the result. When so many expire that fewer than k are left, the buffer is refilled from the message index; a buffer
without a floor is complete and needs no refill. The floor rises when a full buffer drops its worst entries.

`rank` is larger for better messages: the score of TopK, minus the distance of Nearest. Equal ranks: the newer message
is better.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from nearcast.columns.arena import Array, Floats, Ints, Longs, State, record, with_room
from nearcast.columns.messages import MessageLayout
from nearcast.jit import kernel

BUFFER = record(
    ("floor", "f8"),  # rank that a message must reach to be kept; -inf when complete
    ("start", "i8"),  # first entry in the pool
    ("touched", "i8"),  # serial of the event in which it was last changed
    ("n_entries", "i4"),
    ("room", "i4"),
    ("k", "i4"),
)
ENTRY = record(("rank", "f8"), ("message", "i4"), ("shown", "i4"))  # shown: the subscriber was told of it
HOLDER = record(("slot", "i4"), ("next", "i4"))  # next: position + 1 of the next holder, 0 at the end
CHANGE = record(("rank", "f8"), ("event", "i4"), ("slot", "i4"), ("message", "i4"), ("sign", "i4"))

# positions in `counters`
USED, N_CHANGES, FREE_HOLDER, N_FREE_HOLDERS, N_HOLDERS, N_TOUCHED, SERIAL = range(7)
N_OFFERED, N_KEPT, N_DROPPED, N_EXPIRED, N_REFILLS = range(7, 12)
N_COUNTERS = 12

_FIRST_ROOM = 64
_LEAST_SPARE = 4  # spare entries that even a result of one message has


class ResultLayout(NamedTuple):
    """All results of one engine."""

    buffers: Array  # BUFFER[n_slots]
    entries: Array  # ENTRY[]: the pool of buffers
    heads: Ints  # int32[n_message_slots]: position + 1 of the first holder of each message, 0 for none
    holders: Array  # HOLDER[]: who holds, or held, which message
    marks: Ints  # int32[n_message_slots]: scratch, all zeros between calls
    changes: Array  # CHANGE[]: what was said in this batch
    touched: Ints  # int32[n_slots]: subscriptions changed in this event
    counters: Longs  # int64[N_COUNTERS]


class Policy(NamedTuple):
    """How a window lets messages go, as far as results care."""

    counts: bool  # the window drops the oldest
    spare: bool  # messages leave, so a buffer keeps more than k


@kernel
def buffer_limit(k, policy):
    """Most entries that a buffer may hold."""
    k = np.int64(k)  # twice the largest k is more than 32 bits hold
    return k + max(k, _LEAST_SPARE) if policy.spare else k


@kernel
def has_room(results, slot):
    """Is there room for one more entry of a subscription, wherever its buffer goes, and for what it may say?"""
    buffer = results.buffers[slot]
    grown = 0 if buffer.n_entries < buffer.room else max(4, 2 * buffer.room)
    counters = results.counters
    return (
        counters[USED] + grown <= results.entries.size
        and (counters[FREE_HOLDER] > 0 or counters[N_HOLDERS] < results.holders.size)
        and counters[N_CHANGES] + 2 * (buffer.n_entries + 1) <= results.changes.size
    )


@kernel
def say(results, event, slot, message, sign, rank):
    """Append a change; room was promised."""
    at = results.counters[N_CHANGES]
    change = results.changes[at]
    change.event, change.slot, change.message, change.sign, change.rank = event, slot, message, sign, rank
    results.counters[N_CHANGES] = at + 1


@kernel
def touch(results, slot):
    """Note that a subscription's buffer changed in this event."""
    if results.buffers[slot].touched != results.counters[SERIAL]:
        results.buffers[slot].touched = results.counters[SERIAL]
        results.touched[results.counters[N_TOUCHED]] = slot
        results.counters[N_TOUCHED] += 1


@kernel
def hold(results, slot, message):
    """Remember that a subscription holds a message."""
    counters = results.counters
    at = counters[FREE_HOLDER] - 1
    if at >= 0:
        counters[FREE_HOLDER] = results.holders[at].next
        counters[N_FREE_HOLDERS] -= 1
    else:
        at = counters[N_HOLDERS]
        counters[N_HOLDERS] += 1
    results.holders[at].slot = slot
    results.holders[at].next = results.heads[message]
    results.heads[message] = at + 1


@kernel
def move_to_larger(results, slot):
    """Give a full buffer a block of twice the room."""
    buffer = results.buffers[slot]
    room = max(4, 2 * buffer.room)
    start = results.counters[USED]
    for i in range(buffer.n_entries):
        old, new = results.entries[buffer.start + i], results.entries[start + i]
        new.rank, new.message, new.shown = old.rank, old.message, old.shown
    results.counters[USED] = start + room
    buffer.start, buffer.room = start, room


@kernel
def offer(results, messages, slot, message, rank, event, policy):
    """Put a message into a subscription's buffer if it ranks above the floor; `has_room` must hold."""
    counters = results.counters
    counters[N_OFFERED] += 1
    buffer = results.buffers[slot]
    if rank < buffer.floor:
        return
    if buffer.n_entries == buffer.room:
        move_to_larger(results, slot)
    at = buffer.start + buffer.n_entries
    sequence = messages.rows[message].sequence
    while at > buffer.start:
        above = results.entries[at - 1]
        if above.rank > rank or (above.rank == rank and messages.rows[above.message].sequence > sequence):
            break
        entry = results.entries[at]
        entry.rank, entry.message, entry.shown = above.rank, above.message, above.shown
        at -= 1
    entry = results.entries[at]
    entry.rank, entry.message, entry.shown = rank, message, 0
    buffer.n_entries += 1
    counters[N_KEPT] += 1
    if policy.spare:
        hold(results, slot, message)
    touch(results, slot)
    if buffer.n_entries > buffer_limit(buffer.k, policy):
        shrink(results, messages, slot, event, policy)


@kernel
def is_dominated(results, messages, buffer, position, policy):
    """Do k better entries surely outlive this one?

    Paper: [SKYPE] section 6, definition of the k-skyband.
    Departs: asks also who outlives whom, so that it holds for every mix of windows.
    """
    own = messages.rows[results.entries[buffer.start + position].message]
    n = 0
    for i in range(position):
        other = messages.rows[results.entries[buffer.start + i].message]
        if other.expires_at >= own.expires_at and (other.sequence > own.sequence or not policy.counts):
            n += 1
            if n == buffer.k:
                return True
    return False


@kernel
def shrink(results, messages, slot, event, policy):
    """Make room in a full buffer: drop what is dominated, then if need be the worst, which raises the floor."""
    buffer = results.buffers[slot]
    kept = buffer.n_entries
    if policy.spare:
        # From the worst on, so that an entry is judged before any that may dominate it has been dropped.
        for position in range(buffer.n_entries - 1, buffer.k - 1, -1):
            if is_dominated(results, messages, buffer, position, policy):
                drop(results, slot, position, event)
        limit = buffer_limit(buffer.k, policy)
        if buffer.n_entries <= limit:
            return
        kept = limit - max(1, (limit - buffer.k) // 4)
    else:
        kept = buffer.k
    worst = results.entries[buffer.start + kept]
    buffer.floor = worst.rank
    while buffer.n_entries > kept:
        drop(results, slot, buffer.n_entries - 1, event)


@kernel
def drop(results, slot, position, event):
    """Take an entry out of a buffer; the subscriber is told if it was shown."""
    buffer = results.buffers[slot]
    entry = results.entries[buffer.start + position]
    if entry.shown:
        say(results, event, slot, entry.message, -1, entry.rank)
    for i in range(buffer.start + position, buffer.start + buffer.n_entries - 1):
        here, after = results.entries[i], results.entries[i + 1]
        here.rank, here.message, here.shown = after.rank, after.message, after.shown
    buffer.n_entries -= 1
    results.counters[N_DROPPED] += 1


@kernel
def n_leaving(results, message):
    """At most so many changes are said when a message leaves."""
    n = 0
    at = results.heads[message]
    while at > 0:
        n += 1
        at = results.holders[at - 1].next
    return n


@kernel
def leave(results, subscriptions, message, event, clock):
    """A message expires: take it out of every buffer that holds it. Room for `n_leaving` changes must be there."""
    counters = results.counters
    at = results.heads[message]
    results.heads[message] = 0
    while at > 0:
        holder = results.holders[at - 1]
        slot, following = holder.slot, holder.next
        holder.next = counters[FREE_HOLDER]
        counters[FREE_HOLDER] = at
        counters[N_FREE_HOLDERS] += 1
        at = following
        row = subscriptions.rows[slot]
        if row.number < 0 or row.expires <= clock:
            continue
        buffer = results.buffers[slot]
        for position in range(buffer.n_entries):
            if results.entries[buffer.start + position].message == message:
                counters[N_EXPIRED] += 1
                drop(results, slot, position, event)
                touch(results, slot)
                break


@kernel
def is_short(results, slot):
    """Are there too few entries left to know the result?"""
    buffer = results.buffers[slot]
    return buffer.n_entries < buffer.k and buffer.floor != -np.inf


@kernel
def n_unsaid(results):
    """At most so many changes are said when the event is settled."""
    n = 0
    for i in range(results.counters[N_TOUCHED]):
        n += results.buffers[results.touched[i]].n_entries
    return n


@kernel
def settle(results, event):
    """End an event: tell every touched subscriber what entered and what left the first k. Needs room for `n_unsaid`."""
    for i in range(results.counters[N_TOUCHED]):
        slot = results.touched[i]
        buffer = results.buffers[slot]
        for position in range(buffer.n_entries):
            entry = results.entries[buffer.start + position]
            shown = 1 if position < buffer.k else 0
            if entry.shown != shown:
                say(results, event, slot, entry.message, 2 * shown - 1, entry.rank)
                entry.shown = shown
    results.counters[N_TOUCHED] = 0
    results.counters[SERIAL] += 1


@kernel
def replace(results, slot, found, ranks, event, policy):
    """Give a subscription a new buffer, best first, after its results were evaluated anew.

    What was shown and is no longer among the first k is said with the rank it had. Room for the block, the holders
    and the changes must be there.
    """
    buffer = results.buffers[slot]
    start = results.counters[USED]
    n_found = found.size
    for i in range(n_found):
        entry = results.entries[start + i]
        entry.rank, entry.message, entry.shown = ranks[i], found[i], 0
        results.marks[found[i]] = i + 1
    for position in range(buffer.n_entries):
        old = results.entries[buffer.start + position]
        if old.shown:
            at = results.marks[old.message] - 1
            if 0 <= at < buffer.k:
                results.entries[start + at].shown = 1
            else:
                say(results, event, slot, old.message, -1, old.rank)
    for i in range(n_found):
        results.marks[found[i]] = 0
    results.counters[USED] = start + n_found
    buffer.start, buffer.n_entries, buffer.room = start, n_found, n_found
    limit = buffer_limit(buffer.k, policy)
    buffer.floor = ranks[n_found - 1] if n_found == limit else -np.inf
    if policy.spare:
        for i in range(n_found):
            hold(results, slot, found[i])
    touch(results, slot)


class Results:
    """The arrays behind the kernels above; the only place where buffers are written."""

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self._buffers = np.zeros(0, dtype=BUFFER)
        self._entries = np.zeros(_FIRST_ROOM, dtype=ENTRY)
        self._heads = np.zeros(0, dtype=np.int32)
        self._holders = np.zeros(_FIRST_ROOM, dtype=HOLDER)
        self._marks = np.zeros(0, dtype=np.int32)
        self._changes = np.zeros(_FIRST_ROOM, dtype=CHANGE)
        self._touched = np.zeros(0, dtype=np.int32)
        self.counters = np.zeros(N_COUNTERS, dtype=np.int64)
        self.counters[SERIAL] = 1

    @property
    def layout(self) -> ResultLayout:
        return ResultLayout(
            self._buffers, self._entries, self._heads, self._holders, self._marks, self._changes, self._touched,
            self.counters,
        )  # fmt: skip

    def make_room(self, n_slots: int, n_messages: int, n_entries: int, n_changes: int, n_holders: int = 0) -> None:
        """Promise room: buffers and messages by number, the rest on top of what is in use."""
        self._buffers, self._touched = with_room(self._buffers, n_slots), with_room(self._touched, n_slots)
        self._heads, self._marks = with_room(self._heads, n_messages), with_room(self._marks, n_messages)
        if self.counters[USED] + n_entries > self._entries.size:
            self._compact()
            self._entries = with_room(self._entries, 2 * int(self.counters[USED]) + n_entries)
        n_new = max(0, n_holders - int(self.counters[N_FREE_HOLDERS]))
        self._holders = with_room(self._holders, int(self.counters[N_HOLDERS]) + n_new)
        self._changes = with_room(self._changes, int(self.counters[N_CHANGES]) + n_changes)

    def make_room_for_offers(self) -> None:
        """Promise room for an offer to any buffer, which may have to move to a block of twice the room."""
        longest = int(self._buffers["room"].max(initial=0))
        self.make_room(0, 0, 2 * longest + _FIRST_ROOM, 2 * (longest + 1), 1)

    def _compact(self) -> None:
        """Lay the buffers side by side again, each with the room it has."""
        rooms = np.zeros(self._buffers.size, dtype=np.int64)
        rooms[:] = self._buffers["room"]
        starts = np.cumsum(rooms) - rooms
        where = np.repeat(self._buffers["start"] - starts, rooms) + np.arange(int(rooms.sum()))
        self._entries = with_room(self._entries[where], _FIRST_ROOM)
        self._buffers["start"] = starts
        self.counters[USED] = where.size

    def open(self, slots: Ints, k: Ints) -> None:
        """Start empty buffers that are complete: there is nothing yet that they leave out."""
        self.make_room(int(slots.max(initial=-1)) + 1, 0, 0, 0)
        fresh = np.zeros(slots.size, dtype=BUFFER)
        fresh["floor"], fresh["k"] = -np.inf, k
        self._buffers[slots] = fresh

    def close(self, slots: Ints) -> None:
        """Forget the buffers of subscriptions that end."""
        self._buffers[slots] = np.zeros(slots.size, dtype=BUFFER)

    def begin(self, n_messages: int) -> None:
        """Start a batch."""
        self.make_room(0, n_messages, 0, 0)
        self.counters[N_CHANGES] = 0

    def put(self, slot: int, found: Ints, ranks: Floats, event: int) -> None:
        """Replace a buffer by what an evaluation found, best first: `limit` messages unless there are fewer."""
        self.make_room(0, 0, found.size, int(self._buffers["n_entries"][slot]), found.size)
        replace(self.layout, slot, found, ranks, event, self.policy)

    def settle(self, event: int) -> None:
        """End an event."""
        self.make_room(0, 0, 0, n_unsaid(self.layout))
        settle(self.layout, event)

    def limit(self, slot: int) -> int:
        """How many messages an evaluation must find, if there are so many."""
        return int(buffer_limit(self._buffers["k"][slot], self.policy))

    def result(self, slot: int) -> tuple[Ints, Floats]:
        """Messages of the result, best first, and their ranks."""
        buffer = self._buffers[slot]
        entries = self._entries[buffer["start"] : buffer["start"] + min(buffer["n_entries"], buffer["k"])]
        return entries["message"].copy(), entries["rank"].copy()

    def mark_messages(self, slots: Ints, held: Array) -> None:
        """Set held[message] for every message in the buffers of these subscriptions."""
        buffers = self._buffers[slots]
        sizes = buffers["n_entries"].astype(np.int64)
        ends = np.cumsum(sizes)
        where = np.repeat(buffers["start"] - (ends - sizes), sizes) + np.arange(int(sizes.sum()))
        held[self._entries["message"][where]] = True

    @property
    def touched(self) -> Ints:
        """Subscriptions changed in the event under way."""
        return self._touched[: self.counters[N_TOUCHED]]

    @property
    def changes(self) -> Array:
        """What was said since `begin`."""
        return self._changes[: self.counters[N_CHANGES]]

    def check(self, slots: Ints, messages: MessageLayout) -> None:
        """Assert that every buffer is sorted, not too long, holds stored messages only, and has shown its first k."""
        assert not self._marks.any()
        assert self.counters[N_TOUCHED] == 0
        for buffer in self._buffers[slots]:
            entries = self._entries[buffer["start"] : buffer["start"] + buffer["n_entries"]]
            sequences = messages.rows["sequence"][entries["message"]]
            assert buffer["n_entries"] <= min(buffer["room"], buffer_limit(buffer["k"], self.policy))
            assert (sequences > 0).all()
            assert (np.lexsort((-sequences, -entries["rank"])) == np.arange(entries.size)).all()
            assert (entries["shown"] == (np.arange(entries.size) < buffer["k"])).all()
            assert (entries["rank"] >= buffer["floor"]).all()

    @property
    def nbytes(self) -> int:
        return sum(array.nbytes for array in self.layout)

    def state(self) -> State:
        return {
            "buffers": self._buffers,
            "entries": self._entries[: self.counters[USED]],
            "heads": self._heads,
            "holders": self._holders[: self.counters[N_HOLDERS]],
            "counters": self.counters,
        }

    def load(self, state: State) -> None:
        self._buffers, self._entries, self._heads = state["buffers"], state["entries"], state["heads"]
        self._holders, self.counters = state["holders"], state["counters"]
        self._touched = np.zeros(self._buffers.size, dtype=np.int32)
        self._marks = np.zeros(self._heads.size, dtype=np.int32)
