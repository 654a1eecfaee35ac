"""Removes dead entries that no message comes by, a few lists at a time: kernels."""

from __future__ import annotations

from typing import Any

from nearcast.columns.arena import Array, Longs
from nearcast.engines.blocks import block_class, block_room, give_block, take_block
from nearcast.engines.nearest.grid.insert import move_list
from nearcast.engines.nearest.grid.layout import (
    N_LISTS,
    NO_BLOCK,
    NO_LIST,
    SWEPT,
    TAKEN,
    GridLayout,
    bit_of,
    is_single,
    put_single,
    single_generation,
    single_slot,
    steps_away,
)
from nearcast.engines.nearest.grid.match import remove_row
from nearcast.jit import kernel

_SPARSE = 9  # size classes, more than a doubling, by which a list moves to a smaller block


@kernel
def clear_bit(grid: GridLayout, bit: int) -> None:
    """A list with this bit was removed: clear it, unless another list has it too."""
    lists = grid.lists
    place, steps = bit >> 3, 0
    while lists[place].hash != NO_LIST and steps_away(lists, place, lists[place].hash) >= steps:
        if bit_of(lists, lists[place].hash) == bit:
            return
        steps += 1
        place += 1
        if place == lists.size:
            place = 0
    grid.known[bit >> 3] &= 255 - (1 << (bit & 7))


@kernel
def remove_list(grid: GridLayout, at: int) -> None:
    """Leave the place of a list; those that were put farther from their homes because of it come closer."""
    lists = grid.lists
    bit = bit_of(lists, lists[at].hash)
    gap = at
    while True:
        place = gap + 1 if gap + 1 < lists.size else 0
        found = lists[place].hash
        if found == NO_LIST or steps_away(lists, place, found) == 0:
            break
        lists[gap] = lists[place]
        gap = place
    lists[gap].hash = NO_LIST
    clear_bit(grid, bit)


@kernel
def clean_rows(grid: GridLayout, filed: Array, here: Any) -> None:
    """Remove the dead entries of a list, and give back its block, or most of it, if it is hardly used."""
    entries, links = grid.entries, grid.entries["slot"]
    for row in range(here.n_rows - 1, -1, -1):
        entry = entries[here.start + row]
        if filed[entry.slot].generation != entry.generation:
            remove_row(grid, here, row)
    if here.size_class == NO_BLOCK:
        return
    if here.n_rows == 0:
        give_block(grid.ranges, links, here.size_class, here.start)
        grid.heads[TAKEN] -= block_room(here.size_class)
        here.size_class = NO_BLOCK
    elif here.n_rows == 1:
        start, size_class = here.start, here.size_class
        entry = entries[start]
        put_single(here, entry.slot, entry.generation, entry.box)
        give_block(grid.ranges, links, size_class, start)
        grid.heads[TAKEN] -= block_room(size_class)
    elif block_class(here.n_rows) + _SPARSE <= here.size_class:
        move_list(grid, here, block_class(here.n_rows))


@kernel
def sweep_some(grid: GridLayout, filed: Array, n_places: int) -> None:
    """Remove the dead entries of the lists in the next `n_places` places, and lists that have no others."""
    heads, lists = grid.heads, grid.lists
    for _ in range(n_places):
        if heads[SWEPT] >= lists.size:
            heads[SWEPT] = 0
        here = lists[heads[SWEPT]]
        if here.hash == NO_LIST:
            heads[SWEPT] += 1
            continue
        if is_single(here):
            if filed[single_slot(here)].generation != single_generation(here):
                remove_row(grid, here, 0)
        else:
            clean_rows(grid, filed, here)
        if not is_single(here) and here.n_rows == 0:
            remove_list(grid, heads[SWEPT])
            heads[N_LISTS] -= 1
            continue  # what took its place comes next
        heads[SWEPT] += 1


@kernel
def pack(grid: GridLayout, entries: Array, ranges: Longs) -> None:
    """Put the entries of all lists into a fresh pool, which has room for them, one list after another."""
    for i in range(grid.lists.size):
        here = grid.lists[i]
        if here.hash != NO_LIST and not is_single(here) and here.size_class != NO_BLOCK:
            start = take_block(ranges, entries["slot"], here.size_class)
            for row in range(here.n_rows):
                entries[start + row] = grid.entries[here.start + row]
            here.start = start
