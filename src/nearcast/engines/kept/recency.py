"""Compares messages of a buffer by rank or, where scores fade, by key; moves floors: kernels.

The key of an entry is not stored: it follows from its rank and from the `ts` of its message. So entries are as small as
without fading, and whoever does not fade never comes here but for a flag that lies beside the floor.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from nearcast.columns.arena import Array
from nearcast.engines.kept.buffers import move_floor
from nearcast.engines.kept.layout import ResultLayout
from nearcast.jit import kernel
from nearcast.window.recency import NO_EXPONENT, is_below, recency_key


@kernel
def key_in(results: ResultLayout, rows: Array, slot: int, rank: float, message: int) -> Any:
    """The key of a message for a subscription; (0, rank) if its scores do not fade."""
    if results.buffers[slot].fades == 0:
        return np.int64(0), np.float64(rank)
    return recency_key(rank, rows[message].ts, results.fading[slot].half_life)


@kernel
def reaches_floor(results: ResultLayout, rows: Array, slot: int, rank: float, message: int) -> Any:
    """Does a message rank at or above the floor of a buffer?"""
    buffer = results.buffers[slot]
    if buffer.fades == 0 or buffer.floor == -np.inf:
        return rank >= buffer.floor
    exponent, mantissa = key_in(results, rows, slot, rank, message)
    return not is_below(exponent, mantissa, results.fading[slot].floor, buffer.floor)


@kernel
def first_beaten(results: ResultLayout, rows: Array, slot: int, rank: float, message: int) -> Any:
    """Position of the first entry that does not rank above a newcomer, in a buffer whose scores fade."""
    buffer = results.buffers[slot]
    exponent, mantissa = key_in(results, rows, slot, rank, message)
    low, high = np.int64(0), np.int64(buffer.n_entries)
    while low < high:
        middle = (low + high) >> 1
        entry = results.entries[buffer.start + middle]
        other_exponent, other_mantissa = key_in(results, rows, slot, entry.rank, entry.message)
        if is_below(exponent, mantissa, other_exponent, other_mantissa):
            low = middle + 1
        else:
            high = middle
    return low


@kernel
def move_floor_to(results: ResultLayout, rows: Array, slot: int, rank: float, message: int) -> None:
    """Give a buffer the rank of a message as its floor."""
    exponent, mantissa = key_in(results, rows, slot, rank, message)
    if results.buffers[slot].fades:
        results.fading[slot].floor = exponent
    move_floor(results, slot, mantissa)


@kernel
def note_dropped(results: Any, rows: Array, slot: int, rank: float, message: int) -> None:
    """A message was dropped as dominated: the best of those is remembered."""
    buffer = results.buffers[slot]
    exponent, mantissa = key_in(results, rows, slot, rank, message)
    if buffer.fades == 0:
        buffer.dropped = max(buffer.dropped, mantissa)
        return
    own = results.fading[slot]
    if buffer.dropped == -np.inf or is_below(own.dropped, buffer.dropped, exponent, mantissa):
        own.dropped, buffer.dropped = exponent, mantissa


@kernel
def raise_above_dropped(results: ResultLayout, rows: Array, slot: int) -> Any:
    """Raise the floor to what was dropped, or to the k-th entry if that is lower; returns how many entries stay.

    Of those behind the k-th only what ranks above that stays.
    """
    buffer = results.buffers[slot]
    exponent, mantissa = np.int64(0), np.float64(buffer.dropped)
    floor_exponent = np.int64(0)
    if buffer.fades:
        exponent, floor_exponent = np.int64(results.fading[slot].dropped), np.int64(results.fading[slot].floor)
    last = results.entries[buffer.start + buffer.k - 1]
    other_exponent, other_mantissa = key_in(results, rows, slot, last.rank, last.message)
    if is_below(other_exponent, other_mantissa, exponent, mantissa):
        exponent, mantissa = other_exponent, other_mantissa
    if buffer.floor == -np.inf or is_below(floor_exponent, buffer.floor, exponent, mantissa):
        if buffer.fades:
            results.fading[slot].floor = exponent
        move_floor(results, slot, mantissa)
    n = np.int64(buffer.n_entries)
    while n > buffer.k:
        entry = results.entries[buffer.start + n - 1]
        other_exponent, other_mantissa = key_in(results, rows, slot, entry.rank, entry.message)
        if is_below(exponent, mantissa, other_exponent, other_mantissa):
            break
        n -= 1
    return n


@kernel
def forget_floor(results: ResultLayout, slot: int) -> None:
    """A buffer is complete: nothing is below its floor."""
    if results.buffers[slot].fades:
        results.fading[slot].floor = NO_EXPONENT
    move_floor(results, slot, -np.inf)
