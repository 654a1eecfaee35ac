"""Candidates are offered to results, event by event: who may be concerned comes in, what changed is said.

A **turn** is a run of events whose candidates were found together, before any of them happened. Balls that shrink
during the turn leave candidates that fail the floor; a ball that grows, because its result was evaluated anew, is
compared with the rest of the turn at once: its candidates from then on are its **extras**.
"""

from __future__ import annotations

from typing import NamedTuple

from nearcast.columns.arena import Array, Floats, Ints, Longs, record
from nearcast.columns.message_table import MessageLayout
from nearcast.columns.scores import gather, scatter
from nearcast.columns.subscription_tables import ENDED, PointLayout
from nearcast.engines.exact import ALL_WORDS, NO_MATCH, nearness
from nearcast.engines.kept.buffers import LINE, MOVED, N_TOUCHED
from nearcast.engines.kept.engine import (
    DONE,
    FIND_ROOM,
    FINDING,
    LEAVING,
    PHASE,
    STEP,
    end_event,
    keep_found,
    leave_expired,
    note_found,
)
from nearcast.engines.nearest.search_range import draw_box, level_of
from nearcast.jit import NEED_ROOM, kernel, prefetch
from nearcast.space.distance import EUCLIDEAN, wrap
from nearcast.space.space import SpaceInput
from nearcast.window.live import Steps

NOBODY = -1
PAIR, VERIFIED, N_MOVED = range(3)  # positions in `read`
N_READ = 3

_AHEAD = 6  # candidates whose rows are read ahead

EXTRA = record(("slot", "i4"), ("widened", "i4"), ("next", "i4"))


class Scene(NamedTuple):
    """What is read while events happen."""

    steps: Steps
    messages: MessageLayout
    subscriptions: PointLayout
    filed: Array  # FILED[n_slots]
    widened: Ints  # int32[n_slots]: number of its last growth in the turn, 0 for none; nothing before the first growth
    idf: Floats
    dense: Floats  # scratch, zeros
    where: SpaceInput


class Turn(NamedTuple):
    """Candidates of a run of events."""

    pairs: Longs  # int64[n]: event << 32 | slot, sorted; equal ones count once
    read: Longs  # int64[N_READ]: the pair to go on with, and how many were verified, and have moved
    first_extras: Ints  # int32[n_events]: the first extra of each event, or NOBODY
    extras: Array  # EXTRA[]
    moved: Ints  # int32[n]: subscriptions whose balls shrank, some more than once; those that have grown left out
    end: int  # the event after the last one


@kernel
def list_candidates(scene, turn, event, found):
    """Write the candidates of an event, each once; returns how many, or NEED_ROOM."""
    pairs, widened, slots = turn.pairs, scene.widened, found.slots
    n, at = 0, turn.read[PAIR]
    while at < pairs.size and pairs[at] >> 32 <= event:
        slot = pairs[at] & 0xFFFFFFFF
        if (at == 0 or pairs[at - 1] != pairs[at]) and (widened.size == 0 or widened[slot] == 0):
            if n == slots.size:
                return NEED_ROOM
            slots[n] = slot
            n += 1
        at += 1
    extra = turn.first_extras[event]
    while extra != NOBODY:
        slot = turn.extras[extra].slot
        if turn.extras[extra].widened == widened[slot]:
            if n == slots.size:
                return NEED_ROOM
            slots[n] = slot
            n += 1
        extra = turn.extras[extra].next
    turn.read[PAIR] = at
    turn.read[VERIFIED] += n
    return n


@kernel
def verify_all(scene, event, n_candidates, results, found):
    """Keep those of the candidates that want the arrival of an event, and how they rank it; returns how many."""
    rows, terms, idf, dense, metric = (
        scene.subscriptions.rows, scene.subscriptions.terms, scene.idf, scene.dense, scene.where[0],
    )  # fmt: skip
    words, buffers, entries, slots, ranks = (
        scene.messages.terms,
        results.buffers,
        results.entries,
        found.slots,
        found.ranks,
    )
    message, clock = scene.messages.rows[scene.steps.arrivals[event]], scene.steps.clocks[event]
    scatter(words, scene.messages.counts, message.term_start, message.n_terms, idf, dense)
    n = 0
    for i in range(n_candidates):
        if i + 2 * _AHEAD < n_candidates:
            for part in range(2):  # a record, and the next one's beginning: it often ends in that line
                prefetch(rows, slots[i + 2 * _AHEAD] + part)
                prefetch(buffers, slots[i + 2 * _AHEAD] + part)
        if i + _AHEAD < n_candidates:
            buffer = buffers[slots[i + _AHEAD]]
            prefetch(terms, rows[slots[i + _AHEAD]].term_start)
            for at in range(buffer.start, buffer.start + buffer.n_entries, LINE):
                prefetch(entries, at)
        slot = slots[i]
        row = rows[slot]
        if row.expires <= clock:
            continue
        value = nearness(terms, row, message, metric, idf, dense)
        if value != NO_MATCH and value >= buffers[slot].floor:
            slots[n], ranks[n] = slot, value
            n += 1
    gather(words, message.term_start, message.n_terms, dense)
    return n


@kernel
def note_moved(results, widened, turn):
    """Note whose balls have moved in the event under way."""
    read = turn.read
    for slot in results.touched[: results.counters[N_TOUCHED]]:
        if results.buffers[slot].touched & MOVED and (widened.size == 0 or widened[slot] == 0):
            turn.moved[read[N_MOVED]] = slot
            read[N_MOVED] += 1


@kernel
def keep_turn(scene, turn, cursor, found, results, policy):
    """Take the events of a turn from the cursor on into the results, until DONE or something is missing; call again."""
    steps = scene.steps
    while cursor[STEP] < turn.end:
        event = cursor[STEP]
        if cursor[PHASE] == LEAVING:
            code = leave_expired(steps, cursor, scene.messages, scene.subscriptions, results, policy)
            if code != DONE:
                return code
        if cursor[PHASE] == FINDING:
            n = 0
            if steps.arrivals[event] >= 0:
                n = list_candidates(scene, turn, event, found)
                if n == NEED_ROOM:
                    return FIND_ROOM
                if n > 0:
                    n = verify_all(scene, event, n, results, found)
            note_found(cursor, n)
        code = keep_found(steps, cursor, scene.messages, found, results, policy)
        if code != DONE:
            return code
        note_moved(results, scene.widened, turn)
        end_event(cursor, results)
    return DONE


@kernel
def may_hold(words, message, subscriptions, row):
    """Does a message hold all, or any, of a subscription's words?"""
    n_met = 0
    for i in range(row.term_start, row.term_start + row.n_terms):
        for j in range(message.term_start, message.term_start + message.n_terms):
            if words[j] == subscriptions.terms[i]:
                n_met += 1
                break
    return n_met == row.n_terms or (n_met > 0 and row.mode != ALL_WORDS)


@kernel
def add_extras(scene, turn, slot, version, event, n_extras):
    """A ball has grown: file the arrivals after `event` that it holds as extras; returns their number, or NEED_ROOM.

    The box of the subscription must be that of the new ball.

    Paper: [CKQST] section 3.5, algorithm 2 takes search ranges as they were before the batch.
    Departs: a refill in the midst of a batch widens a range, so what is left of the batch is compared with it.
    """
    own, row = scene.filed[slot], scene.subscriptions.rows[slot]
    rows, words = scene.messages.rows, scene.messages.terms
    if n_extras + turn.end - event > turn.extras.size:
        return NEED_ROOM
    scene.widened[slot] = version
    for later in range(event + 1, turn.end):
        if scene.steps.arrivals[later] < 0:
            continue
        message = rows[scene.steps.arrivals[later]]
        x = message.x if scene.where[0] == EUCLIDEAN else wrap(message.x)
        if not (own.x0 <= x <= own.x1 and own.y0 <= message.y <= own.y1):
            continue
        if may_hold(words, message, scene.subscriptions, row):
            extra = turn.extras[n_extras]
            extra.slot, extra.widened, extra.next = slot, version, turn.first_extras[later]
            turn.first_extras[later] = n_extras
            n_extras += 1
    return n_extras


@kernel
def follow(filed, subscriptions, buffers, slots, where, deepest, moved):
    """Draw boxes anew; writes those that have shrunk so far as to belong in finer cells, each once, returns how many.

    `where` is metric and bounds, `deepest` the level of the finest cells for all words and for any word. `slots` may
    name a subscription more than once, and some that are gone.
    """
    metric, bounds = where
    n = 0
    for i in range(slots.size):
        slot = slots[i]
        row, own = subscriptions.rows[slot], filed[slot]
        if (i > 0 and slots[i - 1] == slot) or row.expires == ENDED:
            continue
        if not draw_box(own, metric, row.x, row.y, buffers[slot].floor):
            continue
        if level_of(own, metric, row.x, row.y, bounds, deepest[row.mode]) > own.level:
            moved[n] = slot
            n += 1
    return n
