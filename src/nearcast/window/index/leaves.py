"""Looks for the best messages in one leaf of the message index: kernels.

A leaf adds up the postings of its messages by message. Those whose sum and place can still win are **kept**, and
verified by the exact score, at once or at the end of the search; see `nodes.py`.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from nearcast.columns.arena import Array, Floats, Ints, Longs, record
from nearcast.jit import inlined, kernel, prefetch
from nearcast.space.hilbert import box_squared
from nearcast.window.index.heaps import offer
from nearcast.window.index.query import (
    ALL,
    BY_SCORE,
    LEAVES,
    LOOSE,
    POSTINGS,
    VERIFIED,
    SearchTask,
    bound_of,
    fade_bound,
    is_alive,
    is_wanted,
    key_of,
    limit_of,
    order_of,
    sure_of,
)
from nearcast.window.index.segments import FAN, LEAF, LEAF_BITS, first_node
from nearcast.window.read_ahead import prefetch_record

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
_LANES = 32  # messages that are compared at once
_TOUCHED = 1e-30  # what a word adds at least, however little it weighs: a message without a text is none


class NodePlan(NamedTuple):
    """What stays the same while nodes are visited."""

    n_words: int  # words not tried yet; their states come first
    oldest: int  # messages that are not newer are gone by count
    defers: bool  # whether exact scores wait until the end; not where a condition or fading makes bounds unsure
    tried: int  # marks of the words that were tried: who has none of them was not met before


class Found(NamedTuple):
    """What a search through the nodes has found so far."""

    n_best: int  # in `scratch.best`
    n_sure: int  # in `scratch.sure`
    n_deferred: int | np.int64  # in `scratch.deferred`
    limit: float  # the bound beyond which nothing wins


@inlined
def tally_leaf(states: Any, spans: Array, leaf: int, postings: Array, base: int, texts: Floats) -> Any:
    """Add up the postings of a node's leaf by message; returns their number."""
    n = 0
    for i in range(states.size):
        weight = states[i].weight
        span = spans[i * FAN + leaf]
        n += span.end - span.start
        for p in range(span.start, span.end):
            texts[postings[p].rank - base] += postings[p].unit * weight + _TOUCHED
    return n


@inlined
def pick_texts(texts: Floats, floor: Any, share: Any, limit: Any, touched: Ints) -> Any:
    """Write the messages whose texts may win by a bound of `floor` without any text; returns their number.

    Most do not. All are compared with no way out in between, so that the compiler takes many in one step.
    """
    n = 0
    for first in range(0, LEAF, _LANES):
        found = np.int64(0)
        for lane in range(_LANES):
            text = texts[first + lane]
            found |= np.int64((text > 0.0) & (floor - share * text <= limit)) << lane
        rank = first
        while found > 0:
            if found & 1:
                touched[n] = rank
                n += 1
            found >>= 1
            rank += 1
    return n


@kernel
def intersect_leaf(
    spans: Array, n_terms: int, leaf: int, postings: Array, base: int, hits: Longs, touched: Ints
) -> tuple[int, int]:
    """Write the messages of a leaf that hold all words; returns their number, and how many hold the rarest one."""
    rarest = 0
    for i in range(1, n_terms):
        span, least = spans[i * FAN + leaf], spans[rarest * FAN + leaf]
        if span.end - span.start < least.end - least.start:
            rarest = i
    n_touched = 0
    for p in range(spans[rarest * FAN + leaf].start, spans[rarest * FAN + leaf].end):
        touched[n_touched] = postings[p].rank - base
        hits[touched[n_touched]] = 1
        n_touched += 1
    n_met = 1
    for i in range(n_terms):
        if i == rarest:
            continue
        met = False
        for p in range(spans[i * FAN + leaf].start, spans[i * FAN + leaf].end):
            rank = postings[p].rank - base
            if hits[rank] == n_met:
                hits[rank] += 1
                met = True
        if not met:
            break
        n_met += 1
    n = 0
    for i in range(n_touched):
        rank = touched[i]
        if hits[rank] == n_terms:
            touched[n] = rank
            n += 1
        hits[rank] = 0
    return n, n_touched


@inlined
def keep_picked(task: SearchTask, base: int, n_picked: Any, plan: Any, limit: float) -> Any:
    """Write the touched messages that can still win to `scratch.kept`; returns how many.

    Nothing beyond `limit` wins.
    """
    members, touched, kept = task.layout.members, task.scratch.touched, task.scratch.kept
    texts, aim = task.scratch.tallies.texts, task.aim
    for i in range(n_picked):
        prefetch_record(members, base + touched[i])
    n_kept = 0
    for i in range(n_picked):
        text, member = texts[touched[i]], members[base + touched[i]]
        if plan.oldest < member.sequence <= task.moment.last:
            dx, dy, dz = member.x - aim.x, member.y - aim.y, member.z - aim.z
            squared = dx * dx + dy * dy + dz * dz
            bound = bound_of(aim, squared, text)
            if bound <= limit:
                entry = kept[n_kept]
                entry.bound, entry.member = bound, base + touched[i]
                entry.sure = sure_of(aim, squared, text) if plan.defers else 0.0
                n_kept += 1
    return n_kept


@inlined
def visit_leaf(task: SearchTask, s: Any, node: Any, plan: Any, found: Any) -> Any:
    """Look for messages of a leaf that can still win, and verify them, now or later; returns what is found."""
    index, scratch, aim = task.layout, task.scratch, task.aim
    texts, touched = scratch.tallies.texts, scratch.touched
    segment = index.segments[s]
    leaf = node - first_node(segment.depth)
    child, first = leaf & (FAN - 1), leaf << LEAF_BITS
    base = segment.member_start + first
    scratch.work[LEAVES] += 1
    if aim.mode == ALL:
        hits = scratch.tallies.hits
        n, n_read = intersect_leaf(scratch.spans, plan.n_words, child, index.postings, first, hits, touched)
    else:
        states = scratch.term_states[s * task.terms.size : s * task.terms.size + plan.n_words]
        n_read = tally_leaf(states, scratch.spans, child, index.postings, first, texts)
        box = index.boxes[segment.box_start + node]
        floor = bound_of(aim, box_squared(aim.x, aim.y, aim.z, box), 0.0) - LOOSE
        share = 1.0 - aim.alpha if aim.mode == BY_SCORE else 0.0
        n = pick_texts(texts, floor, share, found.limit, touched)
    scratch.work[POSTINGS] += n_read
    n_kept = keep_picked(task, base, n, plan, found.limit)
    for rank in range(LEAF):
        texts[rank] = 0.0
    return defer_kept(task, n_kept, plan, found) if plan.defers else verify_kept(task, n_kept, found)


@inlined
def offer_sure(sure: Any, n_sure: Any, k: Any, key: Any, member: Any, tried: Any) -> Any:
    """Offer what a message surely reaches, unless it does so already by a rare word; returns how many are kept."""
    if n_sure == k and key >= sure[0].key:
        return n_sure
    if member.marks & tried:
        for i in range(n_sure):
            if sure[i].slot == member.slot:
                return n_sure
    return offer(sure, n_sure, k, np.int64(0), key, member.sequence, member.slot)


@inlined
def defer_kept(task: SearchTask, n_kept: Any, plan: Any, found: Any) -> Any:
    """Count what the kept messages surely reach, and leave their exact scores for later; returns what is found."""
    scratch, aim = task.scratch, task.aim
    kept, deferred, sure = scratch.kept, scratch.deferred, scratch.sure
    n_best, n_sure, n_deferred, limit = found
    if n_deferred + n_kept > deferred.size:
        n_best = verify_deferred(task, n_best, n_deferred, limit)
        n_deferred = 0
    for i in range(n_kept):
        if kept[i].bound <= limit:
            n_sure = offer_sure(sure, n_sure, aim.k, kept[i].sure, task.layout.members[kept[i].member], plan.tried)
            limit = limit_of(aim, sure, n_sure)
            deferred[n_deferred].bound, deferred[n_deferred].member = kept[i].bound, kept[i].member
            n_deferred += 1
    return Found(n_best, n_sure, n_deferred, limit)


@kernel
def verify_deferred(task: SearchTask, n_best: int, n_deferred: Any, limit: float) -> int:
    """Verify the messages of `scratch.deferred` that may win yet; returns how many are among the best."""
    deferred, members, best = task.scratch.deferred, task.layout.members, task.scratch.best
    rows, words, counts, _ = task.messages
    for i in range(n_deferred):
        if deferred[i].bound <= limit:
            slot = members[deferred[i].member].slot
            prefetch(rows, slot)
            prefetch(rows["term_start"], slot)  # in the next line
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
            n_best = offer(best, n_best, task.aim.k, np.int64(0), key, member.sequence, member.slot)
    return n_best


@inlined
def verify_kept(task: SearchTask, n_kept: Any, found: Any) -> Any:
    """Offer the kept messages that live with their exact scores; returns what is found."""
    kept, best, members = task.scratch.kept, task.scratch.best, task.layout.members
    rows, words, counts, _ = task.messages
    aim, n_best, limit = task.aim, found.n_best, found.limit
    for i in range(n_kept):
        slot = members[kept[i].member].slot
        prefetch(rows, slot)
        prefetch(rows["term_start"], slot)  # in the next line
    for i in range(n_kept):
        start = rows[members[kept[i].member].slot].term_start
        prefetch(words, start)
        prefetch(counts, start)
    for i in range(n_kept):
        member = members[kept[i].member]
        row = rows[member.slot]
        if fade_bound(aim, kept[i].bound, row.ts) <= limit and is_alive(row, member.sequence, task.moment):
            if not is_wanted(task.question, task.messages, member.slot):
                continue
            task.scratch.work[VERIFIED] += 1
            key = key_of(row, words, counts, task.idf, task.dense, task.question, aim)
            if not math.isnan(key):
                magnitude, key = order_of(aim, key, row.ts)
                n_best = offer(best, n_best, aim.k, magnitude, key, member.sequence, member.slot)
                limit = limit_of(aim, best, n_best)
    return Found(n_best, found.n_sure, found.n_deferred, limit)
