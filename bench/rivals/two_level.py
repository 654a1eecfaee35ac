"""The plain two-level index: rarest word of each clause, then a uniform grid for words with long lists."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from bench.rivals.base import Filing
from bench.rivals.cells import pack
from bench.rivals.clauses import Entries
from bench.rivals.lists import written_in_pieces
from nearcast.columns.arena import Array, Ints, Longs, with_room
from nearcast.columns.message_table import MessageLayout
from nearcast.columns.subscription_tables import WithinTable
from nearcast.engines.contract import EngineContext
from nearcast.jit import kernel
from nearcast.space.cells import Bounds, cell_index
from nearcast.window.live import Steps

_FINEST = 6  # levels of grids: 1 x 1 to 64 x 64 cells
_SHORT = 32  # lists up to here have no grid
_MOST_COPIES = 10.0  # of an entry, on average over the list

N, WIDE, HIGH, AREA = range(4)  # what is summed up of the boxes of a word


class Grids(NamedTuple):
    """The grid of each word."""

    bounds: Bounds
    levels: Array  # int8[n_terms]: -1 for words that nothing was ever filed under


@kernel
def sum_boxes(entries, words, bounds, sums):
    """Add up sides and areas of entries by word, as shares of the space, cut at its border."""
    wide, high = bounds[2] - bounds[0], bounds[3] - bounds[1]
    for i in range(words.size):
        entry = entries[i]
        w = max(0.0, min(entry.x1, bounds[2]) - max(entry.x0, bounds[0])) / wide if wide > 0.0 else 0.0
        h = max(0.0, min(entry.y1, bounds[3]) - max(entry.y0, bounds[1])) / high if high > 0.0 else 0.0
        sums[words[i], N] += 1.0
        sums[words[i], WIDE] += w
        sums[words[i], HIGH] += h
        sums[words[i], AREA] += w * h


@kernel
def choose_levels(sums, levels):
    """The finest grid that has fewer cells than the list has entries and does not copy them too often."""
    for word in range(sums.shape[0]):
        n = sums[word, N]
        if n == 0.0:
            continue
        levels[word] = 0
        for level in range(1, _FINEST + 1 if n > _SHORT else 1):
            side = 1 << level
            copies = 1.0 + (side * (sums[word, WIDE] + sums[word, HIGH]) + side * side * sums[word, AREA]) / n
            if copies <= _MOST_COPIES and side * side <= n:
                levels[word] = level


@kernel
def file_in_grids(first, entries, words, grids, keys, owners):
    """Keys of entries from `first` on; returns the entry to go on with and the number of keys."""
    bounds, side = grids.bounds, 1 << _FINEST
    n = 0
    for i in range(first, words.size):
        entry, level = entries[i], grids.levels[words[i]]
        up = _FINEST - level
        low_c = cell_index(bounds[0], bounds[2], side, entry.x0) >> up
        top_c = cell_index(bounds[0], bounds[2], side, entry.x1) >> up
        low_r = cell_index(bounds[1], bounds[3], side, entry.y0) >> up
        top_r = cell_index(bounds[1], bounds[3], side, entry.y1) >> up
        if n + (top_c - low_c + 1) * (top_r - low_r + 1) > keys.size:
            return i, n
        for row in range(low_r, top_r + 1):
            for column in range(low_c, top_c + 1):
                keys[n], owners[n] = pack(words[i], level, row, column), i
                n += 1
    return words.size, n


@kernel
def probe_grids(arrivals, messages, grids, starts, keys):
    """The cell of each word of each arrival; returns how many keys, for which there is room."""
    bounds, side = grids.bounds, 1 << _FINEST
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
            if word < grids.levels.size and grids.levels[word] >= 0:
                level = grids.levels[word]
                keys[n] = pack(word, level, row >> (_FINEST - level), column >> (_FINEST - level))
                n += 1
    starts[arrivals.size] = n
    return n


class TwoLevel(Filing):
    """Rarest word, then grid."""

    name = "two_level"

    def __init__(self, table: WithinTable, context: EngineContext) -> None:
        super().__init__(table, context)
        self._levels = np.zeros(0, np.int8)

    @property
    def _grids(self) -> Grids:
        return Grids(self.context.space.bounds, self._levels)

    def _learn(self, slots: Ints) -> None:
        sums = np.zeros((self._counts.size, 4))
        for entries, _ in self._entries(slots):
            sum_boxes(entries.rows, entries.words, self.context.space.bounds, sums)
        self._levels = np.full(self._counts.size, -1, np.int8)
        choose_levels(sums, self._levels)

    def _keys(self, entries: Entries, rows: Array, filing: bool) -> tuple[Longs, Ints]:
        if filing:
            self._open(entries.words)
        levels = self._grids

        def write(done: int, keys: Longs, owners: Ints) -> tuple[int, int]:
            done, n = file_in_grids(done, entries.rows, entries.words, levels, keys, owners)
            return done, n

        return written_in_pieces(entries.words.size, 4 * entries.words.size + (1 << 2 * _FINEST), write)

    def _open(self, words: Ints) -> None:
        """Words that nothing was filed under so far get one list."""
        n = self._levels.size
        self._levels = with_room(self._levels, self.context.vocabulary.idf.size)
        self._levels[n:] = -1
        self._levels[words] = np.maximum(self._levels[words], 0)

    def _probe(self, steps: Steps, messages: MessageLayout) -> tuple[Longs, Longs]:
        starts = np.empty(steps.arrivals.size + 1, np.int64)
        keys = np.empty(int(messages.rows["n_terms"][steps.arrivals].sum()), np.int64)
        return starts, keys[: probe_grids(steps.arrivals, messages, self._grids, starts, keys)]

    @property
    def nbytes(self) -> int:
        return super().nbytes + self._levels.nbytes
