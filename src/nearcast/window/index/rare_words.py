"""Messages that are tried one by one, without a look at nodes: the recent ones, and those of rare words."""

from __future__ import annotations

import math

import numpy as np

from nearcast.columns.scores import topk_score
from nearcast.jit import allocating, kernel, prefetch
from nearcast.space.distance import distance, ssim
from nearcast.window.index.heaps import offer
from nearcast.window.index.query import ALL, BLUR, LOOSE, POSTINGS, VERIFIED, bound_of, fresh_dot, key_of, limit_of
from nearcast.window.index.segments import LEAF, is_alive, mark_of

# So many messages are tried one by one rather than looked for in nodes: over a million messages a search took 535 us
# without that, 479 with 512, 468 with 1,024 and 515 with 2,048 (2026-11-16, on a busy machine).
_FEW = 1024
_AHEAD = 8  # what is looked at so much later is fetched


@kernel
def scan_recent(index, messages, idf, question, terms, dense, moment, scratch, aim):
    """Try every recent message; returns how many are kept."""
    recent, rows, words, counts = index.recent, messages.rows, messages.terms, messages.counts
    n = 0
    for at in range(recent.size):
        entry = recent[at]
        shared = entry.bits & aim.bits
        if shared == 0 or (question.mode == ALL and shared != aim.bits):
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
            key = key_of(row, words, counts, idf, dense, question, aim)
            n = offer(scratch.best, n, question.k, key, entry.sequence, entry.slot)
    return n


@kernel
def scan_word(index, messages, idf, question, terms, dense, moment, task):
    """Try every message that holds a word and none tried before; returns how many are kept.

    `task` is scratch, the aim, the word's position, and how many are kept so far. Most fail at once, by the word's
    weight in a message and in the question, and by what else they may share: words that the message's marks allow, and
    no more of them than Cauchy and Schwarz do.
    """
    scratch, aim, word, n = task
    n_terms = terms.size
    segments, members, postings, work = index.segments, index.members, index.postings, scratch.work
    best, touched, ways = scratch.best, scratch.touched, scratch.ways
    rows, words, counts = messages.rows, messages.terms, messages.counts
    oldest = max(moment.since, moment.last - moment.newest)
    limit = limit_of(aim, best, n)
    weight = ways[word].weight
    nearest, share = -aim.alpha - 2.0 * LOOSE, 1.0 - aim.alpha  # the bound of a message at the very place
    marks = 0
    for i in range(n_terms):
        if i != word and dense[terms[i]] > 0.0:
            marks |= mark_of(terms[i])
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
                text = unit * weight
                if member.marks & marks:
                    others, tops = 0.0, 0.0
                    for i in range(n_terms):
                        if i != word and dense[terms[i]] > 0.0 and member.marks & mark_of(terms[i]):
                            way = ways[s * n_terms + i]
                            others += way.weight * way.weight
                            tops += way.weight * way.top
                    less = unit * (1.0 - BLUR)
                    text += min(math.sqrt((1.0 - less * less) * others), tops)
                if nearest - share * text > limit:
                    continue
                dx, dy, dz = member.x - aim.x, member.y - aim.y, member.z - aim.z
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
                total = fresh_dot(words, counts, row, idf, dense, aim.bits)
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


@allocating
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
