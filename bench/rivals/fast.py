"""A FAST-style index: rare words keep one list for everything, frequent words have lists in the cells of a pyramid."""

from __future__ import annotations

import numpy as np

from bench.rivals.cells import DEEPEST, pack
from bench.rivals.clauses import Entries
from bench.rivals.iq_tree import IQTree, note_cells
from nearcast.columns.arena import Array, Ints, Longs, with_room
from nearcast.jit import kernel
from nearcast.space.cells import cell_index

_FREQUENT = 40  # clauses that share their rarest word, from which on it is frequent


@kernel
def fit_cells(entries, words, frequent, bounds, keys, owners):
    """Keys of entries: the root for a rare word, else the cells of the level whose cells are as large as the box.

    Paper: [CKQST] 4.1, FAST as a rival; a frequent word's subscriptions go down the pyramid.
    Departs: the words of an entry are compared one by one, not along a trie.
    """
    n = 0
    for i in range(entries.size):
        if frequent[i] == 0:
            keys[n], owners[n] = pack(words[i], 0, 0, 0), i
            n += 1
            continue
        side = 1 << DEEPEST
        column0 = cell_index(bounds[0], bounds[2], side, entries[i].x0)
        column1 = cell_index(bounds[0], bounds[2], side, entries[i].x1)
        row0 = cell_index(bounds[1], bounds[3], side, entries[i].y0)
        row1 = cell_index(bounds[1], bounds[3], side, entries[i].y1)
        up = 0
        while (column1 >> up) - (column0 >> up) > 1 or (row1 >> up) - (row0 >> up) > 1:
            up += 1
        for row in range(row0 >> up, (row1 >> up) + 1):
            for column in range(column0 >> up, (column1 >> up) + 1):
                keys[n], owners[n] = pack(words[i], DEEPEST - up, row, column), i
                n += 1
    return n


class Fast(IQTree):
    """Words first."""

    name = "fast"

    def _keys(self, entries: Entries, rows: Array, filing: bool) -> tuple[Longs, Ints]:
        size = entries.words.size
        keys, owners = np.empty(4 * size, np.int64), np.empty(4 * size, np.int32)
        counted = np.minimum(entries.words, self._counts.size - 1)
        frequent = ((self._counts[counted] > _FREQUENT) & (entries.words < self._counts.size)).astype(np.uint8)
        n = fit_cells(entries.rows, entries.words, frequent, self.context.space.bounds, keys, owners)
        if filing:
            self._known = with_room(self._known, self.context.vocabulary.idf.size)
            note_cells(keys[:n], self._occupied, self._known)
        return keys[:n], owners[:n]
