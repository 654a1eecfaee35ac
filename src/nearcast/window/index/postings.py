"""A word goes in; where its postings are, in a segment and in one of its nodes, comes out: kernels."""

from __future__ import annotations

from nearcast.jit import inlined, kernel
from nearcast.window.index.segments import FAN_BITS, LEAF_BITS, NO_TERM, first_node, list_place, record

WAY = record(
    ("start", "i8"),  # its postings, counted over all segments; none: the segment does not know the word
    ("end", "i8"),
    ("skip", "i8"),  # its skips, counted over all segments
    ("depth", "i8"),  # of the deepest nodes that have skips
    ("weight", "f8"),  # of the word in the question, as part of its unit vector
    ("top", "f8"),  # largest unit weight
)


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
