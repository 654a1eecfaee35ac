"""Finds the live messages that hold a word and lie in a box, in any order: kernels."""

from __future__ import annotations

from typing import Any, NamedTuple

from nearcast.columns.arena import Array, Ints, Longs
from nearcast.jit import NEED_ROOM, kernel
from nearcast.space.distance import HAVERSINE, wrap
from nearcast.space.regions import in_box
from nearcast.window.index.postings import first_posting, seek_term
from nearcast.window.index.query import Area, Moment, is_alive
from nearcast.window.index.segments import FAN, FAN_BITS, LEAF, LEAF_BITS, IndexLayout, first_node

EVERY = -1  # instead of a term: all messages

_DEEPEST = 6  # more than LEAF * FAN**6 messages are in no segment
STACK_ROOM = _DEEPEST * FAN + 1


class Lookup(NamedTuple):
    """What candidates are looked up by."""

    term: int  # or EVERY
    area: Area
    moment: Moment


@kernel
def in_area(area: Area, metric: int, x: float, y: float) -> bool:
    """Does the place lie in the area?"""
    return in_box(area.x0, area.y0, area.x1, area.y1, wrap(x) if metric == HAVERSINE else x, y)


@kernel
def overlaps(area: Area, box: Any) -> Any:
    """Do the places of a node, given its box, reach into the area?"""
    if area.y0 > box.north or area.y1 < box.south:
        return False
    if area.x0 <= area.x1:
        return area.x0 <= box.east and area.x1 >= box.west
    return box.east >= area.x0 or box.west <= area.x1


@kernel
def holds_term(messages: Any, row: Any, term: int) -> bool:
    """Does the message hold the word?"""
    if term == EVERY:
        return True
    for i in range(row.term_start, row.term_start + row.n_terms):
        if messages.terms[i] == term:
            return True
    return False


@kernel
def qualifies(row: Any, sequence: int, moment: Moment, metric: int, area: Area) -> bool:
    """Is the message of that sequence alive in its row, and does it lie in the area?"""
    return is_alive(row, sequence, moment) and in_area(area, metric, row.x, row.y)


@kernel
def scan_leaf(
    index: IndexLayout, rows: Array, state: Any, segment: Any, node: int, lookup: Lookup, out: Ints, n: int
) -> int:
    """Write the slots that a leaf has for a list, or for all its messages; returns the new count, or NEED_ROOM.

    `n` is the count so far. A state without postings stands for all messages.
    """
    members, postings, moment, area = index.members, index.postings, lookup.moment, lookup.area
    base = (node - first_node(segment.depth)) << LEAF_BITS
    p, end = base, min(base + LEAF, segment.n_members)
    if state.end > 0:
        p, end = first_posting(state, index.skips, postings, segment, segment.depth, node)
    while p < end:
        rank = postings[p].rank if state.end > 0 else p
        if rank >= base + LEAF:
            break
        member = members[segment.member_start + rank]
        if qualifies(rows[member.slot], member.sequence, moment, index.metric, area):
            if n == out.size:
                return NEED_ROOM
            out[n] = member.slot
            n += 1
        p += 1
    return n


@kernel
def candidates(index: IndexLayout, messages: Any, lookup: Lookup, stack: Longs, term_states: Array, out: Ints) -> int:
    """Write the slots of live messages that hold the term (or EVERY) and lie inside; returns how many, or NEED_ROOM."""
    segments, boxes, lists, recent, rows = index.segments, index.boxes, index.lists, index.recent, messages.rows
    term, area, moment = lookup
    state = term_states[0]
    n = 0
    for i in range(recent.size):
        entry = recent[i]
        row = rows[entry.slot]
        if qualifies(row, entry.sequence, moment, index.metric, area) and holds_term(messages, row, term):
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
        state.end = 0
        if term != EVERY and not seek_term(lists, segment, term, state):
            continue
        stack[0] = 0
        n_stack = 1
        while n_stack > 0:
            n_stack -= 1
            node = stack[n_stack]
            if not overlaps(area, boxes[segment.box_start + node]):
                continue
            if node >= first_node(segment.depth):
                n = scan_leaf(index, rows, state, segment, node, lookup, out, n)
                if n == NEED_ROOM:
                    return n
                continue
            for child in range((node << FAN_BITS) + 1, min((node << FAN_BITS) + 1 + FAN, segment.n_boxes)):
                stack[n_stack] = child
                n_stack += 1
    return n
