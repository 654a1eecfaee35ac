"""A message index that tries every message: same questions, same answers, no structure. It judges `index.py`."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from nearcast.columns.arena import Floats, Ints, Longs, State
from nearcast.columns.message_table import MessageLayout
from nearcast.columns.scores import dot, topk_score
from nearcast.jit import kernel
from nearcast.space.distance import distance, ssim
from nearcast.space.space import Space
from nearcast.window.index.candidates import holds_term, in_area
from nearcast.window.index.query import ALL, ANY, BY_SCORE, Area, Moment, Question, is_alive, is_wanted, n_held
from nearcast.window.recency import keys_of


class StoredMessages(NamedTuple):
    """What is filed."""

    slots: Ints
    sequences: Longs  # int64[n]: another sequence in the slot's row: the message is dead


class WordWeights(NamedTuple):
    """Weights by term."""

    idf: Floats  # float64[n_terms]
    dense: Floats  # float64[n_terms]: those of the question, else 0


@kernel
def score_all(
    messages: MessageLayout,
    stored: StoredMessages,
    space: Any,
    words: WordWeights,
    question: Question,
    n_words: Any,
    moment: Moment,
    keys: Any,
) -> None:
    """Write the key of every stored message, smaller is better, or NaN where it is no answer.

    `n_words` is the number of distinct words asked for.
    """
    for i in range(stored.slots.size):
        keys[i] = np.nan
        slot = stored.slots[i]
        row = messages.rows[slot]
        if not is_alive(row, stored.sequences[i], moment) or not is_wanted(question, messages, slot):
            continue
        hits = n_held(messages, row, words.dense)
        if hits == 0 or (question.mode == ALL and hits < n_words):
            continue
        keys[i] = distance(space.metric, question.x, question.y, row.x, row.y)
        if question.mode == BY_SCORE:
            product = dot(messages, slot, words.idf, words.dense)
            near = ssim(keys[i], space.max_distance)
            keys[i] = -topk_score(question.alpha, near, product, question.norm, row.norm)


@kernel
def mark_inside(
    messages: MessageLayout, stored: StoredMessages, metric: int, term: int, area: Area, moment: Moment, inside: Any
) -> None:
    """Mark the stored live messages that hold the term and lie in the area."""
    for i in range(stored.slots.size):
        row = messages.rows[stored.slots[i]]
        alive = is_alive(row, stored.sequences[i], moment)
        inside[i] = alive and holds_term(messages, row, term) and in_area(area, metric, row.x, row.y)


class BruteForceIndex:
    """Every stored message is tried for every question."""

    def __init__(self, space: Space) -> None:
        self.space = space
        self._slots: Ints = np.zeros(0, dtype=np.int32)
        self._sequences: Longs = np.zeros(0, dtype=np.int64)

    def add(self, messages: MessageLayout, idf: Floats, slots: Ints) -> None:
        """File messages that have just arrived, in order of sequence."""
        self._slots = np.concatenate([self._slots, slots])
        self._sequences = np.concatenate([self._sequences, messages.rows["sequence"][slots]])

    def withdraw(self, sequences: Longs) -> None:
        """Every row is read anyway."""

    def prune(self, messages: MessageLayout, last: int, clock: int, count: int) -> None:
        """Forget what is dead as of (last, clock)."""
        rows = messages.rows[self._slots]
        alive = (rows["sequence"] == self._sequences) & (self._sequences > last - count) & (rows["expires_at"] > clock)
        self._slots, self._sequences = self._slots[alive], self._sequences[alive]

    def rebuild(self, messages: MessageLayout, idf: Floats, live_slots: Ints) -> None:
        """File these messages and no others."""
        self._slots, self._sequences = live_slots.copy(), messages.rows["sequence"][live_slots]

    def topk(
        self, messages: MessageLayout, idf: Floats, question: Question, terms: Ints, weights: Floats, moment: Moment
    ) -> tuple[Ints, Floats]:
        """Slots and scores of the k best live messages that share a word, best first; `weights` are count * idf."""
        slots, keys = self._search(messages, idf, question, terms, weights, moment)
        return slots, -keys

    def nearest(
        self, messages: MessageLayout, idf: Floats, question: Question, terms: Ints, moment: Moment
    ) -> tuple[Ints, Floats]:
        """Slots and distances of the k nearest live messages that hold ALL or ANY of the words, nearest first."""
        assert question.mode in (ALL, ANY)
        return self._search(messages, idf, question, terms, np.ones(terms.size), moment)

    def _search(
        self, messages: MessageLayout, idf: Floats, question: Question, terms: Ints, weights: Floats, moment: Moment
    ) -> tuple[Ints, Floats]:
        keys = np.empty(self._slots.size)
        dense = np.zeros(idf.size)
        dense[terms] = weights
        stored, words = StoredMessages(self._slots, self._sequences), WordWeights(idf, dense)
        score_all(messages, stored, self.space.kernel_input, words, question, terms.size, moment, keys)
        magnitudes, mantissas = np.zeros(keys.size, dtype=np.int64), keys
        if question.half_life:
            half_lives = np.full(keys.size, question.half_life)
            exponents, found = keys_of(-keys, messages.rows["ts"][self._slots], half_lives)
            magnitudes, mantissas = np.where(np.isnan(keys), 0, -exponents), -found
        order = np.lexsort((-self._sequences, mantissas, magnitudes, np.isnan(keys)))[: question.k]
        order = order[~np.isnan(keys[order])]
        return self._slots[order], keys[order]

    def candidates(
        self, messages: MessageLayout, term: int, area: tuple[float, float, float, float], moment: Moment
    ) -> Ints:
        """Slots of live messages that hold the term (or EVERY) and lie in the box (x0, y0, x1, y1), in any order."""
        inside = np.zeros(self._slots.size, dtype=np.bool_)
        stored = StoredMessages(self._slots, self._sequences)
        mark_inside(messages, stored, self.space.metric_code, term, Area(*area), moment, inside)
        return self._slots[inside]

    def check(self, messages: MessageLayout) -> None:
        """Assert that what is stored is consistent."""
        assert np.all(np.diff(self._sequences) > 0)

    def stats(self) -> dict[str, int]:
        """Sizes and work done."""
        return {"messages": self._slots.size, "bytes": self.nbytes}

    @property
    def nbytes(self) -> int:
        return self._slots.nbytes + self._sequences.nbytes

    def state(self) -> State:
        return {"slots": self._slots, "sequences": self._sequences}

    def load(self, state: State) -> None:
        self._slots, self._sequences = state["slots"], state["sequences"]
