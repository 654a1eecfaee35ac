"""Which messages a buffer keeps: a part of the k-skyband, as deep as a cost model finds worth its upkeep: kernels.

A subscription's **buffer** is sorted best first. It holds, of the live messages that rank above its **floor**, all
but those that surely never enter the result: those that k better ones outlive (a k-skyband). The first k entries are
the result. When so many expire that fewer than k are left, the buffer is refilled from the message index; a buffer
without a floor is complete and needs no refill. The floor rises when a full buffer drops its worst entries. Filters of
arrivals read the floor: a message below it is none of the subscription's business.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from nearcast.engines.blocks import block_class, block_room, take_block
from nearcast.engines.buffers import (
    N_BUFFERED,
    N_KEPT,
    N_OFFERED,
    N_SHRUNK,
    drop,
    free_entries,
    hold,
    move_to_larger,
    say,
    touch,
)
from nearcast.jit import kernel

COST, KMAX, RATIO = range(3)  # strategies: the cost model; always kmax messages; down to a share of the k-th rank

_LEAST_SPARE = 4  # spare entries that even a result of one message has
_RATIO_ROOM = 4  # times k: the most that the strategy RATIO keeps
_STEPS = 16  # in which the cost model looks for its minimum


class Policy(NamedTuple):
    """How a window lets messages go, as far as results care, and how many spare entries are kept."""

    counts: bool  # the window drops the oldest
    spare: bool  # messages leave, so a buffer keeps more than k
    strategy: int
    share: float  # kmax / k, or the ratio; nothing for the cost model


@kernel
def buffer_limit(k, policy):
    """Most entries that a buffer may hold, and how many an evaluation looks for."""
    k = np.int64(k)  # twice the largest k is more than 32 bits hold
    if not policy.spare:
        return k
    if policy.strategy == KMAX:
        return max(k + 1, np.int64(k * policy.share))
    if policy.strategy == RATIO:
        return _RATIO_ROOM * max(k, _LEAST_SPARE)
    return k + max(k, _LEAST_SPARE)


@kernel
def worth_keeping(k, most, cost):
    """How many of the `most` best messages found to keep above the floor, if finding them anew costs `cost`.

    The costs of upkeep and of evaluations per message, each over the share of messages that reach the floor: with n
    messages above it, n (k (1 + ln(n / k)) + cost / ((n - k + 1) (3 n - k + 2))), in steps through a buffer.

    Paper: [SKYPE] section 6.2, equations 11 to 16, prob(theta) being n by the size of the window, which cancels out.
    Departs: the expected size of a k-skyband is k (1 + ln(n / k)); n is at most what a full buffer holds, because the
    walk has no drift while counts in a window revert to their mean.
    """
    best = most
    least = np.inf
    step = max(1, (most - k) // _STEPS)
    n = k + 1
    while n <= most:
        gap = n - k + 1.0
        value = n * (k * (1.0 + math.log(n / k)) + cost / (gap * (3.0 * n - k + 2.0)))
        if value >= least:
            break
        least = value
        best = n
        n += step
    return best


@kernel
def is_dominated(results, messages, buffer, position, policy):
    """Do k better entries surely outlive this one?

    Paper: [SKYPE] section 6.1, definitions 7 and 8.
    Departs: asks also who outlives whom, so that it holds for every mix of windows.
    """
    own = messages.rows[results.entries[buffer.start + position].message]
    n = 0
    for i in range(position):
        other = messages.rows[results.entries[buffer.start + i].message]
        if other.expires_at >= own.expires_at and (other.sequence > own.sequence or not policy.counts):
            n += 1
            if n == buffer.k:
                return True
    return False


@kernel
def drop_dominated(results, messages, slot, event, policy):
    """Drop what never enters the result.

    From the worst on, so that an entry is judged before any that may dominate it has been dropped.
    """
    buffer = results.buffers[slot]
    for position in range(buffer.n_entries - 1, buffer.k - 1, -1):
        if is_dominated(results, messages, buffer, position, policy):
            drop(results, slot, position, event)


@kernel
def shrink(results, messages, slot, event, policy):
    """Make room in a full buffer: drop what is dominated, then if need be the worst, which raises the floor."""
    buffer = results.buffers[slot]
    results.counters[N_SHRUNK] += 1
    kept = buffer_limit(buffer.k, policy)
    if policy.spare and policy.strategy != KMAX:
        drop_dominated(results, messages, slot, event, policy)
        if buffer.n_entries <= kept:
            return
        kept -= max(1, (kept - buffer.k) // 4)
    buffer.floor = results.entries[buffer.start + kept].rank
    while buffer.n_entries > kept:
        drop(results, slot, buffer.n_entries - 1, event)


@kernel
def offer(results, messages, slot, message, rank, event, policy):
    """Put the newest message into a subscription's buffer if it ranks above the floor; `has_room` must hold."""
    counters = results.counters
    counters[N_OFFERED] += 1
    buffer = results.buffers[slot]
    if rank < buffer.floor:
        return
    if buffer.n_entries == buffer.room:
        move_to_larger(results, slot)
    entries = results.entries
    start = buffer.start
    at = start + buffer.n_entries
    while at > start and entries[at - 1].rank <= rank:
        above, entry = entries[at - 1], entries[at]
        entry.rank, entry.message, entry.shown = above.rank, above.message, above.shown
        at -= 1
    entry = entries[at]
    entry.rank, entry.message, entry.shown = rank, message, 0
    buffer.n_entries += 1
    counters[N_KEPT] += 1
    counters[N_BUFFERED] += 1
    if policy.spare:
        hold(results, slot, message)
    touch(results, slot)
    if buffer.n_entries > buffer_limit(buffer.k, policy):
        shrink(results, messages, slot, event, policy)


@kernel
def is_short(results, slot):
    """Are there too few entries left to know the result?"""
    buffer = results.buffers[slot]
    return buffer.n_entries < buffer.k and buffer.floor != -np.inf


@kernel
def n_to_keep(k, best, cost, policy):
    """How many of the messages found, best first, a new buffer keeps; a negative number if that leaves none out."""
    if best.size < buffer_limit(k, policy):
        return -best.size  # there are no others
    if policy.strategy == COST and policy.spare:
        return worth_keeping(k, best.size, cost)
    n = best.size
    if policy.strategy == RATIO and policy.spare:
        bar = best[k - 1].key - (1.0 - policy.share) * abs(best[k - 1].key)
        while n > k and best[n - 1].key < bar:
            n -= 1
    return n


@kernel
def replace(results, messages, slot, best, event, cost, policy):
    """Give a subscription a new buffer after its results were evaluated anew.

    `best` are the messages found, best first, `key` being the rank: as many as `buffer_limit` says, or all there are;
    `cost` is what finding them cost. What was shown and is no longer among the first k is said with the rank it had.
    `room_to_replace` must hold.

    Paper: [SKYPE] section 6.1, algorithm 2.
    """
    buffer = results.buffers[slot]
    n_kept = n_to_keep(buffer.k, best, cost, policy)
    floor = best[n_kept - 1].key if n_kept > 0 else -np.inf
    n_kept = abs(n_kept)
    size_class = block_class(n_kept)
    start = take_block(results.blocks, results.entries["message"], size_class)
    marks = results.marks
    for i in range(n_kept):
        entry = results.entries[start + i]
        entry.rank, entry.message, entry.shown = best[i].key, best[i].slot, 0
        marks[best[i].slot] = i + 1
    for position in range(buffer.n_entries):
        old = results.entries[buffer.start + position]
        at = marks[old.message] - 1
        if old.shown and 0 <= at < buffer.k:
            results.entries[start + at].shown = 1
        elif old.shown:
            say(results, event, slot, old.message, -1, old.rank)
        marks[old.message] = -1 if at >= 0 else 0
    for i in range(n_kept):
        if policy.spare and marks[best[i].slot] > 0:  # else it is held already
            hold(results, slot, best[i].slot)
        marks[best[i].slot] = 0
    results.counters[N_BUFFERED] += n_kept - buffer.n_entries
    free_entries(results, slot)
    buffer.start, buffer.n_entries, buffer.room, buffer.floor = start, n_kept, block_room(size_class), floor
    touch(results, slot)
    if policy.spare and policy.strategy != KMAX and floor != -np.inf:
        drop_dominated(results, messages, slot, event, policy)
