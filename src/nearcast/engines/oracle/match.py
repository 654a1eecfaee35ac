"""Every arrival against every subscription: the filter that filters nothing."""

from __future__ import annotations

from typing import NamedTuple

from nearcast.columns.arena import Floats, Ints
from nearcast.columns.scores import gather, scatter, shares_word
from nearcast.columns.shapes import CIRCLE
from nearcast.engines.checks import NO_MATCH, rank, similarity, within_matches
from nearcast.engines.results import N_CHANGES, N_TOUCHED, has_room, is_short, leave, n_leaving, n_unsaid, offer, settle
from nearcast.jit import NEED_ROOM, kernel
from nearcast.space.regions import in_box

DONE = 0
SHORT = 1  # touched subscriptions need a refill before the event can be settled
LEAVING, ARRIVING, FILLING, SETTLING = range(4)  # phases of an event
STEP, PHASE, POSITION = range(3)  # positions in a cursor


class Matches(NamedTuple):
    """Room for matches of arrivals."""

    events: Ints  # int32[n]
    slots: Ints  # int32[n]
    scores: Floats  # float64[n]


@kernel
def match_within(steps, first, messages, subscriptions, where, idf, dense, out):
    """Write who matches the arrivals from event `first` on; returns the event to go on with and the number written.

    Stops at the event for which there may be no room: every subscription could match it.
    """
    n = 0
    for event in range(first, steps.arrivals.size):
        slot = steps.arrivals[event]
        if slot < 0:
            continue
        if n + subscriptions.rows.size > out.slots.size:
            return event, n
        message = messages.rows[slot]
        scatter(messages.terms, messages.counts, message.term_start, message.n_terms, idf, dense)
        for subscription in range(subscriptions.rows.size):
            row = subscriptions.rows[subscription]
            if row.number < 0 or row.expires <= steps.clocks[event]:
                continue
            # Handing a layout to a check costs 50 ns (2026-11-15), so what most subscriptions fail is asked right here.
            if row.region_kind != CIRCLE and not in_box(row.x0, row.y0, row.x1, row.y1, message.x, message.y):
                continue
            if within_matches(subscriptions, subscription, message, where, dense):
                out.events[n], out.slots[n], out.scores[n] = event, subscription, float("nan")
                n += 1
        gather(messages.terms, message.term_start, message.n_terms, dense)
    return steps.arrivals.size, n


@kernel
def match_similar(steps, first, messages, subscriptions, where, idf, dense, out):
    """As `match_within`, for `Similar`."""
    n = 0
    for event in range(first, steps.arrivals.size):
        slot = steps.arrivals[event]
        if slot < 0:
            continue
        if n + subscriptions.rows.size > out.slots.size:
            return event, n
        message = messages.rows[slot]
        scatter(messages.terms, messages.counts, message.term_start, message.n_terms, idf, dense)
        for subscription in range(subscriptions.rows.size):
            row = subscriptions.rows[subscription]
            if row.number < 0 or row.expires <= steps.clocks[event]:
                continue
            score = similarity(subscriptions, subscription, message, where, idf, dense)
            if score >= row.tau:
                out.events[n], out.slots[n], out.scores[n] = event, subscription, score
                n += 1
        gather(messages.terms, message.term_start, message.n_terms, dense)
    return steps.arrivals.size, n


@kernel
def keep_arrival(kind, steps, event, first, messages, subscriptions, where, idf, dense, results, policy):
    """Offer an arrival to all subscriptions from `first` on; returns the one that found no room, or their number."""
    slot = steps.arrivals[event]
    message = messages.rows[slot]
    n = subscriptions.rows.size
    stopped = n
    scatter(messages.terms, messages.counts, message.term_start, message.n_terms, idf, dense)
    for subscription in range(first, n):
        row = subscriptions.rows[subscription]
        if row.number < 0 or row.expires <= steps.clocks[event]:
            continue
        if not shares_word(subscriptions.terms, row.term_start, row.n_terms, dense):
            continue
        value = rank(kind, subscriptions, subscription, message, where, idf, dense)
        if value == NO_MATCH:
            continue
        if not has_room(results, subscription):
            stopped = subscription
            break
        offer(results, messages, subscription, slot, value, event, policy)
    gather(messages.terms, message.term_start, message.n_terms, dense)
    return stopped


@kernel
def keep_steps(kind, steps, cursor, messages, subscriptions, where, idf, dense, results, policy):
    """Take events from the cursor on into the results, until DONE, or until NEED_ROOM or SHORT; then call again."""
    counters = results.counters
    while cursor[STEP] < steps.arrivals.size:
        event = cursor[STEP]
        if cursor[PHASE] == LEAVING:
            while cursor[POSITION] < steps.expired_start[event + 1] - steps.expired_start[event]:
                message = steps.expired[steps.expired_start[event] + cursor[POSITION]]
                if counters[N_CHANGES] + n_leaving(results, message) > results.changes.size:
                    return NEED_ROOM
                leave(results, subscriptions, message, event, steps.clocks[event])
                cursor[POSITION] += 1
            cursor[PHASE], cursor[POSITION] = ARRIVING, 0
        if cursor[PHASE] == ARRIVING:
            if steps.arrivals[event] >= 0:
                cursor[POSITION] = keep_arrival(
                    kind, steps, event, cursor[POSITION], messages, subscriptions, where, idf, dense, results, policy
                )
                if cursor[POSITION] < subscriptions.rows.size:
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
