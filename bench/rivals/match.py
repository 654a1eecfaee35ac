"""Arrivals and the lists that each must look into go in; matches come out."""

from __future__ import annotations

from typing import NamedTuple

from bench.rivals.clauses import SURE, first_clause, well_inside
from bench.rivals.lists import NOT_THERE, find_head
from nearcast.columns.arena import Array, Ints, Longs
from nearcast.columns.fields.conditions import NO_CONDITION, satisfies
from nearcast.columns.regions import BOX
from nearcast.columns.subscription_tables import in_region
from nearcast.jit import kernel
from nearcast.space.regions import in_box

TOUCHED, VERIFIED, MATCHED = range(3)  # positions in the counters


class Probes(NamedTuple):
    """Which lists each event must look into."""

    starts: Longs  # int64[n_events + 1]
    keys: Longs  # int64[]
    heads: Longs  # int64[]: scratch, as long as the keys of an event can be


class Work(NamedTuple):
    """Scratch, room for matches, and counters."""

    present: Array  # uint8[n_terms]: 1 for the words of the message at hand
    events: Ints  # int32[n]
    slots: Ints  # int32[n]
    counters: Longs  # TOUCHED, VERIFIED, MATCHED


@kernel
def mark(messages, message, value, present):
    """Set or clear the words of a message."""
    for i in range(message.term_start, message.term_start + message.n_terms):
        present[messages.terms[i]] = value


@kernel
def satisfied(subscriptions, slot, fields, message):
    """Do the fields of a message satisfy the condition of a subscription, if it has one?"""
    condition = subscriptions.rows[slot].condition
    return condition == NO_CONDITION or satisfies(subscriptions.conditions, condition, fields, message)


@kernel
def verify(subscriptions, slot, tag, metric, x, y, clock, present):
    """Does the message match the subscription, by this clause first? Exact, but for its condition."""
    row = subscriptions.rows[slot]
    if row.expires <= clock:
        return False
    if row.region_kind == BOX:
        if not in_box(row.x0, row.y0, row.x1, row.y1, x, y):
            return False
    elif not in_region(subscriptions, slot, metric, x, y):
        return False
    return first_clause(subscriptions.clauses, row.clause_start, row.clause_size, present) == tag


@kernel
def match_many(steps, first, messages, subscriptions, metric, probes, lists, work):
    """Write who matches the arrivals from event `first` on; returns the event to go on with and the number written."""
    n = 0
    present, counters = work.present, work.counters
    for event in range(first, steps.arrivals.size):
        if steps.arrivals[event] < 0:
            continue
        message = messages.rows[steps.arrivals[event]]
        x, y = message.x, message.y
        n_heads = 0
        for i in range(probes.starts[event], probes.starts[event + 1]):
            at = find_head(lists.heads, probes.keys[i])
            if at != NOT_THERE:
                probes.heads[n_heads] = at
                n_heads += 1
        mark(messages, message, 1, present)
        n_before, n_verified, n_touched, is_full = n, 0, 0, False
        for i in range(n_heads):
            head = lists.heads[probes.heads[i]]
            n_touched += head.n
            if n + head.n > work.slots.size:
                is_full = True
                break
            for row in range(head.start, head.start + head.n):
                entry = lists.rows[row]
                if not (entry.x0 <= x <= entry.x1 and entry.y0 <= y <= entry.y1):
                    continue
                if present[entry.second] == 0 or present[entry.third] == 0:
                    continue
                n_verified += 1
                if (entry.tag & SURE and well_inside(entry, x, y)) or (
                    verify(subscriptions, entry.slot, entry.tag & ~SURE, metric, x, y, steps.clocks[event], present)
                    and satisfied(subscriptions, entry.slot, messages.fields, steps.arrivals[event])
                ):
                    work.events[n], work.slots[n] = event, entry.slot
                    n += 1
        mark(messages, message, 0, present)
        if is_full:
            return event, n_before
        counters[TOUCHED] += n_touched
        counters[VERIFIED] += n_verified
        counters[MATCHED] += n - n_before
    return steps.arrivals.size, n
