"""SS-Index: one grid of 40 x 40 cells, in each of them lists by rarest word; messages likewise under all words."""

from __future__ import annotations

import numpy as np

from bench.rivals.base import Filing
from bench.rivals.cells import pack
from bench.rivals.clauses import Entries
from bench.rivals.lists import written_in_pieces
from bench.rivals.live import GRID, GRID_SIDE, Levels, key_at
from bench.rivals.moving import Moving
from nearcast.columns.arena import Array, Ints, Longs, with_room
from nearcast.columns.message_table import MessageLayout
from nearcast.columns.subscription_tables import WithinTable
from nearcast.engines.contract import EngineContext
from nearcast.jit import kernel
from nearcast.space.cells import cell_index
from nearcast.window.live import Steps


@kernel
def file_in_grid(first, entries, words, levels, keys, owners):
    """Keys of entries from `first` on: all cells that the box meets, or the root for words without the grid.

    Returns the entry to go on with and the number of keys.
    """
    bounds, side = levels.bounds, GRID_SIDE
    n = 0
    for i in range(first, words.size):
        if n + side * side > keys.size:
            return i, n
        if levels.masks[words[i]] >> GRID & 1 == 0:
            keys[n], owners[n] = pack(words[i], 0, 0, 0), i
            n += 1
            continue
        entry = entries[i]
        low_c = cell_index(bounds[0], bounds[2], side, entry.x0)
        top_c = cell_index(bounds[0], bounds[2], side, entry.x1)
        for row in range(
            cell_index(bounds[1], bounds[3], side, entry.y0), cell_index(bounds[1], bounds[3], side, entry.y1) + 1
        ):
            for column in range(low_c, top_c + 1):
                keys[n], owners[n] = pack(words[i], GRID, row, column), i
                n += 1
    return words.size, n


@kernel
def probe_grid(arrivals, messages, levels, known, starts, keys):
    """The cell of each word of each arrival that something is filed under; returns how many keys, with room for all."""
    n = 0
    for event in range(arrivals.size):
        starts[event] = n
        if arrivals[event] < 0:
            continue
        message = messages.rows[arrivals[event]]
        for i in range(message.term_start, message.term_start + message.n_terms):
            word = messages.terms[i]
            if word < known.size and known[word]:
                level = GRID if levels.masks[word] >> GRID & 1 else 0
                keys[n] = key_at(levels.bounds, word, level, message.x, message.y)
                n += 1
    starts[arrivals.size] = n
    return n


class Gridded(Filing):
    """Lists by rarest word and, where `_gridded` says so, by cell of a grid."""

    def __init__(self, table: WithinTable, context: EngineContext) -> None:
        super().__init__(table, context)
        self._known = np.zeros(0, np.uint8)  # words that something is filed under
        self._grids = np.zeros(0, np.int32)  # the bit of GRID for words that have one

    def _learn(self, slots: Ints) -> None:
        self._known = np.zeros(self._counts.size, np.uint8)
        self._grids = self._gridded(slots)

    def _gridded(self, slots: Ints) -> Ints:
        """Here all words have the grid."""
        return np.full(self._counts.size, 1 << GRID, np.int32)

    @property
    def _levels(self) -> Levels:
        return Levels(self.context.space.bounds, 0, self._grids)

    def _keys(self, entries: Entries, rows: Array, filing: bool) -> tuple[Longs, Ints]:
        if filing:
            self._know(entries.words)
        levels = self._levels

        def write(done: int, keys: Longs, owners: Ints) -> tuple[int, int]:
            done, n = file_in_grid(done, entries.rows, entries.words, levels, keys, owners)
            return done, n

        return written_in_pieces(entries.words.size, 8 * entries.words.size + GRID_SIDE * GRID_SIDE, write)

    def _know(self, words: Ints) -> None:
        n, n_terms = self._grids.size, self.context.vocabulary.idf.size
        self._known, self._grids = with_room(self._known, n_terms), with_room(self._grids, n_terms)
        self._grids[n:] = self._of_new_words
        self._known[words] = 1

    _of_new_words = 1 << GRID

    def _probe(self, steps: Steps, messages: MessageLayout) -> tuple[Longs, Longs]:
        starts = np.empty(steps.arrivals.size + 1, np.int64)
        keys = np.empty(int(messages.rows["n_terms"][steps.arrivals].sum()), np.int64)
        return starts, keys[: probe_grid(steps.arrivals, messages, self._levels, self._known, starts, keys)]

    @property
    def nbytes(self) -> int:
        return super().nbytes + self._known.nbytes + self._grids.nbytes


class SSIndex(Moving, Gridded):
    """Space first."""

    name = "ss_index"
    _always = 1 << GRID
