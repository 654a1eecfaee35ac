"""The message index that tries every message: same questions, same answers, no structure. It judges `index.py`."""

from __future__ import annotations

import numpy as np

from nearcast.columns.arena import Floats, Ints, Longs, State
from nearcast.columns.message_table import MessageLayout
from nearcast.columns.scores import dot, topk_score
from nearcast.jit import kernel
from nearcast.space.distance import distance, ssim
from nearcast.space.space import Space
from nearcast.window.index.candidates import holds, lies_inside
from nearcast.window.index.query import ALL, ANY, BY_SCORE, Moment, Question
from nearcast.window.index.segments import is_alive


@kernel
def score_all(messages, stored, space, idf, question, dense, moment, keys):
    """Write the key of every stored message, smaller is better, or NaN where it is no answer.

    `stored` is (slots, sequences, number of distinct words asked for), `space` is (metric, max_distance).
    """
    slots, sequences, n_words = stored
    for i in range(slots.size):
        keys[i] = np.nan
        row = messages.rows[slots[i]]
        if sequences[i] <= moment.since or not is_alive(row, sequences[i], moment.last, moment.clock, moment.newest):
            continue
        hits = 0
        for j in range(row.term_start, row.term_start + row.n_terms):
            if dense[messages.terms[j]] != 0.0:
                hits += 1
        if hits == 0 or (question.mode == ALL and hits < n_words):
            continue
        keys[i] = distance(space[0], question.x, question.y, row.x, row.y)
        if question.mode == BY_SCORE:
            near = ssim(keys[i], space[1])
            keys[i] = -topk_score(question.alpha, near, dot(messages, slots[i], idf, dense), question.norm, row.norm)


@kernel
def mark_inside(messages, stored, metric, term, area, moment, inside):
    """Mark the stored live messages that hold the term and lie in the box; `stored` is (slots, sequences)."""
    slots, sequences = stored
    for i in range(slots.size):
        row = messages.rows[slots[i]]
        alive = sequences[i] > moment.since and is_alive(row, sequences[i], moment.last, moment.clock, moment.newest)
        inside[i] = alive and holds(messages, row, term) and lies_inside(area, metric, row.x, row.y)


class ScanIndex:
    """Every stored message is tried for every question."""

    def __init__(self, space: Space) -> None:
        self.space = space
        self._slots: Ints = np.zeros(0, dtype=np.int32)
        self._sequences: Longs = np.zeros(0, dtype=np.int64)

    def add(self, messages: MessageLayout, idf: Floats, slots: Ints) -> None:
        """File messages that have just arrived, in order of sequence."""
        self._slots = np.concatenate([self._slots, slots])
        self._sequences = np.concatenate([self._sequences, messages.rows["sequence"][slots]])

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
        slots, keys = self._ask(messages, idf, question, terms, weights, moment)
        return slots, -keys

    def nearest(
        self, messages: MessageLayout, idf: Floats, question: Question, terms: Ints, moment: Moment
    ) -> tuple[Ints, Floats]:
        """Slots and distances of the k nearest live messages that hold ALL or ANY of the words, nearest first."""
        assert question.mode in (ALL, ANY)
        return self._ask(messages, idf, question, terms, np.ones(terms.size), moment)

    def _ask(
        self, messages: MessageLayout, idf: Floats, question: Question, terms: Ints, weights: Floats, moment: Moment
    ) -> tuple[Ints, Floats]:
        keys = np.empty(self._slots.size)
        dense = np.zeros(idf.size)
        dense[terms] = weights
        stored = (self._slots, self._sequences, terms.size)
        score_all(
            messages, stored, (self.space.metric_code, self.space.max_distance), idf, question, dense, moment, keys
        )
        order = np.lexsort((-self._sequences, keys))[: question.k]
        order = order[~np.isnan(keys[order])]
        return self._slots[order], keys[order]

    def candidates(
        self, messages: MessageLayout, term: int, area: tuple[float, float, float, float], moment: Moment
    ) -> Ints:
        """Slots of live messages that hold the term (or EVERY) and lie in the box (x0, y0, x1, y1), in any order."""
        inside = np.zeros(self._slots.size, dtype=np.bool_)
        mark_inside(messages, (self._slots, self._sequences), self.space.metric_code, term, area, moment, inside)
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
