"""Puts matches in the order of updates: by event, then by slot, however the tree found them: kernels.

Slots are given to subscriptions by events alone, so that nobody sees the shape of a tree in the order of updates.

A match is one number, its *key*: its event, counted from the first of its group, above its slot. A group is so small
that its keys stay in the cache nearest to the processor while they are sorted.
"""

from __future__ import annotations

from typing import NamedTuple

from nearcast.columns.arena import Ints
from nearcast.jit import kernel

MOST_GROUPED = 6144  # matches of a group, but for those of one message
KEY_BITS = 31
DIGIT = 11  # bits of a key that one pass sorts by at most
_FEW = 48  # matches that are sorted one by one


class Group(NamedTuple):
    """Messages whose matches are sorted together."""

    first: int  # the first of their events
    slot_bits: int  # that any slot fits in


class Matches(NamedTuple):
    """Matches in order."""

    slots: Ints  # int32[]: the subscription
    events: Ints  # int32[]
    arrivals: Ints  # int32[]: the message


@kernel
def bits_of(n: int) -> int:
    """How many bits hold any number below `n`."""
    bits = 0
    while 1 << bits < n:
        bits += 1
    return bits


@kernel
def sort_few(keys: Ints, n: int) -> None:
    """Sort keys one by one."""
    for i in range(1, n):
        key, j = keys[i], i
        while j > 0 and keys[j - 1] > key:
            keys[j] = keys[j - 1]
            j -= 1
        keys[j] = key


@kernel
def pass_by_digit(keys: Ints, out: Ints, n: int, shift: int, width: int, counts: Ints) -> None:
    """Copy keys in the order of one of their digits."""
    mask, start = (1 << width) - 1, 0
    counts[: mask + 1] = 0
    for i in range(n):
        counts[keys[i] >> shift & mask] += 1
    for digit in range(mask + 1):
        count = counts[digit]
        counts[digit] = start
        start += count
    for i in range(n):
        digit = keys[i] >> shift & mask
        out[counts[digit]] = keys[i]
        counts[digit] += 1


@kernel
def sort_keys_of(keys: Ints, spare: Ints, n: int, counts: Ints) -> bool:
    """Sort the first `n` keys; returns whether they are in `spare` then."""
    if n <= _FEW:
        sort_few(keys, n)
        return False
    held = 0
    for i in range(n):
        held |= int(keys[i])
    n_bits, shift, in_spare = max(1, bits_of(held + 1)), 0, False
    n_passes = -(-n_bits // DIGIT)
    width = -(-n_bits // n_passes)
    for _ in range(n_passes):
        if in_spare:
            pass_by_digit(spare, keys, n, shift, width, counts)
        else:
            pass_by_digit(keys, spare, n, shift, width, counts)
        shift, in_spare = shift + width, not in_spare
    return in_spare


@kernel
def write_matches(keys: Ints, n: int, group: Group, stored: Ints, out: Matches, n_out: int) -> None:
    """Write the matches of `n` keys in order behind the first `n_out`; `stored` has the message of each event."""
    mask = (1 << group.slot_bits) - 1
    slots, events, arrivals = out.slots, out.events, out.arrivals
    for i in range(n):
        event = group.first + (keys[i] >> group.slot_bits)
        slots[n_out + i], events[n_out + i], arrivals[n_out + i] = keys[i] & mask, event, stored[event]
