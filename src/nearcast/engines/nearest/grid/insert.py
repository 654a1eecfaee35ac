"""Files subscriptions in the cells of the pyramid; entries that they had before stay behind, dead: kernels.

DkM-SKS section 4.3.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from nearcast.columns.arena import Array, Ints
from nearcast.engines.blocks import block_room, cut_block, give_block
from nearcast.engines.exact import ANY_WORD
from nearcast.engines.nearest.grid.layout import (
    DEEPEST,
    FULL,
    LEVELS,
    N_DEAD,
    N_LISTS,
    NO_BLOCK,
    NO_LIST,
    TAKEN,
    GridLayout,
    cell_code,
    hash_of,
    is_single,
    make_place,
    note_list,
    pack_box,
    place_of,
    put_single,
    single_box,
    single_generation,
    single_slot,
    steps_around,
)
from nearcast.engines.nearest.search_range import NO_WORD, draw_box, level_of
from nearcast.jit import NEED_ROOM, kernel
from nearcast.space.cells import cell_index
from nearcast.space.distance import EUCLIDEAN, wrap


@kernel
def remove_many(grid: GridLayout, filed: Array, slots: Ints) -> None:
    """These subscriptions are filed nowhere; their entries are removed when somebody comes by."""
    for slot in slots:
        own = filed[slot]
        own.generation += 1
        grid.heads[N_DEAD] += own.n_rows
        own.n_rows = 0


@kernel
def move_list(grid: GridLayout, here: Any, size_class: int) -> bool:
    """Give a list a block of another size class; returns whether there was one."""
    entries = grid.entries
    start = cut_block(grid.ranges, entries["slot"], size_class)
    if start == NEED_ROOM:
        return False
    for i in range(here.n_rows):
        entries[start + i] = entries[here.start + i]
    give_block(grid.ranges, entries["slot"], here.size_class, here.start)
    grid.heads[TAKEN] += block_room(size_class) - block_room(here.size_class)
    here.start, here.size_class = start, size_class
    return True


@kernel
def push(grid: GridLayout, filed: Array, wanted: int, slot: int, box: int) -> bool:
    """Put an entry into the list of this hash, for which there is a place; returns whether there was room."""
    entries, generation = grid.entries, filed[slot].generation
    place = place_of(grid.lists, wanted)
    here = grid.lists[place]
    if here.hash != wanted:
        make_place(grid.lists, place)
    single = is_single(here)
    dead = single and filed[single_slot(here)].generation != single_generation(here)
    if here.hash == NO_LIST or dead or (here.size_class == NO_BLOCK and not single):
        grid.heads[N_LISTS] += here.hash == NO_LIST
        grid.heads[N_DEAD] -= here.hash != NO_LIST and dead
        note_list(grid, wanted)
        here.hash = wanted
        put_single(here, slot, generation, box)
        return True
    if single:
        start = cut_block(grid.ranges, entries["slot"], 1)
        if start == NEED_ROOM:
            return False
        entry = entries[start]
        entry.slot, entry.generation, entry.box = single_slot(here), single_generation(here), single_box(here)
        here.start, here.n_rows, here.size_class = start, 1, 1
        grid.heads[TAKEN] += block_room(1)
    elif here.n_rows == block_room(here.size_class) and not move_list(grid, here, here.size_class + 1):
        return False
    entry = entries[here.start + here.n_rows]
    entry.slot, entry.generation, entry.box = slot, generation, box
    here.n_rows += 1
    return True


@kernel
def file_many(
    grid: GridLayout, filed: Array, subscriptions: Any, buffers: Array, slots: Ints, space: Any, deepest: int
) -> int:
    """File subscriptions by the balls that they have now; returns how many were filed before room ran out.

    What room ran out for is filed again in the next call; the entries that it had got are dead by then.

    Paper: [DKMSKS] section 4.3, a grid with an inverted file in each cell.
    Departs: the paper files a subscription in every cell that its ball meets. Here it is filed once, in the cell of its
    place, in a grid whose cells are at least as large as the ball; a message looks into at most four cells of each
    grid. Entries then need not follow a ball until it has shrunk to half, and are as many as there are words. An open
    ball is filed in the one cell of level 0, by words alone.
    """
    heads, levels, coming = grid.heads, grid.levels, grid.coming
    metric, bounds = space.metric, space.bounds
    for done in range(slots.size):
        slot = slots[done]
        row, own = subscriptions.rows[slot], filed[slot]
        heads[N_DEAD] += own.n_rows
        own.generation += 1
        own.n_rows, own.word = 0, NO_WORD
        if FULL[1] * (heads[N_LISTS] + row.n_terms) > FULL[0] * grid.lists.size:
            return done
        draw_box(own, metric, row.x, row.y, buffers[slot].floor)
        level = level_of(own, metric, row.x, row.y, bounds, deepest)
        own.level = level
        x = row.x if metric == EUCLIDEAN else wrap(row.x)
        column = cell_index(bounds[0], bounds[2], 1 << level, x)
        line = cell_index(bounds[1], bounds[3], 1 << level, row.y)
        box = pack_box(
            steps_around(bounds[0], bounds[2], level, column, own.x0),
            steps_around(bounds[1], bounds[3], level, line, own.y0),
            steps_around(bounds[0], bounds[2], level, column, own.x1),
            steps_around(bounds[1], bounds[3], level, line, own.y1),
        )
        cell = cell_code(level, column, line)
        heads[LEVELS] |= 1 << level
        for i in range(row.term_start, row.term_start + row.n_terms):
            term = subscriptions.terms[i]
            if not push(grid, filed, hash_of(cell, term), slot, box):
                return done
            own.n_rows += 1
            levels[term] |= 1 << level
            coming[term] |= 1 << level
    return slots.size


@kernel
def note_levels(grid: GridLayout, filed: Array, subscriptions: Any, first: int, end: int) -> None:
    """Note the levels at which the subscriptions of these slots are filed, under each of their words."""
    for slot in range(first, end):
        row, own = subscriptions.rows[slot], filed[slot]
        if own.n_rows > 0 and row.mode == ANY_WORD:
            for i in range(row.term_start, row.term_start + row.n_terms):
                grid.coming[subscriptions.terms[i]] |= 1 << np.int64(own.level)


@kernel
def rehash(lists: Array, grid: GridLayout) -> None:
    """Put all lists into those of a grid, which are more and empty."""
    for i in range(lists.size):
        if lists[i].hash != NO_LIST:
            place = place_of(grid.lists, lists[i].hash)
            make_place(grid.lists, place)
            grid.lists[place] = lists[i]
            note_list(grid, lists[i].hash)


@kernel
def cells_around(
    bounds: tuple[float, float, float, float], level: int, x: float, y: float
) -> tuple[int, int, int, int]:
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
    """Level of the finest grid worth having: about four cells to a subscription, which are far from evenly spread."""
    return min(DEEPEST, int(np.ceil(np.log2(max(2, n_subscriptions)) / 2)) + 1)
