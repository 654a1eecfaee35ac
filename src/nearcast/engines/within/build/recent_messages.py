"""Keeps a sample of the messages that arrived recently, from which the cost model takes hit probabilities."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from nearcast.columns.arena import Floats, Ints, State, starts_of
from nearcast.columns.fields.decode import from_mappings, key_bytes
from nearcast.columns.fields.values import n_fields
from nearcast.columns.message_table import MessageLayout, MessageTable
from nearcast.engines.within.build.layout import Sample
from nearcast.engines.within.layout import UNRANKED
from nearcast.held import HeldCall, opened
from nearcast.jit import kernel
from nearcast.model.message import Message
from nearcast.text.vocabulary import Vocabulary
from nearcast.text.words import from_lists

N_SAMPLED = 2048
_MOST_WORDS = 32  # of a message; more would only show that long messages hit everything
_MOST_KEYS = 16  # of them keys of fields
_PER_BATCH = 64  # kept of one batch at most, so that the sample spans some time


class MessageRing(NamedTuple):
    """Messages, the oldest of which are overwritten."""

    xs: Floats  # float64[N_SAMPLED]
    ys: Floats  # float64[N_SAMPLED]
    words: Ints  # int32[N_SAMPLED, _MOST_WORDS]: terms of words, then keys of fields
    n_words: Ints  # int32[N_SAMPLED]


@kernel
def keep_messages(messages: MessageLayout, arrivals: Ints, step: int, ring: MessageRing, n_kept: int) -> int:
    """Keep every `step`-th of the arriving messages, in place of the oldest ones; returns how many were ever kept."""
    for i in range(0, arrivals.size, step):
        if arrivals[i] < 0:
            continue
        message = messages.rows[arrivals[i]]
        at = n_kept % ring.xs.size
        ring.xs[at], ring.ys[at] = message.x, message.y
        fields = messages.fields
        n_keys = min(n_fields(fields, arrivals[i]), _MOST_KEYS)
        n_words = min(message.n_terms, _MOST_WORDS - n_keys)
        for j in range(n_words):
            ring.words[at, j] = messages.terms[message.term_start + j]
        for j in range(n_keys):
            ring.words[at, n_words + j] = fields.values[fields.spans[arrivals[i]].start + j].key
        ring.n_words[at] = n_words + n_keys
        n_kept += 1
    return n_kept


class KeepCall(NamedTuple):
    """All that `keep_messages` reads and writes."""

    messages: MessageLayout
    arrivals: Ints
    ring: MessageRing


@kernel
def keep_held(held: Any, step: int, n_kept: int) -> int:
    """`keep_messages` for a `Held` call."""
    call = opened(held)
    return keep_messages(call.messages, call.arrivals, step, call.ring, n_kept)


class RecentMessages:
    """The sample: a ring of messages."""

    def __init__(self) -> None:
        words, n_words = np.zeros((N_SAMPLED, _MOST_WORDS), np.int32), np.zeros(N_SAMPLED, np.int32)
        self._ring = MessageRing(np.zeros(N_SAMPLED), np.zeros(N_SAMPLED), words, n_words)
        self._keep: HeldCall[KeepCall] = HeldCall(keep_held)
        self.n_kept = self.n_arrived = 0  # messages that were kept, and all that arrived
        self._ranked: tuple[Ints, int, Sample] | None = None  # the ranks, `n_kept` at that time, and the sample

    @property
    def full(self) -> bool:
        """Has every place of the ring been written?"""
        return self.n_kept >= N_SAMPLED

    def observe(self, messages: MessageLayout, arrivals: Ints) -> None:
        """Keep some of these arrivals."""
        self.n_arrived += arrivals.size
        step = -(-arrivals.size // _PER_BATCH)
        self.n_kept = self._keep(KeepCall(messages, arrivals, self._ring), step, self.n_kept)

    def learn(self, messages: Sequence[Message], vocabulary: Vocabulary) -> None:
        """Begin with a sample, evenly thinned if it is too long for the ring."""
        chosen = messages[:: -(-len(messages) // N_SAMPLED)] if messages else ()
        terms = vocabulary.encode(from_lists(pa.array([message.words for message in chosen], pa.list_(pa.string()))))
        fields = from_mappings([message.fields for message in chosen])
        keys, key_start = np.zeros(0, np.int32), np.zeros(len(chosen) + 1, np.int64)
        if fields is not None:
            keys, key_start = vocabulary.enter(*key_bytes(fields.keys))[fields.key_at], starts_of(fields.lengths)
        for at, message in enumerate(chosen):
            own = keys[key_start[at] : key_start[at + 1]][:_MOST_KEYS]
            words = terms.terms[terms.row_start[at] : terms.row_start[at + 1]][: _MOST_WORDS - own.size]
            words = np.concatenate([words, own])
            self._ring.xs[at], self._ring.ys[at] = message.lon, message.lat
            self._ring.words[at, : words.size], self._ring.n_words[at] = words, words.size
        self.n_kept = len(chosen)

    def begin_with(self, table: MessageTable) -> None:
        """Fill the places that no arrival has taken yet with live messages, evenly thinned if these are too many."""
        n_free = N_SAMPLED - self.n_kept
        if n_free > 0 and len(table):
            slots = table.live_slots
            chosen = np.ascontiguousarray(slots[:: -(-slots.size // n_free)])
            messages, own = table.with_patterns(chosen)
            self.n_kept = self._keep(KeepCall(messages, own, self._ring), 1, self.n_kept)

    def hits(self, n_terms: int) -> Ints:
        """How many of the messages hold each term."""
        n = min(self.n_kept, N_SAMPLED)
        held = np.arange(_MOST_WORDS) < self._ring.n_words[:n, None]
        return np.bincount(self._ring.words[:n][held], minlength=n_terms)[:n_terms].astype(np.int32)

    def ranked(self, ranks: Ints) -> Sample:
        """The messages with their words as ranks; up to an eighth of them may be out of date."""
        if self._ranked is not None:
            known, seen, sample = self._ranked
            if known is ranks and self.n_kept - seen <= N_SAMPLED // 8:
                return sample
        sample = self._rank(ranks)
        self._ranked = ranks, self.n_kept, sample
        return sample

    def _rank(self, ranks: Ints) -> Sample:
        n = min(self.n_kept, N_SAMPLED)
        held = np.arange(_MOST_WORDS) < self._ring.n_words[:n, None]
        terms = self._ring.words[:n]
        known = held & (terms < ranks.size)
        ranked = np.where(known, ranks[np.where(known, terms, 0)], UNRANKED)
        ranked.sort(axis=1)
        asked = ranked != UNRANKED
        starts = np.zeros(n + 1, dtype=np.int64)
        np.cumsum(asked.sum(axis=1), out=starts[1:])
        return Sample(self._ring.xs[:n].copy(), self._ring.ys[:n].copy(), starts, ranked[asked])

    @property
    def nbytes(self) -> int:
        return sum(array.nbytes for array in self._ring)

    def state(self) -> State:
        return {**self._ring._asdict(), "seen": self.n_kept, "passed": self.n_arrived}

    def load(self, state: State) -> None:
        self._ring = MessageRing(*(state[name] for name in MessageRing._fields))
        self.n_kept, self.n_arrived = int(state["seen"]), int(state["passed"])
