"""Entries of buffers: they are added, dropped and moved to other blocks, and what changed is emitted: kernels.

What may be dropped, and when a buffer is refilled, is decided in `skyband.py`; who waits for a message to leave, in
`watch.py`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from nearcast.columns.arena import Ints
from nearcast.engines.blocks import USED, block_class, block_fits, block_room, give_block, take_block
from nearcast.engines.kept.layout import (
    AGAIN,
    LINE,
    MOVED,
    N_BUFFERED,
    N_CHANGES,
    N_DROPPED,
    N_FREE_WAITING,
    N_TAKEN,
    N_TOUCHED,
    N_WAITING,
    TOUCHED,
    ResultLayout,
)
from nearcast.jit import kernel, prefetch

_STAMP_BITS = 8
_AHEAD = 6  # buffers that are read ahead while changes are emitted
_TOO_LARGE = 2  # a buffer whose block is this many size classes larger than it needs gets a smaller one


@kernel
def emit(results: ResultLayout, event: int, slot: int, message: int, sign: int, rank: float) -> None:
    """Append a change; room was promised."""
    at = results.counters[N_CHANGES]
    change = results.changes[at]
    change.event, change.slot, change.message, change.sign, change.rank = event, slot, message, sign, rank
    results.counters[N_CHANGES] = at + 1


@kernel
def room_of(buffer: Any) -> Any:
    """Entries that the block of a buffer has room for."""
    return block_room(np.int64(buffer.block) - 1)


@kernel
def touch(results: ResultLayout, slot: int, position: Any) -> None:
    """Note that a subscription's buffer changed in this event, from a position on; room was promised."""
    buffer = results.buffers[slot]
    if buffer.touched & TOUCHED == 0:
        buffer.touched |= TOUCHED
        results.touched[results.counters[N_TOUCHED]] = slot
        results.places[results.counters[N_TOUCHED]] = position
        results.counters[N_TOUCHED] += 1
    else:
        buffer.touched |= AGAIN


@kernel
def move_floor(results: ResultLayout, slot: int, floor: float) -> None:
    """Give a buffer another floor."""
    buffer = results.buffers[slot]
    buffer.floor = floor
    buffer.touched |= MOVED


@kernel
def stamp_bits(newest: int) -> int:
    """By how many bits a sequence is cut, so that `newest` live messages have at most half of all stamps."""
    bits = 0  # of `newest`: in steps without a call, so that the compiler takes them out of loops over entries
    for step in (32, 16, 8, 4, 2, 1):
        bits += step if newest >> (bits + step) > 0 else 0
    return max(0, bits + 1 - _STAMP_BITS + 1)


@kernel
def stamp_of(sequence: int, newest: int) -> int:
    """When a message came, in shares of the window, counted round and round.

    Buffers tell by it which messages the window has left behind, and which of theirs is the oldest, without a look at
    any of them but one or two: rows of messages lie anywhere in memory.
    """
    return (sequence >> stamp_bits(newest)) & ((1 << _STAMP_BITS) - 1)


@kernel
def age_of(entry: Any, last: int, newest: int) -> Any:
    """How many stamps ago a message came, if `last` is the newest."""
    return (stamp_of(last, newest) - np.int64(entry.stamp)) & ((1 << _STAMP_BITS) - 1)


@kernel
def room_to_wait(results: ResultLayout) -> Any:
    """How many more can begin to wait."""
    return results.counters[N_FREE_WAITING] + results.waiting.size - results.counters[N_WAITING]


@kernel
def room_to_touch(results: ResultLayout) -> Any:
    """Is there room to note that one more subscription changed?"""
    return results.counters[N_TOUCHED] < results.touched.size


@kernel
def has_room(results: ResultLayout, slot: int) -> Any:
    """Is there room for one more entry of a subscription, wherever its buffer goes, and for its changes?"""
    buffer = results.buffers[slot]
    counters = results.counters
    full = buffer.n_entries == room_of(buffer)
    if full and not block_fits(results.blocks, results.entries.size, np.int64(buffer.block)):
        return False
    if room_to_wait(results) == 0 or not room_to_touch(results):
        return False
    return counters[N_CHANGES] + 2 * (buffer.n_entries + 1) <= results.changes.size


@kernel
def initial_room(n: int) -> int:
    """Entries that a new buffer of `n` has room for: it will grow soon, and a block left behind may find no user."""
    return n + n // 8


@kernel
def room_to_replace(results: ResultLayout, slot: int, n: int) -> Any:
    """Is there room to give a subscription a buffer of up to `n` entries, and for its changes?"""
    return (
        results.blocks[USED] + block_room(block_class(initial_room(n))) <= results.entries.size
        and room_to_wait(results) >= 2
        and room_to_touch(results)
        and results.counters[N_CHANGES] + results.buffers[slot].n_entries <= results.changes.size
    )


@kernel
def free_entries(results: ResultLayout, slot: int) -> None:
    """Give back the block of a subscription's buffer."""
    buffer = results.buffers[slot]
    if buffer.block > 0:
        beyond = buffer.start >= results.above[USED]
        give_block(
            results.above if beyond else results.blocks,
            results.entries["message"],
            np.int64(buffer.block) - 1,
            buffer.start,
        )
        results.counters[N_TAKEN] -= room_of(buffer)
        buffer.block = 0


@kernel
def take_entries(results: ResultLayout, slot: int, start: int, size_class: int) -> None:
    """A buffer has a block from now on; the one that it had is given back."""
    buffer = results.buffers[slot]
    free_entries(results, slot)
    buffer.start, buffer.block = start, size_class + 1
    results.counters[N_TAKEN] += block_room(size_class)


@kernel
def is_free(results: ResultLayout, size_class: int) -> Any:
    """Is a block of this size class free, wherever?"""
    return results.blocks[1 + size_class] > 0 or results.above[1 + size_class] > 0


@kernel
def class_to_take(results: ResultLayout, n: int) -> int:
    """The size class from which a buffer of `n` entries takes its block: rather one that is free than one more."""
    size_class = block_class(n)
    return size_class + 1 if not is_free(results, size_class) and is_free(results, size_class + 1) else size_class


@kernel
def new_block(results: ResultLayout, size_class: int) -> Any:
    """Start of a block, below the boundary if one is free there, then beyond it, then one more; needs room."""
    beyond = results.blocks[1 + size_class] == 0 and results.above[1 + size_class] > 0
    return take_block(results.above if beyond else results.blocks, results.entries["message"], size_class)


@kernel
def move_entries(results: ResultLayout, slot: int, size_class: int) -> None:
    """Give a buffer a block of another size class; there must be room."""
    buffer = results.buffers[slot]
    start = new_block(results, size_class)
    for i in range(buffer.n_entries):
        results.entries[start + i] = results.entries[buffer.start + i]
    take_entries(results, slot, start, size_class)


@kernel
def move_to_larger(results: ResultLayout, slot: int) -> None:
    """Give a full buffer a block of the next size class."""
    move_entries(results, slot, class_to_take(results, room_of(results.buffers[slot]) + 1))


@kernel
def give_back_room(results: ResultLayout, slot: int) -> None:
    """Give a buffer that has become much shorter a smaller block, if one is free."""
    buffer = results.buffers[slot]
    size_class = class_to_take(results, buffer.n_entries + 1)
    if size_class + _TOO_LARGE < buffer.block and results.blocks[1 + size_class] > 0:
        move_entries(results, slot, size_class)


@kernel
def drop(results: ResultLayout, slot: int, position: Any, event: int) -> None:
    """Take an entry out of a buffer; emits that it left the result if it was shown."""
    buffer = results.buffers[slot]
    entry = results.entries[buffer.start + position]
    if entry.mark & 1:
        emit(results, event, slot, entry.message, -1, entry.rank)
    for i in range(buffer.start + position, buffer.start + buffer.n_entries - 1):
        results.entries[i] = results.entries[i + 1]
    buffer.n_entries -= 1
    results.counters[N_DROPPED] += 1
    results.counters[N_BUFFERED] -= 1


@kernel
def n_pending(results: ResultLayout) -> int:
    """How many changes `emit_changes` will emit, at most."""
    n = 0
    for i in range(results.counters[N_TOUCHED]):
        n += results.buffers[results.touched[i]].n_entries
    return n


@kernel
def first_changed(results: ResultLayout, i: int, buffer: Any) -> Any:
    """The first entry that may have changed in the buffer that was the `i`-th to be touched."""
    return np.int64(0) if buffer.touched & AGAIN else np.int64(results.places[i])


@kernel
def emit_changes(results: ResultLayout, event: int) -> None:
    """End an event: emit what entered and what left the first k of every touched buffer. Needs room for `n_pending`.

    One message came at most, so that at most one that is shown has left the first k, and stands next to them.
    """
    n = results.counters[N_TOUCHED]
    for i in range(n):
        if i + _AHEAD < n:
            later = results.buffers[results.touched[i + _AHEAD]]
            first = first_changed(results, i + _AHEAD, later)
            for entry in range(later.start + first, later.start + min(later.n_entries, np.int64(later.k) + 1), LINE):
                prefetch(results.entries, entry)
        slot = results.touched[i]
        buffer = results.buffers[slot]
        first = first_changed(results, i, buffer)
        buffer.touched = 0
        for position in range(first, min(buffer.n_entries, np.int64(buffer.k) + 1)):
            entry = results.entries[buffer.start + position]
            shown = 1 if position < buffer.k else 0
            if entry.mark & 1 != shown:
                emit(results, event, slot, entry.message, 2 * shown - 1, entry.rank)
                entry.mark ^= 1
        give_back_room(results, slot)
    results.counters[N_TOUCHED] = 0


@kernel
def close_buffers(results: ResultLayout, slots: Ints) -> None:
    """Forget the buffers of subscriptions that end."""
    for slot in slots:
        buffer = results.buffers[slot]
        results.counters[N_BUFFERED] -= buffer.n_entries
        free_entries(results, slot)
        buffer.n_entries, buffer.k, buffer.floor, buffer.dropped = 0, 0, -np.inf, -np.inf
