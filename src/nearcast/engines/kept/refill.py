"""Fills short buffers from the message index: subscriptions are evaluated again, as of an event."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from nearcast.columns.arena import Array, Floats, Ints, Longs
from nearcast.columns.message_table import MessageLayout
from nearcast.columns.scores import gather, mark, scatter
from nearcast.columns.subscription_tables import PointLayout
from nearcast.engines.exact import ALL_WORDS, FARTHEST, TOPK
from nearcast.engines.kept.buffers import room_to_replace
from nearcast.engines.kept.layout import N_REFILLS, AsOf, ResultLayout
from nearcast.engines.kept.skyband import Policy, replace, search_limit
from nearcast.jit import NEED_ROOM, kernel
from nearcast.space.distance import HAVERSINE, wrap
from nearcast.space.hilbert import grid_line, hilbert
from nearcast.window.index.query import ALL, ANY, BY_SCORE, LEAVES, NODES, POSTINGS, Moment, Question, SearchScratch
from nearcast.window.index.search import search
from nearcast.window.index.segments import Frame, IndexLayout

# What a search costs, in steps through a buffer: measured with a full window of a million messages, 480 us for 170
# nodes, 220 leaves and 11,300 postings (2026-11-16), at 10 ns a step.
_NODE_COST = 16
_POSTING_COST = 4
# A `TopK` search with a larger alpha stays near its place. With the others sorted by words 65,536 searches over a
# million messages took a tenth less than with all sorted by place (2026-11-18, on a busy machine; only 0.7 was tried).
_BY_PLACE = 0.7


class SearchInput(NamedTuple):
    """Everything that a search reads, and its scratch."""

    message_index: IndexLayout
    messages: MessageLayout
    n_live: int  # no more messages live than this
    idf: Floats
    dense: Floats  # float64[n_terms]: zeros between searches
    scratch: SearchScratch
    lifetimes: Array  # LIFETIME[]: scratch, one for each message that a search may find


@kernel
def cost_so_far(work: Longs) -> Any:
    """What all searches have cost, in steps through a buffer."""
    return _NODE_COST * (work[NODES] + work[LEAVES]) + _POSTING_COST * work[POSTINGS]


@kernel
def refill_many(
    kind: int,
    slots: Ints,
    first: int,
    subscriptions: PointLayout,
    search_input: SearchInput,
    as_of: AsOf,
    results: ResultLayout,
    policy: Policy,
) -> int:
    """Evaluate subscriptions again from position `first` on; returns the position at which there was no room."""
    messages, idf, dense = search_input.messages, search_input.idf, search_input.dense
    scratch, n_live = search_input.scratch, search_input.n_live
    work, best = scratch.work, scratch.best
    rows, scales, words, counts, conditions = subscriptions
    for i in range(first, slots.size):
        slot = slots[i]
        row = rows[slot]
        limit = min(search_limit(results.buffers[slot].k, policy), n_live)
        if not room_to_replace(results, slot, limit):
            return i
        before = cost_so_far(work)
        mode, alpha, norm = BY_SCORE, 0.0, 1.0
        if kind == TOPK:
            alpha, norm = scales[slot].alpha, scales[slot].norm
            scatter(words, counts, row.term_start, row.n_terms, idf, dense)
        else:
            mode = ALL if row.mode == ALL_WORDS else ANY
            mark(words, row.term_start, row.n_terms, dense)
        half_life = int(results.fading[slot].half_life) if results.buffers[slot].fades else 0
        question = Question(mode, row.x, row.y, limit, alpha, norm, row.condition, conditions, half_life)
        moment = Moment(as_of.last, as_of.clock, policy.newest, row.since)
        n = 0
        if n_live > 0:
            terms = words[row.term_start : row.term_start + row.n_terms]
            n = search(search_input.message_index, messages, idf, question, terms, dense, moment, scratch)
        gather(words, row.term_start, row.n_terms, dense)
        if n == NEED_ROOM:
            return i
        cost = float(cost_so_far(work) - before)
        if kind != TOPK:
            for j in range(n):
                best[j].key = -min(best[j].key, FARTHEST)
        replace(results, messages, slot, best[:n], search_input.lifetimes, as_of.event, cost, policy)
        results.counters[N_REFILLS] += 1
    return slots.size


@kernel
def place_codes(rows: Array, slots: Ints, frame: Frame, codes: Longs) -> None:
    """Write where along a curve each subscription lies."""
    for i in range(slots.size):
        row = rows[slots[i]]
        x = wrap(row.x) if frame.metric == HAVERSINE else row.x
        codes[i] = hilbert(grid_line(x, frame.x, frame.x_scale), grid_line(row.y, frame.y, frame.y_scale))


@kernel
def word_codes(subscriptions: PointLayout, slots: Ints, idf: Floats, codes: Longs) -> None:
    """Write a number for the two most frequent words of each `TopK` subscription, -1 if its place matters more."""
    for i in range(slots.size):
        codes[i] = -1
        if subscriptions.scales[slots[i]].alpha > _BY_PLACE:
            continue
        row = subscriptions.rows[slots[i]]
        first = second = -1
        for j in range(row.term_start, row.term_start + row.n_terms):
            term = int(subscriptions.terms[j])
            if first < 0 or idf[term] < idf[first]:
                first, second = term, first
            elif second < 0 or idf[term] < idf[second]:
                second = term
        codes[i] = (first << 32) + second


def sort_for_locality(kind: int, subscriptions: PointLayout, slots: Ints, frame: Frame, idf: Floats) -> Ints:
    """The slots in an order in which searches that follow one another read the same parts of the index.

    Neighbours along a curve, and of `TopK` those with the same frequent words before, unless place matters more.
    """
    places: Longs = np.zeros(slots.size, dtype=np.int64)
    place_codes(subscriptions.rows, slots, frame, places)
    if kind != TOPK:
        return slots[np.argsort(places, kind="stable")]
    words: Longs = np.zeros(slots.size, dtype=np.int64)
    word_codes(subscriptions, slots, idf, words)
    return slots[np.lexsort((places, words))]
