"""Searches the nodes of the message index, the best bound first: kernels.

The bound of a node takes all words of the question together: for `TopK` it adds up the largest unit weight that each
word reaches inside the node, for `Nearest(all)` every word must occur in it. The leaves of a node are visited together,
the best first. A leaf adds up the postings of its messages; only those whose sum and place can still win are verified,
by the exact score.

For `TopK` sum and place are nearly the score itself, and say what a message surely reaches. While nothing expires but
by count, the k best of what is **sure** therefore bound the search. Exact scores are **deferred** until its end, when
less than half of the messages are left to verify.

The object index of CkQST section 2.2; see `search_nodes`.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from nearcast.columns.arena import record
from nearcast.jit import inlined, kernel, prefetch
from nearcast.space.hilbert import box_squared
from nearcast.window.index.heaps import offer, pop, push
from nearcast.window.index.postings import first_posting
from nearcast.window.index.query import (
    ALL,
    BY_SCORE,
    LEAVES,
    LOOSE,
    NODES,
    POSTINGS,
    VERIFIED,
    bound_of,
    is_alive,
    key_of,
    limit_of,
    sure_of,
)
from nearcast.window.index.segments import FAN, FAN_BITS, LEAF_BITS, first_node, nodes_at

SPAN = record(
    ("start", "i8"),  # postings of a word in a leaf
    ("end", "i8"),
)
TALLY = record(
    ("text", "f8"),  # sum of weight times unit weight over the words
    ("cap", "f8"),  # squared length of the question's words that occur
    ("hits", "i8"),  # number of words that occur
)
KEPT = record(
    ("bound", "f8"),  # what the message cannot beat
    ("sure", "f8"),  # what it surely reaches, where exact scores are deferred
    ("member", "i8"),  # counted over all segments
)
DEFERRED = record(
    ("bound", "f8"),
    ("member", "i8"),  # counted over all segments
)
DEFERRED_ROOM = 1024


class NodePlan(NamedTuple):
    """What stays the same while nodes are visited."""

    n_words: int  # words not tried yet; their states come first
    oldest: int  # messages that are not newer are gone by count
    defers: bool  # whether exact scores wait until the end


class Found(NamedTuple):
    """What a search through the nodes has found so far."""

    n_best: int  # in `scratch.best`
    n_sure: int  # in `scratch.sure`
    n_deferred: int | np.int64  # in `scratch.deferred`
    limit: float  # the bound beyond which nothing wins


@kernel
def queue_roots(task):
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
            n_queue = push(scratch.queue, n_queue, bound_of(aim, squared, min(text, math.sqrt(cap))), s, 0)
    return n_queue


@inlined
def tally_children(states, skips, postings, segment, depth, node, tallies, spans):
    """Add up what the words can contribute to each child of a node; returns the number of postings read.

    If the children are leaves, `spans` say where each has its postings.
    """
    first = (node - first_node(depth)) << FAN_BITS
    bits = LEAF_BITS + FAN_BITS * (segment.depth - depth - 1)
    n_children = min(FAN, nodes_at(segment.n_members, segment.depth, depth + 1) - first)
    base = segment.posting_start
    n_read = 0
    for i in range(states.size):
        state = states[i]
        weight = state.weight
        square = weight * weight
        if state.depth > depth:
            at = state.skip + first_node(depth + 1) - 1 + first
            for child in range(n_children):
                skip, tally = skips[at + child], tallies[child]
                held = skip.end > skip.start
                tally.text += skip.top * weight
                tally.cap += square if held else 0.0
                tally.hits += held
                if bits == LEAF_BITS:
                    span = spans[i * FAN + child]
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
            tally = tallies[child]
            tally.text += top * weight
            tally.cap += square
            tally.hits += 1
        n_read += p
    return n_read


@inlined
def push_children(task, s, node, limit, queue, n_queue):
    """Queue the children of a node that can still win, and clear their tallies; returns the length of the queue."""
    boxes, tallies, aim = task.layout.boxes, task.scratch.tallies, task.aim
    box_start = task.layout.segments[s].box_start
    first = (node << FAN_BITS) + 1
    share = 1.0 - aim.alpha if aim.mode == BY_SCORE else 0.0
    floor = bound_of(aim, box_squared(aim.x, aim.y, aim.z, boxes[box_start + node]), 0.0) - LOOSE
    for child in range(FAN):
        tally = tallies[child]
        text = tally.text
        if tally.hits >= aim.need and floor - share * text <= limit:  # most fail by their words already
            if text * text > tally.cap:
                text = math.sqrt(tally.cap)
            squared = box_squared(aim.x, aim.y, aim.z, boxes[box_start + first + child])
            bound = bound_of(aim, squared, text)
            if bound <= limit:
                n_queue = push(queue, n_queue, bound, s, first + child)
        tally.text = tally.cap = 0.0
        tally.hits = 0
    return n_queue


@inlined
def tally_leaf(states, spans, leaf, postings, base, tallies, touched):
    """Add up the postings of a node's leaf by message; returns how many messages were touched."""
    n_touched = 0
    for i in range(states.size):
        weight = states[i].weight
        span = spans[i * FAN + leaf]
        for p in range(span.start, span.end):
            rank = postings[p].rank - base
            tally = tallies[rank]
            if tally.hits == 0:
                touched[n_touched] = rank
                n_touched += 1
            tally.hits += 1
            tally.text += postings[p].unit * weight
    return n_touched


@kernel
def intersect_leaf(spans, n_terms, leaf, postings, base, tallies, touched):
    """Like `tally_leaf` if all words are needed: touches the messages of the leaf's rarest word alone."""
    rarest = 0
    for i in range(1, n_terms):
        span, least = spans[i * FAN + leaf], spans[rarest * FAN + leaf]
        if span.end - span.start < least.end - least.start:
            rarest = i
    n_touched = 0
    for p in range(spans[rarest * FAN + leaf].start, spans[rarest * FAN + leaf].end):
        touched[n_touched] = postings[p].rank - base
        tallies[touched[n_touched]].hits = 1
        n_touched += 1
    n_met = 1
    for i in range(n_terms):
        if i == rarest:
            continue
        met = False
        for p in range(spans[i * FAN + leaf].start, spans[i * FAN + leaf].end):
            tally = tallies[postings[p].rank - base]
            if tally.hits == n_met:
                tally.hits += 1
                met = True
        if not met:
            break
        n_met += 1
    return n_touched


@inlined
def sift_leaf(task, base, n_touched, plan, limit, floor):
    """Write the touched messages that can still win to `scratch.kept`, and clear all tallies; returns how many.

    Nothing beyond `limit` wins. `floor` is the bound of the leaf's place alone: with it most messages fail by their
    words, before their own places are looked at.
    """
    members, tallies, touched, kept = task.layout.members, task.scratch.tallies, task.scratch.touched, task.scratch.kept
    aim = task.aim
    share = 1.0 - aim.alpha if aim.mode == BY_SCORE else 0.0
    n_left = 0
    for i in range(n_touched):
        rank = touched[i]
        tally = tallies[rank]
        if tally.hits >= aim.need and floor - share * tally.text <= limit:
            prefetch(members, base + rank)
            touched[n_left] = rank
            n_left += 1
        else:
            tally.text = 0.0
        tally.hits = 0
    n_kept = 0
    for i in range(n_left):
        rank = touched[i]
        tally, member = tallies[rank], members[base + rank]
        if plan.oldest < member.sequence <= task.moment.last:
            dx, dy, dz = member.x - aim.x, member.y - aim.y, member.z - aim.z
            squared = dx * dx + dy * dy + dz * dz
            bound = bound_of(aim, squared, tally.text)
            if bound <= limit:
                entry = kept[n_kept]
                entry.bound, entry.member = bound, base + rank
                entry.sure = sure_of(aim, squared, tally.text) if plan.defers else 0.0
                n_kept += 1
        tally.text = 0.0
    return n_kept


@kernel
def nothing_expires(segments, clock):
    """Is every message alive that the window still counts?"""
    for s in range(segments.size):
        if segments[s].first_expiry <= clock:
            return False
    return True


@inlined
def offer_sure(sure, n_sure, k, key, member):
    """Offer what a message surely reaches, unless it does so already by a rare word; returns how many are kept."""
    if n_sure == k and key >= sure[0].key:
        return n_sure
    for i in range(n_sure):
        if sure[i].slot == member.slot:
            return n_sure
    return offer(sure, n_sure, k, key, member.sequence, member.slot)


@kernel
def verify_deferred(task, n_best, n_deferred, limit):
    """Verify the messages of `scratch.deferred` that may win yet; returns how many are among the best."""
    deferred, members, best = task.scratch.deferred, task.layout.members, task.scratch.best
    rows, words, counts = task.messages
    for i in range(n_deferred):
        if deferred[i].bound <= limit:
            prefetch(rows, members[deferred[i].member].slot)
    for i in range(n_deferred):
        if deferred[i].bound <= limit:
            start = rows[members[deferred[i].member].slot].term_start
            prefetch(words, start)
            prefetch(counts, start)
    for i in range(n_deferred):
        if deferred[i].bound > limit:
            continue
        member = members[deferred[i].member]
        task.scratch.work[VERIFIED] += 1
        key = key_of(rows[member.slot], words, counts, task.idf, task.dense, task.question, task.aim)
        if not math.isnan(key):
            n_best = offer(best, n_best, task.aim.k, key, member.sequence, member.slot)
    return n_best


@inlined
def depth_of(node):
    """The depth of a node."""
    depth = 0
    while node >= first_node(depth + 1):
        depth += 1
    return depth


@inlined
def prefetch_node(task, s, node, n_words):
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
def visit_node(task, s, node, n_words, limit, n_queue):
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


@inlined
def visit_leaf(task, s, node, plan, found):
    """Look for messages of a leaf that can still win, and verify them, now or later; returns what is found."""
    index, scratch, aim = task.layout, task.scratch, task.aim
    segment = index.segments[s]
    leaf = node - first_node(segment.depth)
    child, first = leaf & (FAN - 1), leaf << LEAF_BITS
    scratch.work[LEAVES] += 1
    if aim.mode == ALL:
        n_touched = intersect_leaf(
            scratch.spans, plan.n_words, child, index.postings, first, scratch.tallies, scratch.touched
        )
    else:
        states = scratch.term_states[s * task.terms.size : s * task.terms.size + plan.n_words]
        n_touched = tally_leaf(states, scratch.spans, child, index.postings, first, scratch.tallies, scratch.touched)
    scratch.work[POSTINGS] += n_touched
    box = index.boxes[segment.box_start + node]
    floor = bound_of(aim, box_squared(aim.x, aim.y, aim.z, box), 0.0) - LOOSE
    base = segment.member_start + first
    n_kept = sift_leaf(task, base, n_touched, plan, found.limit, floor)
    return defer_kept(task, n_kept, found) if plan.defers else verify_kept(task, n_kept, found)


@inlined
def defer_kept(task, n_kept, found):
    """Count what the kept messages surely reach, and leave their exact scores for later; returns what is found."""
    scratch, aim = task.scratch, task.aim
    kept, deferred, sure = scratch.kept, scratch.deferred, scratch.sure
    n_best, n_sure, n_deferred, limit = found
    if n_deferred + n_kept > deferred.size:
        n_best = verify_deferred(task, n_best, n_deferred, limit)
        n_deferred = 0
    for i in range(n_kept):
        if kept[i].bound <= limit:
            n_sure = offer_sure(sure, n_sure, aim.k, kept[i].sure, task.layout.members[kept[i].member])
            limit = limit_of(aim, sure, n_sure)
            deferred[n_deferred].bound, deferred[n_deferred].member = kept[i].bound, kept[i].member
            n_deferred += 1
    return Found(n_best, n_sure, n_deferred, limit)


@inlined
def verify_kept(task, n_kept, found):
    """Offer the kept messages that live with their exact scores; returns what is found."""
    kept, best, members = task.scratch.kept, task.scratch.best, task.layout.members
    rows, words, counts = task.messages
    aim, n_best, limit = task.aim, found.n_best, found.limit
    for i in range(n_kept):
        prefetch(rows, members[kept[i].member].slot)
    for i in range(n_kept):
        start = rows[members[kept[i].member].slot].term_start
        prefetch(words, start)
        prefetch(counts, start)
    for i in range(n_kept):
        member = members[kept[i].member]
        row = rows[member.slot]
        if kept[i].bound <= limit and is_alive(row, member.sequence, task.moment):
            task.scratch.work[VERIFIED] += 1
            key = key_of(row, words, counts, task.idf, task.dense, task.question, aim)
            if not math.isnan(key):
                n_best = offer(best, n_best, aim.k, key, member.sequence, member.slot)
                limit = limit_of(aim, best, n_best)
    return Found(n_best, found.n_sure, found.n_deferred, limit)


@kernel
def search_nodes(task, n_best):
    """Visit the nodes, the best first, for messages that hold words not tried yet; returns how many are kept.

    Paper: [CKQST] section 2.2, the inverted linear quadtree as object index, dead messages met lazily.
    Departs: nodes hold equal numbers of messages instead of equal areas; segments by time instead of one tree;
    the words of a question are bounded together, node by node.
    """
    index, scratch, aim, moment = task.layout, task.scratch, task.aim, task.moment
    best, sure, queue, leaves = scratch.best, scratch.sure, scratch.queue, scratch.leaves
    n_words = 0
    for i in range(task.terms.size):
        n_words += task.dense[task.terms[i]] > 0.0
    if n_words == 0:
        return n_best
    oldest = max(index.oldest, moment.since, moment.last - moment.newest)
    plan = NodePlan(n_words, oldest, aim.mode == BY_SCORE and nothing_expires(index.segments, moment.clock))
    for i in range(n_best):
        sure[i].key, sure[i].sequence, sure[i].slot = best[i].key, best[i].sequence, best[i].slot
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
