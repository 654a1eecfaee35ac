"""Allocates blocks of a shared array by size class, and takes them back: kernels.

`heads` is int64[N_HEADS], zeros at first: how much of the array is used, then for each class the position + 1 of its
first free block. A free block holds the position + 1 of the next one in the `links` of its first row.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from nearcast.columns.arena import Array, Ints, Longs
from nearcast.jit import NEED_ROOM, kernel

USED = 0  # position in `heads`
N_CLASSES = 240  # the last one has room for more rows than 32 bits count
N_HEADS = 1 + N_CLASSES


@kernel
def block_room(size_class: Any) -> Any:
    """Rows of a size class: 1, 2, ..., 16, 18, 20, ..., 32, 36, ...; none of class -1."""
    if size_class < 7:
        return size_class + 1
    return (8 + ((size_class + 1) & 7)) << ((size_class - 7) >> 3)


@kernel
def block_class(n: int) -> int:
    """The smallest size class with room for `n` rows."""
    last = max(n, 1) - 1
    shift = 0
    while last >> shift > 15:
        shift += 1
    return 8 * shift + (last >> shift)


@kernel
def block_fits(heads: Longs, n_rows: int, size_class: Any) -> Any:
    """Can a block of this class be taken from an array of `n_rows`?"""
    return heads[1 + size_class] > 0 or heads[USED] + block_room(size_class) <= n_rows


@kernel
def take_block(heads: Longs, links: Ints, size_class: int) -> Any:
    """Start of a block; `block_fits` must hold."""
    start = heads[1 + size_class] - 1
    if start >= 0:
        heads[1 + size_class] = links[start]
        return start
    start = heads[USED]
    heads[USED] = start + block_room(size_class)
    return start


@kernel
def give_block(heads: Longs, links: Ints, size_class: Any, start: int) -> None:
    """Take back a block."""
    links[start] = heads[1 + size_class]
    heads[1 + size_class] = start + 1


@kernel
def cut_block(heads: Longs, links: Ints, size_class: int) -> Any:
    """Start of a block, cut from a larger free one if there is none of its class; or NEED_ROOM.

    For users whose blocks were long once and are short now: what the long ones left behind is used again.
    """
    if heads[1 + size_class] == 0:
        larger = size_class + 1
        while larger < N_CLASSES and heads[1 + larger] == 0:
            larger += 1
        if larger < N_CLASSES:
            start = take_block(heads, links, larger)
            at, end = start + block_room(size_class), start + block_room(larger)
            while at < end:
                part = block_class(end - at)
                if block_room(part) > end - at:
                    part -= 1
                give_block(heads, links, part, at)
                at += block_room(part)
            return start
    if not block_fits(heads, links.size, size_class):
        return NEED_ROOM
    return take_block(heads, links, size_class)


@kernel
def cover_taken(starts: Longs, rooms: Longs, covered: Array) -> bool:
    """Mark the rows of blocks that are in use; returns whether each lies inside, and apart from the others."""
    for i in range(starts.size):
        if starts[i] < 0 or rooms[i] < 0 or starts[i] > covered.size - rooms[i]:
            return False
        for row in range(starts[i], starts[i] + rooms[i]):
            if covered[row]:
                return False
            covered[row] = 1
    return True


@kernel
def cover_free(heads: Longs, links: Ints, covered: Array) -> bool:
    """Mark the rows of free blocks; returns whether each lies inside, and apart from all that was marked before."""
    for size_class in range(N_CLASSES):
        room, at = block_room(size_class), heads[1 + size_class]
        while at != 0:
            if at < 1 or at - 1 > covered.size - room:
                return False
            for row in range(at - 1, at - 1 + room):
                if covered[row]:
                    return False
                covered[row] = 1
            at = np.int64(links[at - 1])
    return True


@kernel
def chain_length(first: int, links: Ints) -> int:
    """How many rows a chain that ends holds: positions + 1, and 0 at the end."""
    n, at = 0, np.int64(first)
    while at != 0:
        n += 1
        at = np.int64(links[at - 1])
    return n
