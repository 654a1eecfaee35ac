"""A word and a box go in; the live messages that hold the word and lie inside come out, in any order: kernels."""

from __future__ import annotations

from nearcast.jit import NEED_ROOM, kernel
from nearcast.space.distance import HAVERSINE, wrap
from nearcast.window.index.postings import find_way, first_posting
from nearcast.window.index.segments import FAN, FAN_BITS, LEAF, LEAF_BITS, first_node, is_alive

EVERY = -1  # instead of a term: all messages

_DEEPEST = 6  # more than LEAF * FAN**6 messages are in no segment
STACK_ROOM = _DEEPEST * FAN + 1


@kernel
def lies_inside(area, metric, x, y):
    """Is the place in the box (x0, y0, x1, y1)? Under haversine x is wrapped, and x0 > x1 is across the date line."""
    if metric == HAVERSINE:
        x = wrap(x)
    if not area[1] <= y <= area[3]:
        return False
    if area[0] <= area[2]:
        return area[0] <= x <= area[2]
    return x >= area[0] or x <= area[2]


@kernel
def meets(area, box):
    """Do the places of a node reach into the box?"""
    if area[1] > box.north or area[3] < box.south:
        return False
    if area[0] <= area[2]:
        return area[0] <= box.east and area[2] >= box.west
    return box.east >= area[0] or box.west <= area[2]


@kernel
def holds(messages, row, term):
    """Does the message hold the word?"""
    if term == EVERY:
        return True
    for i in range(row.term_start, row.term_start + row.n_terms):
        if messages.terms[i] == term:
            return True
    return False


@kernel
def takes(row, sequence, moment, metric, area):
    """Is the message of that sequence alive in its row, and does it lie in the box?"""
    if sequence <= moment.since or not is_alive(row, sequence, moment.last, moment.clock, moment.newest):
        return False
    return lies_inside(area, metric, row.x, row.y)


@kernel
def take_leaf(index, rows, way, segment, area, moment, leaf, out):
    """Write the slots that a leaf has for a list, or for all its messages; returns the new count, or NEED_ROOM.

    `leaf` is the node and the count so far.
    """
    members, postings = index.members, index.postings
    node, n = leaf
    base = (node - first_node(segment.depth)) << LEAF_BITS
    p, end = base, min(base + LEAF, segment.n_members)
    if way.end > 0:
        p, end = first_posting(way, index.skips, postings, segment, segment.depth, node)
    while p < end:
        rank = postings[p].rank if way.end > 0 else p
        if rank >= base + LEAF:
            break
        member = members[segment.member_start + rank]
        if takes(rows[member.slot], member.sequence, moment, index.metric, area):
            if n == out.size:
                return NEED_ROOM
            out[n] = member.slot
            n += 1
        p += 1
    return n


@kernel
def candidates(index, messages, term, area, moment, stack, ways, out):
    """Write the slots of live messages that hold the term (or EVERY) and lie inside; returns how many, or NEED_ROOM."""
    segments, boxes, lists, recent, rows = index.segments, index.boxes, index.lists, index.recent, messages.rows
    way = ways[0]
    n = 0
    for i in range(recent.size):
        entry = recent[i]
        row = rows[entry.slot]
        if takes(row, entry.sequence, moment, index.metric, area) and holds(messages, row, term):
            if n == out.size:
                return NEED_ROOM
            out[n] = entry.slot
            n += 1
    for s in range(segments.size):
        segment = segments[s]
        if (
            segment.last_sequence <= max(moment.since, moment.last - moment.newest)
            or segment.last_expiry <= moment.clock
        ):
            continue
        way.end = 0
        if term != EVERY and not find_way(lists, segment, term, way):
            continue
        stack[0] = 0
        n_stack = 1
        while n_stack > 0:
            n_stack -= 1
            node = stack[n_stack]
            if not meets(area, boxes[segment.box_start + node]):
                continue
            if node >= first_node(segment.depth):
                n = take_leaf(index, rows, way, segment, area, moment, (node, n), out)
                if n == NEED_ROOM:
                    return n
                continue
            for child in range((node << FAN_BITS) + 1, min((node << FAN_BITS) + 1 + FAN, segment.n_boxes)):
                stack[n_stack] = child
                n_stack += 1
    return n
