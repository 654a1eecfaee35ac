"""RQ-Tree: lists by rarest word first, and for each long one a quadtree with the cells that cost least."""

from __future__ import annotations

import numpy as np

from bench.rivals.cells import DEEPEST, level_of, pack
from bench.rivals.clauses import Entries
from bench.rivals.quadtree import IN_ROOT, Quadtrees
from nearcast.columns.arena import Array, Ints, Longs, with_room
from nearcast.columns.message_table import MessageLayout
from nearcast.columns.subscription_tables import WithinTable
from nearcast.engines.contract import EngineContext
from nearcast.jit import kernel
from nearcast.space.cells import cell_index
from nearcast.window.live import Steps

SHORT = 32  # entries that are not worth a quadtree


@kernel
def note_levels(keys, levels):
    """Remember the levels at which each group has cells, as bits."""
    for key in keys:
        levels[key >> 29] |= 1 << level_of(key)


@kernel
def probe_levels(arrivals, messages, bounds, levels, starts, keys):
    """For each word of each arrival its cell at every level in use; returns how many keys, with room for all.

    Paper: [APTREE] 5.1.1, RQ-Tree.
    """
    side = 1 << DEEPEST
    n = 0
    for event in range(arrivals.size):
        starts[event] = n
        if arrivals[event] < 0:
            continue
        message = messages.rows[arrivals[event]]
        column = cell_index(bounds[0], bounds[2], side, message.x)
        row = cell_index(bounds[1], bounds[3], side, message.y)
        for i in range(message.term_start, message.term_start + message.n_terms):
            word = messages.terms[i]
            if word >= levels.size or levels[word] == 0:
                continue
            for level in range(DEEPEST + 1):
                if levels[word] >> level & 1:
                    up = DEEPEST - level
                    keys[n] = pack(word, level, row >> up, column >> up)
                    n += 1
    starts[arrivals.size] = n
    return n


class RQTree(Quadtrees):
    """Words first."""

    name = "rq_tree"

    def __init__(self, table: WithinTable, context: EngineContext) -> None:
        super().__init__(table, context)
        self._levels = np.zeros(0, np.int32)
        self._lengths = np.zeros(0, np.int64)  # entries of each word, when all were filed last

    def _learn(self, slots: Ints) -> None:
        super()._learn(slots)
        self._levels = np.zeros(self._counts.size, np.int32)
        self._lengths = np.zeros(self._counts.size, np.int64)
        for entries, _ in self._entries(slots):
            self._lengths += np.bincount(entries.words, minlength=self._lengths.size)

    def _keys(self, entries: Entries, rows: Array, filing: bool) -> tuple[Longs, Ints]:
        lengths = self._lengths[np.minimum(entries.words, self._lengths.size - 1)]
        is_long = (entries.words < self._lengths.size) & (lengths > SHORT)
        weights = np.where(is_long, self._weights(entries.words), IN_ROOT)
        keys, owners = self._cells(entries, entries.words, weights)
        if filing:
            self._levels = with_room(self._levels, self.context.vocabulary.idf.size)
            note_levels(keys, self._levels)
        return keys, owners

    def _probe(self, steps: Steps, messages: MessageLayout) -> tuple[Longs, Longs]:
        starts = np.empty(steps.arrivals.size + 1, np.int64)
        keys = np.empty((DEEPEST + 1) * int(messages.rows["n_terms"][steps.arrivals].sum()), np.int64)
        n = probe_levels(steps.arrivals, messages, self.context.space.bounds, self._levels, starts, keys)
        return starts, keys[:n]

    @property
    def nbytes(self) -> int:
        return super().nbytes + self._levels.nbytes + self._lengths.nbytes
