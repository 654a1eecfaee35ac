"""Finds who matches a message, in a walk through both trees of regions: kernels.

A leaf is read in four steps: its lists give candidates, later words may filter them, then their places do, and what is
left is verified by its score.

STAMP algorithm 2.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from nearcast.columns.arena import Ints, Longs
from nearcast.columns.scores import gather, scatter
from nearcast.engines.similar.candidates import VERIFY, filter_by_levels, read_lists
from nearcast.engines.similar.layout import (
    ANYWHERE,
    FARTHEST,
    LEAF_AXIS,
    MARKS,
    N_ARRIVALS,
    N_LEAVES,
    N_PRUNED,
    NEAR,
    Matches,
    MatchInput,
    StampLayout,
    StampScratch,
)
from nearcast.engines.similar.prefixes import order_words
from nearcast.engines.similar.region_tree import inside, nearest_similarity
from nearcast.engines.similar.verify import filter_by_place, verify_candidates
from nearcast.held import opened
from nearcast.jit import NEED_ROOM, kernel
from nearcast.space.distance import HAVERSINE, cos_lat, wrap
from nearcast.space.hilbert import CURVE_BITS, grid_line, hilbert, squared_limit, to_point
from nearcast.text.similarity import WEIGHTED

_DROPPED_BITS = 2 * CURVE_BITS - 31  # of a position along the curve: the rest fits above an event


@kernel
def prepare_message(given: MatchInput, message: Any, event: int, clock: int, scratch: StampScratch) -> None:
    """Scatter a message, and write its words to `tokens`, heaviest first, like those of subscriptions."""
    messages, metric, max_distance = given.messages, given.space.metric, given.space.max_distance
    scatter(messages.terms, messages.counts, message.term_start, message.n_terms, given.idf, scratch.dense)
    order_words(messages.terms, message.term_start, message.n_terms, given.idf, WEIGHTED, scratch.words)
    for i in range(message.n_terms):
        scratch.tokens[i].term = scratch.words[i].term
        scratch.marks[scratch.words[i].term & (MARKS - 1)] = 1
    probe = scratch.probe[0]
    probe.event, probe.clock = event, clock
    probe.lon = wrap(message.x) if metric == HAVERSINE else message.x
    probe.lat, probe.cos_lat = message.y, cos_lat(message.y)
    probe.farthest = squared_limit(metric, max_distance) / 4.0 * (1.0 + 1e-9)
    probe.x, probe.y, probe.z = to_point(metric, message.x, message.y)
    probe.weight, probe.n_terms = message.weight, message.n_terms
    probe.metric, probe.max_distance = metric, max_distance
    for i in range(scratch.counters.size):
        scratch.before[i] = scratch.counters[i]


@kernel
def clear_message(given: MatchInput, message: Any, scratch: StampScratch) -> None:
    """Leave the scratch as it was before `prepare_message`."""
    gather(given.messages.terms, message.term_start, message.n_terms, scratch.dense)
    for i in range(message.n_terms):
        scratch.marks[scratch.tokens[i].term & (MARKS - 1)] = 0


@kernel
def visit_tree(
    root: int, index: StampLayout, given: MatchInput, message: Any, scratch: StampScratch, out: Matches, n: int
) -> int:
    """Write who in a tree of regions matches a message, from position n on; returns the end, or NEED_ROOM.

    Paper: [STAMP] algorithm 2.
    """
    probe, counters = scratch.probe[0], scratch.counters
    scratch.stack[0] = root
    depth = 1
    while depth > 0:
        depth -= 1
        node = index.nodes[scratch.stack[depth]]
        place = 1.0 if root == ANYWHERE else nearest_similarity(node, probe)
        if place <= 0.0 or place * FARTHEST < node.least or node.least == FARTHEST:
            counters[N_PRUNED] += 1
            continue
        if node.axis != LEAF_AXIS:
            scratch.stack[depth], scratch.stack[depth + 1] = node.high, node.low
            depth += 2
            continue
        leaf = index.leaves[node.leaf]
        is_inside = inside(leaf, probe.lon, probe.lat)
        n_chosen = read_lists(index, leaf, int(place * FARTHEST), is_inside, scratch)
        if probe.strategy != VERIFY:
            n_chosen = filter_by_levels(index, leaf, is_inside, n_chosen, scratch)
        n_near = filter_by_place(index, leaf, n_chosen, scratch)
        counters[N_LEAVES] += 1
        if n + n_near > out.slots.size:
            return NEED_ROOM
        n = verify_candidates(index, leaf, n_near, given, message, scratch, out, n)
    return n


@kernel
def place_keys(steps: Any, messages: Any, frame: Any, keys: Longs) -> int:
    """Write a key for each arrival that sorts them along a curve through the space, with its event in the low half.

    Returns how many there are.
    """
    n = 0
    for event in range(steps.arrivals.size):
        if steps.arrivals[event] < 0:
            continue
        message = messages.rows[steps.arrivals[event]]
        x = wrap(message.x) if frame.metric == HAVERSINE else message.x
        code = hilbert(grid_line(x, frame.x, frame.x_scale), grid_line(message.y, frame.y, frame.y_scale))
        keys[n] = code >> _DROPPED_BITS << 32 | event
        n += 1
    return n


@kernel
def match_steps(
    steps: Any, order: Ints, first: int, given: MatchInput, index: StampLayout, scratch: StampScratch, out: Matches
) -> tuple[int, int]:
    """Write who matches the arrivals of events, from position `first` of their order on.

    Returns the position to continue with, and the number written. Stops at the event for which there is no room; what
    was counted for it is taken back.
    """
    n = 0
    for at in range(first, order.size):
        event = order[at]
        message = given.messages.rows[steps.arrivals[event]]
        prepare_message(given, message, event, steps.clocks[event], scratch)
        scratch.probe[0].message = steps.arrivals[event]
        end = n
        for root in (NEAR, ANYWHERE):
            if end != NEED_ROOM:
                end = visit_tree(root, index, given, message, scratch, out, end)
        clear_message(given, message, scratch)
        if end == NEED_ROOM:
            for i in range(scratch.counters.size):
                scratch.counters[i] = scratch.before[i]
            return at, n
        n = end
        scratch.counters[N_ARRIVALS] += 1
    return order.size, n


class StepsCall(NamedTuple):
    """All that `match_steps` reads and writes."""

    steps: Any
    order: Ints
    given: MatchInput
    stamp: StampLayout
    scratch: StampScratch
    out: Matches


@kernel
def match_held(held: Any, first: int) -> tuple[int, int]:
    """`match_steps` for a `Held` call."""
    call = opened(held)
    return match_steps(call.steps, call.order, first, call.given, call.stamp, call.scratch, call.out)


@kernel
def end_of_run(events: Ints, first: int) -> int:
    """Where the run of equal events that begins at `first` ends."""
    end = first + 1
    while end < events.size and events[end] == events[first]:
        end += 1
    return end


@kernel
def sort_by_event(found: Matches, arrivals: Ints, starts: Longs, out: Any) -> None:
    """Copy matches in the order of their events, run by run, those of one event as they are, as changes that enter.

    `arrivals` are the messages by event. `starts` has a place for each event, zeros at first, and one more.
    """
    n, first = found.slots.size, 0
    while first < n:
        end = end_of_run(found.events, first)
        starts[found.events[first] + 1] += end - first
        first = end
    for event in range(starts.size - 1):
        starts[event + 1] += starts[event]
    first = 0
    while first < n:
        event, end = found.events[first], end_of_run(found.events, first)
        to = starts[event]
        starts[event] = to + end - first
        for i in range(end - first):
            out.slots[to + i], out.scores[to + i] = found.slots[first + i], found.scores[first + i]
            out.events[to + i], out.messages[to + i], out.signs[to + i] = event, arrivals[event], 1
        first = end
