"""Finds the best live messages for words and a place as of a moment, best first: one kernel over the index.

One search serves `TopK` and both kinds of `Nearest`. It keeps a queue of nodes, ordered by a bound that no message
inside can beat, and stops when the first of the queue cannot beat the k-th message found (`nodes.py`).

Words that few messages hold are not looked for in nodes: for `TopK` all their messages are tried first
(`rare_words.py`), and nodes are bounded by the frequent words alone, since whoever holds a rare one has been tried.
"""

from __future__ import annotations

from typing import Any

from nearcast.columns.arena import Floats, Ints
from nearcast.jit import NEED_ROOM, kernel
from nearcast.space.hilbert import to_point
from nearcast.window.index.heaps import sort_best
from nearcast.window.index.nodes import search_nodes
from nearcast.window.index.postings import seek_terms
from nearcast.window.index.query import (
    ALL,
    BY_SCORE,
    SEARCHES,
    Aim,
    Moment,
    Question,
    SearchScratch,
    SearchTask,
    key_of,
)
from nearcast.window.index.rare_words import scan_rare, scan_recent
from nearcast.window.index.segments import FAN, IndexLayout, bit_of


@kernel
def search(
    index: IndexLayout,
    messages: Any,
    idf: Floats,
    question: Question,
    terms: Ints,
    dense: Floats,
    moment: Moment,
    scratch: SearchScratch,
) -> int:
    """Write the k best live messages to `scratch.best`, best first; returns how many there are, or NEED_ROOM.

    `terms` are the distinct words of the question, `dense` holds their weights and is 0 elsewhere: count * idf for
    BY_SCORE, anything positive for ALL and ANY. On return `key` is the score (BY_SCORE; before it fades) or the
    distance (ALL, ANY).
    """
    best, n_terms = scratch.best, terms.size
    k = min(question.k, index.members.size + index.recent.size)
    if index.boxes.size > scratch.queue.size or index.segments.size * n_terms > scratch.term_states.size:
        return NEED_ROOM
    if k > best.size or n_terms * FAN > scratch.spans.size:
        return NEED_ROOM
    x, y, z = to_point(index.metric, question.x, question.y)
    need = n_terms if question.mode == ALL else 1
    bits = 0
    for i in range(n_terms):
        bits |= bit_of(terms[i])
    aim = Aim(
        question.mode, need, k, question.alpha, index.metric, index.max_distance, x, y, z, bits, question.half_life,
        moment.clock,
    )  # fmt: skip
    scratch.work[SEARCHES] += 1
    task = SearchTask(index, messages, idf, question, terms, dense, moment, scratch, aim)
    n = scan_recent(task)
    seek_terms(task)
    if question.mode == BY_SCORE:
        n = scan_rare(task, n)
    n = search_nodes(task, n)
    for i in range(n_terms):
        dense[terms[i]] = abs(dense[terms[i]])
    sort_best(best, n)
    if question.mode == BY_SCORE:
        for i in range(n):
            if question.half_life != 0:  # the mantissa of its key
                row = messages.rows[best[i].slot]
                best[i].key = key_of(row, messages.terms, messages.counts, idf, dense, question, aim)
            best[i].key = -best[i].key
    return n
