"""The IR-tree, extended to thresholds: each node has an inverted file that bounds the text of what lies below it."""

from __future__ import annotations

import math

import numpy as np

from bench.rivals.lists import NOT_THERE, find_head
from bench.rivals.match import satisfied
from bench.rivals.similar_base import (
    ACCESSED,
    ANSWERS,
    CANDIDATES,
    LOOSE,
    NODES,
    ROUNDED,
    Asked,
    looseness,
    need_of_place,
    share_of_text,
    squared_reach,
    ssim_bound,
    text_bound,
    to_units,
)
from bench.rivals.similar_filing import NO_WORD, POSTING, Filed, Filing, is_placed, key_of, put_place
from bench.rivals.similar_tree import NO_NODE, widen
from nearcast.columns.arena import Array, Ints
from nearcast.columns.message_table import MessageLayout
from nearcast.columns.scores import gather, scatter, similar_score
from nearcast.engines.exact import similarity
from nearcast.jit import allocating, kernel
from nearcast.space.distance import box_distance, ssim
from nearcast.window.live import Steps

_TEXT, _PLACE = range(2)  # tags: a posting under a word, with its share; one that the place alone may satisfy
_STEPS = 10  # parts of delta, and of tau


@kernel
def list_words(subscriptions, slots, leaves, ground, keys, rows):
    """Write the postings of these subscriptions in their leaves; returns how many were written."""
    where, centre, idf = ground
    n = 0
    for slot in slots:
        row, scale = subscriptions.rows[slot], subscriptions.scales[slot]
        need = need_of_place(scale.delta, scale.tau, 0.0)
        if need <= 1.0 + LOOSE:
            keys[n] = key_of(leaves[slot], NO_WORD)
            rows[n].slot, rows[n].tag = slot, _PLACE
            put_place(where, centre, row, rows[n], squared_reach(where, need))
            n += 1
        for i in range(row.term_start, row.term_start + row.n_terms):
            term = subscriptions.terms[i]
            keys[n] = key_of(leaves[slot], term)
            rows[n].slot, rows[n].tag = slot, _TEXT
            put_place(where, centre, row, rows[n], 0.0)
            rows[n].bound = ROUNDED * share_of_text(row.mode, idf[term], scale.weight, row.n_terms)
            n += 1
    return n


@kernel
def raise_share(heads, rows, key, child, share):
    """Raise the share of a child in a list of its parent; False if it is not there."""
    at = find_head(heads, key)
    if at == NOT_THERE:
        return False
    for i in range(heads[at].start, heads[at].start + heads[at].n):
        if rows[i].slot == child:
            rows[i].bound = max(rows[i].bound, share)
            return True
    return False


@allocating
def raise_shares(lists, keys, children, shares):
    """Raise what is there; returns flags of what is not."""
    missing = np.zeros(keys.size, np.bool_)
    for i in range(keys.size):
        missing[i] = not raise_share(lists.heads, lists.rows, keys[i], children[i], shares[i])
    return missing


@kernel
def add_texts(heads, rows, at, messages, message, text, touched):
    """Add the shares under the message's words in a node to `text`; returns how many postings that were.

    `touched` gets the first posting of each; returns also how many these are.
    """
    n_touched, n_accessed = 0, 0
    for word in range(message.term_start, message.term_start + message.n_terms):
        head = find_head(heads, key_of(at, messages.terms[word]))
        if head == NOT_THERE:
            continue
        n_accessed += heads[head].n
        for i in range(heads[head].start, heads[head].start + heads[head].n):
            if text[rows[i].slot] == 0.0:
                touched[n_touched] = i
                n_touched += 1
            text[rows[i].slot] += rows[i].bound
    return n_accessed, n_touched


@kernel
def may_hold(box, text, place):
    """Can a subscription below a node with these bounds for text and place reach its threshold?"""
    best = max(similar_score(box.low_delta, text, place), similar_score(box.high_delta, text, place))
    return best >= box.low_tau - LOOSE


@kernel
def push_children(nodes, node, message, where, text, stack, n_stack):
    """Push the children of a node that may hold answers, and clear their texts; returns the height of the stack."""
    for child in range(node.first, node.first + node.n):
        box = nodes[child]
        best = text_bound(box.loosest, text[child])
        text[child] = 0.0
        if not may_hold(box, best, 1.0):
            continue
        away = box_distance(where.metric, message.x, message.y, box.x0, box.y0, box.x1, box.y1)
        if may_hold(box, best, ssim(away, where.max_distance)):
            stack[n_stack] = child
            n_stack += 1
    return n_stack


@kernel
def sift(subscriptions, lists, at, place, text, touched, n_touched):
    """Of what a leaf's words touched, and of what place alone may satisfy, keep as slots what may reach its threshold.

    Clears the texts; returns how many are kept, and how many postings were read beside.
    """
    u, v, w, slack = place
    rows, n = lists.rows, 0
    head = find_head(lists.heads, key_of(at, NO_WORD))
    n_alone = 0 if head == NOT_THERE else lists.heads[head].n
    start = 0 if head == NOT_THERE else lists.heads[head].start
    n_kept_alone = n_touched
    for i in range(start, start + n_alone):
        a, b, c = rows[i].x - u, rows[i].y - v, rows[i].z - w
        if text[rows[i].slot] == 0.0 and a * a + b * b + c * c - slack <= rows[i].bound:
            touched[n_kept_alone] = rows[i].slot
            n_kept_alone += 1
    for k in range(n_touched):
        posting = rows[touched[k]]
        scale = subscriptions.scales[posting.slot]
        best = text_bound(looseness(subscriptions.rows[posting.slot].mode), text[posting.slot])
        text[posting.slot] = 0.0
        near = 1.0
        if is_placed(posting):
            a, b, c = posting.x - u, posting.y - v, posting.z - w
            near = ssim_bound(a * a + b * b + c * c - slack)
        if similar_score(scale.delta, best, near) >= scale.tau - LOOSE:
            touched[n] = posting.slot
            n += 1
    for k in range(n_touched, n_kept_alone):
        touched[n] = touched[k]
        n += 1
    return n, n_alone


@kernel
def match_ir(steps, first, messages, subscriptions, walk, asked, out):
    """As `match_similar`: from the roots to the leaves that may hold answers."""
    n = 0
    nodes, heads, rows = walk.tree.nodes, walk.lists.heads, walk.lists.rows
    stack, text, touched, counters = walk.stack, walk.text, walk.touched, asked.counters
    for event in range(first, steps.arrivals.size):
        if steps.arrivals[event] < 0:
            continue
        if n + subscriptions.rows.size > out.slots.size:
            return event, n
        n_before, n_stack = n, 0
        message = messages.rows[steps.arrivals[event]]
        u, v, w = to_units(asked.where, asked.centre, message.x, message.y)
        place = (u, v, w, 0.0) if u != math.inf else (0.0, 0.0, 0.0, math.inf)
        scatter(messages.terms, messages.counts, message.term_start, message.n_terms, asked.idf, asked.dense)
        for root in walk.tree.roots:
            if root != NO_NODE:
                stack[n_stack] = root
                n_stack += 1
        while n_stack:
            n_stack -= 1
            at = stack[n_stack]
            node = nodes[at]
            counters[NODES] += 1
            n_accessed, n_touched = add_texts(heads, rows, at, messages, message, text, touched)
            if node.n:
                n_stack = push_children(nodes, node, message, asked.where, text, stack, n_stack)
                continue
            n_found, n_alone = sift(subscriptions, walk.lists, at, place, text, touched, n_touched)
            counters[ACCESSED] += n_accessed + n_alone
            for i in range(n_found):
                if subscriptions.rows[touched[i]].expires <= steps.clocks[event]:
                    continue
                if not satisfied(subscriptions, touched[i], messages.fields, steps.arrivals[event]):
                    continue
                counters[CANDIDATES] += 1
                score = similarity(subscriptions, touched[i], message, asked.where, asked.idf, asked.dense)
                if score >= subscriptions.scales[touched[i]].tau:
                    out.events[n], out.slots[n], out.scores[n] = event, touched[i], score
                    n += 1
        gather(messages.terms, message.term_start, message.n_terms, asked.dense)
        counters[ANSWERS] += n - n_before
    return steps.arrivals.size, n


class SimilarIr(Filing):
    """One IR-tree.

    Paper: [STAMP] VII.A, IRTREE-1: nodes keep the extremes of delta and tau.
    Departs: where the paper's nodes keep the least total weight of a subscription, a posting here has the largest share
    that its word has in a subscription below, which is never worse.
    """

    name = "ir"

    def _postings(self, slots: Ints) -> Filed:
        n = int(self.points.rows["n_terms"][slots].sum()) + slots.size
        keys, rows = np.zeros(n, np.int64), np.zeros(n, POSTING)
        n = list_words(self.points.layout, slots, self._tree.leaves, self._ground, keys, rows)
        return Filed(keys[:n], rows[:n])

    def _raise(self, slots: Ints, filed: Filed) -> Filed:
        nodes = self._tree.nodes
        widen(nodes, self._tree.leaves[slots], self.points.layout, slots)
        words = filed.rows["tag"] == _TEXT
        keys, shares = filed.keys[words], filed.rows["bound"][words]
        missing = [Filed(keys[:0], filed.rows[:0])]
        while keys.size:
            keys, shares = _largest(keys, shares)
            parents = nodes["parent"][keys >> 32]
            keys, shares, parents = (column[parents != NO_NODE] for column in (keys, shares, parents))
            children, keys = (keys >> 32).astype(np.int32), parents.astype(np.int64) << 32 | keys & NO_WORD
            new = raise_shares(self._lists.layout, keys, children, shares)
            rows = np.zeros(int(new.sum()), POSTING)
            rows["slot"], rows["bound"] = children[new], shares[new]
            missing.append(Filed(keys[new], rows))
        return Filed(*(np.concatenate(columns) for columns in zip(*missing, strict=True)))

    def _match_from(self, first: int, steps: Steps, messages: MessageLayout, asked: Asked) -> tuple[int, int]:
        done: tuple[int, int] = match_ir(steps, first, messages, self.points.layout, self._walk, asked, self._room)
        return done


class SimilarIr100(SimilarIr):
    """A hundred IR-trees, by tenths of delta and tau.

    Paper: [STAMP] VII.A, IRTREE-100.
    """

    name = "ir100"
    n_parts = _STEPS * _STEPS

    def _parts(self, slots: Ints) -> Ints:
        scales = self.points.scales[slots]
        delta, tau = (np.minimum(scales[name] * _STEPS, _STEPS - 1).astype(np.int32) for name in ("delta", "tau"))
        return np.asarray(delta * _STEPS + tau, np.int32)


def _largest(keys: Array, shares: Array) -> tuple[Array, Array]:
    """Each key once, with its largest share."""
    order = np.argsort(keys, kind="stable")
    keys, shares = keys[order], shares[order]
    starts = np.flatnonzero(np.append(True, keys[1:] != keys[:-1]))
    return keys[starts], np.maximum.reduceat(shares, starts)
