"""Candidates are offered to results, event by event: who may be concerned comes in, what changed is said.

A **turn** is a run of events whose candidates were found together, before any of them happened. Balls that shrink
during the turn leave candidates that fail the floor; a ball that grows, because its result was evaluated anew, is
compared with the rest of the turn at once: its candidates from then on are its **extras**.
"""

from __future__ import annotations

from typing import NamedTuple

from nearcast.columns.arena import Array, Floats, Ints, Longs, record
from nearcast.columns.messages import MessageLayout
from nearcast.columns.scores import gather, scatter
from nearcast.columns.subscriptions import PointLayout
from nearcast.engines.checks import ALL_WORDS, NEAREST, NO_MATCH, rank
from nearcast.engines.reach import above, draw_box, level_of
from nearcast.engines.results import N_CHANGES, N_TOUCHED, has_room, is_short, leave, n_leaving, n_unsaid, offer, settle
from nearcast.jit import NEED_ROOM, kernel
from nearcast.space.distance import EUCLIDEAN, wrap
from nearcast.window.window import Steps

DONE = 0
SHORT = 1  # touched subscriptions need a refill before the event can be settled
LEAVING, ARRIVING, FILLING, SETTLING = range(4)  # phases of an event
STEP, PHASE, POSITION, PAIR, EXTRA, VERIFIED = range(6)  # positions in a cursor
N_CURSOR = 6
NOBODY = -1

EXTRA_ROW = record(("slot", "i4"), ("widened", "i4"), ("next", "i4"))


class Scene(NamedTuple):
    """What is read while events happen."""

    steps: Steps
    messages: MessageLayout
    subscriptions: PointLayout
    filed: Array  # FILED[n_slots]
    idf: Floats
    dense: Floats  # scratch, zeros
    where: tuple[int, float]  # metric and max_distance


class Turn(NamedTuple):
    """Candidates of a run of events."""

    pairs: Longs  # int64[n]: event << 32 | slot, sorted; equal ones count once
    first_extras: Ints  # int32[n_events]: the first extra of each event, or NOBODY
    extras: Array  # EXTRA_ROW[]
    end: int  # the event after the last one


@kernel
def offer_one(scene, slot, event, results, policy):
    """Offer the scattered arrival of an event to one subscription; returns NEED_ROOM if there was none."""
    row = scene.subscriptions.rows[slot]
    if row.number < 0 or row.expires <= scene.steps.clocks[event]:
        return DONE
    arrival = scene.steps.arrivals[event]
    message = scene.messages.rows[arrival]
    value = rank(NEAREST, scene.subscriptions, slot, message, scene.where, scene.idf, scene.dense)
    if value == NO_MATCH or value < results.buffers[slot].floor:
        return DONE
    if not has_room(results, slot):
        return NEED_ROOM
    offer(results, scene.messages, slot, arrival, value, event, policy)
    return DONE


@kernel
def offer_all(scene, turn, cursor, event, results, policy):
    """Offer the arrival of an event to its candidates, from the cursor on; NEED_ROOM stops before one."""
    message = scene.messages.rows[scene.steps.arrivals[event]]
    words, counts = scene.messages.terms, scene.messages.counts
    scatter(words, counts, message.term_start, message.n_terms, scene.idf, scene.dense)
    code = DONE
    pairs = turn.pairs
    while cursor[PAIR] < pairs.size and pairs[cursor[PAIR]] >> 32 == event:
        at = cursor[PAIR]
        slot = pairs[at] & 0xFFFFFFFF
        if (at == 0 or pairs[at - 1] != pairs[at]) and scene.filed[slot].widened == 0:
            cursor[VERIFIED] += 1
            code = offer_one(scene, slot, event, results, policy)
            if code == NEED_ROOM:
                break
        cursor[PAIR] += 1
    if code == DONE:
        if cursor[EXTRA] == NOBODY:
            cursor[EXTRA] = turn.first_extras[event]
        while cursor[EXTRA] != NOBODY:
            extra = turn.extras[cursor[EXTRA]]
            if extra.widened == scene.filed[extra.slot].widened:
                cursor[VERIFIED] += 1
                code = offer_one(scene, extra.slot, event, results, policy)
                if code == NEED_ROOM:
                    break
            cursor[EXTRA] = extra.next
    gather(words, message.term_start, message.n_terms, scene.dense)
    return code


@kernel
def keep_turn(scene, turn, cursor, results, policy):
    """Take the events of a turn from the cursor on into the results, until DONE, NEED_ROOM or SHORT; call again."""
    counters, steps = results.counters, scene.steps
    while cursor[STEP] < turn.end:
        event = cursor[STEP]
        if cursor[PHASE] == LEAVING:
            while cursor[POSITION] < steps.expired_start[event + 1] - steps.expired_start[event]:
                message = steps.expired[steps.expired_start[event] + cursor[POSITION]]
                if counters[N_CHANGES] + n_leaving(results, message) > results.changes.size:
                    return NEED_ROOM
                leave(results, scene.subscriptions, message, event, steps.clocks[event])
                cursor[POSITION] += 1
            cursor[PHASE], cursor[EXTRA] = ARRIVING, NOBODY
        if cursor[PHASE] == ARRIVING:
            if steps.arrivals[event] >= 0 and offer_all(scene, turn, cursor, event, results, policy) == NEED_ROOM:
                return NEED_ROOM
            cursor[PHASE] = FILLING
        if cursor[PHASE] == FILLING:
            cursor[PHASE] = SETTLING
            for i in range(counters[N_TOUCHED]):
                if is_short(results, results.touched[i]):
                    return SHORT
        if counters[N_CHANGES] + n_unsaid(results) > results.changes.size:
            return NEED_ROOM
        settle(results, event)
        cursor[STEP], cursor[PHASE], cursor[POSITION] = event + 1, LEAVING, 0
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
    own.widened = version
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
    """Draw boxes anew where floors have changed; writes those that belong in finer cells, each once, returns how many.

    `where` is metric and bounds; `slots` may name a subscription more than once, and some that are gone.
    """
    metric, bounds = where
    n = 0
    for slot in slots:
        row, own = subscriptions.rows[slot], filed[slot]
        own.widened = 0
        floor = buffers[slot].floor
        if row.number < 0 or own.reach == above(-floor):
            continue
        draw_box(own, metric, row.x, row.y, floor)
        if level_of(own, metric, row.x, row.y, bounds, deepest) > own.level:
            moved[n] = slot
            n += 1
    return n
