"""The messages that arrived lately, as the cost model wants them."""

from __future__ import annotations

import numpy as np

from nearcast.columns.arena import Ints, State
from nearcast.columns.message_table import MessageLayout
from nearcast.engines.within.build.partition_cost import Sample
from nearcast.engines.within.layout import UNRANKED
from nearcast.jit import kernel

N_SAMPLED = 2048
_MOST_WORDS = 32  # of a message; more would only say that long messages hit everything
_PER_BATCH = 64  # at most so many of one batch, so that the sample spans some time


@kernel
def take_messages(messages, arrivals, step, xs, ys, words, n_words, n_seen):
    """Keep every so many of the arriving messages, in place of the oldest ones; returns how many were ever kept."""
    for i in range(0, arrivals.size, step):
        if arrivals[i] < 0:
            continue
        message = messages.rows[arrivals[i]]
        at = n_seen % xs.size
        xs[at], ys[at] = message.x, message.y
        n_words[at] = min(message.n_terms, _MOST_WORDS)
        for j in range(n_words[at]):
            words[at, j] = messages.terms[message.term_start + j]
        n_seen += 1
    return n_seen


class RecentMessages:
    """A ring of messages."""

    def __init__(self) -> None:
        self._xs, self._ys = np.zeros(N_SAMPLED), np.zeros(N_SAMPLED)
        self._words = np.zeros((N_SAMPLED, _MOST_WORDS), dtype=np.int32)
        self._n_words = np.zeros(N_SAMPLED, dtype=np.int32)
        self.n_seen = self.n_passed = 0  # messages that were kept, and all that came
        self._ranked: tuple[Ints, int, Sample] | None = None  # by which ranks, when, and the answer

    @property
    def full(self) -> bool:
        """Every place of the ring was written."""
        return self.n_seen >= N_SAMPLED

    def take(self, messages: MessageLayout, arrivals: Ints) -> None:
        """Remember some of these arrivals."""
        self.n_passed += arrivals.size
        step = -(-arrivals.size // _PER_BATCH)
        self.n_seen = take_messages(
            messages, arrivals, step, self._xs, self._ys, self._words, self._n_words, self.n_seen
        )

    def hits(self, n_terms: int) -> Ints:
        """In how many of the messages each term stands."""
        n = min(self.n_seen, N_SAMPLED)
        held = np.arange(_MOST_WORDS) < self._n_words[:n, None]
        return np.bincount(self._words[:n][held], minlength=n_terms)[:n_terms].astype(np.int32)

    def ranked(self, ranks: Ints) -> Sample:
        """The messages with their words as ranks; up to an eighth of them may be newer than what it says."""
        if self._ranked is not None:
            known, seen, sample = self._ranked
            if known is ranks and self.n_seen - seen <= N_SAMPLED // 8:
                return sample
        sample = self._rank(ranks)
        self._ranked = ranks, self.n_seen, sample
        return sample

    def _rank(self, ranks: Ints) -> Sample:
        n = min(self.n_seen, N_SAMPLED)
        held = np.arange(_MOST_WORDS) < self._n_words[:n, None]
        terms = self._words[:n]
        known = held & (terms < ranks.size)
        ranked = np.where(known, ranks[np.where(known, terms, 0)], UNRANKED)
        ranked.sort(axis=1)
        asked = ranked != UNRANKED
        starts = np.zeros(n + 1, dtype=np.int64)
        np.cumsum(asked.sum(axis=1), out=starts[1:])
        return Sample(self._xs[:n].copy(), self._ys[:n].copy(), starts, ranked[asked])

    @property
    def nbytes(self) -> int:
        return self._xs.nbytes + self._ys.nbytes + self._words.nbytes + self._n_words.nbytes

    def state(self) -> State:
        rows = {"xs": self._xs, "ys": self._ys, "words": self._words, "n_words": self._n_words}
        return {**rows, "seen": self.n_seen, "passed": self.n_passed}

    def load(self, state: State) -> None:
        self._xs, self._ys, self._words = state["xs"], state["ys"], state["words"]
        self._n_words, self.n_seen, self.n_passed = state["n_words"], int(state["seen"]), int(state["passed"])
