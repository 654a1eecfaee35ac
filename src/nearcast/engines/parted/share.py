"""Which part a subscription belongs to, and a table as one part sees it."""

from __future__ import annotations

from typing import Any

import numpy as np

from nearcast.columns.arena import Array, Ints

_GOLDEN = 2_654_435_769  # 2^32 over the golden ratio


def part_of(slots: Array, n: int) -> Ints:
    """The part that each of these slots belongs to, of `n`.

    Multiples of the golden ratio fall evenly into parts, wherever they start and whatever repeats: parts of slots that
    were given one after another differ by a few, and so do their costs, also where these follow a pattern.
    """
    return ((slots.astype(np.uint64) * _GOLDEN & 0xFFFFFFFF) * n >> 32).astype(np.int32)


class TableShare:
    """A table of subscriptions, of which one part of an engine files some."""

    def __init__(self, table: Any, part: int, n_parts: int) -> None:
        self._table = table
        self._part, self._n_parts = part, n_parts
        self.n_filed = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._table, name)

    def __len__(self) -> int:
        return self.n_filed

    @property
    def used_slots(self) -> Ints:
        """Slots of the part that hold a subscription."""
        return self._own(self._table.used_slots)

    def in_use(self, slots: Ints) -> Ints:
        """Those of these slots that are of the part and hold a subscription."""
        return self._own(self._table.in_use(slots))

    def _own(self, slots: Ints) -> Ints:
        return slots.compress(part_of(slots, self._n_parts) == self._part)
