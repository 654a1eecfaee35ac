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
from nearcast.engines.kept.layout import FREE_WAITING, LINE, N_FREE_WAITING, N_WAITING, ResultLayout
from nearcast.engines.kept.watch import wait_for
from nearcast.jit import kernel, prefetch

NEVER = np.iinfo(np.int64).max  # the boundary when there is no sweep

_CLASS_BITS = 8  # that a size class fits in
_AHEAD = 8  # buffers that are read ahead
_MOST_CLASSES = 8  # a block that is this many size classes larger, which is twice the room, is cut


@kernel
def split_free_blocks(links: Ints, source: Longs, below: Longs, beyond: Longs, first: int, chains: Longs) -> None:
    """Move the free blocks of one set of lists to that of those below a boundary, or to that of the others.

    Every next block is a wait for memory, so that all chains are followed at the same time. `chains` is scratch.
    """
    n = 0
    for size_class in range(N_CLASSES):
        if source[1 + size_class] > 0:
            chains[n] = source[1 + size_class] << _CLASS_BITS | size_class
            source[1 + size_class] = 0
            n += 1
    while n > 0:
        i = 0
        while i < n:
            at, size_class = chains[i] >> _CLASS_BITS, chains[i] & ((1 << _CLASS_BITS) - 1)
            following = np.int64(links[at - 1])
            prefetch(links, following - 1)
            give_block(beyond if at - 1 >= first else below, links, size_class, at - 1)
            chains[i] = following << _CLASS_BITS | size_class
            if following == 0:
                n -= 1
                chains[i] = chains[n]
            else:
                i += 1


@kernel
def begin_sweep(results: ResultLayout, boundary: int, chains: Longs) -> None:
    """Tell free blocks beyond the boundary from the others from now on."""
    results.above[USED] = boundary
    blocks, above = results.blocks, results.above
    split_free_blocks(results.entries["message"], blocks, blocks, above, boundary, chains)


@kernel
def sweep_slots(results: ResultLayout, first: int, end: int) -> None:
    """Move the buffers of some subscriptions below the boundary, where a free block has room for them."""
    links = results.entries["message"]
    for slot in range(first, end):
        if slot + _AHEAD < end:
            later = results.buffers[slot + _AHEAD]
            if later.start >= results.above[USED]:
                for at in range(later.start, later.start + later.n_entries, LINE):
                    prefetch(results.entries, at)
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
def end_sweep(results: ResultLayout, chains: Longs) -> None:
    """The pool ends with its last buffer; all free blocks before that are alike again."""
    end = 0
    for slot in range(results.buffers.size):
        buffer = results.buffers[slot]
        if buffer.block > 0:
            end = max(end, buffer.start + room_of(buffer))
    links, blocks, above = results.entries["message"], results.blocks, results.above
    split_free_blocks(links, above, blocks, above, end, chains)
    split_free_blocks(links, blocks, blocks, above, end, chains)
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
