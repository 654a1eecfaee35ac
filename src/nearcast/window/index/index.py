"""`MessageIndex` finds live messages by words and place, best first: for refills, backfills, moves and results.

The index holds no truth. It files messages as they arrive and is asked as of a moment; whether a message lives is read
from its row, and a slot that holds another sequence by now is a dead message. Arrivals are kept in a short list that
every question scans; when that is full it becomes a segment (`segments.py`), together with the segments before it that
are not larger, so that there are few segments and each message is filed a logarithmic number of times. Segments are
immutable. One in which nothing lives is dropped whole; one that is half dead is rebuilt from the living.
"""

from __future__ import annotations

import numpy as np

from nearcast.columns.arena import Array, Floats, Ints, Longs, State, with_room
from nearcast.columns.message_table import MessageLayout, MessageTable
from nearcast.held import HeldCall
from nearcast.jit import NEED_ROOM
from nearcast.space.space import Space
from nearcast.window.index import segments as seg
from nearcast.window.index.candidates import STACK_ROOM, Lookup, candidates
from nearcast.window.index.heaps import BEST, QUEUED
from nearcast.window.index.invariants import check_index
from nearcast.window.index.leaves import DEFERRED, DEFERRED_ROOM, KEPT
from nearcast.window.index.nodes import SPAN
from nearcast.window.index.pool import RangePool
from nearcast.window.index.postings import TERM_STATE
from nearcast.window.index.query import (
    ALL,
    ANY,
    BY_SCORE,
    LEAVES,
    N_COUNTERS,
    NODES,
    POSTINGS,
    SEARCHES,
    VERIFIED,
    Area,
    Moment,
    Question,
    SearchScratch,
    Tallies,
)
from nearcast.window.index.search import search

RECENT_ROOM = 512  # a question scans them all
MAX_MEMBERS = 1 << 17  # of a segment: an arrival waits for the merge, 82 to 96 ms on a busy machine (2026-11)
MAX_POSTINGS = 5 << 18
MANY = 25  # one question for every 25 live messages makes it worth filing them all again, in one segment
MANY_LIVE, MOST_LIVE = 100_000, 1 << 22  # with fewer it gains nothing, with more it takes too long

_POOLS = {
    "members": (seg.MEMBER, "member_start", "n_members"),
    "boxes": (seg.BOX, "box_start", "n_boxes"),
    "times": (np.dtype(np.int64), "box_start", "n_boxes"),  # taken and given with the boxes, so they lie alike
    "lists": (seg.TERM_LIST, "list_start", "n_lists"),
    "skips": (seg.SKIP, "skip_start", "n_skips"),
    "postings": (seg.POSTING, "posting_start", "n_postings"),
}


class MessageIndex:
    """Live messages by word and place."""

    def __init__(self, space: Space) -> None:
        self.space = space
        self._frame = frame_of(space)
        self._pools = {name: RangePool(dtype) for name, (dtype, _, _) in _POOLS.items()}
        self._segments: Array = np.zeros(0, dtype=seg.SEGMENT)
        self._recent: Array = np.zeros(RECENT_ROOM, dtype=seg.RECENT)
        self._n_recent = 0
        self._idf: Floats | None = None
        self._clock = -(2**63)  # of the latest prune: what was dead then stays dead
        self._oldest = 0  # by count
        self._tallies: Ints = np.zeros(0, dtype=np.int32)  # of terms, while a segment is built
        self._followed = tuple(self.__dict__)  # arrivals and the clock change what is above, questions what is below
        self._whole: MessageIndex | None = None  # the one that `for_many` made, until the next change
        self._append_recent: HeldCall[seg.RecentCall] = HeldCall(seg.append_recent)
        self._dense: Floats = np.zeros(0)
        self._scratch = make_scratch(0, 0, 0, 0)
        self._stack = np.zeros(STACK_ROOM, dtype=np.int64)
        self._term_state = np.zeros(1, dtype=TERM_STATE)
        self._found: Ints = np.zeros(64, dtype=np.int32)
        self._n_builds = 0
        self._n_built = 0

    @property
    def layout(self) -> seg.IndexLayout:
        """The index as kernels see it, until the next change."""
        pools = {name: pool.array for name, pool in self._pools.items()}
        return seg.IndexLayout(
            self._segments,
            pools["members"],
            pools["boxes"],
            pools["times"],
            pools["lists"],
            pools["skips"],
            pools["postings"],
            self._recent[: self._n_recent],
            self.space.metric_code,
            self.space.max_distance,
            self._oldest,
        )

    def add(self, messages: MessageLayout, idf: Floats, slots: Ints) -> None:
        """File messages that have just arrived, in order of sequence."""
        self._whole = None
        self._idf = idf
        if self._n_recent + slots.size <= RECENT_ROOM:
            self._append_recent(seg.RecentCall(messages, slots, self._recent), self._n_recent)
            self._n_recent += slots.size
            return
        recent = self._recent[: self._n_recent]
        waiting = recent["slot"][messages.rows["sequence"][recent["slot"]] == recent["sequence"]]
        self._n_recent = 0
        slots = np.concatenate([waiting, slots])
        ends = np.cumsum(messages.rows["n_terms"][slots], dtype=np.int64)
        at = 0
        while at < slots.size:
            before = ends[at - 1] if at else 0
            stop = int(np.searchsorted(ends, before + MAX_POSTINGS, side="right"))
            stop = min(max(stop, at + 1), at + MAX_MEMBERS, slots.size)
            members = np.zeros(stop - at, dtype=seg.MEMBER)
            seg.write_members(messages.rows, slots[at:stop], self._frame, members)
            self._append(messages, members, int(ends[stop - 1] - before))
            at = stop

    def _append(self, messages: MessageLayout, members: Array, n_postings: int) -> None:
        """Append a segment, merged with those before it that are not larger."""
        n = members.size
        first = self._segments.size
        while first > 0:
            before = self._segments[first - 1]
            n_postings += before.n_postings
            if before.n_members > n or n + before.n_members > MAX_MEMBERS or n_postings > MAX_POSTINGS:
                break
            n += int(before.n_members)
            first -= 1
        self._replace(messages, first, self._segments.size, members)

    def withdraw(self, sequences: Longs) -> None:
        """Messages are withdrawn: those of these sequences are no longer sure to be alive."""
        self._whole = None
        segments = self._segments
        at = np.searchsorted(segments["last_sequence"], sequences)
        filed = at < segments.size
        at, sequences = at[filed], sequences[filed]
        at = at[segments["first_sequence"][at] <= sequences]
        np.add.at(segments["n_withdrawn"], at, 1)

    def prune(self, messages: MessageLayout, last: int, clock: int, count: int) -> None:
        """Drop segments in which nothing lives as of (last, clock), and rebuild those that are half dead."""
        self._whole = None
        oldest = self._oldest = max(0, last - count)
        self._clock = clock
        s = seg.first_stale(self._segments, oldest, clock)
        while s < self._segments.size:
            segment = self._segments[s]
            if segment.last_sequence <= oldest or segment.last_expiry <= clock:
                self._replace(messages, s, s + 1, np.zeros(0, dtype=seg.MEMBER))
            elif self._idf is not None and (
                segment.mid_sequence <= oldest
                or segment.mid_expiry <= clock
                or 2 * segment.n_withdrawn >= segment.n_members
            ):
                self._rebuild_half_dead(messages, s)
                s = 0
            else:
                s += 1

    def _rebuild_half_dead(self, messages: MessageLayout, s: int) -> None:
        """Rebuild segment `s` from the living, together with neighbours that are small beside what is left."""
        first = s
        n = int(self._segments[s].n_members) // 2
        while first > 0 and self._segments[first - 1].n_members <= min(n, MAX_MEMBERS - n):
            first -= 1
            n += int(self._segments[first].n_members)
        self._replace(messages, first, s + 1, np.zeros(0, dtype=seg.MEMBER))

    def _replace(self, messages: MessageLayout, first: int, end: int, new: Array) -> None:
        """Replace the segments `first` to `end` by one: of their living members and the new ones."""
        old = self._segments[first:end]
        parts = [self._part(segment, "members") for segment in old]
        members = np.concatenate([*parts, new]) if parts else new
        alive = np.zeros(members.size, dtype=np.bool_)
        expiries = np.zeros(members.size, dtype=np.int64)
        n_withdrawn = seg.mark_alive(messages.rows, members, self._oldest, self._clock, alive, expiries)
        for segment in old:
            for name, (_, start, n) in _POOLS.items():
                self._pools[name].give(int(segment[start]), int(segment[n]))
        built = self._segments[:0]
        if alive.any():
            built = self._build(messages, members[alive], expiries[alive])
            built["n_withdrawn"] = n_withdrawn
        self._segments = np.concatenate([self._segments[:first], built, self._segments[end:]])

    def _build(self, messages: MessageLayout, members: Array, expiries: Array) -> Array:
        """Write a segment of these members, given in any order, into the pools."""
        assert self._idf is not None
        self._tallies = with_room(self._tallies, self._idf.size)
        room = int(messages.rows["n_terms"][members["slot"]].sum())
        distinct = np.empty(min(room, self._idf.size), dtype=np.int32)
        n_distinct, n_postings = seg.count_terms(messages, members, self._tallies, distinct)
        distinct = distinct[:n_distinct]
        built = np.zeros(1, dtype=seg.SEGMENT)
        segment = built[0]
        segment.n_members = members.size
        segment.depth = seg.leaf_depth(members.size)
        segment.first_sequence, segment.last_sequence = members["sequence"].min(), members["sequence"].max()
        segment.mid_sequence = seg.median_of(members["sequence"])
        segment.first_expiry, segment.last_expiry = expiries.min(), expiries.max()
        segment.mid_expiry = seg.median_of(expiries)
        segment.n_postings = n_postings
        segment.n_lists = 1 << int(n_distinct * 3 // 2).bit_length()
        segment.n_boxes = seg.n_boxes(members.size)
        for name in ("members", "lists", "boxes", "times", "postings"):
            _, start, n = _POOLS[name]
            segment[start] = self._pools[name].take(int(segment[n]))
        seg.write_in_order(members, np.argsort(members["code"], kind="stable"), self._part(segment, "members"))
        members, lists, postings = (self._part(segment, name) for name in ("members", "lists", "postings"))
        lists["term"] = seg.NO_TERM
        segment.n_skips = seg.allocate_lists(distinct, self._tallies, members.size, segment.depth, lists)
        segment.skip_start = self._pools["skips"].take(int(segment.n_skips))
        seg.fill_postings(messages, members, self._idf, self._tallies, postings)
        seg.fill_skips(
            distinct, lists, members.size, segment.depth, postings, self._part(segment, "skips"), self._tallies
        )
        boxes, times = self._part(segment, "boxes"), self._part(segment, "times")
        seg.fill_boxes(messages.rows, members, self.space.metric_code, segment.depth, boxes, times)
        self._n_builds += 1
        self._n_built += members.size
        return built

    def _part(self, segment: Array, pool: str) -> Array:
        _, start, n = _POOLS[pool]
        return self._pools[pool].array[int(segment[start]) : int(segment[start]) + int(segment[n])]

    def rebuild(self, messages: MessageLayout, idf: Floats, live_slots: Ints) -> None:
        """File these messages, oldest first, and no others: weights have changed."""
        self._n_recent = 0
        self._segments = self._segments[:0]
        for name, (dtype, _, _) in _POOLS.items():
            self._pools[name] = RangePool(dtype)
        self.add(messages, idf, live_slots)

    def for_many(self, n_questions: int, table: MessageTable, idf: Floats) -> MessageIndex:
        """The index to ask `n_questions` questions: this one, or one with all live messages in a single segment.

        A million messages are filed in a second, and then a search takes a quarter less. Arrivals could not wait for
        that, nor for half of such a segment to be rebuilt when the other half is dead; so the index made here is kept
        until the next change only, and `credit` adds its work to the counters of this one.
        """
        if self._whole is not None:
            return self._whole
        if self._segments.size < 2 or not MANY_LIVE <= len(table) <= min(MOST_LIVE, MANY * n_questions):
            return self
        made = MessageIndex(self.space)
        made._idf = idf
        members = np.zeros(len(table), dtype=seg.MEMBER)
        seg.write_members(table.layout.rows, table.live_slots, self._frame, members)
        made._replace(table.layout, 0, 0, members)
        self._whole = made
        return made

    def follow(self, index: MessageIndex) -> None:
        """Become what another index is now, but for scratch and counters: threads may ask both at the same time."""
        self.__dict__.update({name: index.__dict__[name] for name in self._followed})
        if index._whole is None:
            self._whole = None
        else:
            self._whole = self._whole or MessageIndex(self.space)
            self._whole.follow(index._whole)

    def credit(self, other: MessageIndex) -> None:
        """Add the work of a follower, or of an index that `for_many` gave, to the counters of this one."""
        if other is not self:
            self._scratch.work[:] += other._scratch.work
            self._n_builds += other._n_builds
            self._n_built += other._n_built
            other._scratch.work[:] = 0
            other._n_builds = other._n_built = 0

    def topk(
        self, messages: MessageLayout, idf: Floats, question: Question, terms: Ints, weights: Floats, moment: Moment
    ) -> tuple[Ints, Floats]:
        """Slots and scores of the k best live messages that share a word, best first; `weights` are count * idf."""
        assert question.mode == BY_SCORE
        return self._search(messages, idf, question, terms, weights, moment)

    def nearest(
        self, messages: MessageLayout, idf: Floats, question: Question, terms: Ints, moment: Moment
    ) -> tuple[Ints, Floats]:
        """Slots and distances of the k nearest live messages that hold ALL or ANY of the words, nearest first."""
        assert question.mode in (ALL, ANY)
        return self._search(messages, idf, question, terms, np.ones(terms.size), moment)

    def _search(
        self, messages: MessageLayout, idf: Floats, question: Question, terms: Ints, weights: Floats, moment: Moment
    ) -> tuple[Ints, Floats]:
        self._dense = with_room(self._dense, idf.size)
        self._dense[terms] = weights
        layout = self.layout
        n = search(layout, messages, idf, question, terms, self._dense, moment, self._scratch)
        if n == NEED_ROOM:
            self._scratch = self.scratch(terms.size, question.k)
            n = search(layout, messages, idf, question, terms, self._dense, moment, self._scratch)
        self._dense[terms] = 0.0
        best = self._scratch.best[:n]
        return best["slot"].copy(), best["key"].copy()

    def room_for(self, n_terms: int, k: int) -> SearchScratch:
        """The index's own scratch, grown for searches of `n_terms` words and `k` results, until the index changes."""
        own = self._scratch
        if (
            self._pools["boxes"].array.size > own.queue.size
            or self._segments.size * n_terms > own.term_states.size
            or n_terms * seg.FAN > own.spans.size
            or k > own.best.size
        ):
            self._scratch = self.scratch(n_terms, k)
        return self._scratch

    def scratch(self, n_terms: int, k: int) -> SearchScratch:
        """Scratch for searches of `n_terms` words and `k` results, until the index has grown to twice its size."""
        old = self._scratch
        k = max(min(k, 2 * self._pools["members"].array.size + RECENT_ROOM), old.best.size)
        n_terms = max(n_terms, old.spans.size // seg.FAN)
        made = make_scratch(k, n_terms, 2 * self._segments.size + 8, 2 * self._pools["boxes"].array.size)
        made.work[:] = old.work
        return made

    def candidates(
        self, messages: MessageLayout, term: int, area: tuple[float, float, float, float], moment: Moment
    ) -> Ints:
        """Slots of live messages that hold the term (or EVERY) and lie in the box (x0, y0, x1, y1), in any order.

        Longitudes are wrapped under haversine, where x0 > x1 means across the date line; sides may be infinite.
        """
        layout, lookup = self.layout, Lookup(term, Area(*area), moment)
        while True:
            n = candidates(layout, messages, lookup, self._stack, self._term_state, self._found)
            if n != NEED_ROOM:
                return self._found[:n].copy()
            self._found = np.zeros(2 * self._found.size, dtype=np.int32)

    def check(self, messages: MessageLayout) -> None:
        """Raise AssertionError if the index contradicts itself or the messages."""
        check_index(self.layout, messages)
        for name, (_, start, n) in _POOLS.items():
            taken = [(segment[start], segment[start] + segment[n]) for segment in self._segments if segment[n]]
            ranges = sorted([*taken, *self._pools[name].gaps])
            ends = [0, *(end for _, end in ranges)]
            assert [begin for begin, _ in ranges] == ends[:-1], f"{name} overlap or leak"
            assert ends[-1] == self._pools[name].array.size
        assert not self._tallies.any()
        assert not self._dense.any()
        assert not any(array.any() for array in self._scratch.tallies)

    def stats(self) -> dict[str, int]:
        """Sizes and work done."""
        work = self._scratch.work
        return {
            "segments": self._segments.size,
            "recent": self._n_recent,
            "members": int(self._segments["n_members"].sum()),
            "postings": int(self._segments["n_postings"].sum()),
            "nodes": int(self._segments["n_boxes"].sum()),
            "bytes": self.nbytes,
            "builds": self._n_builds,
            "members_built": self._n_built,
            "searches": int(work[SEARCHES]),
            "nodes_visited": int(work[NODES]),
            "leaves_visited": int(work[LEAVES]),
            "postings_touched": int(work[POSTINGS]),
            "verified": int(work[VERIFIED]),
        }

    @property
    def nbytes(self) -> int:
        return (
            sum(pool.nbytes for pool in self._pools.values())
            + self._segments.nbytes
            + self._recent.nbytes
            + self._tallies.nbytes
            + (self._whole.nbytes if self._whole else 0)
        )

    def state(self) -> State:
        """Everything that `load` needs."""
        arrays = {name: pool.used for name, pool in self._pools.items()}
        return {**arrays, "segments": self._segments, "recent": self._recent[: self._n_recent]}

    def load(self, state: State) -> None:
        """Continue from a state; its arrays are adopted, not copied."""
        self._whole = None
        self._segments = _typed(state["segments"], seg.SEGMENT)
        for name, (dtype, start, n) in _POOLS.items():
            taken = [(int(segment[start]), int(segment[n])) for segment in self._segments if segment[n]]
            self._pools[name].adopt(_typed(state[name], dtype), taken)
        self._n_recent = state["recent"].size
        self._recent = np.zeros(RECENT_ROOM, dtype=seg.RECENT)
        self._recent[: self._n_recent] = state["recent"]


def make_scratch(k: int, n_terms: int, n_segments: int, n_nodes: int) -> SearchScratch:
    """Scratch for the `k` best of `n_terms` words, over `n_segments` segments and `n_nodes` nodes."""
    return SearchScratch(
        np.zeros(k, dtype=BEST),
        np.zeros(k, dtype=BEST),
        np.zeros(DEFERRED_ROOM, dtype=DEFERRED),
        np.zeros(n_nodes, dtype=QUEUED),
        np.zeros(n_terms * n_segments, dtype=TERM_STATE),
        np.zeros(n_terms * seg.FAN, dtype=SPAN),
        np.zeros(seg.FAN, dtype=QUEUED),
        Tallies(np.zeros(seg.LEAF), np.zeros(seg.FAN), np.zeros(seg.LEAF, dtype=np.int64)),
        np.zeros(seg.LEAF, dtype=np.int32),
        np.zeros(seg.LEAF, dtype=KEPT),
        np.zeros(N_COUNTERS, dtype=np.int64),
    )


def _typed(array: Array, dtype: np.dtype) -> Array:
    """A stored array with the record type that kernels and plain Python read alike."""
    return array.view(np.ndarray).view(dtype)


def frame_of(space: Space) -> seg.Frame:
    """The frame of the Hilbert curve through a space."""
    x0, y0, x1, y1 = space.bounds
    with np.errstate(over="ignore"):
        width, height = np.float64(x1) - np.float64(x0), np.float64(y1) - np.float64(y0)
    x_scale, y_scale = (float(1.0 / side) if 1e-300 < side < np.inf else 0.0 for side in (width, height))
    return seg.Frame(space.metric_code, float(x0), float(y0), x_scale, y_scale)
