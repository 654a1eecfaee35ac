"""Subscriptions go into the grid, and the entries that they had before are left to die."""

from __future__ import annotations

import numpy as np

from nearcast.engines.nearest_any.layout import (
    DEEPEST,
    END,
    FREE_ENTRY,
    LEVELS,
    N_DEAD,
    N_ENTRIES,
    cell_code,
    hash_of,
)
from nearcast.engines.reach import NO_WORD, draw_box, level_of
from nearcast.jit import kernel
from nearcast.space.cells import cell_index
from nearcast.space.distance import EUCLIDEAN, wrap


@kernel
def forget(grid, filed, slots):
    """These subscriptions are filed nowhere; their entries are removed when a message comes by."""
    for slot in slots:
        own = filed[slot]
        own.generation += 1
        grid.heads[N_DEAD] += own.n_rows
        own.n_rows = 0


@kernel
def n_needed(subscriptions, slots):
    """At most so many entries are made when these subscriptions are filed."""
    n = 0
    for slot in slots:
        n += subscriptions.rows[slot].n_terms
    return n


@kernel
def file_many(grid, filed, subscriptions, buffers, slots, where, deepest):
    """File subscriptions by the balls that they have now; room for `n_needed` entries was promised.

    Paper: [DKMSKS] section 4.3, a grid with an inverted file in each cell.
    Departs: the paper files a subscription in every cell that its ball meets. Here it is filed once, in the cell of its
    place, in a grid whose cells are at least as large as the ball; a message looks into at most four cells of each
    grid. Entries then need not follow a ball until it has shrunk to half, and are as many as there are words. An open
    ball is filed in the one cell of level 0, by words alone.
    """
    heads, buckets, entries, levels = grid.heads, grid.buckets, grid.entries, grid.levels
    metric, bounds = where
    for slot in slots:
        row, own = subscriptions.rows[slot], filed[slot]
        draw_box(own, metric, row.x, row.y, buffers[slot].floor)
        level = level_of(own, metric, row.x, row.y, bounds, deepest)
        x = row.x if metric == EUCLIDEAN else wrap(row.x)
        column = cell_index(bounds[0], bounds[2], 1 << level, x)
        cell = cell_code(level, column, cell_index(bounds[1], bounds[3], 1 << level, row.y))
        heads[LEVELS] |= 1 << level
        heads[N_DEAD] += own.n_rows
        own.generation += 1
        own.level, own.n_rows, own.word = level, row.n_terms, NO_WORD
        for i in range(row.term_start, row.term_start + row.n_terms):
            term = subscriptions.terms[i]
            at = heads[FREE_ENTRY]
            if at == END:
                at = heads[N_ENTRIES]
                heads[N_ENTRIES] += 1
            else:
                heads[FREE_ENTRY] = entries[at].next
            entry = entries[at]
            entry.hash = hash_of(cell, term)
            bucket = entry.hash & (buckets.size - 1)
            entry.slot, entry.generation, entry.next = slot, own.generation, buckets[bucket]
            buckets[bucket] = at
            levels[term] |= 1 << level


@kernel
def relink(grid):
    """Put all entries into fresh buckets, those of free places excepted."""
    heads, buckets, entries = grid.heads, grid.buckets, grid.entries
    at = heads[FREE_ENTRY]
    while at != END:
        entries[at].hash = END
        at = entries[at].next
    for at in range(heads[N_ENTRIES]):
        entry = entries[at]
        if entry.hash != END:
            bucket = entry.hash & (buckets.size - 1)
            entry.next = buckets[bucket]
            buckets[bucket] = at


@kernel
def cells_around(bounds, level, x, y):
    """First and last column and row of the cells that a ball around this place can be filed in, at this level."""
    side_x, side_y = (bounds[2] - bounds[0]) / (2 << level), (bounds[3] - bounds[1]) / (2 << level)
    n = 1 << level
    return (
        cell_index(bounds[0], bounds[2], n, x - side_x),
        cell_index(bounds[0], bounds[2], n, x + side_x),
        cell_index(bounds[1], bounds[3], n, y - side_y),
        cell_index(bounds[1], bounds[3], n, y + side_y),
    )


def finest(n_subscriptions: int) -> int:
    """Level of the finest grid worth having: about one subscription to a cell."""
    return min(DEEPEST, int(np.ceil(np.log2(max(2, n_subscriptions)) / 2)))
