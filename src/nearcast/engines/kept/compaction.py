"""The pool of buffers gives back what it no longer needs: blocks at its end move to free ones before it: kernels.

Every buffer once was longer than it is now, and not all at the same time: blocks left behind were a quarter of the pool
after each message of a window had been replaced. While a **sweep** goes on, free blocks below a boundary are taken
before those beyond it, and buffers beyond it move below, a few at a time. When all have been looked at, the pool ends
where the last one does.

A subscription that watches another message still waits for the one before until that leaves. If none leaves while
results are found again and again, the lists of those who wait are rebuilt.
"""

from __future__ import annotations

import numpy as np

from nearcast.columns.arena import Ints, Longs
from nearcast.engines.blocks import N_CLASSES, USED, block_class, cut_block, give_block
from nearcast.engines.kept.buffers import move_entries, room_of
from nearcast.engines.kept.layout import FREE_WAITING, N_FREE_WAITING, N_WAITING, ResultLayout
from nearcast.engines.kept.watch import wait_for
from nearcast.jit import kernel

NEVER = np.iinfo(np.int64).max  # the boundary when there is no sweep

_MOST_CLASSES = 8  # a block that is this many size classes larger, which is twice the room, is cut


@kernel
def move_free_blocks(links: Ints, source: Longs, target: Longs, first: int) -> None:
    """Move the free blocks that start at `first` or beyond from one set of lists to another, and lose none."""
    for size_class in range(N_CLASSES):
        at = source[1 + size_class]
        source[1 + size_class] = 0
        while at > 0:
            following = links[at - 1]
            give_block(target if at - 1 >= first else source, links, size_class, at - 1)
            at = following


@kernel
def begin_sweep(results: ResultLayout, boundary: int) -> None:
    """Tell free blocks beyond the boundary from the others from now on."""
    results.above[USED] = boundary
    move_free_blocks(results.entries["message"], results.blocks, results.above, boundary)


@kernel
def sweep_slots(results: ResultLayout, first: int, end: int) -> None:
    """Move the buffers of some subscriptions below the boundary, where a free block has room for them."""
    links = results.entries["message"]
    for slot in range(first, end):
        buffer = results.buffers[slot]
        if buffer.block == 0 or buffer.start < results.above[USED]:
            continue
        least = block_class(buffer.n_entries + 1)
        size_class = least
        while size_class < N_CLASSES and results.blocks[1 + size_class] == 0:
            size_class += 1
        if size_class == N_CLASSES:
            continue
        if size_class >= least + _MOST_CLASSES:
            give_block(results.blocks, links, least, cut_block(results.blocks, links, least))
            size_class = least
        move_entries(results, slot, size_class)


@kernel
def end_sweep(results: ResultLayout) -> None:
    """The pool ends with its last buffer; all free blocks before that are alike again."""
    end = 0
    for slot in range(results.buffers.size):
        buffer = results.buffers[slot]
        if buffer.block > 0:
            end = max(end, buffer.start + room_of(buffer))
    links, blocks, above = results.entries["message"], results.blocks, results.above
    move_free_blocks(links, above, blocks, 0)
    move_free_blocks(links, blocks, above, end)
    for size_class in range(N_CLASSES):
        above[1 + size_class] = 0
    blocks[USED], above[USED] = end, NEVER


@kernel
def rebuild_waiting(results: ResultLayout) -> None:
    """Have everybody wait for what they watch, and for nothing else."""
    counters = results.counters
    counters[FREE_WAITING], counters[N_FREE_WAITING], counters[N_WAITING] = 0, 0, 0
    for message in range(results.heads.size):
        results.heads[message] = 0
    for slot in range(results.watched.size):
        watched = results.watched[slot]
        if watched.oldest > 0:
            wait_for(results, slot, watched.oldest - 1)
        if watched.soonest > 0 and watched.soonest != watched.oldest:
            wait_for(results, slot, watched.soonest - 1)
