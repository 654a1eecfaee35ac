"""What one subscription must be told, found by trying every message: plain NumPy, without any code of Nearcast.

Distances are straight lines in the plane. `place = max(0, 1 - distance / max_distance)`. With s the words that are
asked for and m those of a message:

- within: the message lies in the box, borders included, and holds all of s
- similar: `delta * |s and m| / |s| + (1 - delta) * place >= tau`
- topk: the k largest `alpha * place + (1 - alpha) * |s and m| / sqrt(|s| |m|)` among live messages that share a word
- nearest_all, nearest_any: the k smallest distances among live messages that hold all, or any, of s

Of equal scores the newer message counts more.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from bench.open.workload import Task, Workload

TOLERANCE = 1e-9  # relative: scores that differ by less may fall either way


class Matches(NamedTuple):
    """Messages that qualify, by their row, with their scores: larger is better; null (0) where there is none."""

    rows: np.ndarray  # int64, ascending
    scores: np.ndarray  # float64


class Truth:
    """Messages ready to be tried."""

    def __init__(self, workload: Workload) -> None:
        self.task: Task = workload.task
        self.subscriptions = workload.subscriptions
        messages = workload.messages
        self.x, self.y = messages["lon"].to_numpy(), messages["lat"].to_numpy()
        self.n_words = np.diff(_offsets(messages["keywords"]))
        words = _flat(messages["keywords"])
        coded = words.dictionary_encode()
        rows = np.repeat(np.arange(messages.num_rows), self.n_words)
        numbers = coded.indices.to_numpy()
        order = np.argsort(numbers, kind="stable")
        self._rows = rows[order]
        self._starts = np.searchsorted(numbers[order], np.arange(len(coded.dictionary) + 1))
        self._number = {word: at for at, word in enumerate(coded.dictionary.to_pylist())}

    def holding(self, word: str) -> np.ndarray:
        """Rows of messages that hold a word."""
        at = self._number.get(word)
        return self._rows[:0] if at is None else self._rows[self._starts[at] : self._starts[at + 1]]

    def matches(self, asked: dict[str, Any]) -> Matches:
        """All messages, early and late, that qualify for a subscription."""
        words = sorted(set(asked["keywords"]))
        shared = np.bincount(np.concatenate([self.holding(word) for word in words]), minlength=self.x.size)
        if self.task.kind == "within":
            inside = (asked["min_lon"] <= self.x) & (self.x <= asked["max_lon"])
            inside &= (asked["min_lat"] <= self.y) & (self.y <= asked["max_lat"])
            rows = np.flatnonzero(inside & (shared == len(words)))
            return Matches(rows, np.zeros(rows.size))
        distance = np.hypot(self.x - asked["lon"], self.y - asked["lat"])
        place = np.maximum(0.0, 1.0 - distance / self.task.max_distance)
        if self.task.kind == "similar":
            score = asked["delta"] * (shared / len(words)) + (1.0 - asked["delta"]) * place
            rows = np.flatnonzero(score >= asked["tau"] * (1 - TOLERANCE))
            return Matches(rows, score[rows])
        if self.task.kind == "topk":
            rows = np.flatnonzero(shared)
            cosine = shared[rows] / np.sqrt(len(words) * self.n_words[rows])
            return Matches(rows, asked["alpha"] * place[rows] + (1.0 - asked["alpha"]) * cosine)
        rows = np.flatnonzero(shared == len(words) if self.task.kind == "nearest_all" else shared > 0)
        return Matches(rows, -distance[rows])

    def lists(self, asked: dict[str, Any]) -> Iterator[tuple[int, list[tuple[float, int]]]]:
        """For each event that touches a result of the k best: its number, and (minus score, minus row) best first."""
        found, k, window = self.matches(asked), int(asked["k"]), self.task.before
        scores = dict(zip(found.rows.tolist(), found.scores.tolist(), strict=True))
        live = sorted((-scores[row], -row) for row in scores if row < window)
        yield -1, live[:k]
        touched = {row - window for row in scores if row >= window} | {
            row for row in scores if row < self.task.published
        }
        for event in sorted(touched):
            if event in scores:  # the oldest leaves when the next one comes
                gone = (-scores[event], -event)
                del live[bisect_left(live, gone)]
            if event + window in scores:
                insort(live, (-scores[event + window], -(event + window)))
            yield event, live[:k]


def _flat(column: pa.ChunkedArray) -> pa.Array:
    return column.combine_chunks().flatten()


def _offsets(column: pa.ChunkedArray) -> np.ndarray:
    return column.combine_chunks().offsets.to_numpy()
