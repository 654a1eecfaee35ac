"""Which messages a buffer keeps: a part of the k-skyband, as deep as a cost model finds worth its upkeep: kernels.

A subscription's **buffer** is sorted best first. It holds, of the live messages that rank above its **floor**, all
but those that surely never enter the result: those that k better ones outlive (a k-skyband). The first k entries are
the result. When expiries leave fewer than k, the buffer is refilled from the message index; a buffer without a floor is
complete and needs no refill. The floor rises when a full buffer drops its worst entries. Where no message ever leaves,
the k best are all that is kept, and the floor is the rank of the last. Filters of arrivals read the floor: a message
below it cannot enter the buffer.

Dominance presumes that a better message outlives a worse one. Messages that are withdrawn do not. So from the first
update or retraction on none is dropped for that reason any more (`Policy.drops`), and a buffer that has dropped some
before raises its floor to the best rank among them when one of its entries is withdrawn: see `withdraw`.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import Any, NamedTuple

import numpy as np

from nearcast.columns.arena import Array
from nearcast.columns.times import FOREVER
from nearcast.engines.kept.buffers import (
    class_to_take,
    drop,
    emit,
    initial_room,
    move_to_larger,
    new_block,
    room_of,
    stamp_of,
    take_entries,
    touch,
)
from nearcast.engines.kept.layout import MOST_MARK, N_BUFFERED, N_KEPT, N_OFFERED, N_SHRUNK, N_WITHDRAWN, ResultLayout
from nearcast.engines.kept.range_cost import worth_covering
from nearcast.engines.kept.recency import (
    first_beaten,
    forget_floor,
    move_floor_to,
    note_dropped,
    raise_above_dropped,
    reaches_floor,
)
from nearcast.engines.kept.watch import watch_first, watch_newcomer
from nearcast.errors import InvalidInput
from nearcast.jit import kernel
from nearcast.model.checks import number, one_of
from nearcast.window.expiries import UNLIMITED

COST, KMAX, RATIO, RANGE = range(4)  # strategies: see below; kmax messages; a share of the k-th rank; range_cost.py
STRATEGIES = {"cost": COST, "kmax": KMAX, "ratio": RATIO, "range": RANGE}

_LEAST_SPARE = 8  # spare entries that even a result of one message has
_MOST_SPARE = 20  # that an evaluation looks for beyond k
_RATIO_ROOM = 4  # times k: the most that the strategy RATIO keeps
_STEPS = 16  # in which the cost model looks for its minimum
# What a message that comes or goes costs apart from its passage through a buffer, and an evaluation apart from its
# search, in steps through a buffer of 10 ns: 0.6 us with five million subscriptions (2026-11-18). An evaluation weighs
# more than it takes: everybody waits for it, and messages do not come as evenly as the model has it.
_UPKEEP = 60
_EVALUATION = 10_000
_WEIGHT = 4


class Policy(NamedTuple):
    """How a window lets messages go, as far as results care, and how many spare entries are kept."""

    newest: int  # how many messages live; UNLIMITED where the window does not count
    spare: bool  # messages leave, so a buffer keeps more than k
    strategy: int
    share: float  # kmax / k, or the ratio; nothing for the cost model
    drops: bool  # dominated messages are dropped


def check_strategy(strategy: str, share: float, known: Collection[str] = tuple(STRATEGIES)) -> None:
    """Refuse a strategy that there is not, or a share that it cannot have."""
    one_of("strategy", strategy, known)
    if number("share", share) < 0:
        raise InvalidInput("share", share, "must be >= 0")
    if strategy == "kmax" and not share >= 1:
        raise InvalidInput("share", share, "must be >= 1 for kmax")
    if strategy == "ratio" and not 0 <= share <= 1:
        raise InvalidInput("share", share, "must be within [0, 1] for a ratio")


@kernel
def buffer_limit(k: Any, policy: Any) -> Any:
    """Most entries that a buffer may hold."""
    k = np.int64(k)  # a multiple of the largest k is more than 32 bits hold
    if not policy.spare:
        return k
    if policy.strategy == KMAX:
        return max(k + 1, np.int64(k * policy.share))
    if policy.strategy == RATIO:
        return _RATIO_ROOM * max(k, _LEAST_SPARE)
    return k + max(3 * k // 2, _LEAST_SPARE)


@kernel
def search_limit(k: Any, policy: Any) -> Any:
    """How many messages an evaluation looks for: of longer buffers the cost model keeps little more."""
    if not policy.spare or policy.strategy != COST:
        return buffer_limit(k, policy)
    k = np.int64(k)
    return k + max(k, min(3 * k // 2, _MOST_SPARE), _LEAST_SPARE)


@kernel
def turns_until_short(k: int, n: int) -> float:
    """How often the window turns over, as expected, until fewer than k of n messages above a floor are left.

    Paper: [SKYPE] section 6.2.2, equations 13 to 15, the random walk from n down to k - 1.
    Departs: the paper's walk goes up as often as down and is reflected at 2 n. Here messages arrive n to a turn and
    each leaves after one, so that the walk is drawn back to n: from i to i - 1 it takes (1 + n t) / i turns, t being
    what it takes from i + 1 to i.
    """
    top = n + 4 * int(math.sqrt(n)) + 4
    step = 1.0 / (top - n)
    total = 0.0
    for i in range(top, k - 1, -1):
        step = (1.0 + n * step) / i
        if i <= n:
            total += step
    return total


@kernel
def worth_keeping(k: int, most: int, cost: float) -> int:
    """How many of the `most` best messages found to keep above the floor, if finding them again costs `cost`.

    What is least per turn of the window: n messages that come and n that go, each with its passage through the buffer,
    and evaluations.

    Paper: [SKYPE] section 6.2, equations 11, 12 and 16, prob(theta) being n by the size of the window.
    Departs: the expected size of a k-skyband is k (1 + ln(n / k)); what comes or goes costs something even apart from
    the buffer, and an evaluation even apart from the search; evaluations weigh more than they take.
    """
    best = most
    least = np.inf
    n = most
    while n > k:
        upkeep = 2.0 * n * (_UPKEEP + k * (1.0 + math.log(n / k)))
        value = upkeep + _WEIGHT * (_EVALUATION + cost) / turns_until_short(k, n)
        if value >= least:
            break
        least = value
        best = n
        n -= max(1, (most - k) // _STEPS)
    return best


@kernel
def drop_beaten(results: ResultLayout, rows: Array, slot: int, event: int) -> None:
    """Drop what never enters the result.

    Paper: [SKYPE] section 6.1, definitions 7 and 8.
    """
    buffer = results.buffers[slot]
    for position in range(buffer.n_entries - 1, buffer.k - 1, -1):
        entry = results.entries[buffer.start + position]
        if entry.mark >> 1 >= buffer.k:
            note_dropped(results, rows, slot, entry.rank, entry.message)
            drop(results, slot, position, event)


@kernel
def shrink(results: ResultLayout, rows: Array, slot: int, event: int, policy: Policy) -> None:
    """Drop the worst of a buffer that is too long, which raises the floor."""
    buffer = results.buffers[slot]
    results.counters[N_SHRUNK] += 1
    kept = buffer_limit(buffer.k, policy)
    if policy.strategy != KMAX:
        kept -= max(1, (kept - buffer.k) // 4)
    first = results.entries[buffer.start + kept]
    move_floor_to(results, rows, slot, first.rank, first.message)
    while buffer.n_entries > kept:
        drop(results, slot, buffer.n_entries - 1, event)


@kernel
def n_outliving(results: ResultLayout, messages: Any, buffer: Any, n: int, until: int) -> int:
    """How many of the first `n` entries stay until then, or longer."""
    n_found = 0
    for i in range(buffer.start, buffer.start + n):
        if messages.rows[results.entries[i].message].expires_at >= until:
            n_found += 1
    return n_found


@kernel
def offer(
    results: ResultLayout, messages: Any, slot: int, message: int, rank: float, event: int, policy: Policy
) -> None:
    """Put the newest message into a subscription's buffer if it ranks above the floor; `has_room` must hold.

    Entries that it beats and surely outlives count it; those that have counted k are dropped.

    Paper: [SKYPE] section 6.2.1, the dominance counters.
    Departs: asks who outlives whom, so that it holds for every mix of windows; a newcomer may be dominated itself.
    """
    counters = results.counters
    counters[N_OFFERED] += 1
    buffer = results.buffers[slot]
    if not reaches_floor(results, messages.rows, slot, rank, message):
        return
    if not policy.spare and buffer.n_entries == buffer.k:
        drop(results, slot, buffer.n_entries - 1, event)
    if buffer.n_entries == room_of(buffer):
        move_to_larger(results, slot)
    entries, rows = results.entries, messages.rows
    start = buffer.start
    at = start + buffer.n_entries
    until = rows[message].expires_at
    counts = policy.drops
    beaten = False
    fades = buffer.fades != 0
    place = start + first_beaten(results, rows, slot, rank, message) if fades else 0
    while at > start and (at > place if fades else entries[at - 1].rank <= rank):
        entries[at] = entries[at - 1]
        entry = entries[at]
        if counts and (until == FOREVER or rows[entry.message].expires_at <= until):
            entry.mark += 2 if entry.mark < MOST_MARK else 0
            beaten = beaten or entry.mark >> 1 >= buffer.k
        at -= 1
    entry = entries[at]
    entry.rank, entry.message, entry.mark = rank, message, 0
    entry.stamp = stamp_of(rows[message].sequence, policy.newest)
    if counts and policy.newest == UNLIMITED:  # else nobody who is here outlives it
        n_better = n_outliving(results, messages, buffer, at - start, until)
        entry.mark = min(2 * n_better, MOST_MARK)
        beaten = beaten or n_better >= buffer.k
    buffer.n_entries += 1
    counters[N_KEPT] += 1
    counters[N_BUFFERED] += 1
    touch(results, slot, at - start)
    if not policy.spare:
        if buffer.n_entries == buffer.k:
            last = entries[start + buffer.k - 1]
            move_floor_to(results, rows, slot, last.rank, last.message)
        return
    watch_newcomer(results, rows, slot, message, policy)
    if beaten:
        drop_beaten(results, rows, slot, event)
    if buffer.n_entries > buffer_limit(buffer.k, policy):
        shrink(results, rows, slot, event, policy)


@kernel
def give_up_dropped(results: ResultLayout, rows: Array, slot: int, event: int) -> None:
    """Raise the floor of a buffer above all that was dropped as dominated; nothing is lacking then.

    Each of those was dominated by k entries at least, so that it stands behind the k-th, if there are as many.
    """
    buffer = results.buffers[slot]
    if buffer.n_entries >= buffer.k:
        n_left = raise_above_dropped(results, rows, slot)
        while buffer.n_entries > n_left:
            drop(results, slot, buffer.n_entries - 1, event)
    buffer.dropped = -np.inf


@kernel
def withdraw(results: ResultLayout, rows: Array, slot: int, message: int, event: int) -> None:
    """Take a message that is withdrawn out of a subscription's buffer, if it is there; `has_room` must hold.

    Every message that was dropped has k entries that dominate it: those that did and were dropped themselves had as
    many, which dominate both. Without one of them it may belong to the buffer, unless the floor is above it.
    """
    buffer = results.buffers[slot]
    position = np.int64(buffer.n_entries) - 1  # from where candidates are read ahead
    while position >= 0 and results.entries[buffer.start + position].message != message:
        position -= 1
    if position < 0:
        return
    if buffer.dropped > -np.inf:
        give_up_dropped(results, rows, slot, event)
    if position < buffer.n_entries:
        drop(results, slot, position, event)
    results.counters[N_WITHDRAWN] += 1
    touch(results, slot, position)


@kernel
def is_short(results: ResultLayout, slot: int) -> Any:
    """Are there too few entries left to know the result?"""
    buffer = results.buffers[slot]
    return buffer.n_entries < buffer.k and buffer.floor != -np.inf


@kernel
def n_to_keep(k: int, best: Array, cost: float, policy: Policy) -> int:
    """How many of the messages found, best first, a new buffer keeps; a negative number if that leaves none out."""
    if best.size < search_limit(k, policy):
        return -best.size  # there are no others
    if policy.strategy == COST and policy.spare:
        return worth_keeping(k, best.size, cost)
    if policy.strategy == RANGE and policy.spare:
        return worth_covering(k, best.size, cost)
    n = best.size
    if policy.strategy == RATIO and policy.spare:
        bar = best[k - 1].key - (1.0 - policy.share) * abs(best[k - 1].key)
        while n > k and best[n - 1].key < bar:
            n -= 1
    return n


@kernel
def keep_skyband(best: Array, lifetimes: Array, messages: Any, k: int, policy: Policy) -> Any:
    """Move the messages that may enter the result to the front of `best`, best first.

    Returns how many those are, and the rank and the slot of the best of the others, -inf if there are none. Writes
    beside them, to `lifetimes`, by how many each is outlived.

    Paper: [SKYPE] section 6.1, algorithm 2, line 6.
    """
    n = best.size
    for i in range(n):
        lifetimes[i].expires_at, lifetimes[i].n_outliving = messages.rows[best[i].slot].expires_at, 0
    if policy.drops:
        for i in range(n):
            sequence, until = best[i].sequence, lifetimes[i].expires_at
            n_outliving = 0
            for j in range(i):
                if lifetimes[j].expires_at >= until and (best[j].sequence > sequence or policy.newest == UNLIMITED):
                    n_outliving += 1
            lifetimes[i].n_outliving = n_outliving
    n_kept, dropped, message = 0, -np.inf, np.int64(-1)
    for i in range(n):
        if lifetimes[i].n_outliving < k:
            best[n_kept], lifetimes[n_kept] = best[i], lifetimes[i]
            n_kept += 1
        elif message < 0:
            dropped, message = best[i].key, np.int64(best[i].slot)
    return n_kept, dropped, message


@kernel
def position_of(results: ResultLayout, start: int, n: Any, first: int, message: int) -> Any:
    """Where a message stands among `n` entries, or `n`; looked for from `first` on, as most keep their order."""
    for i in range(n):
        position = first + i if first + i < n else first + i - n
        if results.entries[start + position].message == message:
            return position
    return n


@kernel
def replace(
    results: Any, messages: Any, slot: Any, best: Any, lifetimes: Any, event: Any, cost: Any, policy: Any
) -> None:
    """Give a subscription a new buffer after it was evaluated again.

    `best` are the messages found, best first, `key` being the rank: as many as `search_limit` says, or all there are;
    `cost` is what finding them cost. What was shown and is no longer among the first k is emitted with the rank it had.
    `room_to_replace` must hold. `best` is overwritten; `lifetimes` is scratch, and at least as long.

    Paper: [SKYPE] section 6.1, algorithm 2.
    """
    buffer = results.buffers[slot]
    n_kept = n_to_keep(buffer.k, best, cost, policy)
    if n_kept > 0:
        move_floor_to(results, messages.rows, slot, best[n_kept - 1].key, best[n_kept - 1].slot)
    else:
        forget_floor(results, slot)
    n_kept, dropped, message = keep_skyband(best[: abs(n_kept)], lifetimes, messages, buffer.k, policy)
    buffer.dropped = -np.inf
    if message >= 0:
        note_dropped(results, messages.rows, slot, dropped, message)
    size_class = class_to_take(results, initial_room(n_kept))
    start = new_block(results, size_class)
    for i in range(n_kept):
        entry = results.entries[start + i]
        entry.rank, entry.message = best[i].key, best[i].slot
        entry.mark = min(2 * lifetimes[i].n_outliving, MOST_MARK)
        entry.stamp = stamp_of(messages.rows[best[i].slot].sequence, policy.newest)
    n_shown, at = min(n_kept, np.int64(buffer.k)), 0
    for position in range(buffer.n_entries):
        old = results.entries[buffer.start + position]
        if old.mark & 1:
            at = position_of(results, start, n_shown, at, old.message)
            if at < n_shown:
                results.entries[start + at].mark |= 1
            else:
                emit(results, event, slot, old.message, -1, old.rank)
    results.counters[N_BUFFERED] += n_kept - buffer.n_entries
    take_entries(results, slot, start, size_class)
    buffer.n_entries = n_kept
    if policy.spare:
        watch_first(results, messages.rows, slot, policy)
    touch(results, slot, 0)
