"""What the rivals with quadtrees share: how often messages come by a cell with a word, and the price of an entry."""

from __future__ import annotations

import numpy as np

from bench.rivals.base import Filing
from bench.rivals.cells import Tree, cells_of, new_tree
from bench.rivals.clauses import Entries
from nearcast.columns.arena import Array, Floats, Ints, Longs, ranges
from nearcast.columns.message_table import MessageLayout
from nearcast.columns.subscription_tables import WithinTable
from nearcast.engines.contract import EngineContext
from nearcast.jit import kernel

IN_ROOT = -1.0  # weight of an entry that is not worth a decomposition
LIFE = 20_000.0  # messages for which a look at an entry costs as much as filing it once more

_LEAST_SAMPLE = 1000  # live messages that are enough to learn from


def count_live(messages: MessageLayout, n_terms: int) -> Longs:
    """How many live messages hold each word."""
    rows = messages.rows[np.flatnonzero(messages.rows["sequence"])]
    found: Longs = np.bincount(messages.terms[ranges(rows["term_start"], rows["n_terms"])], minlength=n_terms)
    return found


@kernel
def spread(entries, x, y):
    """Middles of boxes that are not endless, as places of messages to come; returns how many."""
    n = 0
    for i in range(entries.size):
        middle_x = 0.5 * (float(entries[i].x0) + float(entries[i].x1))
        middle_y = 0.5 * (float(entries[i].y0) + float(entries[i].y1))
        if np.isfinite(middle_x) and np.isfinite(middle_y):
            x[n], y[n] = middle_x, middle_y
            n += 1
    return n


class Quadtrees(Filing):
    """Entries in quadtree cells that cost least.

    What to expect of messages is learnt from those that are live when all is filed, or from the subscriptions
    themselves when there are few.
    """

    def __init__(self, table: WithinTable, context: EngineContext) -> None:
        super().__init__(table, context)
        self._shares: Floats = np.zeros(0)  # of messages that hold each word
        self._tree: Tree | None = None

    def _learn(self, slots: Ints) -> None:
        messages = self.context.live.table.layout
        live = np.flatnonzero(messages.rows["sequence"])
        if live.size >= _LEAST_SAMPLE:
            rows = messages.rows[live]
            self._shares = (count_live(messages, self._counts.size) + 0.5) / live.size
            self._tree = new_tree(self.context.space.bounds, rows["x"].copy(), rows["y"].copy())
            return
        x, y, n = np.zeros(slots.size), np.zeros(slots.size), 0
        for entries, _ in self._entries(slots[:: max(1, slots.size // 100_000)].copy()):
            n += spread(entries.rows[: slots.size - n], x[n:], y[n:])
        self._shares = (self._counts + 0.5) / slots.size
        self._tree = new_tree(self.context.space.bounds, x[:n], y[:n])

    def _shares_of(self, words: Ints) -> Floats:
        """Of messages that hold these words; the least for words that came later."""
        known = np.minimum(words, self._shares.size - 1)
        return np.where(words < self._shares.size, self._shares[known], self._shares.min())

    def _cells(self, entries: Entries, groups: Ints, weights: Array) -> tuple[Longs, Ints]:
        assert self._tree is not None
        return cells_of(entries.rows, groups, weights, self._tree)

    def _weights(self, words: Ints) -> Array:
        """Looks that an entry in the root would get, in units of the price of an entry."""
        return LIFE * self._shares_of(words)

    @property
    def nbytes(self) -> int:
        own = 0 if self._tree is None else self._tree.shares.nbytes
        return super().nbytes + self._shares.nbytes + own
