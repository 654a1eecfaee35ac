"""Finds pairs of arrival and subscription that may match, by the cells and the words of the arrival: kernels.

DkM-SKS section 4.3.

Lists, entries and boxes lie anywhere in memory. A message therefore goes through them in stages, all of its lists at
once, and each stage has fetched what the next one reads.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from nearcast.columns.arena import Array, Longs
from nearcast.engines.nearest.grid.insert import cells_around
from nearcast.engines.nearest.grid.layout import (
    CANDIDATES,
    DEEPEST,
    LEVELS,
    LINE,
    N_DEAD,
    NO_BLOCK,
    TOUCHED,
    UNLINKED,
    GridLayout,
    bit_of,
    box_holds,
    cell_code,
    hash_of,
    home_of,
    is_single,
    may_have_list,
    place_of,
    single_box,
    single_generation,
    single_slot,
    steps_around,
)
from nearcast.held import opened
from nearcast.jit import NEED_ROOM, allocating, kernel, prefetch
from nearcast.space.distance import EUCLIDEAN, wrap
from nearcast.window.read_ahead import prefetch_record

Bounds = tuple[float, float, float, float]

_CELLS = 4 * (DEEPEST + 1)  # that are looked into for a word, at most
_FETCHED = 8  # lines of the processor's cache that are read ahead of a list


@kernel
def hash_words(grid: GridLayout, messages: Any, message: Any, x: float, y: float, bounds: Bounds, probes: Longs) -> int:
    """Write hash | steps around the cell << 32 for the words of a message in all cells around it; returns how many."""
    levels, lists = grid.levels, grid.lists
    words = messages.terms[message.term_start : message.term_start + message.n_terms]
    used = 0
    for term in words:
        if term < levels.size:
            used |= levels[term]
    used &= grid.heads[LEVELS]
    n, level = 0, 0
    while used >> level:
        if used >> level & 1:
            column0, column1, row0, row1 = cells_around(bounds, level, x, y)
            for row in range(row0, row1 + 1):
                step_y = steps_around(bounds[1], bounds[3], level, row, y)
                for column in range(column0, column1 + 1):
                    cell = cell_code(level, column, row)
                    steps = np.int64(steps_around(bounds[0], bounds[2], level, column, x) | step_y << 8) << 32
                    for term in words:
                        if term < levels.size and levels[term] >> level & 1:
                            wanted: Any = np.int64(hash_of(cell, term))
                            prefetch(grid.known, bit_of(lists, wanted) >> 3)
                            probes[n] = steps | wanted
                            n += 1
        level += 1
    return n


@kernel
def list_probes(grid: GridLayout, probes: Longs, n: int) -> int:
    """Keep those of the probes that may have a list; returns how many. Which do, nobody can foretell: no branch."""
    lists, n_kept = grid.lists, 0
    for i in range(n):
        probe = probes[i]
        probes[n_kept] = probe
        n_kept += may_have_list(grid, probe & 0x7FFFFFFF)
    for i in range(n_kept):
        home = home_of(lists, probes[i] & 0x7FFFFFFF)
        prefetch(lists, home)
        prefetch(lists, home + 3)  # it often is in the next line
    return n_kept


@kernel
def find_lists(grid: GridLayout, filed: Array, probes: Longs, n: int, picked: Longs) -> tuple[int, int]:
    """Write list << 16 | steps for those of the first `n` probes that have a list of entries, in their place.

    Single entries whose steps hold the place are written to `picked`, which has room for them, as list << 32. Returns
    how many lists, and how many single entries.
    """
    lists, entries = grid.lists, grid.entries
    n_found = n_picked = n_touched = 0
    for i in range(n):
        wanted = probes[i] & 0x7FFFFFFF
        place = place_of(lists, wanted)
        here = lists[place]
        if here.hash != wanted:
            continue
        if is_single(here):
            n_touched += 1
            if box_holds(single_box(here), probes[i] >> 32 & 255, probes[i] >> 40):
                prefetch_record(filed, single_slot(here))
                picked[n_picked] = np.int64(place) << 32
                n_picked += 1
        elif here.n_rows > 0:
            for at in range(here.start, here.start + min(here.n_rows, _FETCHED * LINE), LINE):
                prefetch(entries, at)
            probes[n_found] = np.int64(place) << 16 | probes[i] >> 32
            n_found += 1
    grid.heads[TOUCHED] += n_touched
    return n_found, n_picked


@allocating
def pick_rows(grid: GridLayout, filed: Array, probes: Longs, n: int, picked: Longs, n_picked: int) -> tuple[Longs, int]:
    """Write list << 32 | row for rows whose steps hold the place, after those picked before.

    Returns the array, maybe a larger one, and how many there are.
    """
    lists, entries = grid.lists, grid.entries
    n_touched = 0
    for i in range(n):
        place, step_x, step_y = probes[i] >> 16, probes[i] & 255, probes[i] >> 8 & 255
        start, n_rows = lists[place].start, lists[place].n_rows
        n_touched += n_rows
        if n_picked + n_rows > picked.size:
            larger = np.empty(2 * (n_picked + n_rows), dtype=np.int64)
            for row in range(n_picked):  # a slice would bring its error message along: a second of compiling
                larger[row] = picked[row]
            picked = larger
        for row in range(n_rows):
            if box_holds(entries[start + row].box, step_x, step_y):
                prefetch_record(filed, entries[start + row].slot)
                picked[n_picked] = np.int64(place) << 32 | np.int64(row)
                n_picked += 1
    grid.heads[TOUCHED] += n_touched
    return picked, n_picked


@allocating
def add_pairs(
    grid: GridLayout, filed: Array, picked: Longs, x: float, y: float, event: int, pairs: Longs, n: int
) -> int:
    """Write event << 32 | slot for those rows whose box holds the place; returns how many with those before.

    Dead rows are removed. Returns NEED_ROOM, and removes none, if `pairs` is too small.
    """
    lists, entries = grid.lists, grid.entries
    n_dead = 0
    for i in range(picked.size):
        here = lists[picked[i] >> 32]
        slot, generation = single_slot(here), single_generation(here)
        if not is_single(here):
            entry = entries[here.start + (picked[i] & 0xFFFFFFFF)]
            slot, generation = entry.slot, entry.generation
        own = filed[slot]
        if own.generation != generation:
            picked[n_dead] = picked[i]
            n_dead += 1
        elif own.x0 <= x <= own.x1 and own.y0 <= y <= own.y1:
            if n == pairs.size:
                return NEED_ROOM
            pairs[n] = np.int64(event) << 32 | np.int64(slot)
            n += 1
    if n_dead > 0:
        dead = np.sort(picked[:n_dead])  # the last rows first: what takes their place is alive
        for i in range(n_dead - 1, -1, -1):
            if i == n_dead - 1 or dead[i] != dead[i + 1]:
                remove_row(grid, lists[dead[i] >> 32], dead[i] & 0xFFFFFFFF)
                grid.heads[UNLINKED] += 1
    return n


@kernel
def remove_row(grid: GridLayout, here: Any, row: int) -> None:
    """Take a dead row out of a list; the last one takes its place."""
    grid.heads[N_DEAD] -= 1
    if is_single(here):
        here.start, here.n_rows, here.size_class = 0, 0, NO_BLOCK
        return
    here.n_rows -= 1
    grid.entries[here.start + row] = grid.entries[here.start + here.n_rows]


@allocating
def find_many(
    grid: GridLayout, filed: Array, steps: Any, first: int, end: int, messages: Any, space: Any, pairs: Longs
) -> tuple[int, int]:
    """Write event << 32 | slot for all whose box holds an arrival and who are filed under a word of it.

    Takes events from `first` up to `end`; returns the event to go on with and the number of pairs. It stops early where
    there is no room for all pairs of an event. A pair may be written once for every word.

    Paper: [DKMSKS] section 4.3, the cell of a new object and the words of its inverted file.
    """
    metric, bounds = space.metric, space.bounds
    probes, picked = np.empty(16 * _CELLS, dtype=np.int64), np.empty(1024, dtype=np.int64)
    n = 0
    for event in range(first, end):
        if steps.arrivals[event] < 0:
            continue
        message = messages.rows[steps.arrivals[event]]
        x, y = message.x if metric == EUCLIDEAN else wrap(message.x), message.y
        if message.n_terms * _CELLS > probes.size:
            probes = np.empty(message.n_terms * _CELLS, dtype=np.int64)
        n_probes = hash_words(grid, messages, message, x, y, bounds, probes)
        n_probes = list_probes(grid, probes, n_probes)
        if n_probes > picked.size:
            picked = np.empty(2 * n_probes, dtype=np.int64)
        n_lists, n_picked = find_lists(grid, filed, probes, n_probes, picked)
        picked, n_picked = pick_rows(grid, filed, probes, n_lists, picked, n_picked)
        n_now = add_pairs(grid, filed, picked[:n_picked], x, y, event, pairs, n)
        if n_now == NEED_ROOM:
            return event, n
        grid.heads[CANDIDATES] += n_now - n
        n = n_now
    return end, n


class FindCall(NamedTuple):
    """All that `find_many` reads and writes."""

    grid: GridLayout
    filed: Array  # FILED[]
    steps: Any
    messages: Any
    space: Any
    pairs: Longs


@allocating
def find_held(held: Any, first: int, end: int) -> tuple[int, int]:
    """`find_many` for a `Held` call."""
    call = opened(held)
    return find_many(call.grid, call.filed, call.steps, first, end, call.messages, call.space, call.pairs)
