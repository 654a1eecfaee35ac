"""Who waits for which message to leave: kernels.

A subscription is looked at when messages of its buffer leave. It **watches** the oldest of them, where the window
counts, and the one that expires soonest: whatever else it holds leaves no earlier. When a watched message leaves, those
who wait for it drop what has left and watch the next. A watched message that the buffer has dropped meanwhile wakes the
subscription for nothing; but most messages are dropped long before they leave, and that costs nothing at all.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from nearcast.columns.arena import Array, Ints, Longs
from nearcast.columns.times import FOREVER
from nearcast.engines.kept.buffers import age_of, drop, emit, room_to_touch, room_to_wait, stamp_bits, touch
from nearcast.engines.kept.layout import (
    FREE_WAITING,
    LINE,
    N_BUFFERED,
    N_CHANGES,
    N_DROPPED,
    N_EXPIRED,
    N_FREE_WAITING,
    N_WAITING,
    N_WOKEN,
    AsOf,
    ResultLayout,
)
from nearcast.jit import kernel, prefetch
from nearcast.window.expiries import UNLIMITED
from nearcast.window.read_ahead import prefetch_record
from nearcast.window.window import is_live

CHAINS = 16  # messages that leave next whose lists are followed at the same time


@kernel
def wait_for(results: ResultLayout, slot: int, message: int) -> None:
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
def watch_newcomer(results: ResultLayout, rows: Array, slot: int, message: int, policy: Any) -> None:
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
def watch_first(results: ResultLayout, rows: Array, slot: int, policy: Any) -> None:
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
def drop_left(results: ResultLayout, rows: Array, slot: int, as_of: AsOf, newest: int) -> None:
    """Drop what the window has left behind, where nothing expires by the clock, and watch the oldest of the rest.

    One pass does both: a buffer that wakes has left the processor's cache long ago.
    """
    buffer, watched, entries, last = results.buffers[slot], results.watched[slot], results.entries, as_of.last
    bits = stamp_bits(newest)
    stays, gone = newest >> bits, ((newest - 1) >> bits) + 1  # below this many stamps, and above that many, for sure
    start, n = np.int64(buffer.start), np.int64(buffer.n_entries)
    oldest, most, n_left, first = 0, np.int64(-1), np.int64(0), n
    for position in range(n):
        entry = entries[start + position]
        age = age_of(entry, last, newest)
        if age >= stays and (age > gone or rows[entry.message].sequence <= last - newest):
            if entry.mark & 1:
                emit(results, as_of.event, slot, entry.message, -1, entry.rank)
            first = min(first, np.int64(position))
            continue
        if age > most or (age == most and rows[entry.message].sequence < rows[oldest - 1].sequence):
            oldest, most = entry.message + 1, age
        if first < n:
            entries[start + n_left] = entry
        n_left += 1
    if n_left < n:
        buffer.n_entries = n_left
        results.counters[N_DROPPED] += n - n_left
        results.counters[N_EXPIRED] += n - n_left
        results.counters[N_BUFFERED] -= n - n_left
        touch(results, slot, first)
    if oldest != 0 and oldest != watched.oldest:
        wait_for(results, slot, oldest - 1)
    watched.oldest = oldest


@kernel
def wake(results: ResultLayout, subscriptions: Any, rows: Array, slot: int, as_of: AsOf, policy: Any) -> None:
    """Drop what has left from a buffer, and watch what leaves next; needs room for as many changes as entries."""
    last, clock = as_of.last, as_of.clock
    buffer, watched = results.buffers[slot], results.watched[slot]
    results.counters[N_WOKEN] += 1
    if subscriptions.rows[slot].expires <= clock:
        watched.oldest, watched.soonest = 0, 0  # it has ended: nothing is emitted for it any more
        return
    if watched.soonest == 0:
        drop_left(results, rows, slot, as_of, policy.newest)
        return
    n_before = buffer.n_entries
    for position in range(n_before - 1, -1, -1):
        entry = results.entries[buffer.start + position]
        if not is_live(rows[entry.message], last, clock, policy.newest):
            drop(results, slot, position, as_of.event)
    if buffer.n_entries < n_before:
        results.counters[N_EXPIRED] += n_before - buffer.n_entries
        touch(results, slot, 0)
    watch_first(results, rows, slot, policy)


@kernel
def leave(results: ResultLayout, subscriptions: Any, rows: Array, message: int, as_of: AsOf, policy: Any) -> bool:
    """A message leaves: wake those who watch it. False if room is needed first; then call again."""
    counters = results.counters
    while results.heads[message] > 0:
        at = results.heads[message]
        waiting = results.waiting[at - 1]
        slot = waiting.slot
        n_changes = counters[N_CHANGES] + results.buffers[slot].n_entries
        if n_changes > results.changes.size or room_to_wait(results) < 1 or not room_to_touch(results):
            return False
        results.heads[message] = waiting.next
        waiting.next = counters[FREE_WAITING]
        counters[FREE_WAITING] = at
        counters[N_FREE_WAITING] += 1
        watched = results.watched[slot]
        if watched.oldest == message + 1 or watched.soonest == message + 1:  # else it is gone, or watches others by now
            wake(results, subscriptions, rows, slot, as_of, policy)
    return True


@kernel
def follow_chains(results: ResultLayout, subscriptions: Array, expired: Ints, at: int, chains: Longs) -> None:
    """Go one step on in the list of those who wait for each of the messages that leave next; `chains` is scratch.

    Every step is a wait for memory, unless those of other messages, and the events between, lie between one step and
    the next. What those who wait touch first is read ahead on the way.
    """
    waiting, buffers, n = results.waiting, results.buffers, expired.size
    for later in range(at if at == 0 else at + CHAINS - 1, min(at + CHAINS, n)):
        chains[later % CHAINS] = results.heads[expired[later]]
        prefetch(waiting, chains[later % CHAINS] - 1)
    if at + CHAINS < n:
        prefetch(results.heads, expired[at + CHAINS])
    for later in range(at + 1, min(at + CHAINS - 1, n)):
        chain = chains[later % CHAINS]
        if chain > 0:
            slot, following = waiting[chain - 1].slot, waiting[chain - 1].next
            prefetch_record(subscriptions, slot)
            prefetch_record(buffers, slot)
            prefetch(results.watched, slot)
            prefetch(waiting, following - 1)
            chains[later % CHAINS] = following


@kernel
def fetch_waiting(results: ResultLayout, subscriptions: Array, rows: Array, message: int) -> None:
    """Have read ahead what those who watch a message will touch when it leaves.

    All of it lies anywhere in memory: waiting for one subscription after another took most of the time.
    """
    waiting, buffers, entries = results.waiting, results.buffers, results.entries
    first = results.heads[message]
    at = first
    while at > 0:
        prefetch_record(subscriptions, waiting[at - 1].slot)
        prefetch_record(buffers, waiting[at - 1].slot)
        prefetch(results.watched, waiting[at - 1].slot)
        at = waiting[at - 1].next
    at = first
    while at > 0:
        buffer = buffers[waiting[at - 1].slot]
        for entry in range(buffer.start, buffer.start + buffer.n_entries, LINE):
            prefetch(entries, entry)
        at = waiting[at - 1].next
    at = first
    while at > 0:
        if results.watched[waiting[at - 1].slot].soonest > 0:  # else stamps tell who leaves
            buffer = buffers[waiting[at - 1].slot]
            for entry in range(buffer.start, buffer.start + buffer.n_entries):
                prefetch(rows, entries[entry].message)
        at = waiting[at - 1].next
