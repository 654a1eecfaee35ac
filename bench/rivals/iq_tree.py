"""IQ-Tree: one quadtree, each entry in the cells that cost least, and in each cell lists by rarest word."""

from __future__ import annotations

import numpy as np

from bench.rivals.cells import DEEPEST, N_CELLS, cell_at, level_of, pack
from bench.rivals.clauses import Entries
from bench.rivals.quadtree import Quadtrees
from nearcast.columns.arena import Array, Ints, Longs, with_room
from nearcast.columns.message_table import MessageLayout
from nearcast.columns.subscription_tables import WithinTable
from nearcast.engines.contract import EngineContext
from nearcast.jit import kernel
from nearcast.space.cells import cell_index
from nearcast.window.live import Steps


@kernel
def note_cells(keys, occupied, known):
    """Remember the cells and the words of keys."""
    for key in keys:
        occupied[cell_at(level_of(key), (key >> 12) & 4095, key & 4095)] = 1
        known[key >> 29] = 1


@kernel
def probe_cells(arrivals, messages, bounds, occupied, known, starts, keys):
    """Every occupied cell that each arrival lies in, with each of its words; returns how many keys, with room for all.

    Paper: [APTREE] 3.1, the matching of IQ-Tree.
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
        for level in range(DEEPEST + 1):
            up = DEEPEST - level
            if occupied[cell_at(level, row >> up, column >> up)] == 0:
                continue
            for i in range(message.term_start, message.term_start + message.n_terms):
                word = messages.terms[i]
                if word < known.size and known[word]:
                    keys[n] = pack(word, level, row >> up, column >> up)
                    n += 1
    starts[arrivals.size] = n
    return n


class IQTree(Quadtrees):
    """Space first."""

    name = "iq_tree"

    def __init__(self, table: WithinTable, context: EngineContext) -> None:
        super().__init__(table, context)
        self._occupied = np.zeros(N_CELLS, np.uint8)
        self._known = np.zeros(0, np.uint8)  # words that something is filed under

    def _learn(self, slots: Ints) -> None:
        super()._learn(slots)
        self._occupied[:] = 0
        self._known = np.zeros(self._counts.size, np.uint8)

    def _keys(self, entries: Entries, rows: Array, filing: bool) -> tuple[Longs, Ints]:
        keys, owners = self._cells(entries, entries.words, self._weights(entries.words))
        if filing:
            self._known = with_room(self._known, self.context.vocabulary.idf.size)
            note_cells(keys, self._occupied, self._known)
        return keys, owners

    def _probe(self, steps: Steps, messages: MessageLayout) -> tuple[Longs, Longs]:
        starts = np.empty(steps.arrivals.size + 1, np.int64)
        keys = np.empty((DEEPEST + 1) * int(messages.rows["n_terms"][steps.arrivals].sum()), np.int64)
        bounds = self.context.space.bounds
        n = probe_cells(steps.arrivals, messages, bounds, self._occupied, self._known, starts, keys)
        return starts, keys[:n]

    @property
    def nbytes(self) -> int:
        return super().nbytes + self._occupied.nbytes + self._known.nbytes
