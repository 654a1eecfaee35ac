"""The pyramid of grids as arrays: lists of entries, found by the hash of cell and word.

Cells belong to a pyramid of grids: level l has 2**l columns and rows, level 0 one cell for everything. An entry says
that a subscription is filed under one of its words in one cell, and where around that cell its ball lies. A list holds
whatever has the same hash; strangers in it fail the exact check. Most lists have one entry, kept in the list's own row.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from nearcast.columns.arena import Array, Ints, Longs, record
from nearcast.jit import kernel

FULL = (7, 8)  # the share of places of lists that are used at most
DEEPEST = 14  # level of the finest grid that there can be
NO_LIST = 0  # hash of a place without a list

LIST = record(
    ("hash", "i4"),
    ("start", "i4"),  # its first entry; of a single one see `single_slot`
    ("n_rows", "i4"),  # its entries; of a single one see `single_generation`
    ("size_class", "i4"),  # of the block of its entries, see blocks.py, or NO_BLOCK; of a single one see `single_box`
)
ENTRY = record(("slot", "i4"), ("generation", "i4"), ("box", "i4"))  # box: see `pack_box`
NO_BLOCK = -1
LINE = 5  # entries that every line of the processor's cache holds

N_LISTS, N_DEAD, LEVELS, SWEPT, NOTED = range(5)  # positions in `heads`: lists, dead entries, levels in use, cursors
TAKEN = 5  # rows of all blocks that lists have
TOUCHED, CANDIDATES, UNLINKED = range(6, 9)  # and counts of work
N_HEADS = 9


class GridLayout(NamedTuple):
    """All filed subscriptions."""

    heads: Longs  # int64[N_HEADS]
    lists: Array  # LIST[]: by hash, with gaps
    known: Array  # uint8[n_lists]: at the home of each list one of eight bits is set, so that most misses end here
    entries: Array  # ENTRY[]: the pool of lists
    ranges: Longs  # int64[blocks.N_HEADS]: which of it is free
    levels: Ints  # int32[n_terms]: bit l is set where something may be filed under the word at level l
    coming: Ints  # int32[n_terms]: the same, of what was filed or looked at since `levels` were last made


@kernel
def is_single(row: Any) -> Any:
    """Is a list one entry, kept in its own row?"""
    return row.start < 0


@kernel
def single_slot(row: Any) -> Any:
    """Whose entry a single one is."""
    return ~row.start


@kernel
def single_generation(row: Any) -> Any:
    """Generation of a single entry."""
    return row.n_rows


@kernel
def single_box(row: Any) -> Any:
    """Box of a single entry, see `pack_box`."""
    return row.size_class


@kernel
def put_single(row: Any, slot: int, generation: int, box: int) -> None:
    """Make a list a single entry."""
    row.start, row.n_rows, row.size_class = ~slot, generation, box


@kernel
def hash_of(cell: int, term: int) -> Any:
    """31 bits of a cell's code, its level included, and a word; never NO_LIST."""
    mixed = np.int64(cell) * 0x2C9277B5
    mixed = ((mixed ^ (mixed >> 32)) & 0x7FFFFFFF) ^ np.int64(term)
    mixed = (mixed & 0x7FFFFFFF) * 0x5F356495
    return max(1, (mixed ^ (mixed >> 29)) & 0x7FFFFFFF)


@kernel
def cell_code(level: int, column: int, row: int) -> Any:
    """One number for a cell of any level up to DEEPEST."""
    return ((np.int64(1) << level | row) << level) | column


@kernel
def home_of(lists: Array, wanted: int) -> Any:
    """The place where a list of this hash is looked for first."""
    return (np.int64(wanted) * lists.size) >> 31


@kernel
def bit_of(lists: Array, wanted: int) -> Any:
    """Which bit says that there is a list of this hash, maybe: eight times the place in `known`, plus its number there.

    Lists that share a bit have the same home.
    """
    return (np.int64(wanted) * (8 * lists.size)) >> 31


@kernel
def may_have_list(grid: GridLayout, wanted: int) -> Any:
    """May there be a list of this hash?"""
    bit = bit_of(grid.lists, wanted)
    return grid.known[bit >> 3] >> (bit & 7) & 1


@kernel
def note_list(grid: GridLayout, wanted: int) -> None:
    """There is a list of this hash now."""
    bit = bit_of(grid.lists, wanted)
    grid.known[bit >> 3] |= 1 << (bit & 7)


@kernel
def steps_away(lists: Array, place: int, wanted: int) -> Any:
    """How far a place is from where a list of this hash is looked for first."""
    steps = place - home_of(lists, wanted)
    return steps if steps >= 0 else steps + lists.size


@kernel
def place_of(lists: Array, wanted: int) -> Any:
    """Where the list of this hash is, or belongs.

    Lists stand in the order of their homes, so that a search ends, although few places are free, where the list at hand
    is closer to its home than the wanted one would be.
    """
    place, steps = home_of(lists, wanted), 0
    while lists[place].hash != wanted:
        found = lists[place].hash
        if found == NO_LIST or steps_away(lists, place, found) < steps:
            break
        steps += 1
        place += 1
        if place == lists.size:
            place = 0
    return place


@kernel
def make_place(lists: Array, place: int) -> None:
    """Move what stands in a place, and behind it up to the next gap, one place on."""
    gap = place
    while lists[gap].hash != NO_LIST:
        gap += 1
        if gap == lists.size:
            gap = 0
    while gap != place:
        before = gap - 1 if gap > 0 else lists.size - 1
        lists[gap] = lists[before]
        gap = before
    lists[place].hash = NO_LIST


@kernel
def steps_around(low: float, high: float, level: int, cell: int, value: float) -> int:
    """Where a value lies around a cell: steps from 0, half a cell before it, to 255, half a cell behind it and beyond.

    Never smaller when the value grows, so a place inside a box is inside its steps.
    """
    side = (high - low) / (1 << level)
    if not side > 0.0:
        return 0
    steps = (float(value) - (low + side * (cell - 0.5))) / side * 128.0
    if not steps > 0.0:
        return 0
    return 255 if steps >= 255.0 else int(steps)


@kernel
def pack_box(x0: int, y0: int, x1: int, y1: int) -> int:
    """Four results of `steps_around` in 32 bits."""
    return x0 | y0 << 8 | x1 << 16 | (y1 - 128) << 24


@kernel
def box_holds(box: int, step_x: int, step_y: int) -> bool:
    """Does a packed box hold these steps?"""
    return box & 255 <= step_x <= box >> 16 & 255 and box >> 8 & 255 <= step_y <= (box >> 24) + 128
