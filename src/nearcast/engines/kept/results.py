"""Results that are kept: the arrays behind the buffers of all subscriptions of one engine, and how they grow.

This is the one writer of buffers. `skyband.py` explains what they hold, `layout.py` how they are laid out.
"""

from __future__ import annotations

import numpy as np

from nearcast.columns.arena import Array, Floats, Ints, Longs, State, ranges, with_room
from nearcast.columns.message_table import MessageLayout
from nearcast.columns.times import FOREVER
from nearcast.engines.blocks import N_CLASSES, N_HEADS, USED, block_class, block_room
from nearcast.engines.kept.buffers import close_buffers, emit_changes, initial_room, n_pending, stamp_of
from nearcast.engines.kept.compaction import NEVER, begin_sweep, end_sweep, rebuild_waiting, sweep_slots
from nearcast.engines.kept.layout import (
    BUFFER,
    CHANGE,
    ENTRY,
    FADING,
    LIFETIME,
    N_BUFFERED,
    N_CHANGES,
    N_COUNTERS,
    N_DROPPED,
    N_EXPIRED,
    N_FREE_WAITING,
    N_KEPT,
    N_OFFERED,
    N_REFILLS,
    N_SHRUNK,
    N_TAKEN,
    N_TOUCHED,
    N_WAITING,
    N_WITHDRAWN,
    N_WOKEN,
    WAITING,
    WATCHED,
    ResultLayout,
)
from nearcast.engines.kept.skyband import Policy, buffer_limit, replace, search_limit
from nearcast.held import unchanged
from nearcast.window.expiries import UNLIMITED
from nearcast.window.index.heaps import BEST
from nearcast.window.recency import keys_of

FIRST_ROOM = 64
_MOST_FREE = 32  # the pool is swept when more than one in this many of its entries is in a free block
_MOST_WAITING = 4  # times that a subscription may wait, on average: for two messages at most it has a reason to
IDLE = 1 << 14  # changes, besides a quarter more than were emitted, whose room is kept for the next batch


class Results:
    """The buffers of one engine."""

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self._n_slots = 0
        self._buffers = np.zeros(0, dtype=BUFFER)
        self._watched = np.zeros(0, dtype=WATCHED)
        self._fading = np.zeros(0, dtype=FADING)
        self._entries = np.zeros(FIRST_ROOM, dtype=ENTRY)
        self._blocks = np.zeros(N_HEADS, dtype=np.int64)
        self._above = np.zeros(N_HEADS, dtype=np.int64)
        self._above[USED] = NEVER
        self._chains = np.zeros(N_CLASSES, dtype=np.int64)  # scratch
        self._swept = 0  # subscriptions that the sweep under way has looked at
        self._unused = 0  # entries in free blocks that the last sweep found no use for
        self._heads = np.zeros(0, dtype=np.int32)
        self._waiting = np.zeros(FIRST_ROOM, dtype=WAITING)
        self._changes = np.zeros(FIRST_ROOM, dtype=CHANGE)
        self._layout: ResultLayout | None = None
        self._touched = np.zeros(FIRST_ROOM, dtype=np.int32)
        self._places = np.zeros(FIRST_ROOM, dtype=np.int32)
        self._lifetimes = np.zeros(0, dtype=LIFETIME)
        self.counters = np.zeros(N_COUNTERS, dtype=np.int64)

    @property
    def layout(self) -> ResultLayout:
        layout = self._layout = unchanged(
            self._layout, ResultLayout, self._buffers, self._watched, self._fading, self._entries, self._blocks,
            self._above, self._heads, self._waiting, self._changes, self._touched, self._places, self.counters,
        )  # fmt: skip
        return layout

    def make_room(self, n_slots: int, n_messages: int, n_entries: int, n_changes: int, n_waiting: int = 0) -> None:
        """Promise room: buffers and messages by number, the rest on top of what is in use; for one more touched.

        The pool doubles: what it does not use is never touched, and copying 90 million entries takes 5 s.
        """
        self._buffers = with_room(self._buffers, n_slots)
        if self.policy.spare:
            self._watched, self._heads = with_room(self._watched, n_slots), with_room(self._heads, n_messages)
        n_touched = int(self.counters[N_TOUCHED]) + 1
        self._touched, self._places = with_room(self._touched, n_touched), with_room(self._places, n_touched)
        n_entries += int(self._blocks[USED])
        if n_entries > self._entries.size:
            self._entries = with_room(self._entries, max(n_entries, 2 * self._entries.size))
        n_new = max(0, n_waiting - int(self.counters[N_FREE_WAITING]))
        self._waiting = with_room(self._waiting, int(self.counters[N_WAITING]) + n_new)
        self._changes = with_room(self._changes, int(self.counters[N_CHANGES]) + n_changes)

    def make_room_for_offers(self) -> None:
        """Promise room for an offer to any buffer, which may have to move to a block of the next size class.

        That is room to wake any subscription, too.
        """
        largest, longest = (int(self._buffers[field].max(initial=0)) for field in ("block", "n_entries"))
        self.make_room(0, 0, int(block_room(largest)), 2 * (longest + 1), 1)

    def make_room_to_replace(self, slot: int, n: int) -> None:
        """Promise room to give a subscription a buffer of `n` entries."""
        self.make_room(0, 0, int(block_room(block_class(initial_room(n)))), int(self._buffers["n_entries"][slot]), 2)

    def make_room_for_many(self, slots: Ints, n_live: int) -> None:
        """Promise entries for new buffers of many subscriptions, so that the pool grows once for all of them."""
        wanted = 0
        for k, n in zip(*np.unique(self._buffers["k"][slots], return_counts=True), strict=True):
            longest = min(int(search_limit(k, self.policy)), n_live)
            wanted += int(n) * int(block_room(block_class(initial_room(longest))))
        self.make_room(0, 0, wanted, 0)

    def open(self, slots: Ints, k: Ints, half_lives: Longs) -> None:
        """Start empty buffers that are complete: there is nothing yet that they leave out."""
        self._n_slots = max(self._n_slots, int(slots.max(initial=-1)) + 1)
        self.make_room(self._n_slots, 0, 0, 0)
        fresh = np.zeros(slots.size, dtype=BUFFER)
        fresh["floor"], fresh["dropped"], fresh["k"], fresh["fades"] = -np.inf, -np.inf, k, half_lives > 0
        self._buffers[slots] = fresh
        if half_lives.any():
            self._fading = with_room(self._fading, self._n_slots)
        if self._fading.size:
            fades = half_lives > 0
            self._fading["half_life"][slots[fades]] = half_lives[fades]

    def close(self, slots: Ints) -> None:
        """Forget the buffers of subscriptions that end."""
        close_buffers(self.layout, slots)
        if self.policy.spare:
            self._watched[slots] = 0

    def grow_ahead(self) -> None:
        """Promise room for an eighth more than is in use, so that arrays grow now and not in the middle of a stream."""
        used, n_waiting = int(self._blocks[USED]), int(self.counters[N_WAITING])
        self.make_room(0, 0, used // 8, 0, int(self.counters[N_FREE_WAITING]) + n_waiting // 8)

    def maintain(self, n: int) -> None:
        """Let the pool, and the list of those who wait, go back to what they need, looking at `n` buffers."""
        if self.counters[N_WAITING] - self.counters[N_FREE_WAITING] > _MOST_WAITING * self._n_slots + FIRST_ROOM:
            rebuild_waiting(self.layout)
            self._waiting = self._waiting[: self.counters[N_WAITING] + FIRST_ROOM].copy()
        self._sweep(n)

    def _sweep(self, n: int) -> None:
        taken = int(self.counters[N_TAKEN])
        if self._above[USED] == NEVER:
            most = max(taken // _MOST_FREE, self._unused + taken // (2 * _MOST_FREE))
            if self._blocks[USED] <= taken + most + FIRST_ROOM:
                return
            begin_sweep(self.layout, taken + taken // (2 * _MOST_FREE), self._chains)
            self._swept = 0
        end = min(self._swept + n, self._buffers.size)
        sweep_slots(self.layout, self._swept, end)
        self._swept = end
        if end == self._buffers.size:
            end_sweep(self.layout, self._chains)
            self._unused = int(self._blocks[USED] - self.counters[N_TAKEN])

    def expect_withdrawals(self) -> None:
        """Messages are withdrawn from now on, so that none is dropped because others will outlive it."""
        self.policy = self.policy._replace(drops=False)

    def begin_batch(self, n_messages: int) -> None:
        """Start a batch."""
        if self.policy.spare and n_messages > self._heads.size:
            self.make_room(0, n_messages, 0, 0)
        self.counters[N_CHANGES] = 0

    def put(self, slot: int, messages: MessageLayout, found: Ints, ranks: Floats, event: int) -> None:
        """Replace a buffer by what an evaluation found, best first: `limit` messages unless there are fewer."""
        best = np.zeros(found.size, dtype=BEST)
        best["slot"], best["key"], best["sequence"] = found, ranks, messages.rows["sequence"][found]
        self.make_room_to_replace(slot, found.size)
        replace(self.layout, messages, slot, best, self.lifetimes(found.size), event, np.inf, self.policy)
        self.counters[N_REFILLS] += 1

    def lifetimes(self, n: int) -> Array:
        """Scratch for an evaluation that finds up to `n` messages."""
        self._lifetimes = with_room(self._lifetimes, n)
        return self._lifetimes

    def emit_changes(self, event: int) -> None:
        """End an event."""
        self.make_room(0, 0, 0, n_pending(self.layout))
        emit_changes(self.layout, event)

    def limit(self, slot: int) -> int:
        """How many messages an evaluation must find, unless there are fewer."""
        return int(search_limit(self._buffers["k"][slot], self.policy))

    def result(self, slot: int) -> tuple[Ints, Floats]:
        """Messages of the result, best first, and their ranks."""
        buffer = self._buffers[slot]
        entries = self._entries[buffer["start"] : buffer["start"] + min(buffer["n_entries"], buffer["k"])]
        return entries["message"].copy(), entries["rank"].copy()

    def kept(self, slots: Ints) -> tuple[Ints, Ints, Floats]:
        """How many entries each of these buffers has, their messages and ranks, best first."""
        buffers = self._buffers[slots]
        entries = self._entries[ranges(buffers["start"], buffers["n_entries"])]
        return buffers["n_entries"].copy(), entries["message"].copy(), entries["rank"].copy()

    def mark_messages(self, slots: Ints, held: Array) -> None:
        """Set held[message] for every message in the buffers of these subscriptions."""
        buffers = self._buffers[slots]
        held[self._entries["message"][ranges(buffers["start"], buffers["n_entries"])]] = True

    @property
    def touched(self) -> Ints:
        """Subscriptions changed in the event under way."""
        return self._touched[: self.counters[N_TOUCHED]]

    @property
    def short(self) -> Ints:
        """Those of them that have too few entries left to know their result."""
        touched = self.touched
        buffers = self._buffers[touched]
        return touched.compress((buffers["n_entries"] < buffers["k"]) & (buffers["floor"] != -np.inf))

    @property
    def changes(self) -> Array:
        """What was emitted since `begin_batch`."""
        return self._changes[: self.counters[N_CHANGES]]

    def discard_changes(self) -> None:
        """The changes have been read."""
        most = int(self.counters[N_CHANGES]) * 5 // 4 + IDLE
        self.counters[N_CHANGES] = 0
        if self._changes.size > most:
            self._changes = np.zeros(most, dtype=CHANGE)

    def check(self, slots: Ints, messages: MessageLayout) -> None:
        """Assert that every buffer is sorted, not too long, holds stored messages only, and has shown its first k."""
        assert self.counters[N_TOUCHED] == 0
        assert self.counters[N_BUFFERED] == self._buffers["n_entries"].sum()
        holders = self._buffers[self._buffers["block"] > 0]
        rooms = np.array([block_room(block - 1) for block in holders["block"].tolist()], dtype=np.int64)
        ends = np.sort(holders["start"] + rooms)
        assert (np.sort(holders["start"])[1:] >= ends[:-1]).all(), "buffers overlap"
        assert self.counters[N_TAKEN] == rooms.sum()
        assert self.counters[N_TAKEN] + self._n_free() == self._blocks[USED], "a block is lost"
        waiting = self._who_waits()
        for slot, buffer in zip(slots.tolist(), self._buffers[slots], strict=True):
            entries = self._entries[buffer["start"] : buffer["start"] + buffer["n_entries"]]
            sequences = messages.rows["sequence"][entries["message"]]
            assert buffer["n_entries"] <= min(
                block_room(int(buffer["block"]) - 1), buffer_limit(buffer["k"], self.policy)
            )
            assert not buffer["touched"]
            assert (sequences > 0).all()
            assert entries["stamp"].tolist() == [stamp_of(at, self.policy.newest) for at in sequences.tolist()]
            exponents, mantissas = self._keys(slot, buffer, entries, messages)
            order = np.lexsort((-sequences, -mantissas, -exponents))
            assert (order == np.arange(entries.size)).all()
            assert (entries["mark"] & 1 == (np.arange(entries.size) < buffer["k"])).all()
            assert (entries["mark"] >> 1 < buffer["k"]).all()
            if buffer["floor"] > -np.inf:
                floor = self._fading["floor"][slot] if buffer["fades"] else 0
                above = (exponents > floor) | ((exponents == floor) & (mantissas >= buffer["floor"]))
                assert above.all()
            if self.policy.spare:
                self._check_watched(slot, messages, entries["message"], waiting)
            else:
                assert buffer["floor"] == (entries["rank"][-1] if entries.size == buffer["k"] else -np.inf)

    def _keys(self, slot: int, buffer: Array, entries: Array, messages: MessageLayout) -> tuple[Longs, Floats]:
        """What the entries of a buffer are compared by."""
        half_life = self._fading["half_life"][slot] if buffer["fades"] else 0
        ts = messages.rows["ts"][entries["message"]]
        return keys_of(entries["rank"].copy(), ts, np.full(entries.size, half_life, dtype=np.int64))

    def _n_free(self) -> int:
        """Entries in free blocks."""
        n, links = 0, self._entries["message"]
        for lists in (self._blocks, self._above):
            for size_class in range(N_CLASSES):
                at = int(lists[1 + size_class])
                while at > 0:
                    n += int(block_room(size_class))
                    at = int(links[at - 1])
        return n

    def _who_waits(self) -> set[tuple[int, int]]:
        """Who waits for which message."""
        pairs, n_waiting = set(), 0
        for message in np.flatnonzero(self._heads).tolist():
            at = int(self._heads[message])
            while at > 0:
                pairs.add((int(self._waiting["slot"][at - 1]), message))
                n_waiting += 1
                at = int(self._waiting["next"][at - 1])
        assert n_waiting == self.counters[N_WAITING] - self.counters[N_FREE_WAITING]
        return pairs

    def _check_watched(self, slot: int, messages: MessageLayout, held: Ints, waiting: set[tuple[int, int]]) -> None:
        """Assert that nothing in a buffer leaves before what its subscription watches."""
        rows = messages.rows
        for field, key, by_count in (("oldest", "sequence", True), ("soonest", "expires_at", False)):
            watched = int(self._watched[field][slot]) - 1
            leaving = rows[key][held]
            leaving = leaving.compress(leaving != FOREVER)
            if by_count and self.policy.newest == UNLIMITED:
                continue
            assert watched < 0 or (slot, watched) in waiting
            assert leaving.size == 0 or (watched >= 0 and rows[key][watched] <= leaving.min())

    def stats(self) -> dict[str, int]:
        """Counts of work and sizes."""
        positions = {
            "offered": N_OFFERED,
            "kept": N_KEPT,
            "dropped": N_DROPPED,
            "expired": N_EXPIRED,
            "withdrawn": N_WITHDRAWN,
            "refills": N_REFILLS,
            "shrunk": N_SHRUNK,
            "woken": N_WOKEN,
            "buffered": N_BUFFERED,
        }
        return {name: int(self.counters[at]) for name, at in positions.items()}

    @property
    def nbytes(self) -> int:
        """Bytes in use; room ahead is never touched, so the system has not given it out yet."""
        used = self._entries[: self._blocks[USED]].nbytes + self._waiting[: self.counters[N_WAITING]].nbytes
        rest = (
            self._buffers[: self._n_slots],
            self._watched[: self._n_slots],
            self._fading[: self._n_slots],
            self._blocks,
            self._above,
            self._heads,
            self._changes,
            self._touched,
            self._places,
            self.counters,
        )
        return used + sum(array.nbytes for array in rest)

    def state(self) -> State:
        if self._above[USED] != NEVER:
            end_sweep(self.layout, self._chains)
        return {
            "buffers": self._buffers[: self._n_slots],
            "watched": self._watched[: self._n_slots],
            "fading": self._fading,
            "entries": self._entries[: self._blocks[USED]],
            "blocks": self._blocks,
            "heads": self._heads,
            "waiting": self._waiting[: self.counters[N_WAITING]],
            "counters": self.counters,
        }

    def load(self, state: State) -> None:
        # Copied at once: where a file is mapped every first write to a page would copy it, one miss after another.
        self._buffers, self._watched = state["buffers"].copy(), state["watched"].copy()
        self._entries, self._waiting = state["entries"].copy(), state["waiting"].copy()
        self._fading, self._heads, self._n_slots = state["fading"], state["heads"], state["buffers"].size
        self._blocks, self.counters = state["blocks"], state["counters"]
