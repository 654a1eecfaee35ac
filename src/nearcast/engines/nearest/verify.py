"""Verifies candidates: does a message hold the words of a subscription, and how near is it: kernels."""

from __future__ import annotations

from typing import Any

import numpy as np

from nearcast.columns.arena import Array, Floats, Ints, Longs
from nearcast.columns.fields.conditions import NO_CONDITION, satisfies
from nearcast.engines.exact import ALL_WORDS, NO_MATCH, minus_distance
from nearcast.engines.kept.engine import BatchInput
from nearcast.engines.kept.layout import LINE, ResultLayout
from nearcast.engines.nearest.timeline import IN_MOMENT, LEFT, Timeline
from nearcast.jit import inlined, kernel, prefetch
from nearcast.space.distance import EUCLIDEAN, wrap

READ, VERIFIED, LAST, N_CHECKED = range(4)  # positions in `read`: keys read, and left over; the last key; candidates
N_READ = 4
NO_KEY = -1

_AHEAD = 8  # keys between the steps of reading ahead


@inlined
def may_hold(words: Ints, message: Any, terms: Ints, row: Any) -> Any:
    """Does a message hold all, or any, of a subscription's words?"""
    first, end = message.term_start, message.term_start + message.n_terms
    for i in range(row.term_start, row.term_start + row.n_terms):
        term, met = terms[i], False
        for j in range(first, end):
            if words[j] == term:
                met = True
                break
        if met != (row.mode == ALL_WORDS):
            return met
    return row.mode == ALL_WORDS


@inlined
def rank_of(batch: BatchInput, slot: int, message_slot: int, clock: int, floor: float) -> float:
    """Minus the distance of a message, or NO_MATCH if a subscription does not want it, or has ended."""
    subscriptions, messages = batch.subscriptions, batch.messages
    row, message = subscriptions.rows[slot], messages.rows[message_slot]
    if row.expires <= clock or not may_hold(messages.terms, message, subscriptions.terms, row):
        return NO_MATCH
    value = minus_distance(row, message, batch.space.metric)
    if value < floor:
        return NO_MATCH
    wanted = row.condition == NO_CONDITION
    if wanted or satisfies(subscriptions.conditions, row.condition, messages.fields, message_slot):
        return value
    return NO_MATCH


@kernel
def verify_slots(batch: BatchInput, message_slot: int, slots: Ints, results: ResultLayout, ranks: Floats) -> int:
    """Keep those of the subscriptions that want, or hold, the message of the first event; returns how many."""
    clock, n = batch.steps.clocks[0], 0
    for i in range(slots.size):
        value = rank_of(batch, slots[i], message_slot, clock, results.buffers[slots[i]].floor)
        if value != NO_MATCH:
            slots[n], ranks[n] = slots[i], value
            n += 1
    return n


@inlined
def fetch_keys(batch: BatchInput, keys: Longs, at: int, results: ResultLayout) -> None:
    """Have read ahead what the keys after a position will be verified by."""
    rows = batch.subscriptions.rows
    if at + 2 * _AHEAD < keys.size:
        slot = keys[at + 2 * _AHEAD] >> 32
        prefetch(rows, slot)
        prefetch(rows, slot + 1)  # a record often ends in the line of the next one
        prefetch(results.buffers, slot)
        prefetch(results.buffers, slot + 1)
        if results.watched.size > 0:
            prefetch(results.watched, slot)
    if at + _AHEAD < keys.size:
        prefetch(batch.subscriptions.terms, rows[keys[at + _AHEAD] >> 32].term_start)


@inlined
def fetch_entries(entries: Array, buffer: Any) -> None:
    """Have read ahead what a buffer holds."""
    for at in range(buffer.start, buffer.start + buffer.n_entries + 1, LINE):
        prefetch(entries, at)


@kernel
def verify_some(
    batch: BatchInput,
    timeline: Timeline,
    keys: Longs,
    ranks: Floats,
    read: Longs,
    n_more: int,
    results: ResultLayout,
) -> None:
    """Verify some more of the keys: those that are left over stand first among them, how they rank beside them.

    What leaves is left over, too, and equal keys count once. Floors only rise in the events to come, unless a
    subscription is evaluated again; then it gets keys of its own.
    """
    moments, clocks, n = timeline.moments, batch.steps.clocks, read[VERIFIED]
    end = min(keys.size, read[READ] + n_more)
    for at in range(read[READ], end):
        fetch_keys(batch, keys, at, results)
        key = keys[at]
        if key == read[LAST]:
            continue
        read[LAST] = key
        slot, moment = key >> 32, moments[key & IN_MOMENT]
        buffer, value = results.buffers[slot], 0.0
        if moment.kind != LEFT:
            read[N_CHECKED] += 1
            value = rank_of(batch, slot, moment.message, clocks[moment.event], buffer.floor)
            if value == NO_MATCH:
                continue
        fetch_entries(results.entries, buffer)
        keys[n], ranks[n] = key, value
        n += 1
    read[READ], read[VERIFIED] = end, n


@kernel
def key_rest(batch: BatchInput, timeline: Timeline, filed: Array, slot: int, event: int, keys: Longs) -> int:
    """A range has grown in an event: write keys of all that it holds in the events after that; returns how many.

    The box of the subscription must be that of the new range.

    Paper: [CKQST] section 3.5, algorithm 2 takes search ranges as they were before the batch.
    Departs: a refill in the midst of a batch widens a range, so what is left of the batch is compared with it.
    """
    own, rows, n = filed[slot], batch.messages.rows, 0
    for at in range(timeline.starts[event + 1 - timeline.first], timeline.moments.size):
        moment = timeline.moments[at]
        if moment.kind == LEFT:
            continue
        message = rows[moment.message]
        x = message.x if batch.space.metric == EUCLIDEAN else wrap(message.x)
        if own.x0 <= x <= own.x1 and own.y0 <= message.y <= own.y1:
            keys[n] = np.int64(slot) << 32 | at
            n += 1
    return n
