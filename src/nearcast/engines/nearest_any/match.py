"""Arriving messages come with places and words; pairs of event and subscription that may match go out."""

from __future__ import annotations

import numpy as np

from nearcast.engines.nearest_any.file import cells_around
from nearcast.engines.nearest_any.layout import (
    CANDIDATES,
    END,
    FREE_ENTRY,
    LEVELS,
    N_DEAD,
    TOUCHED,
    UNLINKED,
    cell_code,
    hash_of,
)
from nearcast.jit import kernel
from nearcast.space.distance import EUCLIDEAN, wrap


@kernel
def find_many(grid, filed, steps, first, end, messages, where, pairs):
    """Write event << 32 | slot for all whose box holds an arrival and who are filed under a word of it.

    Takes events from `first` up to `end`; returns the event to go on with and the number of pairs. It stops early where
    there is no room for all pairs of an event. A pair may be written once for every word. Dead entries are unlinked.

    Paper: [DKMSKS] section 4.3, the cell of a new object and the words of its inverted file.
    """
    heads, buckets, entries, levels = grid.heads, grid.buckets, grid.entries, grid.levels
    metric, bounds = where
    n = 0
    for event in range(first, end):
        if steps.arrivals[event] < 0:
            continue
        message = messages.rows[steps.arrivals[event]]
        x, y = message.x if metric == EUCLIDEAN else wrap(message.x), message.y
        begun, level = n, 0
        while heads[LEVELS] >> level:
            if heads[LEVELS] >> level & 1 == 0:
                level += 1
                continue
            column0, column1, row0, row1 = cells_around(bounds, level, x, y)
            for i in range(message.term_start, message.term_start + message.n_terms):
                term = messages.terms[i]
                if term >= levels.size or levels[term] >> level & 1 == 0:
                    continue
                for row in range(row0, row1 + 1):
                    for column in range(column0, column1 + 1):
                        wanted = hash_of(cell_code(level, column, row), term)
                        bucket = wanted & (buckets.size - 1)
                        before, at = END, buckets[bucket]
                        while at != END:
                            entry = entries[at]
                            following = entry.next
                            if entry.hash == wanted:
                                heads[TOUCHED] += 1
                                own = filed[entry.slot]
                                if own.generation != entry.generation:
                                    if before == END:
                                        buckets[bucket] = following
                                    else:
                                        entries[before].next = following
                                    entry.next, heads[FREE_ENTRY] = heads[FREE_ENTRY], at
                                    heads[N_DEAD] -= 1
                                    heads[UNLINKED] += 1
                                    at = following
                                    continue
                                if own.x0 <= x <= own.x1 and own.y0 <= y <= own.y1:
                                    if n == pairs.size:
                                        return event, begun
                                    pairs[n] = np.int64(event) << 32 | np.int64(entry.slot)
                                    n += 1
                            before, at = at, following
            level += 1
        heads[CANDIDATES] += n - begun
    return end, n


@kernel
def sweep_dead(grid, filed):
    """Unlink every dead entry."""
    heads, buckets, entries = grid.heads, grid.buckets, grid.entries
    for bucket in range(buckets.size):
        before, at = END, buckets[bucket]
        while at != END:
            entry = entries[at]
            following = entry.next
            if filed[entry.slot].generation != entry.generation:
                if before == END:
                    buckets[bucket] = following
                else:
                    entries[before].next = following
                entry.next, heads[FREE_ENTRY] = heads[FREE_ENTRY], at
                heads[N_DEAD] -= 1
            else:
                before = at
            at = following
