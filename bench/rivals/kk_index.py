"""KK-Index: lists by rarest word, and for each long one a grid of 40 x 40 cells; messages likewise under all words."""

from __future__ import annotations

import numpy as np

from bench.rivals.live import GRID
from bench.rivals.moving import Moving
from bench.rivals.quadtree import count_live
from bench.rivals.rq_tree import SHORT
from bench.rivals.ss_index import Gridded
from nearcast.columns.arena import Ints


class KKIndex(Moving, Gridded):
    """Words first."""

    name = "kk_index"
    _of_new_words = 0

    def _gridded(self, slots: Ints) -> Ints:
        lengths = count_live(self.context.live.table.layout, self._counts.size)
        for entries, _ in self._entries(slots):
            lengths += np.bincount(entries.words, minlength=lengths.size)
        return np.where(lengths > SHORT, 1 << GRID, 0).astype(np.int32)
