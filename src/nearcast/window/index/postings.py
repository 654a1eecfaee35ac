"""Finds the postings of a word, in a segment and in one of its nodes: kernels."""

from __future__ import annotations

from typing import Any

from nearcast.columns.arena import Array, record
from nearcast.jit import inlined, kernel
from nearcast.window.index.segments import FAN_BITS, LEAF_BITS, NO_TERM, find_list, first_node

TERM_STATE = record(
    ("start", "i8"),  # its postings, counted over all segments; none if the segment lacks the word
    ("end", "i8"),
    ("skip", "i8"),  # its skips, counted over all segments
    ("depth", "i8"),  # of the deepest nodes that have skips
    ("weight", "f8"),  # of the word in the question, as part of its unit vector
    ("top", "f8"),  # largest unit weight
)


@kernel
def seek_term(lists: Array, segment: Any, term: int, state: Any) -> float:
    """Look up a word in a segment; returns its largest unit weight, 0 if the segment lacks it."""
    found = lists[find_list(lists, segment.list_start, segment.n_lists, term)]
    if found.term == NO_TERM:
        state.start = state.end = state.depth = 0
        return 0.0
    state.start = segment.posting_start + found.start
    state.end = state.start + found.n
    state.skip = segment.skip_start + found.skip
    state.depth = found.depth
    return float(found.top)


@kernel
def seek_terms(task: Any) -> None:
    """Look up the words in every segment where something may live; elsewhere they have no postings."""
    segments, terms, moment = task.layout.segments, task.terms, task.moment
    for s in range(segments.size):
        segment = segments[s]
        gone = (
            segment.last_sequence <= max(moment.since, moment.last - moment.newest)
            or segment.first_sequence > moment.last
            or segment.last_expiry <= moment.clock
        )
        for i in range(terms.size):
            state = task.scratch.term_states[s * terms.size + i]
            state.start = state.end = state.depth = 0
            state.top = 0.0 if gone else seek_term(task.layout.lists, segment, terms[i], state)
            state.weight = task.dense[terms[i]] / task.question.norm


@inlined
def first_posting(state: Any, skips: Array, postings: Array, segment: Any, depth: int, node: int) -> Any:
    """Where the postings of a node begin, and where they end at the latest: ranks tell whether one belongs to it."""
    start, end = state.start, state.end
    shift = FAN_BITS * (depth - state.depth)
    if state.depth > 0 and depth > 0:
        above = node if shift <= 0 else ((node - first_node(depth)) >> shift) + first_node(state.depth)
        skip = skips[state.skip + above - 1]
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
