"""Random messages as the index sees them: rows by slot, slots that are used again, and the moment to ask about."""

from __future__ import annotations

import math

import numpy as np

from nearcast.columns.fields.conditions import NO_CONDITION, Conditions
from nearcast.columns.fields.values import FieldValues
from nearcast.columns.message_table import MESSAGE, MessageLayout
from nearcast.columns.times import FOREVER
from nearcast.space.space import Space
from nearcast.text.vocabulary import Vocabulary
from nearcast.window.index.query import Moment

NO_FIELDS = FieldValues(Vocabulary()).layout
ANY_FIELDS = (NO_CONDITION, Conditions(Vocabulary()).layout)  # of a question
FOR_EVER = 0  # the half-life of scores that do not fade

N_WORDS = 60
IDF = np.random.default_rng(0).integers(1, 9, N_WORDS) / 4.0  # dyadic: sums are exact and ties happen

PLANE = Space((0.0, 0.0, 16.0, 16.0), "euclidean")
EARTH = Space((-180.0, -90.0, 180.0, 90.0), "haversine")
CITY = Space((170.0, -10.0, 179.0, 10.0), "haversine")
SPACES = (PLANE, EARTH, CITY)

_PLANE_STEPS = np.arange(-4, 21) / 1.0  # outside the bounds too
_LONS = np.array([-180.0, 180.0, 179.5, -179.5, 190.0, -170.0, 540.0, 170.0, 175.0, 0.0, 90.0, -90.0])
_LATS = np.array([-90.0, 90.0, 89.5, -5.0, 0.0, 5.0, 0.5, -0.5, 45.0])


def zipf_words(rng: np.random.Generator, n: int) -> np.ndarray:
    """Distinct words, small numbers the most frequent."""
    drawn = np.minimum((N_WORDS ** rng.random(4 * n) - 1.0).astype(np.int32), N_WORDS - 1)
    return np.unique(drawn)[rng.permutation(np.unique(drawn).size)][:n].astype(np.int32)


def place(rng: np.random.Generator, space: Space) -> tuple[float, float]:
    """A place, most from a coarse grid."""
    if space.metric == "euclidean":
        return float(rng.choice(_PLANE_STEPS)), float(rng.choice(_PLANE_STEPS))
    if rng.random() < 0.5:
        return float(rng.choice(_LONS)), float(rng.choice(_LATS))
    return float(rng.integers(165, 195)), float(rng.integers(-12, 13))


class Stored:
    """Messages by slot. What expires leaves its slot free; the next arrivals take it."""

    def __init__(self, seed: int, space: Space, count: int, lifetime: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.space, self.count, self.lifetime = space, count, lifetime
        self.last, self.clock = 0, 0
        self._rows = np.zeros(0, dtype=np.dtype((np.record, MESSAGE)))
        self._terms, self._counts = np.zeros(0, dtype=np.int32), np.zeros(0, dtype=np.int32)
        self._free: list[int] = []

    def __len__(self) -> int:
        return self.live_slots.size

    @property
    def live_slots(self) -> np.ndarray:
        """Slots in use, oldest message first."""
        slots = np.flatnonzero(self._rows["sequence"]).astype(np.int32)
        return slots[np.argsort(self._rows["sequence"][slots])]

    @property
    def layout(self) -> MessageLayout:
        return MessageLayout(self._rows, self._terms, self._counts, NO_FIELDS)

    def moment(self, last: int | None = None, since: int = 0) -> Moment:
        return Moment(self.last if last is None else last, self.clock, self.count, since)

    def arrive(self, n: int) -> np.ndarray:
        """Store n messages; their slots in order of arrival."""
        missing = max(0, n - len(self._free))
        self._free.extend(range(self._rows.size, self._rows.size + missing))
        self._rows = np.concatenate([self._rows, np.zeros(missing, dtype=self._rows.dtype)])
        slots = []
        rows, words, counts = self._rows, [self._terms], [self._counts]
        start = self._terms.size
        for _ in range(n):
            slot = self._free.pop()
            terms = zipf_words(self.rng, int(self.rng.integers(0, 7)))
            repeats = self.rng.integers(1, 3, terms.size).astype(np.int32)
            self.last += 1
            row = rows[slot]
            row["sequence"] = self.last
            row["x"], row["y"] = place(self.rng, self.space)
            row["withdrawn_by"] = FOREVER
            row["ts"] = self.clock - (self.last % 5) * (self.last % 11) ** 3  # most are late
            row["expires_at"] = (
                self.clock + 1 + int(self.rng.integers(0, self.lifetime)) if self.lifetime else 2**63 - 1
            )
            row["norm"] = math.sqrt(sum((int(c) * IDF[t]) ** 2 for t, c in zip(terms, repeats, strict=True)))
            row["term_start"], row["n_terms"] = start, terms.size
            start += terms.size
            words.append(terms)
            counts.append(repeats)
            slots.append(slot)
        self._terms, self._counts = np.concatenate(words), np.concatenate(counts)
        return np.array(slots, dtype=np.int32)

    def alive(self, moment: Moment) -> list[int]:
        """Slots of live messages, by the words of the design."""
        sequences, expiries = self._rows["sequence"], self._rows["expires_at"]
        alive = (sequences > moment.since) & (sequences <= moment.last) & (sequences > moment.last - moment.newest)
        return np.flatnonzero(alive & (sequences > 0) & (expiries > moment.clock)).tolist()  # type: ignore[no-any-return]

    def expire(self) -> None:
        """Free the slots of the dead."""
        alive = set(self.alive(self.moment()))
        for slot in range(self._rows.size):
            if self._rows["sequence"][slot] > 0 and slot not in alive:
                self._rows["sequence"][slot] = 0
                self._free.append(slot)

    def words(self, slot: int) -> dict[int, int]:
        """The words of a message and how often each is repeated."""
        row = self._rows[slot]
        where = slice(int(row["term_start"]), int(row["term_start"]) + int(row["n_terms"]))
        return dict(zip(self._terms[where].tolist(), self._counts[where].tolist(), strict=True))
