"""Words, a place and a moment go in; the best live messages come out, best first: kernels over the index.

One search serves `TopK` and both kinds of `Nearest`. It keeps a queue of nodes, ordered by a bound that no message inside
can beat, and stops when the first of the queue cannot beat the k-th message found. The bound of a node takes all words of the
question together: for `TopK` it adds up the largest unit weight that each word reaches inside the node, for `Nearest(all)` every
word must occur in it. A leaf adds up the postings of its messages; only those whose sum and place can still win
are verified, by the exact score.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from nearcast.columns.arena import Array, Ints, Longs
from nearcast.columns.scores import dot, topk_score
from nearcast.jit import NEED_ROOM, kernel
from nearcast.space.distance import distance, ssim
from nearcast.window.curve import at_least, box_squared, squared_limit, to_point
from nearcast.window.segments import (
    FAN,
    FAN_BITS,
    LEAF,
    LEAF_BITS,
    NO_TERM,
    bit_of,
    first_node,
    is_alive,
    list_place,
    nodes_at,
    record,
)

TOPK, ALL, ANY = range(3)

SEARCHES, NODES, POSTINGS, VERIFIED = range(4)  # positions of the work counters
N_COUNTERS = 4

_LOOSE = 1e-12

QUEUED = record(
    ("bound", "f8"),
    ("segment", "i4"),
    ("node", "i4"),
)
WAY = record(
    ("start", "i8"),  # its postings, counted over all segments; none: the segment does not know the word
    ("end", "i8"),
    ("skip", "i8"),  # its skips, counted over all segments
    ("depth", "i8"),  # of the deepest nodes that have skips
    ("weight", "f8"),  # of the word in the question, as part of its unit vector
)
TALLY = record(
    ("text", "f8"),  # sum of weight times unit weight over the words
    ("cap", "f8"),  # squared length of the question's words that occur
    ("hits", "i8"),  # number of words that occur
)
BEST = record(
    ("key", "f8"),  # distance, or minus the score while searching: the smaller the better
    ("sequence", "i8"),
    ("slot", "i4"),
)


class Question(NamedTuple):
    """What is asked: `mode` is TOPK, ALL or ANY; `alpha` and `norm`, the length of the tf-idf vector, matter for TOPK alone."""

    mode: int
    x: float
    y: float
    k: int
    alpha: float
    norm: float


class Moment(NamedTuple):
    """As of when, and only messages newer than `since`."""

    last: int
    clock: int
    count: int
    since: int


class Aim(NamedTuple):
    """A question and the space, prepared for bounds."""

    mode: int
    need: int  # words that a message must hold
    alpha: float
    metric: int
    max_distance: float
    x: float
    y: float
    z: float


class Scratch(NamedTuple):
    """Room for one search at a time, and where its answer is."""

    best: Array  # BEST[>= k]: the answer
    queue: Array  # QUEUED[]: a heap of nodes, the best bound first
    ways: Array  # WAY[]: by segment and word
    tallies: Array  # TALLY[LEAF]: for each child of a node or message of a leaf, zeros between uses
    touched: Ints  # int32[LEAF]: messages of a leaf
    work: Longs  # int64[N_COUNTERS]: work counters


@kernel
def worse(a, b):
    """Does the first message come after the second?"""
    return a.key > b.key or (a.key == b.key and a.sequence < b.sequence)


@kernel
def swap(heap, i, j):
    """Exchange two messages."""
    a, b = heap[i], heap[j]
    a.key, b.key = b.key, a.key
    a.sequence, b.sequence = b.sequence, a.sequence
    a.slot, b.slot = b.slot, a.slot


@kernel
def sift_best(heap, n):
    """Let the first message sink to its place: the worst of n messages comes first."""
    at = 0
    while 2 * at + 1 < n:
        child = 2 * at + 1
        if child + 1 < n and worse(heap[child + 1], heap[child]):
            child += 1
        if not worse(heap[child], heap[at]):
            return
        swap(heap, at, child)
        at = child


@kernel
def offer(heap, n, k, key, sequence, slot):
    """Keep the message if it is among the k best; returns how many are kept."""
    if n == k:
        worst = heap[0]
        if key > worst.key or (key == worst.key and sequence < worst.sequence):
            return n
        worst.key, worst.sequence, worst.slot = key, sequence, slot
        sift_best(heap, n)
        return n
    new = heap[n]
    new.key, new.sequence, new.slot = key, sequence, slot
    at = n
    while at > 0 and worse(heap[at], heap[(at - 1) >> 1]):
        swap(heap, at, (at - 1) >> 1)
        at = (at - 1) >> 1
    return n + 1


@kernel
def push(queue, n, bound, segment, node):
    """Add a node to the queue; returns its new length."""
    at = n
    while at > 0 and queue[(at - 1) >> 1].bound > bound:
        over = queue[(at - 1) >> 1]
        entry = queue[at]
        entry.bound, entry.segment, entry.node = over.bound, over.segment, over.node
        at = (at - 1) >> 1
    entry = queue[at]
    entry.bound, entry.segment, entry.node = bound, segment, node
    return n + 1


@kernel
def pop(queue, n):
    """Drop the first node of the queue; returns its new length."""
    n -= 1
    last = queue[n]
    at = 0
    while 2 * at + 1 < n:
        child = 2 * at + 1
        if child + 1 < n and queue[child + 1].bound < queue[child].bound:
            child += 1
        if queue[child].bound >= last.bound:
            break
        entry, under = queue[at], queue[child]
        entry.bound, entry.segment, entry.node = under.bound, under.segment, under.node
        at = child
    entry = queue[at]
    entry.bound, entry.segment, entry.node = last.bound, last.segment, last.node
    return n


@kernel
def bound_of(aim, squared, text):
    """What no message beats whose point lies that far away, squared, and whose cosine is at most `text`."""
    if aim.mode != TOPK:
        return squared
    near = max(0.0, 1.0 - at_least(aim.metric, squared) / aim.max_distance)
    return -(aim.alpha * near + (1.0 - aim.alpha) * text) - _LOOSE


@kernel
def limit_of(aim, best, n, k):
    """The bound beyond which nothing enters the answer any more."""
    if n < k:
        return np.inf
    return best[0].key if aim.mode == TOPK else squared_limit(aim.metric, best[0].key)


@kernel
def verify(index, messages, idf, question, dense, slot, best, n):
    """Offer a live message by its exact score; returns how many are kept."""
    row = messages.rows[slot]
    key = distance(index.metric, question.x, question.y, row.x, row.y)
    if question.mode == TOPK:
        total = dot(messages, slot, idf, dense)
        key = -topk_score(question.alpha, ssim(key, index.max_distance), total, question.norm, row.norm)
    return offer(best, n, question.k, key, row.sequence, slot)


@kernel
def scan_recent(index, messages, idf, question, terms, dense, moment, scratch):
    """Try every recent message; returns how many are kept."""
    recent, rows, words = index.recent, messages.rows, messages.terms
    bits = 0
    for i in range(terms.size):
        bits |= bit_of(terms[i])
    n = 0
    for at in range(recent.size):
        entry = recent[at]
        shared = entry.bits & bits
        if shared == 0 or (question.mode == ALL and shared != bits):
            continue
        row = rows[entry.slot]
        if entry.sequence <= moment.since or not is_alive(row, entry.sequence, moment.last, moment.clock, moment.count):
            continue
        hits = 0
        for i in range(row.term_start, row.term_start + row.n_terms):
            if dense[words[i]] != 0.0:
                hits += 1
        if hits == terms.size or (hits > 0 and question.mode != ALL):
            scratch.work[VERIFIED] += 1
            n = verify(index, messages, idf, question, dense, entry.slot, scratch.best, n)
    return n


@kernel
def find_way(lists, segment, term, way):
    """Look up a word in a segment; returns its largest unit weight, 0 if the segment does not know it."""
    found = lists[list_place(lists, segment.list_start, segment.n_lists, term)]
    if found.term == NO_TERM:
        way.start = way.end = way.depth = 0
        return 0.0
    way.start = segment.posting_start + found.start
    way.end = way.start + found.n
    way.skip = segment.skip_start + found.skip
    way.depth = found.depth
    return float(found.top)


@kernel
def seed(index, question, terms, dense, moment, scratch, aim):
    """Look up the words in every segment and queue its root; returns the length of the queue."""
    segments, boxes, lists = index.segments, index.boxes, index.lists
    queue, ways, n_terms = scratch.queue, scratch.ways, terms.size
    n_queue = 0
    for s in range(segments.size):
        segment = segments[s]
        if (
            segment.last_sequence <= max(moment.since, moment.last - moment.count)
            or segment.first_sequence > moment.last
        ):
            continue
        if segment.last_expiry <= moment.clock:
            continue
        text, cap, hits = 0.0, 0.0, 0
        for i in range(n_terms):
            way = ways[s * n_terms + i]
            top = find_way(lists, segment, terms[i], way)
            if top > 0.0:
                way.weight = dense[terms[i]] / question.norm
                text += way.weight * top
                cap += way.weight * way.weight
                hits += 1
        if hits >= aim.need:
            squared = box_squared(aim.x, aim.y, aim.z, boxes[segment.box_start])
            n_queue = push(queue, n_queue, bound_of(aim, squared, min(text, math.sqrt(cap))), s, 0)
    return n_queue


@kernel
def first_posting(way, skips, postings, segment, depth, node):
    """Where the postings of a node begin, and where at the latest they end: ranks tell whether one still belongs to it."""
    start, end = way.start, way.end
    shift = FAN_BITS * (depth - way.depth)
    if way.depth > 0 and depth > 0:
        above = node if shift <= 0 else ((node - first_node(depth)) >> shift) + first_node(way.depth)
        skip = skips[way.skip + above - 1]
        start, end = segment.posting_start + skip.start, segment.posting_start + skip.end
    if shift > 0:
        rank = (node - first_node(depth)) << (LEAF_BITS + FAN_BITS * (segment.depth - depth))
        high = end
        while start < high:
            mid = (start + high) >> 1
            if postings[mid].rank < rank:
                start = mid + 1
            else:
                high = mid
    return start, end


@kernel
def tally_children(ways, skips, postings, segment, depth, node, tallies):
    """Add up what the words can contribute to each child of a node; returns the number of postings read."""
    first = (node - first_node(depth)) << FAN_BITS
    bits = LEAF_BITS + FAN_BITS * (segment.depth - depth - 1)
    n_children = min(FAN, nodes_at(segment.n_members, segment.depth, depth + 1) - first)
    n_read = 0
    for i in range(ways.size):
        way = ways[i]
        weight = way.weight
        if way.depth > depth:
            at = way.skip + first_node(depth + 1) - 1 + first
            for child in range(n_children):
                skip = skips[at + child]
                if skip.end > skip.start:
                    tallies[child].text += skip.top * weight
                    tallies[child].cap += weight * weight
                    tallies[child].hits += 1
            continue
        p, end = first_posting(way, skips, postings, segment, depth, node)
        last = -1
        top = 0.0
        while p < end:
            child = (postings[p].rank >> bits) - first
            if child >= FAN:
                break
            if child != last:
                if last >= 0:
                    tallies[last].text += top * weight
                last = child
                top = 0.0
                tallies[child].cap += weight * weight
                tallies[child].hits += 1
            top = max(top, postings[p].unit)
            p += 1
            n_read += 1
        if last >= 0:
            tallies[last].text += top * weight
    return n_read


@kernel
def push_children(boxes, tallies, aim, limit, queue, n_queue, segment, place):
    """Queue the children of a node that can still win, and clear their tallies; returns the length of the queue.

    `place` is the number of the segment and the node.
    """
    s, node = place
    first = (node << FAN_BITS) + 1
    for child in range(FAN):
        tally = tallies[child]
        if tally.hits >= aim.need:
            squared = box_squared(aim.x, aim.y, aim.z, boxes[segment.box_start + first + child])
            text = tally.text
            if text * text > tally.cap:
                text = math.sqrt(tally.cap)
            bound = bound_of(aim, squared, text)
            if bound <= limit:
                n_queue = push(queue, n_queue, bound, s, first + child)
        tally.text = tally.cap = 0.0
        tally.hits = 0
    return n_queue


@kernel
def tally_leaf(ways, skips, postings, segment, depth, node, tallies, touched):
    """Add up the postings of a leaf by message; returns how many messages were touched."""
    base = (node - first_node(depth)) << LEAF_BITS
    n_touched = 0
    for i in range(ways.size):
        way = ways[i]
        p, end = first_posting(way, skips, postings, segment, depth, node)
        while p < end:
            rank = postings[p].rank - base
            if rank >= LEAF:
                break
            tally = tallies[rank]
            if tally.hits == 0:
                touched[n_touched] = rank
                n_touched += 1
            tally.hits += 1
            tally.text += postings[p].unit * way.weight
            p += 1
    return n_touched


@kernel
def sift_leaf(members, base, tallies, touched, n_touched, aim, moment, limit):
    """Keep the touched messages that can still win, each with its bound as `cap`; returns how many, and the postings read."""
    oldest = max(moment.since, moment.last - moment.count)
    n_kept = 0
    n_read = 0
    for i in range(n_touched):
        rank = touched[i]
        tally = tallies[rank]
        n_read += tally.hits
        if tally.hits >= aim.need:
            member = members[base + rank]
            if oldest < member.sequence <= moment.last:
                dx, dy, dz = member.x - aim.x, member.y - aim.y, member.z - aim.z
                bound = bound_of(aim, dx * dx + dy * dy + dz * dz, tally.text)
                if bound <= limit:
                    tally.cap = bound
                    touched[n_kept] = rank
                    n_kept += 1
        tally.text = 0.0
        tally.hits = 0
    return n_kept, n_read


@kernel
def sort_best(best, n, mode):
    """Turn the heap of messages into a list, best first, with scores instead of keys for TOPK."""
    for end in range(n - 1, 0, -1):
        swap(best, 0, end)
        sift_best(best, end)
    if mode == TOPK:
        for i in range(n):
            best[i].key = -best[i].key


@kernel
def search(index, messages, idf, question, terms, dense, moment, scratch):
    """Write the k best live messages to `scratch.best`, best first; returns how many there are, or NEED_ROOM.

    `terms` are the distinct words of the question, `dense` holds their weights and is 0 elsewhere: count * idf for TOPK, anything
    positive for ALL and ANY. On return `key` is the score (TOPK) or the distance (ALL, ANY).

    Paper: [CkQST] section 2.2, the inverted linear quadtree as object index, dead messages met lazily.
    Departs: nodes hold equal numbers of messages instead of equal areas; segments by time instead of one tree;
    the words of a question are bounded together, node by node.
    """
    segments, members, boxes, skips, postings = index.segments, index.members, index.boxes, index.skips, index.postings
    best, queue, tallies, touched, work = scratch.best, scratch.queue, scratch.tallies, scratch.touched, scratch.work
    rows, n_terms = messages.rows, terms.size
    k = min(question.k, members.size + index.recent.size)
    if boxes.size > queue.size or segments.size * n_terms > scratch.ways.size or k > best.size:
        return NEED_ROOM
    need = n_terms if question.mode == ALL else 1
    x, y, z = to_point(index.metric, question.x, question.y)
    aim = Aim(question.mode, need, question.alpha, index.metric, index.max_distance, x, y, z)
    n = scan_recent(index, messages, idf, question, terms, dense, moment, scratch)
    limit = limit_of(aim, best, n, k)
    n_queue = seed(index, question, terms, dense, moment, scratch, aim)
    work[SEARCHES] += 1
    while n_queue > 0 and queue[0].bound <= limit:
        s, node = queue[0].segment, queue[0].node
        n_queue = pop(queue, n_queue)
        work[NODES] += 1
        depth = 0
        while node >= first_node(depth + 1):
            depth += 1
        segment = segments[s]
        ways = scratch.ways[s * n_terms : (s + 1) * n_terms]
        if depth < segment.depth:
            work[POSTINGS] += tally_children(ways, skips, postings, segment, depth, node, tallies)
            n_queue = push_children(boxes, tallies, aim, limit, queue, n_queue, segment, (s, node))
            continue
        n_touched = tally_leaf(ways, skips, postings, segment, depth, node, tallies, touched)
        base = segment.member_start + ((node - first_node(depth)) << LEAF_BITS)
        n_kept, n_read = sift_leaf(members, base, tallies, touched, n_touched, aim, moment, limit)
        work[POSTINGS] += n_read
        for i in range(n_kept):
            member = members[base + touched[i]]
            bound = tallies[touched[i]].cap
            tallies[touched[i]].cap = 0.0
            if bound <= limit and is_alive(rows[member.slot], member.sequence, moment.last, moment.clock, moment.count):
                work[VERIFIED] += 1
                n = verify(index, messages, idf, question, dense, member.slot, best, n)
                limit = limit_of(aim, best, n, k)
    sort_best(best, n, question.mode)
    return n
