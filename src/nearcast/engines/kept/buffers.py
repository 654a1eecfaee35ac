"""Buffers of kept messages as arrays: for each subscription its best messages, and who waits for which: kernels.

A subscription is looked at when messages of its buffer leave. It **watches** the oldest of them, where the window
counts, and the one that expires soonest: whatever else it holds leaves no earlier. When a watched message leaves, those
who wait for it drop what has left and watch the next. A watched message that the buffer has dropped meanwhile wakes the
subscription for nothing; but most messages are dropped long before they leave, and that costs nothing at all.

`rank` is larger for better messages: the score of TopK, minus the distance of Nearest. Equal ranks: the newer message
is better. What may be forgotten, and when a buffer is refilled, is decided in `skyband.py`.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from nearcast.columns.arena import Array, Ints, Longs, record
from nearcast.columns.message_table import FOREVER
from nearcast.engines.blocks import USED, block_class, block_fits, block_room, give_block, take_block
from nearcast.jit import kernel
from nearcast.window.expiries import UNLIMITED
from nearcast.window.window import is_live

BUFFER = record(
    ("floor", "f8"),  # rank that a message must reach to be kept; -inf when complete
    ("start", "i4"),  # first entry in the pool
    ("n_entries", "i4"),
    ("k", "i4"),
    ("block", "u1"),  # size class of the block that its entries lie in, plus 1; 0 for none
    ("touched", "u1"),  # in the event under way: TOUCHED if it changed, MOVED if its floor did
)
WATCHED = record(
    ("oldest", "i4"),  # the watched message that was the oldest, plus 1; 0 for none
    ("soonest", "i4"),  # the watched message that expires soonest, plus 1; 0 for none
)
ENTRY = record(
    ("rank", "f8"),
    ("message", "i4"),
    ("mark", "i2"),  # twice the number of better entries known to outlive it, plus 1 if the subscriber was told of it
    ("stamp", "u1"),  # when it came, roughly, see `stamp_of`
    packed=True,
)
WAITING = record(("slot", "i4"), ("next", "i4"))  # next: position + 1 of the next one, 0 at the end
CHANGE = record(("rank", "f8"), ("event", "i4"), ("slot", "i4"), ("message", "i4"), ("sign", "i4"))

TOUCHED, MOVED = 1, 2
MOST_MARK = 2**15 - 2  # of marks without the 1: they count no further, which only keeps what might be dropped
LINE = 4  # entries that a line of the processor's cache holds

_STAMP_BITS = 8
_TOO_LARGE = 2  # a block so many size classes above what a buffer needs is exchanged

# positions in `counters`
N_CHANGES, FREE_WAITING, N_FREE_WAITING, N_WAITING, N_TOUCHED, N_BUFFERED = range(6)
N_OFFERED, N_KEPT, N_DROPPED, N_EXPIRED, N_REFILLS, N_SHRUNK, N_WOKEN, N_TAKEN = range(6, 14)
N_COUNTERS = 14


class ResultLayout(NamedTuple):
    """All results of one engine."""

    buffers: Array  # BUFFER[n_slots]
    watched: Array  # WATCHED[n_slots]; nothing where no message leaves
    entries: Array  # ENTRY[]: the pool of buffers
    blocks: Longs  # int64[N_HEADS]: which of it is free, see blocks.py
    above: Longs  # int64[N_HEADS]: the same beyond a boundary, which stands first, see sweeping.py
    heads: Ints  # int32[n_message_slots]: position + 1 of the first who waits for each, 0 for none; or nothing, too
    waiting: Array  # WAITING[]: who watches, or watched, which message
    changes: Array  # CHANGE[]: what was said in this batch
    touched: Ints  # int32[]: subscriptions changed in this event
    counters: Longs  # int64[N_COUNTERS]


@kernel
def say(results, event, slot, message, sign, rank):
    """Append a change; room was promised."""
    at = results.counters[N_CHANGES]
    change = results.changes[at]
    change.event, change.slot, change.message, change.sign, change.rank = event, slot, message, sign, rank
    results.counters[N_CHANGES] = at + 1


@kernel
def room_of(buffer):
    """Entries that the block of a buffer has room for."""
    return block_room(np.int64(buffer.block) - 1)


@kernel
def touch(results, slot):
    """Note that a subscription's buffer changed in this event; room was promised."""
    buffer = results.buffers[slot]
    if buffer.touched & TOUCHED == 0:
        buffer.touched |= TOUCHED
        results.touched[results.counters[N_TOUCHED]] = slot
        results.counters[N_TOUCHED] += 1


@kernel
def move_floor(results, slot, floor):
    """Give a buffer another floor."""
    buffer = results.buffers[slot]
    buffer.floor = floor
    buffer.touched |= MOVED


@kernel
def stamp_bits(newest):
    """By how many bits a sequence is cut, so that so many messages that live have half of all stamps at most."""
    return max(0, math.frexp(float(newest))[1] - _STAMP_BITS + 1)


@kernel
def stamp_of(sequence, newest):
    """When a message came, in shares of the window, counted round and round.

    Buffers tell by it which messages the window has left behind, and which of theirs is the oldest, without a look at
    any of them but one or two: rows of messages lie anywhere in memory.
    """
    return (sequence >> stamp_bits(newest)) & ((1 << _STAMP_BITS) - 1)


@kernel
def age_of(entry, last, newest):
    """How many stamps ago a message came, if `last` is the newest."""
    return (stamp_of(last, newest) - np.int64(entry.stamp)) & ((1 << _STAMP_BITS) - 1)


@kernel
def wait_for(results, slot, message):
    """Have a subscription woken when a message leaves."""
    counters = results.counters
    at = counters[FREE_WAITING] - 1
    if at >= 0:
        counters[FREE_WAITING] = results.waiting[at].next
        counters[N_FREE_WAITING] -= 1
    else:
        at = counters[N_WAITING]
        counters[N_WAITING] += 1
    results.waiting[at].slot = slot
    results.waiting[at].next = results.heads[message]
    results.heads[message] = at + 1


@kernel
def room_to_wait(results):
    """So many can begin to wait."""
    return results.counters[N_FREE_WAITING] + results.waiting.size - results.counters[N_WAITING]


@kernel
def room_to_touch(results):
    """Is there room to note that one more subscription changed?"""
    return results.counters[N_TOUCHED] < results.touched.size


@kernel
def watch_newcomer(results, rows, slot, message, policy):
    """Have a subscription watch the newest message, if it expires before the others or is the only one."""
    watched, until = results.watched[slot], rows[message].expires_at
    first = policy.newest != UNLIMITED and watched.oldest == 0
    sooner = until != FOREVER and (watched.soonest == 0 or until < rows[watched.soonest - 1].expires_at)
    if first:
        watched.oldest = message + 1
    if sooner:
        watched.soonest = message + 1
    if first or sooner:
        wait_for(results, slot, message)


@kernel
def watch_first(results, rows, slot, policy):
    """Have a subscription watch whichever of its messages leaves first; needs room for two to wait."""
    buffer, watched = results.buffers[slot], results.watched[slot]
    oldest, soonest = 0, 0
    sequence, until = np.int64(FOREVER), np.int64(FOREVER)
    for i in range(buffer.start, buffer.start + buffer.n_entries):
        message = results.entries[i].message
        row = rows[message]
        if row.sequence < sequence and policy.newest != UNLIMITED:
            oldest, sequence = message + 1, row.sequence
        if row.expires_at < until:
            soonest, until = message + 1, row.expires_at
    if oldest != 0 and oldest != watched.oldest:
        wait_for(results, slot, oldest - 1)
    if soonest != 0 and soonest != watched.soonest and soonest != oldest:
        wait_for(results, slot, soonest - 1)
    watched.oldest, watched.soonest = oldest, soonest


@kernel
def watch_oldest(results, rows, slot, last, newest):
    """Have a subscription watch the oldest of its messages, where none expires by the clock; needs room to wait."""
    buffer, watched = results.buffers[slot], results.watched[slot]
    oldest, most = 0, np.int64(-1)
    for i in range(buffer.start, buffer.start + buffer.n_entries):
        entry = results.entries[i]
        age = age_of(entry, last, newest)
        if age > most or (age == most and rows[entry.message].sequence < rows[oldest - 1].sequence):
            oldest, most = entry.message + 1, age
    if oldest != 0 and oldest != watched.oldest:
        wait_for(results, slot, oldest - 1)
    watched.oldest = oldest


@kernel
def has_room(results, slot):
    """Is there room for one more entry of a subscription, wherever its buffer goes, and for what it may say?"""
    buffer = results.buffers[slot]
    counters = results.counters
    full = buffer.n_entries == room_of(buffer)
    if full and not block_fits(results.blocks, results.entries.size, np.int64(buffer.block)):
        return False
    if room_to_wait(results) == 0 or not room_to_touch(results):
        return False
    return counters[N_CHANGES] + 2 * (buffer.n_entries + 1) <= results.changes.size


@kernel
def room_to_begin(n):
    """Entries that a new buffer of `n` has room for: it will grow soon, and a block left behind may find no user."""
    return n + n // 8


@kernel
def room_to_replace(results, slot, n):
    """Is there room to give a subscription a buffer of up to `n` entries, and for what it may say?"""
    return (
        results.blocks[USED] + block_room(block_class(room_to_begin(n))) <= results.entries.size
        and room_to_wait(results) >= 2
        and room_to_touch(results)
        and results.counters[N_CHANGES] + results.buffers[slot].n_entries <= results.changes.size
    )


@kernel
def free_entries(results, slot):
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
def take_entries(results, slot, start, size_class):
    """A buffer has a block from now on; the one that it had is given back."""
    buffer = results.buffers[slot]
    free_entries(results, slot)
    buffer.start, buffer.block = start, size_class + 1
    results.counters[N_TAKEN] += block_room(size_class)


@kernel
def is_free(results, size_class):
    """Is a block of this size class free, wherever?"""
    return results.blocks[1 + size_class] > 0 or results.above[1 + size_class] > 0


@kernel
def class_to_take(results, n):
    """The size class from which a buffer of `n` entries takes its block: rather one that is free than one more."""
    size_class = block_class(n)
    return size_class + 1 if not is_free(results, size_class) and is_free(results, size_class + 1) else size_class


@kernel
def new_block(results, size_class):
    """Start of a block, below the boundary if one is free there, then beyond it, then one more; needs room."""
    beyond = results.blocks[1 + size_class] == 0 and results.above[1 + size_class] > 0
    return take_block(results.above if beyond else results.blocks, results.entries["message"], size_class)


@kernel
def move_entries(results, slot, size_class):
    """Give a buffer a block of another size class; there must be room."""
    buffer = results.buffers[slot]
    start = new_block(results, size_class)
    for i in range(buffer.n_entries):
        results.entries[start + i] = results.entries[buffer.start + i]
    take_entries(results, slot, start, size_class)


@kernel
def move_to_larger(results, slot):
    """Give a full buffer a block of the next size class."""
    move_entries(results, slot, class_to_take(results, room_of(results.buffers[slot]) + 1))


@kernel
def give_back_room(results, slot):
    """Give a buffer that has become much shorter a smaller block, if one is free."""
    buffer = results.buffers[slot]
    size_class = class_to_take(results, buffer.n_entries + 1)
    if size_class + _TOO_LARGE < buffer.block and results.blocks[1 + size_class] > 0:
        move_entries(results, slot, size_class)


@kernel
def drop(results, slot, position, event):
    """Take an entry out of a buffer; the subscriber is told if it was shown."""
    buffer = results.buffers[slot]
    entry = results.entries[buffer.start + position]
    if entry.mark & 1:
        say(results, event, slot, entry.message, -1, entry.rank)
    for i in range(buffer.start + position, buffer.start + buffer.n_entries - 1):
        results.entries[i] = results.entries[i + 1]
    buffer.n_entries -= 1
    results.counters[N_DROPPED] += 1
    results.counters[N_BUFFERED] -= 1


@kernel
def has_left(entry, rows, last, newest):
    """Has the window left a message behind that does not expire by the clock?"""
    bits, age = stamp_bits(newest), age_of(entry, last, newest)
    if age < newest >> bits:
        return False
    return age > ((newest - 1) >> bits) + 1 or rows[entry.message].sequence <= last - newest


@kernel
def wake(results, subscriptions, rows, slot, now, policy):
    """Drop what has left from a buffer, and watch what leaves next; needs room for as many changes as entries."""
    event, last, clock = now
    buffer, watched = results.buffers[slot], results.watched[slot]
    results.counters[N_WOKEN] += 1
    if subscriptions.rows[slot].expires <= clock:
        watched.oldest, watched.soonest = 0, 0  # it has ended, and is not told any more
        return
    n_before = buffer.n_entries
    by_count = watched.soonest == 0
    for position in range(n_before - 1, -1, -1):
        entry = results.entries[buffer.start + position]
        if by_count:
            gone = has_left(entry, rows, last, policy.newest)
        else:
            gone = not is_live(rows[entry.message], last, clock, policy.newest)
        if gone:
            drop(results, slot, position, event)
    if buffer.n_entries < n_before:
        results.counters[N_EXPIRED] += n_before - buffer.n_entries
        touch(results, slot)
    if by_count:
        watch_oldest(results, rows, slot, last, policy.newest)
    else:
        watch_first(results, rows, slot, policy)


@kernel
def leave(results, subscriptions, rows, message, now, policy):
    """A message leaves: wake those who watch it. False if room is needed first; then call again.

    `now` is the event, the newest sequence after it, and the clock.
    """
    counters = results.counters
    while results.heads[message] > 0:
        at = results.heads[message]
        waiting = results.waiting[at - 1]
        slot = waiting.slot
        n_said = counters[N_CHANGES] + results.buffers[slot].n_entries
        if n_said > results.changes.size or room_to_wait(results) < 1 or not room_to_touch(results):
            return False
        results.heads[message] = waiting.next
        waiting.next = counters[FREE_WAITING]
        counters[FREE_WAITING] = at
        counters[N_FREE_WAITING] += 1
        watched = results.watched[slot]
        if watched.oldest == message + 1 or watched.soonest == message + 1:  # else it is gone, or watches others by now
            wake(results, subscriptions, rows, slot, now, policy)
    return True


@kernel
def n_unsaid(results):
    """At most so many changes are said when the event is settled."""
    n = 0
    for i in range(results.counters[N_TOUCHED]):
        n += results.buffers[results.touched[i]].n_entries
    return n


@kernel
def settle(results, event):
    """End an event: tell every touched subscriber what entered and what left the first k. Needs room for `n_unsaid`.

    One message came at most, so that at most one that is shown has left the first k, and stands next to them.
    """
    for i in range(results.counters[N_TOUCHED]):
        slot = results.touched[i]
        buffer = results.buffers[slot]
        buffer.touched = 0
        for position in range(min(buffer.n_entries, np.int64(buffer.k) + 1)):
            entry = results.entries[buffer.start + position]
            shown = 1 if position < buffer.k else 0
            if entry.mark & 1 != shown:
                say(results, event, slot, entry.message, 2 * shown - 1, entry.rank)
                entry.mark ^= 1
        give_back_room(results, slot)
    results.counters[N_TOUCHED] = 0


@kernel
def close_buffers(results, slots):
    """Forget the buffers of subscriptions that end."""
    for slot in slots:
        buffer = results.buffers[slot]
        results.counters[N_BUFFERED] -= buffer.n_entries
        free_entries(results, slot)
        buffer.n_entries, buffer.k, buffer.floor = 0, 0, -np.inf
