"""Rebuilds a subtree that drifted: a new one grows beside the old one, a slice at a time, and then takes its place.

Paper: [APTREE] section 3.3.5.
Departs: the paper rebuilds at once; a root of a million entries would stop matching for seconds. Nor does it rebuild
whatever drifted: events pay for rebuilding, so that a stream that never stops drifting is not spent on it.
"""

from __future__ import annotations

import numpy as np

from nearcast.columns.arena import Ints
from nearcast.columns.subscription_tables import WithinTable
from nearcast.engines.within.arrays import TreeArrays, take_range
from nearcast.engines.within.build.builder import TreeBuilder
from nearcast.engines.within.build.layout import Plan, Sample
from nearcast.engines.within.layout import FREE_PARTS, N_PARTS, NOTHING
from nearcast.engines.within.word_order import WordOrder

_COLLECTED = -1  # in place of a cursor


class Rebuild:
    """One subtree that is being built, below a spare part. Meanwhile the old one answers, and `changed` is noted.

    The entries of a root come from the table, whose slots are walked slice by slice; those of any other subtree are
    put on the stack at once, see `collected`.
    """

    def __init__(self, arrays: TreeArrays, part: int, order: WordOrder, plan: Plan, sample: Sample) -> None:
        self.part = part
        self.order = order
        self.builder = TreeBuilder(plan.fanout)
        self.changed: list[Ints] = []  # slots that were inserted, removed or moved since it began
        self._plan = plan
        self._sample = sample
        self._n_rows = 0
        self._cursor = 0  # slots of the table that were looked at
        self._started = False
        arrays.make_room(parts=1)
        layout = arrays.layout
        self.shadow = int(take_range(layout.heads, layout.parts["child"], N_PARTS, FREE_PARTS, 0))
        layout.parts[self.shadow] = layout.parts[part]
        layout.parts["child"][self.shadow] = NOTHING

    def collected(self, n_rows: int) -> None:
        """The builder's stack holds all entries, `n_rows` of them."""
        self._n_rows, self._cursor = n_rows, _COLLECTED

    def step(self, arrays: TreeArrays, table: WithinTable, n_rows: int, path: Ints) -> bool:
        """Handle up to `n_rows` rows; True when the subtree is complete."""
        if self._cursor != _COLLECTED:
            self._collect(table, n_rows)
            return False
        if not self._started:
            self.builder.start(arrays, self.part, self._n_rows, self._sample, path, self.shadow)
            arrays.layout.parts["now"][self.shadow] = self._n_rows
            self._started = True
        self.builder.run(arrays, self.order, self._plan, self._sample, n_rows)
        return not self.builder.busy

    def _collect(self, table: WithinTable, n_rows: int) -> None:
        rows = table.layout.rows
        slots = np.arange(self._cursor, min(self._cursor + n_rows, rows.size), dtype=np.int32)
        slots = slots[table.numbers[slots] >= 0]
        entries = self.order.entries(table, rows[slots], slots)
        self.builder.stack(self._n_rows + entries.size)[self._n_rows : self._n_rows + entries.size] = entries
        self._n_rows += entries.size
        self._cursor = self._cursor + n_rows if self._cursor + n_rows < rows.size else _COLLECTED
