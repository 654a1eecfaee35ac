"""Words, a place and a moment go in; the best live messages come out, best first: kernels over the index.

One search serves `TopK` and both kinds of `Nearest`. It keeps a queue of nodes, ordered by a bound that no message
inside can beat, and stops when the first of the queue cannot beat the k-th message found. The bound of a node takes all
words of the question together: for `TopK` it adds up the largest unit weight that each word reaches inside the node,
for `Nearest(all)` every word must occur in it. The leaves of a node are visited together, the best first. A leaf adds
up the postings of its messages; only those whose sum and place can still win are verified, by the exact score.

Words that few messages hold are not looked for in nodes: for `TopK` all their messages are tried first, and nodes are
bounded by the frequent words alone, since whoever holds a rare one has been tried.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from nearcast.columns.arena import Array, Ints, Longs
from nearcast.columns.scores import topk_score
from nearcast.jit import NEED_ROOM, inlined, kernel, prefetch
from nearcast.space.distance import distance, ssim
from nearcast.window.curve import at_least, box_squared, squared_limit, to_point
from nearcast.window.heaps import offer, pop, push, sort_best
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

SEARCHES, NODES, LEAVES, POSTINGS, VERIFIED = range(5)  # positions of the work counters
N_COUNTERS = 5

_LOOSE = 1e-12
_BLUR = 4e-7  # relative; a float32 unit weight is rounded up by less
# So many messages are tried one by one rather than looked for in nodes: over a million messages a search took 535 us
# without that, 479 with 512, 468 with 1,024 and 515 with 2,048 (2026-11-16, on a busy machine).
_FEW = 1024
_AHEAD = 8  # what is looked at so much later is fetched

WAY = record(
    ("start", "i8"),  # its postings, counted over all segments; none: the segment does not know the word
    ("end", "i8"),
    ("skip", "i8"),  # its skips, counted over all segments
    ("depth", "i8"),  # of the deepest nodes that have skips
    ("weight", "f8"),  # of the word in the question, as part of its unit vector
    ("top", "f8"),  # largest unit weight
)
SPAN = record(
    ("start", "i8"),  # postings of a word in a leaf
    ("end", "i8"),
)
TALLY = record(
    ("text", "f8"),  # sum of weight times unit weight over the words
    ("cap", "f8"),  # squared length of the question's words that occur
    ("hits", "i8"),  # number of words that occur
)


class Question(NamedTuple):
    """What is asked, `mode` being TOPK, ALL or ANY; `alpha` and `norm`, of the tf-idf vector, matter for TOPK alone."""

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
    newest: int  # how many of the newest messages live
    since: int


class Aim(NamedTuple):
    """A question and the space, prepared for bounds."""

    mode: int
    need: int  # words that a message must hold
    k: int
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
    spans: Array  # SPAN[]: by word and leaf of the node at hand
    leaves: Array  # QUEUED[FAN]: a heap of the leaves of the node at hand, the best bound first
    tallies: Array  # TALLY[LEAF]: for each child of a node or message of a leaf, zeros between uses
    touched: Ints  # int32[LEAF]: messages of a leaf
    work: Longs  # int64[N_COUNTERS]: work counters


@inlined
def bound_of(aim, squared, text):
    """What no message beats whose point lies that far away, squared, and whose cosine is at most `text`."""
    if aim.mode != TOPK:
        return squared
    near = max(0.0, 1.0 - at_least(aim.metric, squared) / aim.max_distance)
    return -(aim.alpha * near + (1.0 - aim.alpha) * text) - _LOOSE


@inlined
def limit_of(aim, best, n):
    """The bound beyond which nothing enters the answer any more."""
    if n < aim.k:
        return np.inf
    return best[0].key if aim.mode == TOPK else squared_limit(aim.metric, best[0].key)


@inlined
def fresh_dot(words, counts, row, idf, dense):
    """`dot_row` of a message, or -1 if it holds a word that was tried already: its weight in `dense` is negative."""
    total = 0.0
    for i in range(row.term_start, row.term_start + row.n_terms):
        other = dense[words[i]]
        if other < 0.0:
            return -1.0
        if other > 0.0:
            total += (counts[i] * idf[words[i]]) * other
    return total


@inlined
def key_of(row, words, counts, idf, dense, question, metric, max_distance):
    """The exact distance of a message, or minus its exact score; NaN if it was tried already."""
    total = 0.0
    if question.mode == TOPK:
        total = fresh_dot(words, counts, row, idf, dense)
        if total < 0.0:
            return np.nan
    key = distance(metric, question.x, question.y, row.x, row.y)
    if question.mode != TOPK:
        return key
    return -topk_score(question.alpha, ssim(key, max_distance), total, question.norm, row.norm)


@kernel
def scan_recent(index, messages, idf, question, terms, dense, moment, scratch):
    """Try every recent message; returns how many are kept."""
    recent, rows, words, counts = index.recent, messages.rows, messages.terms, messages.counts
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
        if entry.sequence <= moment.since or not is_alive(
            row, entry.sequence, moment.last, moment.clock, moment.newest
        ):
            continue
        hits = 0
        for i in range(row.term_start, row.term_start + row.n_terms):
            if dense[words[i]] != 0.0:
                hits += 1
        if hits == terms.size or (hits > 0 and question.mode != ALL):
            scratch.work[VERIFIED] += 1
            key = key_of(row, words, counts, idf, dense, question, index.metric, index.max_distance)
            n = offer(scratch.best, n, question.k, key, entry.sequence, entry.slot)
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
def find_ways(index, question, terms, dense, moment, ways):
    """Look up the words in every segment where something may live; elsewhere they have no postings."""
    segments, lists = index.segments, index.lists
    for s in range(segments.size):
        segment = segments[s]
        gone = (
            segment.last_sequence <= max(moment.since, moment.last - moment.newest)
            or segment.first_sequence > moment.last
            or segment.last_expiry <= moment.clock
        )
        for i in range(terms.size):
            way = ways[s * terms.size + i]
            way.start = way.end = way.depth = 0
            way.top = 0.0 if gone else find_way(lists, segment, terms[i], way)
            way.weight = dense[terms[i]] / question.norm


@kernel
def scan_word(index, messages, idf, question, terms, dense, moment, task):
    """Try every message that holds a word and none tried before; returns how many are kept.

    `task` is scratch, the aim, the word's position, and how many are kept so far. By the word's weight in a message
    and in the question, and by Cauchy and Schwarz for what else they may share, most fail at once.
    """
    scratch, aim, word, n = task
    n_terms = terms.size
    segments, members, postings, work = index.segments, index.members, index.postings, scratch.work
    best, touched, ways = scratch.best, scratch.touched, scratch.ways
    rows, words, counts = messages.rows, messages.terms, messages.counts
    oldest = max(moment.since, moment.last - moment.newest)
    limit = limit_of(aim, best, n)
    weight = ways[word].weight
    others = 0.0
    for i in range(n_terms):
        if i != word and dense[terms[i]] > 0.0:
            others += ways[i].weight * ways[i].weight
    others = math.sqrt(others)
    for s in range(segments.size):
        p, end = ways[s * n_terms + word].start, ways[s * n_terms + word].end
        base = segments[s].member_start
        work[POSTINGS] += end - p
        while p < end:
            stop = min(p + LEAF, end)
            n_kept = 0
            for q in range(p, stop):
                if q + _AHEAD < end:
                    prefetch(members, base + postings[q + _AHEAD].rank)
                member = members[base + postings[q].rank]
                if not oldest < member.sequence <= moment.last:
                    continue
                unit = min(1.0, np.float64(postings[q].unit))
                less = unit * (1.0 - _BLUR)
                dx, dy, dz = member.x - aim.x, member.y - aim.y, member.z - aim.z
                text = unit * weight + math.sqrt(1.0 - less * less) * others
                if bound_of(aim, dx * dx + dy * dy + dz * dz, text) <= limit:
                    prefetch(rows, member.slot)
                    touched[n_kept] = postings[q].rank
                    n_kept += 1
            for i in range(n_kept):
                start = rows[members[base + touched[i]].slot].term_start
                prefetch(words, start)
                prefetch(counts, start)
            for i in range(n_kept):
                member = members[base + touched[i]]
                row = rows[member.slot]
                if not is_alive(row, member.sequence, moment.last, moment.clock, moment.newest):
                    continue
                total = fresh_dot(words, counts, row, idf, dense)
                dx, dy, dz = member.x - aim.x, member.y - aim.y, member.z - aim.z
                squared = dx * dx + dy * dy + dz * dz
                if total < 0.0 or bound_of(aim, squared, total / (question.norm * row.norm)) > limit:
                    continue
                work[VERIFIED] += 1
                near = ssim(distance(aim.metric, question.x, question.y, row.x, row.y), aim.max_distance)
                key = -topk_score(question.alpha, near, total, question.norm, row.norm)
                n = offer(best, n, aim.k, key, member.sequence, member.slot)
                limit = limit_of(aim, best, n)
            p = stop
    return n


@kernel
def scan_rare(index, messages, idf, question, terms, dense, moment, task):
    """Try the messages of the rarest words, as long as those are few; returns how many are kept.

    `task` is scratch, the aim, and how many are kept so far. The weights of these words
    in `dense` are negative afterwards.
    """
    scratch, aim, n = task
    n_terms, ways = terms.size, scratch.ways
    sizes = np.zeros(n_terms, dtype=np.int64)
    for i in range(index.segments.size * n_terms):
        sizes[i % n_terms] += ways[i].end - ways[i].start
    n_tried = 0
    while True:
        rarest, least = -1, _FEW - n_tried
        for i in range(n_terms):
            if sizes[i] <= least and dense[terms[i]] > 0.0:
                rarest, least = i, sizes[i]
        if rarest < 0:
            return n
        n = scan_word(index, messages, idf, question, terms, dense, moment, (scratch, aim, rarest, n))
        dense[terms[rarest]] = -dense[terms[rarest]]
        n_tried += least


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
def first_posting(way, skips, postings, segment, depth, node):
    """Where the postings of a node begin, and where at the latest they end: ranks tell whether one belongs to it."""
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


@inlined
def tally_children(ways, skips, postings, segment, depth, node, tallies, spans):
    """Add up what the words can contribute to each child of a node; returns the number of postings read.

    If the children are leaves, `spans` say where each has its postings.
    """
    first = (node - first_node(depth)) << FAN_BITS
    bits = LEAF_BITS + FAN_BITS * (segment.depth - depth - 1)
    n_children = min(FAN, nodes_at(segment.n_members, segment.depth, depth + 1) - first)
    n_read = 0
    for i in range(ways.size):
        way = ways[i]
        weight, base = way.weight, segment.posting_start
        if way.depth > depth:
            at = way.skip + first_node(depth + 1) - 1 + first
            for child in range(n_children):
                skip = skips[at + child]
                span = spans[i * FAN + child]
                span.start, span.end = base + skip.start, base + skip.end
                if skip.end > skip.start:
                    tally = tallies[child]
                    tally.text += skip.top * weight
                    tally.cap += weight * weight
                    tally.hits += 1
            continue
        p, end = first_posting(way, skips, postings, segment, depth, node)
        n_read -= p
        for child in range(n_children):
            span = spans[i * FAN + child]
            span.start = p
            stop = (first + child + 1) << bits
            top = np.float32(0.0)
            while p < end and postings[p].rank < stop:
                top = max(top, postings[p].unit)
                p += 1
            span.end = p
            if p > span.start:
                tally = tallies[child]
                tally.text += top * weight
                tally.cap += weight * weight
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
    share = 1.0 - aim.alpha if aim.mode == TOPK else 0.0
    floor = bound_of(aim, box_squared(aim.x, aim.y, aim.z, boxes[segment.box_start + node]), 0.0) - _LOOSE
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
    fail by their words, before their places are looked at.
    """
    limit, floor = limits
    share = 1.0 - aim.alpha if aim.mode == TOPK else 0.0
    oldest = max(moment.since, moment.last - moment.newest)
    n_kept = 0
    for i in range(n_touched):
        rank = touched[i]
        tally = tallies[rank]
        if tally.hits >= aim.need and floor - share * tally.text <= limit:
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
    return n_kept


@inlined
def fetch_node(ways, segment, node, boxes, skips):
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
            later = queue[0].segment
            there = scratch.ways[later * n_terms : later * n_terms + n_rest]
            fetch_node(there, segments[later], np.int64(queue[0].node), boxes, skips)
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
            n_kept = sift_leaf(members, base, tallies, touched, n_touched, aim, moment, (limit, floor - _LOOSE))
            work[POSTINGS] += n_touched
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
                    key = key_of(row, words, counts, idf, dense, question, aim.metric, aim.max_distance)
                    if math.isnan(key):
                        continue
                    n = offer(best, n, aim.k, key, member.sequence, member.slot)
                    limit = limit_of(aim, best, n)
    return n


@kernel
def search(index, messages, idf, question, terms, dense, moment, scratch):
    """Write the k best live messages to `scratch.best`, best first; returns how many there are, or NEED_ROOM.

    `terms` are the distinct words of the question, `dense` holds their weights and is 0 elsewhere: count * idf for
    TOPK, anything positive for ALL and ANY. On return `key` is the score (TOPK) or the distance (ALL, ANY).
    """
    best, n_terms = scratch.best, terms.size
    k = min(question.k, index.members.size + index.recent.size)
    if index.boxes.size > scratch.queue.size or index.segments.size * n_terms > scratch.ways.size:
        return NEED_ROOM
    if k > best.size or n_terms * FAN > scratch.spans.size:
        return NEED_ROOM
    x, y, z = to_point(index.metric, question.x, question.y)
    need = n_terms if question.mode == ALL else 1
    aim = Aim(question.mode, need, k, question.alpha, index.metric, index.max_distance, x, y, z)
    scratch.work[SEARCHES] += 1
    n = scan_recent(index, messages, idf, question, terms, dense, moment, scratch)
    find_ways(index, question, terms, dense, moment, scratch.ways)
    if question.mode == TOPK:
        n = scan_rare(index, messages, idf, question, terms, dense, moment, (scratch, aim, n))
    n = search_nodes(index, messages, idf, question, terms, dense, moment, (scratch, aim, n))
    for i in range(n_terms):
        dense[terms[i]] = abs(dense[terms[i]])
    sort_best(best, n)
    if question.mode == TOPK:
        for i in range(n):
            best[i].key = -best[i].key
    return n
