"""A message and the filed subscriptions in, who matches out: the walk through the regions.

A leaf is read in four steps: its lists give candidates; later words may thin them out; what is left is verified
against its words and its place as the leaf knows them; and what still seems to match is settled by the exact score.
"""

from __future__ import annotations

from nearcast.columns.scores import gather, scatter
from nearcast.engines.similar.candidates import VERIFY, filter_further, read_lists
from nearcast.engines.similar.layout import ANYWHERE, FARTHEST, LEAF_AXIS, N_ARRIVALS, N_LEAVES, N_PRUNED, NEAR
from nearcast.engines.similar.prefixes import order_words
from nearcast.engines.similar.regions import inside, nearest_similarity
from nearcast.engines.similar.verify import settle, verify, weigh
from nearcast.jit import NEED_ROOM, kernel
from nearcast.space.distance import HAVERSINE, wrap
from nearcast.text.similarity import WEIGHTED
from nearcast.window.curve import to_point


@kernel
def take_message(messages, message, where, idf, scratch):
    """Scatter a message, and put its words into `tokens`, heaviest first, like those of subscriptions."""
    scatter(messages.terms, messages.counts, message.term_start, message.n_terms, idf, scratch.dense)
    order_words(messages.terms, message.term_start, message.n_terms, idf, WEIGHTED, scratch.words)
    for i in range(message.n_terms):
        scratch.tokens[i].term = scratch.words[i].term
    probe = scratch.probe[0]
    probe.lon = wrap(message.x) if where[0] == HAVERSINE else message.x
    probe.lat = message.y
    probe.x, probe.y, probe.z = to_point(where[0], message.x, message.y)
    probe.weight, probe.n_terms = message.weight, message.n_terms
    probe.metric, probe.max_distance = where
    scratch.before[:] = scratch.counters


@kernel
def visit(root, index, subscriptions, event, clock, message, where, idf, scratch, out, n):
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
            n_chosen = filter_further(index, leaf, is_inside, n_chosen, scratch)
        n_chosen = weigh(index, leaf, n_chosen, subscriptions.rows, scratch)
        n_found = verify(index, leaf, n_chosen, scratch)
        counters[N_LEAVES] += 1
        if n + n_found > out.slots.size:
            return NEED_ROOM
        n = settle(subscriptions, n_found, event, clock, message, where, idf, scratch, out, n)
    return n


@kernel
def match_steps(steps, first, messages, subscriptions, where, idf, index, scratch, out):
    """Write who matches the arrivals from event `first` on; returns the event to go on with and the number written.

    Stops at the event for which there is no room; what was counted for it is taken back.
    """
    n = 0
    for event in range(first, steps.arrivals.size):
        if steps.arrivals[event] < 0:
            continue
        message, clock = messages.rows[steps.arrivals[event]], steps.clocks[event]
        take_message(messages, message, where, idf, scratch)
        end = visit(NEAR, index, subscriptions, event, clock, message, where, idf, scratch, out, n)
        if end != NEED_ROOM:
            end = visit(ANYWHERE, index, subscriptions, event, clock, message, where, idf, scratch, out, end)
        gather(messages.terms, message.term_start, message.n_terms, scratch.dense)
        if end == NEED_ROOM:
            scratch.counters[:] = scratch.before
            return event, n
        n = end
        scratch.counters[N_ARRIVALS] += 1
    return steps.arrivals.size, n
