"""Checks every arrival against every subscription: the filter that filters nothing."""

from __future__ import annotations

from typing import Any, NamedTuple

from nearcast.columns.arena import Floats, Ints, Longs
from nearcast.columns.fields.conditions import NO_CONDITION, satisfies
from nearcast.columns.regions import CIRCLE
from nearcast.columns.scores import gather, scatter, shares_word
from nearcast.engines.exact import NO_MATCH, rank, similarity, within_matches
from nearcast.engines.kept.engine import FIND, FIND_ROOM, FOLLOW, STEP, BatchInput, message_of, note_found, run_events
from nearcast.jit import NEED_ROOM, kernel
from nearcast.space.regions import in_box


class Matches(NamedTuple):
    """Room for matches of arrivals."""

    events: Ints  # int32[n]
    slots: Ints  # int32[n]
    scores: Floats  # float64[n]


@kernel
def match_within(
    steps: Any, first: int, messages: Any, subscriptions: Any, space: Any, idf: Floats, dense: Floats, out: Any
) -> Any:
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
            if row.expires <= steps.clocks[event]:
                continue
            # Handing a layout to a check costs 50 ns (2026-11-15), so what most subscriptions fail is asked right here.
            if row.region_kind != CIRCLE and not in_box(row.x0, row.y0, row.x1, row.y1, message.x, message.y):
                continue
            if row.condition != NO_CONDITION and not satisfies(
                subscriptions.conditions, row.condition, messages.fields, slot
            ):
                continue
            if within_matches(subscriptions, subscription, message, space, dense):
                out.events[n], out.slots[n], out.scores[n] = event, subscription, float("nan")
                n += 1
        gather(messages.terms, message.term_start, message.n_terms, dense)
    return steps.arrivals.size, n


@kernel
def match_similar(
    steps: Any, first: int, messages: Any, subscriptions: Any, space: Any, idf: Floats, dense: Floats, out: Any
) -> Any:
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
            if row.expires <= steps.clocks[event]:
                continue
            if row.condition != NO_CONDITION and not satisfies(
                subscriptions.conditions, row.condition, messages.fields, slot
            ):
                continue
            score = similarity(subscriptions, subscription, message, space, idf, dense)
            if score >= subscriptions.scales[subscription].tau:
                out.events[n], out.slots[n], out.scores[n] = event, subscription, score
                n += 1
        gather(messages.terms, message.term_start, message.n_terms, dense)
    return steps.arrivals.size, n


@kernel
def rank_one(kind: int, batch: BatchInput, event: int, message_slot: int, slot: int) -> Any:
    """How a subscription ranks a message whose words are scattered, or NO_MATCH."""
    subscriptions = batch.subscriptions
    row = subscriptions.rows[slot]
    if row.expires <= batch.steps.clocks[event]:
        return NO_MATCH
    if not shares_word(subscriptions.terms, row.term_start, row.n_terms, batch.dense):
        return NO_MATCH
    if row.condition != NO_CONDITION and not satisfies(
        subscriptions.conditions, row.condition, batch.messages.fields, message_slot
    ):
        return NO_MATCH
    message = batch.messages.rows[message_slot]
    return rank(kind, subscriptions, slot, message, batch.space, batch.idf, batch.dense)


@kernel
def find_everyone(kind: int, batch: BatchInput, event: int, message_slot: int, found: Any) -> Any:
    """Write every subscription that shares words with a message, as it asks for, and how it ranks the message.

    Returns how many there are, or NEED_ROOM.
    """
    messages, subscriptions, idf, dense = batch.messages, batch.subscriptions, batch.idf, batch.dense
    message = messages.rows[message_slot]
    if found.slots.size < subscriptions.rows.size:
        return NEED_ROOM
    n = 0
    scatter(messages.terms, messages.counts, message.term_start, message.n_terms, idf, dense)
    for slot in range(subscriptions.rows.size):
        value = rank_one(kind, batch, event, message_slot, slot)
        if value != NO_MATCH:
            found.slots[n], found.ranks[n] = slot, value
            n += 1
    gather(messages.terms, message.term_start, message.n_terms, dense)
    return n


@kernel
def find_among(kind: int, batch: BatchInput, event: int, message_slot: int, slots: Ints, found: Any) -> Any:
    """The same of these subscriptions alone; `found` has room for all of them."""
    messages, idf, dense = batch.messages, batch.idf, batch.dense
    message = messages.rows[message_slot]
    n = 0
    scatter(messages.terms, messages.counts, message.term_start, message.n_terms, idf, dense)
    for i in range(slots.size):
        value = rank_one(kind, batch, event, message_slot, slots[i])
        if value != NO_MATCH:
            found.slots[n], found.ranks[n] = slots[i], value
            n += 1
    gather(messages.terms, message.term_start, message.n_terms, dense)
    return n


@kernel
def take_events(kind: int, batch: Any, cursor: Longs, found: Any, results: Any, policy: Any) -> Any:
    """Take events from the cursor on into the results, until DONE or something is missing; then call again."""
    while True:
        task = run_events(batch, batch.steps.arrivals.size, cursor, found, results, policy)
        if task == FIND:
            n = find_everyone(kind, batch, cursor[STEP], message_of(batch, cursor), found)
            if n == NEED_ROOM:
                return FIND_ROOM
            note_found(cursor, n)
        elif task != FOLLOW:
            return task
