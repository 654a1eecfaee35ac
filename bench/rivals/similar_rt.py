"""The R^t++-tree, extended to similarity: each token of a subscription is filed in one node on the way to its leaf."""

from __future__ import annotations

import math

import numpy as np

from bench.rivals.lists import NOT_THERE, find_head
from bench.rivals.match import satisfied
from bench.rivals.similar_base import (
    ACCESSED,
    ANSWERS,
    ASKED,
    CANDIDATES,
    LOOSE,
    NEVER,
    NODES,
    Asked,
    looseness,
    need_of_place,
    share_of_text,
    squared_reach,
    text_bound,
    to_units,
)
from bench.rivals.similar_filing import NO_WORD, POSTING, Filed, Filing, key_of, put_place
from bench.rivals.similar_tree import NO_NODE
from nearcast.columns.arena import Ints
from nearcast.columns.message_table import MessageLayout
from nearcast.columns.scores import gather, scatter
from nearcast.engines.exact import similarity
from nearcast.jit import kernel
from nearcast.space.distance import box_distance, ssim
from nearcast.window.live import Steps


@kernel
def sort_lightest_first(terms, start, n, idf, order):
    """Positions of a subscription's words by rising weight."""
    for i in range(n):
        at = i
        while at > 0 and idf[terms[start + order[at - 1]]] > idf[terms[start + i]]:
            order[at] = order[at - 1]
            at -= 1
        order[at] = i


@kernel
def assign_tokens(subscriptions, slots, tree, ground, order, keys, rows):
    """Write the postings of these subscriptions and lower `need` along their ways; returns how many were written.

    Paper: [STAMP] VII.A, R^t++: each token is kept in one node, with the spatial similarity LSB that is lacking when no
    heavier token is shared; a node keeps the least of those at or below it.
    Departs: the lightest token is filed in the leaf, the next in its parent and so on; a token that place alone makes
    unnecessary is filed in the leaf.
    """
    where, centre, idf = ground
    n = 0
    for slot in slots:
        row, scale = subscriptions.rows[slot], subscriptions.scales[slot]
        sort_lightest_first(subscriptions.terms, row.term_start, row.n_terms, idf, order)
        node = tree.leaves[slot]
        share = 0.0
        for i in range(-1, row.n_terms):
            term = NO_WORD
            if i >= 0:
                term = subscriptions.terms[row.term_start + order[i]]
                share += share_of_text(row.mode, idf[term], scale.weight, row.n_terms)
            text = text_bound(looseness(row.mode), share + LOOSE) if i >= 0 else 0.0
            need = need_of_place(scale.delta, scale.tau, text)
            if i < 0 and need > 1.0 + LOOSE:
                continue
            if i > 0 and tree.nodes[node].parent != NO_NODE:
                node = tree.nodes[node].parent
            keys[n] = key_of(node, term)
            rows[n].slot, rows[n].tag = slot, i
            put_place(where, centre, row, rows[n], squared_reach(where, need))
            n += 1
            above = node
            while above != NO_NODE and tree.nodes[above].need > need:
                tree.nodes[above].need = need
                above = tree.nodes[above].parent
    return n


@kernel
def probe(heads, rows, key, place, stamps, stamp, found):
    """Write subscriptions of a list that the place is near enough for and that are not stamped.

    Returns how many, and how many there are.
    """
    at = find_head(heads, key)
    if at == NOT_THERE:
        return 0, 0
    n, start, size = 0, heads[at].start, heads[at].n
    u, v, w, slack = place
    for i in range(start, start + size):
        a, b, c = rows[i].x - u, rows[i].y - v, rows[i].z - w
        if a * a + b * b + c * c - slack <= rows[i].bound and rows[i].bound >= 0.0 and stamps[rows[i].slot] != stamp:
            stamps[rows[i].slot] = stamp
            found[n] = rows[i].slot
            n += 1
    return n, size


@kernel
def match_rt(steps, first, messages, subscriptions, walk, asked, out):
    """As `match_similar`: nodes that the place is near enough for, and in each the lists of the message's words."""
    n = 0
    nodes, heads, rows, stack, found = walk.tree.nodes, walk.lists.heads, walk.lists.rows, walk.stack, walk.touched
    stamps, counters = walk.stamps, asked.counters
    for event in range(first, steps.arrivals.size):
        if steps.arrivals[event] < 0:
            continue
        if n + subscriptions.rows.size > out.slots.size:
            return event, n
        n_before = n
        message = messages.rows[steps.arrivals[event]]
        u, v, w = to_units(asked.where, asked.centre, message.x, message.y)
        place = (u, v, w, 0.0) if u != math.inf else (0.0, 0.0, 0.0, math.inf)
        counters[ASKED] += 1
        stamp = counters[ASKED]
        scatter(messages.terms, messages.counts, message.term_start, message.n_terms, asked.idf, asked.dense)
        stack[0], n_stack = walk.tree.roots[0], 1
        while n_stack:
            n_stack -= 1
            at = stack[n_stack]
            node = nodes[at]
            counters[NODES] += 1
            for word in range(-1, message.n_terms):
                term = NO_WORD if word < 0 else messages.terms[message.term_start + word]
                n_found, n_accessed = probe(heads, rows, key_of(at, term), place, stamps, stamp, found)
                counters[ACCESSED] += n_accessed
                for i in range(n_found):
                    if subscriptions.rows[found[i]].expires <= steps.clocks[event]:
                        continue
                    if not satisfied(subscriptions, found[i], messages.fields, steps.arrivals[event]):
                        continue
                    counters[CANDIDATES] += 1
                    score = similarity(subscriptions, found[i], message, asked.where, asked.idf, asked.dense)
                    if score >= subscriptions.scales[found[i]].tau:
                        out.events[n], out.slots[n], out.scores[n] = event, found[i], score
                        n += 1
            for child in range(node.first, node.first + node.n):
                box = nodes[child]
                near = 1.0
                if 0.0 < box.need < NEVER:
                    away = box_distance(asked.where.metric, message.x, message.y, box.x0, box.y0, box.x1, box.y1)
                    near = ssim(away, asked.where.max_distance) + LOOSE
                if near >= box.need:
                    stack[n_stack] = child
                    n_stack += 1
        gather(messages.terms, message.term_start, message.n_terms, asked.dense)
        counters[ANSWERS] += n - n_before
    return steps.arrivals.size, n


class SimilarRt(Filing):
    """R^t++."""

    name = "rt++"
    best_fanout = 5000

    def _postings(self, slots: Ints) -> Filed:
        lengths = self.points.rows["n_terms"][slots]
        n = int(lengths.sum()) + slots.size
        keys, rows, order = np.zeros(n, np.int64), np.zeros(n, POSTING), np.zeros(lengths.max(initial=1), np.int32)
        n = assign_tokens(self.points.layout, slots, self._tree, self._ground, order, keys, rows)
        return Filed(keys[:n], rows[:n])

    def _raise(self, slots: Ints, filed: Filed) -> Filed:
        return Filed(filed.keys[:0], filed.rows[:0])

    def _match_from(self, first: int, steps: Steps, messages: MessageLayout, asked: Asked) -> tuple[int, int]:
        done: tuple[int, int] = match_rt(steps, first, messages, self.points.layout, self._walk, asked, self._room)
        return done
