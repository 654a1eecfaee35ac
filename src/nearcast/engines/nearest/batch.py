"""Verifies the candidates of a batch and offers them arrivals, event by event: kernels.

A **candidate batch** is a run of events whose candidates were found together, before any of them happened. Search
ranges that shrink meanwhile leave candidates that fail the floor; a range that grows, because its subscription was
evaluated again, is compared with the rest of the batch at once: its candidates from then on are its **extras**.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from nearcast.columns.arena import Array, Ints, Longs, record
from nearcast.columns.fields.conditions import NO_CONDITION, satisfies
from nearcast.columns.scores import gather, scatter
from nearcast.columns.subscription_tables import ENDED, PointLayout
from nearcast.engines.exact import ALL_WORDS, NO_MATCH, negative_distance
from nearcast.engines.kept.engine import (
    FIND,
    FIND_ROOM,
    FOLLOW,
    PHASE,
    SEEKING,
    STEP,
    BatchInput,
    Found,
    message_of,
    note_found,
    run_events,
)
from nearcast.engines.kept.layout import LINE, MOVED, N_TOUCHED, ResultLayout
from nearcast.engines.kept.skyband import Policy
from nearcast.engines.nearest.search_range import draw_box, level_of
from nearcast.held import opened
from nearcast.jit import NEED_ROOM, kernel, prefetch
from nearcast.space.distance import EUCLIDEAN, wrap
from nearcast.window.read_ahead import prefetch_record

NOBODY = -1
PAIR, VERIFIED, N_MOVED, N_PAIRS = range(4)  # positions in `read`
N_READ = 4
_SLOT = 0xFFFFFFFF  # bits of a pair

_AHEAD = 6  # candidates, of this event and those to come, between the steps of reading ahead

EXTRA = record(("slot", "i4"), ("widened", "i4"), ("next", "i4"))


class CandidateBatch(NamedTuple):
    """Candidates of a run of events: for what arrives in each, or those who may hold what is withdrawn."""

    pairs: Longs  # int64[]: event << 32 | slot, sorted; equal ones count once
    read: Longs  # int64[N_READ]: the pair to go on with, and how many were verified, have moved, and are there
    first_extras: Ints  # int32[n_events]: the first extra of each event, or NOBODY
    extras: Array  # EXTRA[]
    widened: Ints  # int32[n_slots]: number of its last growth in the batch, 0 for none; nothing before the first growth
    moved: Ints  # int32[n]: subscriptions whose ranges shrank, some more than once; those that have grown left out
    end: int  # the event after the last one


class DeepestLevels(NamedTuple):
    """Levels of the finest cells."""

    all_words: int
    any_word: int


@kernel
def list_candidates(candidates: CandidateBatch, event: int, found: Found) -> int:
    """Write the candidates of an event, each once; returns how many, or NEED_ROOM."""
    pairs, extras, widened, slots = candidates.pairs, candidates.extras, candidates.widened, found.slots
    n, at = 0, candidates.read[PAIR]
    while at < candidates.read[N_PAIRS] and pairs[at] >> 32 <= event:
        slot = pairs[at] & _SLOT
        if (at == 0 or pairs[at - 1] != pairs[at]) and (widened.size == 0 or widened[slot] == 0):
            if n == slots.size:
                return NEED_ROOM
            slots[n] = slot
            n += 1
        at += 1
    extra = candidates.first_extras[event]
    while extra != NOBODY:
        slot = extras[extra].slot
        if extras[extra].widened == widened[slot]:
            if n == slots.size:
                return NEED_ROOM
            slots[n] = slot
            n += 1
        extra = extras[extra].next
    candidates.read[PAIR] = at
    candidates.read[VERIFIED] += n
    return n


@kernel
def fetch_from(entries: Array, buffer: Any, rank: float) -> None:
    """Have a buffer read ahead from about where a message belongs: as many are as near as their ball is large."""
    share = rank / buffer.floor if buffer.floor < 0.0 else 0.0
    first = buffer.start + np.int64(buffer.n_entries * share * share) - LINE
    for at in range(max(np.int64(buffer.start), first), buffer.start + buffer.n_entries, LINE):
        prefetch(entries, at)


@kernel
def verify_candidates(
    batch: BatchInput, event: int, slot: int, n_candidates: int, coming: Longs, results: ResultLayout, found: Found
) -> int:
    """Keep those of the candidates that want, or hold, a message, and how they rank it; returns how many.

    `coming` are the pairs from the first of this event on. What the next of them will touch is read ahead, what names
    other places first: an event has few candidates, so that most would wait for memory if each event began again.
    """
    rows, terms, idf, dense = batch.subscriptions.rows, batch.subscriptions.terms, batch.idf, batch.dense
    words, buffers, entries = batch.messages.terms, results.buffers, results.entries
    slots, ranks, metric = found.slots, found.ranks, batch.space.metric
    message_slot, message, clock = slot, batch.messages.rows[slot], batch.steps.clocks[event]
    conditions, fields = batch.subscriptions.conditions, batch.messages.fields
    scatter(words, batch.messages.counts, message.term_start, message.n_terms, idf, dense)
    n = 0
    for i in range(n_candidates):
        if i + 2 * _AHEAD < coming.size:
            later = coming[i + 2 * _AHEAD] & _SLOT
            prefetch_record(rows, later)
            prefetch_record(buffers, later)
        if i + _AHEAD < coming.size:
            prefetch(terms, rows[coming[i + _AHEAD] & _SLOT].term_start)
        slot = slots[i]
        row = rows[slot]
        if row.expires <= clock:
            continue
        value = negative_distance(terms, row, message, metric, idf, dense)
        if value != NO_MATCH and value >= buffers[slot].floor:
            if row.condition != NO_CONDITION and not satisfies(conditions, row.condition, fields, message_slot):
                continue
            slots[n], ranks[n] = slot, value
            n += 1
            fetch_from(entries, buffers[slot], value)
    gather(words, message.term_start, message.n_terms, dense)
    return n


@kernel
def note_moved(results: ResultLayout, candidates: CandidateBatch) -> None:
    """Note whose ranges have moved in the event under way."""
    read, widened = candidates.read, candidates.widened
    for slot in results.touched[: results.counters[N_TOUCHED]]:
        if results.buffers[slot].touched & MOVED and (widened.size == 0 or widened[slot] == 0):
            candidates.moved[read[N_MOVED]] = slot
            read[N_MOVED] += 1


@kernel
def take_events(
    batch: BatchInput, candidates: Any, holders: Any, cursor: Longs, found: Found, results: ResultLayout, policy: Any
) -> int:
    """Take events from the cursor on into the results, until the batch is DONE or something is missing; call again."""
    while True:
        task = run_events(batch, candidates.end, cursor, found, results, policy)
        if task == FIND:
            sought = holders if cursor[PHASE] == SEEKING else candidates
            coming = sought.pairs[sought.read[PAIR] : sought.read[N_PAIRS]]
            n = list_candidates(sought, cursor[STEP], found)
            if n == NEED_ROOM:
                return FIND_ROOM
            if n > 0:
                n = verify_candidates(batch, cursor[STEP], message_of(batch, cursor), n, coming, results, found)
            note_found(cursor, n)
        elif task == FOLLOW:
            note_moved(results, candidates)
        else:
            return task


class EventCall(NamedTuple):
    """All that `take_events` reads and writes."""

    batch: BatchInput
    candidates: CandidateBatch
    holders: CandidateBatch
    cursor: Longs
    found: Found
    results: ResultLayout
    policy: Policy


@kernel
def take_held(held: Any) -> int:
    """`take_events` for a `Held` call."""
    call = opened(held)
    return take_events(call.batch, call.candidates, call.holders, call.cursor, call.found, call.results, call.policy)


@kernel
def may_hold(words: Ints, message: Any, subscriptions: PointLayout, row: Any) -> bool:
    """Does a message hold all, or any, of a subscription's words?"""
    n_met = 0
    for i in range(row.term_start, row.term_start + row.n_terms):
        for j in range(message.term_start, message.term_start + message.n_terms):
            if words[j] == subscriptions.terms[i]:
                n_met += 1
                break
    return n_met == row.n_terms or (n_met > 0 and row.mode != ALL_WORDS)


@kernel
def add_extras(
    batch: BatchInput,
    candidates: CandidateBatch,
    coming: Ints,
    filed: Array,
    slot: int,
    version: int,
    event: int,
    n_extras: int,
) -> int:
    """A range has grown: file the messages after `event` that it holds as extras; returns their number, or NEED_ROOM.

    `coming` are the messages by event: those that arrive, or those that are withdrawn. The box of the subscription must
    be that of the new range.

    Paper: [CKQST] section 3.5, algorithm 2 takes search ranges as they were before the batch.
    Departs: a refill in the middle of a batch widens a range, so what is left of the batch is compared with it.
    """
    own, row = filed[slot], batch.subscriptions.rows[slot]
    rows, words = batch.messages.rows, batch.messages.terms
    if n_extras + candidates.end - event > candidates.extras.size:
        return NEED_ROOM
    candidates.widened[slot] = version
    for later in range(event + 1, candidates.end):
        if coming[later] < 0:
            continue
        message = rows[coming[later]]
        x = message.x if batch.space.metric == EUCLIDEAN else wrap(message.x)
        if not (own.x0 <= x <= own.x1 and own.y0 <= message.y <= own.y1):
            continue
        if may_hold(words, message, batch.subscriptions, row):
            extra = candidates.extras[n_extras]
            extra.slot, extra.widened, extra.next = slot, version, candidates.first_extras[later]
            candidates.first_extras[later] = n_extras
            n_extras += 1
    return n_extras


@kernel
def redraw_boxes(
    filed: Array,
    subscriptions: PointLayout,
    buffers: Array,
    slots: Ints,
    space: Any,
    deepest: DeepestLevels,
    moved: Ints,
) -> int:
    """Draw boxes again; writes those that have shrunk so far as to belong in finer cells, each once; returns how many.

    `slots` may name a subscription more than once, and some that are gone.
    """
    n = 0
    for i in range(slots.size):
        if i + _AHEAD < slots.size:
            prefetch_record(subscriptions.rows, slots[i + _AHEAD])
            prefetch_record(filed, slots[i + _AHEAD])
            prefetch_record(buffers, slots[i + _AHEAD])
        slot = slots[i]
        row, own = subscriptions.rows[slot], filed[slot]
        if (i > 0 and slots[i - 1] == slot) or row.expires == ENDED:
            continue
        if not draw_box(own, space.metric, row.x, row.y, buffers[slot].floor):
            continue
        finest = deepest.all_words if row.mode == ALL_WORDS else deepest.any_word
        if level_of(own, space.metric, row.x, row.y, space.bounds, finest) > own.level:
            moved[n] = slot
            n += 1
    return n
