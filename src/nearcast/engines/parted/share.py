"""Which part a subscription belongs to, and a table as one part sees it."""

from __future__ import annotations

from typing import Any

import numpy as np

from nearcast.columns.arena import Array, Ints, Longs, Slots
from nearcast.text.vocabulary import Vocabulary

_GOLDEN = 2_654_435_769  # 2^32 over the golden ratio


def part_of(slots: Array, n: int) -> Ints:
    """The part that each of these slots belongs to, of `n`.

    Multiples of the golden ratio fall evenly into parts, wherever they start and whatever repeats: parts of slots that
    were given one after another differ by a few, and so do their costs, also where these follow a pattern.
    """
    return ((slots.astype(np.uint64) * _GOLDEN & 0xFFFFFFFF) * n >> 32).astype(np.int32)


class TableShare:
    """What engines ask of a table of subscriptions, for one part of an engine that files some of them."""

    def __init__(self, table: Any, part: int, n_parts: int) -> None:
        self._table = table
        self._part, self._n_parts = part, n_parts
        self.vocabulary: Vocabulary = table.vocabulary
        self.slots: Slots = table.slots
        self.n_filed = 0

    def __len__(self) -> int:
        return self.n_filed

    @property
    def rows(self) -> Array:
        """Of all parts, by slot."""
        rows: Array = self._table.rows
        return rows

    @property
    def layout(self) -> Any:
        """Of all parts."""
        return self._table.layout

    @property
    def numbers(self) -> Ints:
        """Of all parts, by slot."""
        numbers: Ints = self._table.numbers
        return numbers

    @property
    def fades(self) -> bool:
        """Has anybody of any part ever had a half-life?"""
        return bool(self._table.fades)

    def half_lives_of(self, slots: Ints) -> Longs:
        """The half-lives of these subscriptions' scores."""
        found: Longs = self._table.half_lives_of(slots)
        return found

    @property
    def used_slots(self) -> Ints:
        """Slots of the part that hold a subscription."""
        return self._own(self._table.used_slots)

    def in_use(self, slots: Ints) -> Ints:
        """Those of these slots that are of the part and hold a subscription."""
        return self._own(self._table.in_use(slots))

    def _own(self, slots: Ints) -> Ints:
        return slots.compress(part_of(slots, self._n_parts) == self._part)
