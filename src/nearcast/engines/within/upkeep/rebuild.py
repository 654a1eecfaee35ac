"""Rebuilds a subtree that drifted: a new one grows beside the old one, a slice at a time, and then takes its place.

Paper: [APTREE] section 3.3.5.
Departs: the paper rebuilds at once; a root of a million entries would stop matching for seconds. Nor does it rebuild
whatever drifted: events pay for rebuilding, so that a stream that never stops drifting is not spent on it.
"""

from __future__ import annotations

import numpy as np

from nearcast.columns.arena import Array, Ints, with_room
from nearcast.columns.subscription_tables import WithinTable
from nearcast.engines.within.arrays import TreeArrays, take_range
from nearcast.engines.within.build.builder import TreeBuilder
from nearcast.engines.within.build.layout import Plan, Sample
from nearcast.engines.within.layout import ENTRY, FREE_PARTS, N_PARTS, NOTHING
from nearcast.engines.within.word_order import WordOrder

_COLLECTED = -1  # in place of a cursor


class Rebuild:
    """One subtree that is being built, below a spare part. Meanwhile the old one answers, and what changes is noted.

    The entries of a root come from the table, whose slots are walked slice by slice; those of any other subtree are
    put on the stack at once, see `collected`. Blocks do not keep entries whole: those that change once they were
    collected are noted as they were, so that they are found again.
    """

    def __init__(self, arrays: TreeArrays, part: int, order: WordOrder, plan: Plan, sample: Sample) -> None:
        self.part = part
        self.order = order
        self.builder = TreeBuilder(plan.fanout)
        self._changed: list[Ints] = []  # slots that were inserted, removed or moved since they were collected
        self._olds: list[Array] = [np.zeros(0, ENTRY)]  # their entries as they were collected
        self._noted = np.zeros(0, dtype=np.bool_)  # by slot: is it in `_changed`?
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

    def note(self, table: WithinTable, slots: Ints, before: Array | None) -> None:
        """These subscriptions are new, or were moved or removed; their rows were `before`."""
        if self._cursor != _COLLECTED:  # what is yet to be collected will be as it is then
            collected = slots < self._cursor
            slots, before = slots[collected], before[collected] if before is not None else None
        self._noted = with_room(self._noted, table.slots.capacity)
        fresh = ~self._noted[slots]
        self._noted[slots] = True
        self._changed.append(slots[fresh])
        if before is not None:
            self._olds.append(self.order.entries(table, before[fresh], slots[fresh]))

    @property
    def changed(self) -> Ints:
        """The slots that were noted."""
        return np.concatenate([np.zeros(0, np.int32), *self._changed])

    @property
    def olds(self) -> Array:
        """The entries, as they were collected, of slots that were noted."""
        return np.concatenate(self._olds)

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
        slots = table.in_use(slots)
        entries = self.order.entries(table, rows[slots], slots)
        self.builder.stack(self._n_rows + entries.size)[self._n_rows : self._n_rows + entries.size] = entries
        self._n_rows += entries.size
        self._cursor = self._cursor + n_rows if self._cursor + n_rows < rows.size else _COLLECTED
