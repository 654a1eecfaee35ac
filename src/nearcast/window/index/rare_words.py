"""Scores messages one by one, without a look at nodes, the recent ones and those of rare words: kernels."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from nearcast.columns.scores import topk_score
from nearcast.jit import allocating, kernel, prefetch
from nearcast.space.distance import distance, ssim
from nearcast.window.index.heaps import offer
from nearcast.window.index.query import (
    ALL,
    BLUR,
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
    n_held,
    order_of,
    untried_dot,
)
from nearcast.window.index.segments import LEAF, mark_of
from nearcast.window.read_ahead import prefetch_record

# At most this many messages are tried one by one rather than looked for in nodes: over a million messages a search took
# 535 us with none, 479 with 512, 468 with 1,024 and 515 with 2,048 (2026-11-16, on a busy machine).
_MOST_TRIED = 1024


@kernel
def scan_recent(task: SearchTask) -> int:
    """Try every recent message; returns how many are kept."""
    index, messages, question, aim = task.layout, task.messages, task.question, task.aim
    n = 0
    for at in range(index.recent.size):
        entry = index.recent[at]
        shared = entry.bits & aim.bits
        if shared == 0 or (question.mode == ALL and shared != aim.bits):
            continue
        row = messages.rows[entry.slot]
        if not is_alive(row, entry.sequence, task.moment) or not is_wanted(question, messages, entry.slot):
            continue
        hits = n_held(messages, row, task.dense)
        if hits == task.terms.size or (hits > 0 and question.mode != ALL):
            task.scratch.work[VERIFIED] += 1
            key = key_of(row, messages.terms, messages.counts, task.idf, task.dense, question, aim)
            magnitude, key = order_of(aim, key, row.ts)
            n = offer(task.scratch.best, n, question.k, magnitude, key, entry.sequence, entry.slot)
    return n


@kernel
def scan_word(task: SearchTask, word: int, n: int) -> int:
    """Try every message that holds a word and none tried before; returns how many are kept, `n` of them before.

    `word` is the word's position in the question. Most messages fail at once, by the word's weight in a message and in
    the question, and by what else they may share: words that the message's marks allow, and no more of them than
    Cauchy and Schwarz do.
    """
    index, terms, dense = task.layout, task.terms, task.dense
    moment, scratch, aim = task.moment, task.scratch, task.aim
    n_terms = terms.size
    segments, members, postings = index.segments, index.members, index.postings
    best, touched, term_states, rows = scratch.best, scratch.touched, scratch.term_states, task.messages.rows
    oldest = max(moment.since, moment.last - moment.newest)
    limit = limit_of(aim, best, n)
    weight = term_states[word].weight
    nearest, share = -aim.alpha - 2.0 * LOOSE, 1.0 - aim.alpha  # the bound of a message at the very place
    marks = 0
    for i in range(n_terms):
        if i != word and dense[terms[i]] > 0.0:
            marks |= mark_of(terms[i])
    for s in range(segments.size):
        p, end = term_states[s * n_terms + word].start, term_states[s * n_terms + word].end
        base = segments[s].member_start
        rest = rest_bound(task, s, word)
        scratch.work[POSTINGS] += end - p
        while p < end:
            stop = min(p + LEAF, end)
            n_picked = 0
            for q in range(p, stop):  # most fail by the word itself, in the order in which they lie
                if nearest - share * (min(1.0, np.float64(postings[q].unit)) * weight + rest) <= limit:
                    prefetch_record(members, base + postings[q].rank)
                    touched[n_picked] = q - p
                    n_picked += 1
            n_kept = 0
            for at in range(n_picked):
                posting = postings[p + touched[at]]
                member = members[base + posting.rank]
                if not oldest < member.sequence <= moment.last:
                    continue
                unit = min(1.0, np.float64(posting.unit))
                text = unit * weight
                if member.marks & marks:
                    others, tops = 0.0, 0.0
                    for i in range(n_terms):
                        if i != word and dense[terms[i]] > 0.0 and member.marks & mark_of(terms[i]):
                            state = term_states[s * n_terms + i]
                            others += state.weight * state.weight
                            tops += state.weight * state.top
                    less = unit * (1.0 - BLUR)
                    text += min(math.sqrt((1.0 - less * less) * others), tops)
                if nearest - share * text > limit:
                    continue
                dx, dy, dz = member.x - aim.x, member.y - aim.y, member.z - aim.z
                if bound_of(aim, dx * dx + dy * dy + dz * dz, text) <= limit:
                    prefetch(rows, member.slot)
                    prefetch(rows["term_start"], member.slot)  # in the next line
                    touched[n_kept] = posting.rank
                    n_kept += 1
            n, limit = try_touched(task, base, n_kept, n, limit)
            p = stop
    return n


@kernel
def rest_bound(task: SearchTask, s: int, word: int) -> float:
    """What the other words that are not tried yet add to the text of any message of a segment, at most."""
    terms, dense = task.terms, task.dense
    others, tops = 0.0, 0.0
    for i in range(terms.size):
        if i != word and dense[terms[i]] > 0.0:
            state = task.scratch.term_states[s * terms.size + i]
            others += state.weight * state.weight
            tops += state.weight * state.top
    return min(math.sqrt(others), tops)


@kernel
def try_touched(task: SearchTask, base: int, n_touched: int, n: int, limit: float) -> Any:
    """Score the touched messages; returns how many are kept, `n` of them before, and the bound beyond which none is."""
    members, question, scratch, aim, dense = task.layout.members, task.question, task.scratch, task.aim, task.dense
    rows, words, counts, _ = task.messages
    touched = scratch.touched
    for i in range(n_touched):
        start = rows[members[base + touched[i]].slot].term_start
        prefetch(words, start)
        prefetch(counts, start)
    for i in range(n_touched):
        member = members[base + touched[i]]
        row = rows[member.slot]
        if not is_alive(row, member.sequence, task.moment):
            continue
        total = untried_dot(words, counts, row, task.idf, dense, aim.bits)
        dx, dy, dz = member.x - aim.x, member.y - aim.y, member.z - aim.z
        squared = dx * dx + dy * dy + dz * dz
        if total < 0.0:
            continue
        if fade_bound(aim, bound_of(aim, squared, total / (question.norm * row.norm)), row.ts) > limit:
            continue
        if not is_wanted(question, task.messages, member.slot):
            continue
        scratch.work[VERIFIED] += 1
        near = ssim(distance(aim.metric, question.x, question.y, row.x, row.y), aim.max_distance)
        key = -topk_score(question.alpha, near, total, question.norm, row.norm)
        magnitude, key = order_of(aim, key, row.ts)
        n = offer(scratch.best, n, aim.k, magnitude, key, member.sequence, member.slot)
        limit = limit_of(aim, scratch.best, n)
    return n, limit


@allocating
def scan_rare(task: SearchTask, n: int) -> int:
    """Try the messages of the rarest words, as long as those are few; returns how many are kept, `n` of them before.

    The weights of these words in `dense` are negative afterwards.
    """
    terms, dense, term_states = task.terms, task.dense, task.scratch.term_states
    n_terms = terms.size
    sizes = np.zeros(n_terms, dtype=np.int64)
    for i in range(task.layout.segments.size * n_terms):
        sizes[i % n_terms] += term_states[i].end - term_states[i].start
    n_tried = 0
    while True:
        rarest, least = -1, _MOST_TRIED - n_tried
        for i in range(n_terms):
            if sizes[i] <= least and dense[terms[i]] > 0.0:
                rarest, least = i, sizes[i]
        if rarest < 0:
            return n
        n = scan_word(task, rarest, n)
        dense[terms[rarest]] = -dense[terms[rarest]]
        n_tried += least
