"""The nodes of the message index, visited from the best bound on: kernels.

The bound of a node takes all words of the question together: for `TopK` it adds up the largest unit weight that each
word reaches inside the node, for `Nearest(all)` every word must occur in it. The leaves of a node are visited together,
the best first. A leaf adds up the postings of its messages; only those whose sum and place can still win are verified,
by the exact score.

For `TopK` sum and place are nearly the score itself, and say what a message surely reaches. While nothing expires but
by count, the k best of what is **sure** therefore bound the search, and exact scores wait until its end, when less than
half of the messages are left to verify.
"""

from __future__ import annotations

import math

import numpy as np

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
    key_of,
    limit_of,
    sure_of,
)
from nearcast.window.index.segments import FAN, FAN_BITS, LEAF_BITS, first_node, is_alive, nodes_at, record

SPAN = record(
    ("start", "i8"),  # postings of a word in a leaf
    ("end", "i8"),
)
LATER = record(
    ("bound", "f8"),
    ("member", "i8"),  # counted over all segments
)
LATER_ROOM = 1024
TALLY = record(
    ("text", "f8"),  # sum of weight times unit weight over the words; of a message that was kept what it surely reaches
    ("cap", "f8"),  # squared length of the question's words that occur
    ("hits", "i8"),  # number of words that occur
)


@kernel
def seed(index, terms, dense, scratch, aim):
    """Queue the root of every segment that knows words not tried yet; returns the length of the queue.

    The ways of these words come first.
    """
    segments, boxes, queue, n_terms = index.segments, index.boxes, scratch.queue, terms.size
    n_queue = 0
    for s in range(segments.size):
        text, cap, hits, n = 0.0, 0.0, 0, 0
        for i in range(n_terms):
            if dense[terms[i]] < 0.0:
                continue
            way, to = scratch.ways[s * n_terms + i], scratch.ways[s * n_terms + n]
            to.start, to.end, to.skip, to.depth = way.start, way.end, way.skip, way.depth
            to.weight, to.top = way.weight, way.top
            n += 1
            if to.top > 0.0:
                text += to.weight * to.top
                cap += to.weight * to.weight
                hits += 1
        if hits >= aim.need:
            squared = box_squared(aim.x, aim.y, aim.z, boxes[segments[s].box_start])
            n_queue = push(queue, n_queue, bound_of(aim, squared, min(text, math.sqrt(cap))), s, 0)
    return n_queue


@inlined
def tally_children(ways, skips, postings, segment, depth, node, tallies, spans):
    """Add up what the words can contribute to each child of a node; returns the number of postings read.

    If the children are leaves, `spans` say where each has its postings.
    """
    first = (node - first_node(depth)) << FAN_BITS
    bits = LEAF_BITS + FAN_BITS * (segment.depth - depth - 1)
    n_children = min(FAN, nodes_at(segment.n_members, segment.depth, depth + 1) - first)
    base = segment.posting_start
    n_read = 0
    for i in range(ways.size):
        way = ways[i]
        weight = way.weight
        square = weight * weight
        if way.depth > depth:
            at = way.skip + first_node(depth + 1) - 1 + first
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
        p, end = first_posting(way, skips, postings, segment, depth, node)
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
def push_children(boxes, tallies, aim, limit, queue, n_queue, segment, place):
    """Queue the children of a node that can still win, and clear their tallies; returns the length of the queue.

    `place` is the number of the segment and the node.
    """
    s, node = place
    first = (node << FAN_BITS) + 1
    share = 1.0 - aim.alpha if aim.mode == BY_SCORE else 0.0
    floor = bound_of(aim, box_squared(aim.x, aim.y, aim.z, boxes[segment.box_start + node]), 0.0) - LOOSE
    for child in range(FAN):
        tally = tallies[child]
        text = tally.text
        if tally.hits >= aim.need and floor - share * text <= limit:  # most fail by their words already
            if text * text > tally.cap:
                text = math.sqrt(tally.cap)
            squared = box_squared(aim.x, aim.y, aim.z, boxes[segment.box_start + first + child])
            bound = bound_of(aim, squared, text)
            if bound <= limit:
                n_queue = push(queue, n_queue, bound, s, first + child)
        tally.text = tally.cap = 0.0
        tally.hits = 0
    return n_queue


@inlined
def tally_leaf(ways, spans, leaf, postings, base, tallies, touched):
    """Add up the postings of a node's leaf by message; returns how many messages were touched."""
    n_touched = 0
    for i in range(ways.size):
        weight = ways[i].weight
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
def meet_leaf(spans, n_terms, leaf, postings, base, tallies, touched):
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
def sift_leaf(members, base, tallies, touched, n_touched, aim, moment, limits):
    """Keep the touched messages that can still win, each with its bound as `cap`; returns how many.

    `limits` are the bound beyond which nothing wins, and the bound of the leaf's place alone: with it most messages
    fail by their words, before their places are looked at; then whether the kept ones have what they surely reach as
    their `text`, and the newest message that is gone by count.
    """
    limit, floor, defers, oldest = limits
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
        sure = 0.0
        if oldest < member.sequence <= moment.last:
            dx, dy, dz = member.x - aim.x, member.y - aim.y, member.z - aim.z
            squared = dx * dx + dy * dy + dz * dz
            bound = bound_of(aim, squared, tally.text)
            if bound <= limit:
                tally.cap = bound
                sure = sure_of(aim, squared, tally.text) if defers else 0.0
                touched[n_kept] = rank
                n_kept += 1
        tally.text = sure
    return n_kept


@kernel
def nothing_expires(segments, clock):
    """Is every message alive that the window still counts?"""
    for s in range(segments.size):
        if segments[s].first_expiry <= clock:
            return False
    return True


@inlined
def be_sure(sure, n_sure, k, key, member):
    """Count what a message surely reaches, unless it does so already by a rare word; returns how many are counted."""
    if n_sure == k and key >= sure[0].key:
        return n_sure
    for i in range(n_sure):
        if sure[i].slot == member.slot:
            return n_sure
    return offer(sure, n_sure, k, key, member.sequence, member.slot)


@kernel
def verify_later(index, messages, idf, question, dense, moment, task):
    """Verify the first `n_later` messages of `scratch.later` that may win yet; returns how many are kept."""
    scratch, aim, n, n_later, limit = task
    later, members, best = scratch.later, index.members, scratch.best
    rows, words, counts = messages.rows, messages.terms, messages.counts
    for i in range(n_later):
        if later[i].bound <= limit:
            prefetch(rows, members[later[i].member].slot)
    for i in range(n_later):
        if later[i].bound <= limit:
            start = rows[members[later[i].member].slot].term_start
            prefetch(words, start)
            prefetch(counts, start)
    for i in range(n_later):
        if later[i].bound > limit:
            continue
        member = members[later[i].member]
        scratch.work[VERIFIED] += 1
        key = key_of(rows[member.slot], words, counts, idf, dense, question, aim)
        if not math.isnan(key):
            n = offer(best, n, aim.k, key, member.sequence, member.slot)
    return n


@inlined
def fetch_node(ways, segment, node, boxes, skips, postings):
    """Fetch what a look at the children of a node will read.

    A third of the samples of a search over a million messages were at eight loads that miss the caches (2026-11-16).
    """
    depth = 0
    while node >= first_node(depth + 1):
        depth += 1
    first = (node << FAN_BITS) + 1
    for child in range(FAN):
        prefetch(boxes, segment.box_start + first + child)
    for i in range(ways.size):
        if ways[i].depth > depth:
            at = ways[i].skip + first - 1
            prefetch(skips, at)
            prefetch(skips, at + FAN // 2)
            prefetch(skips, at + FAN - 1)
        elif ways[i].depth == depth and depth > 0:
            start = segment.posting_start + skips[ways[i].skip + node - 1].start
            prefetch(postings, start)
            prefetch(postings, start + FAN // 2)


@kernel
def search_nodes(index, messages, idf, question, terms, dense, moment, task):
    """Go through the nodes, the best first, for messages that hold words not tried yet; returns how many are kept.

    Paper: [CKQST] section 2.2, the inverted linear quadtree as object index, dead messages met lazily.
    Departs: nodes hold equal numbers of messages instead of equal areas; segments by time instead of one tree;
    the words of a question are bounded together, node by node.
    """
    scratch, aim, n = task
    segments, members, boxes, skips, postings = index.segments, index.members, index.boxes, index.skips, index.postings
    best, queue, leaves, work, n_terms = scratch.best, scratch.queue, scratch.leaves, scratch.work, terms.size
    tallies, spans, touched = scratch.tallies, scratch.spans, scratch.touched
    rows, words, counts = messages.rows, messages.terms, messages.counts
    n_rest = 0
    for i in range(n_terms):
        n_rest += dense[terms[i]] > 0.0
    sure, later = scratch.sure, scratch.later
    oldest = max(index.oldest, moment.since, moment.last - moment.newest)
    defers, n_sure, n_later = aim.mode == BY_SCORE and nothing_expires(segments, moment.clock), n, 0
    for i in range(n):
        sure[i].key, sure[i].sequence, sure[i].slot = best[i].key, best[i].sequence, best[i].slot
    limit = limit_of(aim, best, n)
    n_queue = seed(index, terms, dense, scratch, aim) if n_rest > 0 else 0
    while n_queue > 0 and queue[0].bound <= limit:
        s, node = queue[0].segment, queue[0].node
        n_queue = pop(queue, n_queue)
        work[NODES] += 1
        depth = 0
        while node >= first_node(depth + 1):
            depth += 1
        segment = segments[s]
        if n_queue > 0:
            after = queue[0].segment
            there = scratch.ways[after * n_terms : after * n_terms + n_rest]
            fetch_node(there, segments[after], np.int64(queue[0].node), boxes, skips, postings)
        ways = scratch.ways[s * n_terms : s * n_terms + n_rest]
        work[POSTINGS] += tally_children(ways, skips, postings, segment, depth, node, tallies, spans)
        if depth + 1 < segment.depth:
            n_queue = push_children(boxes, tallies, aim, limit, queue, n_queue, segment, (s, node))
            continue
        n_leaves = push_children(boxes, tallies, aim, limit, leaves, 0, segment, (s, node))
        for i in range(n_leaves * n_rest):
            leaf = leaves[i // n_rest].node - first_node(depth + 1)
            prefetch(postings, spans[(i % n_rest) * FAN + (leaf & (FAN - 1))].start)
        while n_leaves > 0 and leaves[0].bound <= limit:
            leaf = leaves[0].node - first_node(depth + 1)
            n_leaves = pop(leaves, n_leaves)
            work[LEAVES] += 1
            child, first = leaf & (FAN - 1), leaf << LEAF_BITS
            if aim.mode == ALL:
                n_touched = meet_leaf(spans, n_rest, child, postings, first, tallies, touched)
            else:
                n_touched = tally_leaf(ways, spans, child, postings, first, tallies, touched)
            base = segment.member_start + first
            floor = bound_of(
                aim, box_squared(aim.x, aim.y, aim.z, boxes[segment.box_start + first_node(depth + 1) + leaf]), 0.0
            )
            n_kept = sift_leaf(
                members, base, tallies, touched, n_touched, aim, moment, (limit, floor - LOOSE, defers, oldest)
            )
            work[POSTINGS] += n_touched
            if defers:
                if n_later + n_kept > later.size:
                    n = verify_later(index, messages, idf, question, dense, moment, (scratch, aim, n, n_later, limit))
                    n_later = 0
                for i in range(n_kept):
                    tally = tallies[touched[i]]
                    if tally.cap <= limit:
                        n_sure = be_sure(sure, n_sure, aim.k, tally.text, members[base + touched[i]])
                        limit = limit_of(aim, sure, n_sure)
                        later[n_later].bound, later[n_later].member = tally.cap, base + touched[i]
                        n_later += 1
                    tally.text = tally.cap = 0.0
                continue
            for i in range(n_kept):
                prefetch(rows, members[base + touched[i]].slot)
            for i in range(n_kept):
                start = rows[members[base + touched[i]].slot].term_start
                prefetch(words, start)
                prefetch(counts, start)
            for i in range(n_kept):
                member, tally = members[base + touched[i]], tallies[touched[i]]
                bound, tally.cap = tally.cap, 0.0
                row = rows[member.slot]
                if bound <= limit and is_alive(row, member.sequence, moment.last, moment.clock, moment.newest):
                    work[VERIFIED] += 1
                    key = key_of(row, words, counts, idf, dense, question, aim)
                    if math.isnan(key):
                        continue
                    n = offer(best, n, aim.k, key, member.sequence, member.slot)
                    limit = limit_of(aim, best, n)
    if n_later > 0:
        n = verify_later(index, messages, idf, question, dense, moment, (scratch, aim, n, n_later, limit))
    return n
