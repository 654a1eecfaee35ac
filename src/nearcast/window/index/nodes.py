"""Searches the nodes of the message index, the best bound first: kernels.

The bound of a node takes all words of the question together: for `TopK` it adds up the largest unit weight that each
word reaches inside the node, for `Nearest(all)` every word must occur in it. The leaves of a node are visited together,
the best first (`leaves.py`).

For `TopK` sum and place are nearly the score itself, and say what a message surely reaches. While nothing leaves but
by count, the k best of what is **sure** therefore bound the search. Exact scores are **deferred** until its end, when
less than half of the messages are left to verify.

The object index of CkQST section 2.2; see `search_nodes`.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from nearcast.columns.arena import Array, record
from nearcast.columns.fields.conditions import NO_CONDITION
from nearcast.jit import inlined, kernel, prefetch
from nearcast.space.hilbert import box_squared
from nearcast.window.index.heaps import pop, push
from nearcast.window.index.leaves import Found, NodePlan, verify_deferred, visit_leaf
from nearcast.window.index.postings import first_posting
from nearcast.window.index.query import (
    BY_SCORE,
    LOOSE,
    NODES,
    POSTINGS,
    SearchTask,
    Tallies,
    bound_of,
    fade_bound,
    limit_of,
)
from nearcast.window.index.segments import FAN, FAN_BITS, LEAF_BITS, first_node, mark_of, nodes_at

SPAN = record(
    ("start", "i8"),  # postings of a word in a leaf
    ("end", "i8"),
)


@kernel
def queue_roots(task: SearchTask) -> int:
    """Queue the root of every segment that has words not tried yet; returns the length of the queue.

    The states of these words come first.
    """
    index, scratch, aim, terms = task.layout, task.scratch, task.aim, task.terms
    n_terms = terms.size
    n_queue = 0
    for s in range(index.segments.size):
        text, cap, hits, n = 0.0, 0.0, 0, 0
        for i in range(n_terms):
            if task.dense[terms[i]] < 0.0:
                continue
            state, to = scratch.term_states[s * n_terms + i], scratch.term_states[s * n_terms + n]
            to.start, to.end, to.skip, to.depth = state.start, state.end, state.skip, state.depth
            to.weight, to.top = state.weight, state.top
            n += 1
            if to.top > 0.0:
                text += to.weight * to.top
                cap += to.weight * to.weight
                hits += 1
        if hits >= aim.need:
            squared = box_squared(aim.x, aim.y, aim.z, index.boxes[index.segments[s].box_start])
            bound = bound_of(aim, squared, min(text, math.sqrt(cap)))
            bound = fade_bound(aim, bound, index.times[index.segments[s].box_start])
            n_queue = push(scratch.queue, n_queue, bound, s, 0)
    return n_queue


@inlined
def tally_children(
    states: Any, skips: Array, postings: Array, segment: Any, depth: int, node: int, tallies: Tallies, spans: Array
) -> Any:
    """Add up what the words can contribute to each child of a node; returns the number of postings read.

    If the children are leaves, `spans` say where each has its postings.
    """
    first = (node - first_node(depth)) << FAN_BITS
    bits = LEAF_BITS + FAN_BITS * (segment.depth - depth - 1)
    n_children = min(FAN, nodes_at(segment.n_members, segment.depth, depth + 1) - first)
    base = segment.posting_start
    n_read = 0
    texts, caps, hits = tallies
    for i in range(states.size):
        state = states[i]
        weight = state.weight
        square = weight * weight
        if state.depth > depth:
            at = state.skip + first_node(depth + 1) - 1 + first
            for child in range(n_children):
                skip = skips[at + child]
                held = skip.end > skip.start
                texts[child] += skip.top * weight
                caps[child] += square if held else 0.0
                hits[child] += held
            if bits == LEAF_BITS:
                for child in range(n_children):
                    skip, span = skips[at + child], spans[i * FAN + child]
                    span.start, span.end = base + skip.start, base + skip.end
            continue
        if bits == LEAF_BITS:
            for child in range(FAN):
                span = spans[i * FAN + child]
                span.start = span.end = 0
        p, end = first_posting(state, skips, postings, segment, depth, node)
        n_read -= p
        while p < end:
            child = (postings[p].rank >> bits) - first
            if child >= FAN:
                break
            start, top = p, postings[p].unit
            p += 1
            while p < end and postings[p].rank >> bits == first + child:
                top = max(top, postings[p].unit)
                p += 1
            if bits == LEAF_BITS:
                span = spans[i * FAN + child]
                span.start, span.end = start, p
            texts[child] += top * weight
            caps[child] += square
            hits[child] += 1
        n_read += p
    return n_read


@inlined
def push_children(task: SearchTask, s: Any, node: int, limit: float, queue: Any, n_queue: Any) -> Any:
    """Queue the children of a node that can still win, and clear their tallies; returns the length of the queue."""
    boxes, times, aim = task.layout.boxes, task.layout.times, task.aim
    texts, caps, hits = task.scratch.tallies
    box_start = task.layout.segments[s].box_start
    first = (node << FAN_BITS) + 1
    share = 1.0 - aim.alpha if aim.mode == BY_SCORE else 0.0
    floor = bound_of(aim, box_squared(aim.x, aim.y, aim.z, boxes[box_start + node]), 0.0) - LOOSE
    left = np.int64(0)
    for child in range(FAN):  # most fail by their words already
        left |= np.int64((hits[child] >= aim.need) & (floor - share * texts[child] <= limit)) << child
    child = 0
    while left > 0:
        if left & 1:
            text = min(texts[child], math.sqrt(caps[child]))
            squared = box_squared(aim.x, aim.y, aim.z, boxes[box_start + first + child])
            bound = fade_bound(aim, bound_of(aim, squared, text), times[box_start + first + child])
            if bound <= limit:
                n_queue = push(queue, n_queue, bound, s, first + child)
        left >>= 1
        child += 1
    for child in range(FAN):
        texts[child], caps[child], hits[child] = 0.0, 0.0, 0
    return n_queue


@kernel
def all_alive(segments: Array, clock: int) -> bool:
    """Is every message alive that the window still counts?"""
    for s in range(segments.size):
        if segments[s].first_expiry <= clock or segments[s].n_withdrawn > 0:
            return False
    return True


@inlined
def depth_of(node: int) -> Any:
    """The depth of a node."""
    depth = 0
    while node >= first_node(depth + 1):
        depth += 1
    return depth


@inlined
def prefetch_node(task: SearchTask, s: Any, node: Any, n_words: Any) -> None:
    """Fetch what a look at the children of a node will read.

    A third of the samples of a search over a million messages were at eight loads that miss the caches (2026-11-16).
    """
    boxes, skips, postings = task.layout.boxes, task.layout.skips, task.layout.postings
    segment = task.layout.segments[s]
    depth = depth_of(node)
    first = (node << FAN_BITS) + 1
    for child in range(FAN):
        prefetch(boxes, segment.box_start + first + child)
    for i in range(s * task.terms.size, s * task.terms.size + n_words):
        state = task.scratch.term_states[i]
        if state.depth > depth:
            at = state.skip + first - 1
            prefetch(skips, at)
            prefetch(skips, at + FAN // 2)
            prefetch(skips, at + FAN - 1)
        elif state.depth == depth and depth > 0:
            start = segment.posting_start + skips[state.skip + node - 1].start
            prefetch(postings, start)
            prefetch(postings, start + FAN // 2)


@inlined
def visit_node(task: SearchTask, s: Any, node: Any, n_words: Any, limit: float, n_queue: Any) -> Any:
    """Queue the children of a node that can still win; returns the lengths of the queue and of `scratch.leaves`.

    Children that are leaves go to `scratch.leaves`, empty before, and their postings to `scratch.spans`.
    """
    index, scratch = task.layout, task.scratch
    segment, depth = index.segments[s], depth_of(node)
    states = scratch.term_states[s * task.terms.size : s * task.terms.size + n_words]
    scratch.work[POSTINGS] += tally_children(
        states, index.skips, index.postings, segment, depth, node, scratch.tallies, scratch.spans
    )
    n_leaves = 0
    if depth + 1 < segment.depth:
        n_queue = push_children(task, s, node, limit, scratch.queue, n_queue)
    else:
        n_leaves = push_children(task, s, node, limit, scratch.leaves, n_leaves)
        for i in range(n_leaves * n_words):
            leaf = scratch.leaves[i // n_words].node - first_node(depth + 1)
            prefetch(index.postings, scratch.spans[(i % n_words) * FAN + (leaf & (FAN - 1))].start)
    return n_queue, n_leaves


@kernel
def search_nodes(task: SearchTask, n_best: int) -> int:
    """Visit the nodes, the best first, for messages that hold words not tried yet; returns how many are kept.

    Paper: [CKQST] section 2.2, the inverted linear quadtree as object index, dead messages met lazily.
    Departs: nodes hold equal numbers of messages instead of equal areas; segments by time instead of one tree;
    the words of a question are bounded together, node by node.
    """
    index, scratch, aim, moment = task.layout, task.scratch, task.aim, task.moment
    best, sure, queue, leaves = scratch.best, scratch.sure, scratch.queue, scratch.leaves
    n_words, tried = 0, 0
    for i in range(task.terms.size):
        if task.dense[task.terms[i]] > 0.0:
            n_words += 1
        else:
            tried |= mark_of(task.terms[i])
    if n_words == 0:
        return n_best
    oldest = max(index.oldest, moment.since, moment.last - moment.newest)
    sure_lives = task.question.condition == NO_CONDITION and all_alive(index.segments, moment.clock)
    defers = aim.mode == BY_SCORE and aim.half_life == 0 and sure_lives
    plan = NodePlan(n_words, oldest, defers, tried)
    for i in range(n_best):
        sure[i].magnitude, sure[i].key = best[i].magnitude, best[i].key
        sure[i].sequence, sure[i].slot = best[i].sequence, best[i].slot
    found = Found(n_best, n_best, np.int64(0), limit_of(aim, best, n_best))
    n_queue = queue_roots(task)
    while n_queue > 0 and queue[0].bound <= found.limit:
        s, node = np.int64(queue[0].segment), np.int64(queue[0].node)
        n_queue = pop(queue, n_queue)
        scratch.work[NODES] += 1
        if n_queue > 0:
            prefetch_node(task, np.int64(queue[0].segment), np.int64(queue[0].node), n_words)
        n_queue, n_leaves = visit_node(task, s, node, n_words, found.limit, n_queue)
        while n_leaves > 0 and leaves[0].bound <= found.limit:
            leaf = np.int64(leaves[0].node)
            n_leaves = pop(leaves, n_leaves)
            found = visit_leaf(task, s, leaf, plan, found)
    if found.n_deferred > 0:
        return verify_deferred(task, found.n_best, found.n_deferred, found.limit)
    return found.n_best
