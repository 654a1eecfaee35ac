"""The segments of the index: their records, and the kernels that write them and look into them.

A segment is an immutable piece of the index: messages that arrived one after another, lined up along a Hilbert curve. A
message's place in that line is its *rank*. Ranks are cut into leaves of `LEAF` messages, and 16 leaves, 16 times 16
leaves and so on make a *node*, up to the root; nodes are numbered as in a heap (the children of node i are 16 i + 1 to
16 i + 16), and each has a box around its messages. Every term has a list of postings in order of rank, so that the
postings of a node are a range of the list. Long lists have *skips*: the range and the largest unit weight for each node
down to some depth.

All segments share pools; positions inside a segment count from where its part of the pool begins.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from nearcast.columns.arena import Array, Floats, Ints, Longs, record
from nearcast.columns.message_table import MessageLayout
from nearcast.columns.times import FOREVER, MISSING
from nearcast.held import opened
from nearcast.jit import inlined, kernel
from nearcast.space.distance import HAVERSINE, wrap
from nearcast.space.hilbert import grid_line, hilbert, to_point
from nearcast.space.rounding import above, below

LEAF_BITS = 7
LEAF = 1 << LEAF_BITS
FAN_BITS = 4
FAN = 1 << FAN_BITS
# Postings per node that make skips worth their room: with 2 instead of 4 a search takes an eighth less, and a message
# 191 bytes instead of 178 (2026-11-16, a million places).
SKIP_DENSITY = 2
NO_TERM = -1


MEMBER = record(
    ("x", "f8"),  # the message's point, see space/hilbert.py
    ("y", "f8"),
    ("z", "f8"),
    ("sequence", "i8"),  # another sequence in the slot's row: the message is dead
    ("code", "i8"),  # position along the curve
    ("slot", "i4"),
    ("marks", "i4"),  # `mark_of` its words, where the record would have a gap
)
RECENT = record(
    ("sequence", "i8"),
    ("bits", "i8"),  # one bit set for each of its words
    ("slot", "i4"),
)
POSTING = record(
    ("rank", "i4"),
    ("unit", "f4"),  # count * idf / norm of the message, rounded up
)
TERM_LIST = record(
    ("term", "i4"),  # NO_TERM: an empty place of the hash table
    ("start", "i4"),
    ("n", "i4"),
    ("skip", "i4"),  # where its skips start
    ("depth", "i4"),  # of the deepest nodes that have skips; 0: none but the root, which has no skip
    ("top", "f4"),  # largest unit weight
)
SKIP = record(
    ("start", "i4"),
    ("end", "i4"),
    ("top", "f4"),
)
# Children are looked at side by side: with 40 bytes instead of 80 a search took 386 us instead of 436 (2026-11-16).
BOX = record(
    ("x0", "f4"),  # around the points; all are rounded outward
    ("y0", "f4"),
    ("z0", "f4"),
    ("x1", "f4"),
    ("y1", "f4"),
    ("z1", "f4"),
    ("west", "f4"),  # around the places, longitudes wrapped
    ("south", "f4"),
    ("east", "f4"),
    ("north", "f4"),
)
SEGMENT = record(
    ("member_start", "i8"),
    ("n_members", "i8"),
    ("depth", "i8"),  # of the leaves; the root has 0
    ("box_start", "i8"),
    ("n_boxes", "i8"),
    ("posting_start", "i8"),
    ("n_postings", "i8"),
    ("list_start", "i8"),
    ("n_lists", "i8"),  # places of the hash table, a power of two
    ("skip_start", "i8"),
    ("n_skips", "i8"),
    ("first_sequence", "i8"),
    ("mid_sequence", "i8"),  # half of the members are not newer
    ("last_sequence", "i8"),
    ("first_expiry", "i8"),  # no member expires before
    ("mid_expiry", "i8"),  # half of the members expire by then
    ("last_expiry", "i8"),
    ("n_withdrawn", "i8"),  # members that were withdrawn, and are or will be dead
)


class IndexLayout(NamedTuple):
    """The whole index: segments, oldest first, and the recent messages that are in none yet."""

    segments: Array  # SEGMENT[n_segments]
    members: Array  # MEMBER[]: by segment and rank
    boxes: Array  # BOX[]: by segment and node
    times: Longs  # int64[]: beside the boxes: the largest `ts` of a node
    lists: Array  # TERM_LIST[]: by segment, a hash table by term
    skips: Array  # SKIP[]: by segment, list and node - 1
    postings: Array  # POSTING[]: by segment, term and rank
    recent: Array  # RECENT[n_recent]: in order of sequence
    metric: int
    max_distance: float
    oldest: int  # messages that are not newer are dead, whatever is asked


class Frame(NamedTuple):
    """Where the curve runs: the bounds of the space, as kernels want them."""

    metric: int
    x: float
    y: float
    x_scale: float
    y_scale: float


@kernel
def first_node(depth: int) -> int:
    """Number of the first node at a depth."""
    return ((1 << (FAN_BITS * depth)) - 1) // (FAN - 1)


@inlined
def bit_of(term: int) -> Any:
    """The bit that stands for a term in a mask of 63 bits."""
    return 1 << min(int(term) & 63, 62)


@inlined
def mark_of(term: int) -> int:
    """The bit that stands for a term in a mask of 31 bits."""
    return 1 << min(int(term) & 31, 30)


@kernel
def first_stale(segments: Array, oldest: int, clock: int) -> int:
    """The first segment of which half or more is no longer alive, or surely alive; their number if there is none."""
    for s in range(segments.size):
        segment = segments[s]
        if segment.mid_sequence <= oldest or segment.mid_expiry <= clock:
            return s
        if segment.last_sequence <= oldest or segment.last_expiry <= clock:
            return s
        if 2 * segment.n_withdrawn >= segment.n_members:
            return s
    return segments.size


class RecentCall(NamedTuple):
    """Arrivals that are appended to the recent messages."""

    messages: MessageLayout
    slots: Ints
    recent: Array  # RECENT[]


@kernel
def append_recent(held: Any, n_recent: int) -> None:
    """Append the arrivals of a `Held` call to the `n_recent` recent messages."""
    messages, slots, recent = opened(held)
    for i in range(slots.size):
        row = messages.rows[slots[i]]
        bits = 0
        for j in range(row.term_start, row.term_start + row.n_terms):
            bits |= bit_of(messages.terms[j])
        entry = recent[n_recent + i]
        entry.slot = slots[i]
        entry.sequence = row.sequence
        entry.bits = bits


@kernel
def write_members(rows: Array, slots: Ints, frame: Frame, members: Array) -> None:
    """Write the members of a future segment, in the order of their slots."""
    for i in range(slots.size):
        row = rows[slots[i]]
        x = wrap(row.x) if frame.metric == HAVERSINE else row.x
        member = members[i]
        member.x, member.y, member.z = to_point(frame.metric, row.x, row.y)
        member.sequence = row.sequence
        member.slot = slots[i]
        member.code = hilbert(grid_line(x, frame.x, frame.x_scale), grid_line(row.y, frame.y, frame.y_scale))


@kernel
def mark_alive(rows: Array, members: Array, oldest: int, clock: int, alive: Array, expiries: Longs) -> int:
    """Write which members have not expired, and when they do; returns how many of them are withdrawn in this batch.

    What is withdrawn in the batch under way was alive before its event, so that it is still asked for.
    """
    n_withdrawn = 0
    for i in range(members.size):
        row = rows[members[i].slot]
        same = row.sequence == members[i].sequence
        alive[i] = same and row.sequence > oldest and row.expires_at > clock
        expiries[i] = row.expires_at
        if alive[i] and row.withdrawn_by != FOREVER:
            n_withdrawn += 1
    return n_withdrawn


@kernel
def write_in_order(members: Array, order: Longs, out: Array) -> None:
    """Write the members to `out` in the given order."""
    for rank in range(order.size):
        member, to = members[order[rank]], out[rank]
        to.x, to.y, to.z = member.x, member.y, member.z
        to.sequence, to.code, to.slot, to.marks = member.sequence, member.code, member.slot, member.marks


@kernel
def count_terms(messages: Any, members: Array, tallies: Ints, distinct: Ints) -> tuple[int, int]:
    """Count the messages of every term into `tallies`, zeros before; returns the number of terms and of postings.

    Members get their marks.
    """
    n_distinct = 0
    n_postings = 0
    for i in range(members.size):
        row = messages.rows[members[i].slot]
        n_postings += row.n_terms
        marks = 0
        for j in range(row.term_start, row.term_start + row.n_terms):
            term = messages.terms[j]
            marks |= mark_of(term)
            if tallies[term] == 0:
                distinct[n_distinct] = term
                n_distinct += 1
            tallies[term] += 1
        members[i].marks = marks
    return n_distinct, n_postings


@kernel
def find_list(lists: Array, start: int, n: int, term: int) -> Any:
    """Where the hash table in places start to start + n has the term, or the empty place where it would go."""
    at = (np.int64(term) * 0x9E3779B1 >> 7) & (n - 1)
    while lists[start + at].term != term and lists[start + at].term != NO_TERM:
        at = (at + 1) & (n - 1)
    return start + at


@kernel
def allocate_lists(distinct: Ints, tallies: Ints, n_members: int, depth: int, lists: Array) -> int:
    """Allocate the list of each term, as long as it will be, and turn its tally into where the list starts.

    Returns the number of skips. `lists` is empty before.
    """
    n_postings = 0
    n_skips = 0
    for i in range(distinct.size):
        term = distinct[i]
        found = lists[find_list(lists, 0, lists.size, term)]
        found.term = term
        found.start = n_postings
        found.n = tallies[term]
        found.skip = n_skips
        found.depth = 0
        while found.depth < depth and SKIP_DENSITY * nodes_at(n_members, depth, found.depth + 1) <= found.n:
            found.depth += 1
        if found.depth > 0:
            n_skips += first_node(found.depth) - 1 + nodes_at(n_members, depth, found.depth)
        tallies[term] = n_postings
        n_postings += found.n
    return n_skips


@kernel
def nodes_at(n_members: int, leaf_depth: int, depth: int) -> int:
    """Number of nodes at a depth that hold members."""
    bits = LEAF_BITS + FAN_BITS * (leaf_depth - depth)
    return (n_members + (1 << bits) - 1) >> bits


@kernel
def fill_postings(messages: Any, members: Array, idf: Floats, tallies: Ints, postings: Array) -> None:
    """Write the postings in order of rank; each tally moves from the start of its list to the end."""
    for rank in range(members.size):
        row = messages.rows[members[rank].slot]
        for j in range(row.term_start, row.term_start + row.n_terms):
            term = messages.terms[j]
            posting = postings[tallies[term]]
            posting.rank = rank
            posting.unit = messages.counts[j] * idf[term] / row.norm * (1.0 + 2e-7)
            tallies[term] += 1


@kernel
def fill_skips(
    distinct: Ints, lists: Array, n_members: int, leaf_depth: int, postings: Array, skips: Array, tallies: Ints
) -> None:
    """Write the largest unit weight and the skips of every list; `tallies` are zeros again afterwards."""
    for i in range(distinct.size):
        tallies[distinct[i]] = 0
        found = lists[find_list(lists, 0, lists.size, distinct[i])]
        top = np.float32(0.0)
        for p in range(found.start, found.start + found.n):
            top = max(top, postings[p].unit)
        found.top = top
        for depth in range(1, found.depth + 1):
            bits = LEAF_BITS + FAN_BITS * (leaf_depth - depth)
            n_nodes = 1 << (FAN_BITS * depth)
            if depth == found.depth:
                n_nodes = nodes_at(n_members, leaf_depth, depth)
            p = found.start
            end = found.start + found.n
            for node in range(n_nodes):
                skip = skips[found.skip + first_node(depth) - 1 + node]
                skip.start = p
                top = np.float32(0.0)
                while p < end and postings[p].rank >> bits <= node:
                    top = max(top, postings[p].unit)
                    p += 1
                skip.end = p
                skip.top = top


@kernel
def fill_boxes(rows: Array, members: Array, metric: int, depth: int, boxes: Array, times: Longs) -> None:
    """Write the box and the largest `ts` of every node, from the leaves up; nodes without members get an empty box."""
    for i in range(boxes.size):
        times[i] = MISSING
        box = boxes[i]
        box.x0, box.y0, box.z0, box.west, box.south = np.inf, np.inf, np.inf, np.inf, np.inf
        box.x1, box.y1, box.z1, box.east, box.north = -np.inf, -np.inf, -np.inf, -np.inf, -np.inf
    for rank in range(members.size):
        member = members[rank]
        row = rows[member.slot]
        x = wrap(row.x) if metric == HAVERSINE else row.x
        leaf = first_node(depth) + (rank >> LEAF_BITS)
        times[leaf] = max(times[leaf], row.ts)
        box = boxes[leaf]
        box.x0, box.x1 = min(box.x0, below(member.x)), max(box.x1, above(member.x))
        box.y0, box.y1 = min(box.y0, below(member.y)), max(box.y1, above(member.y))
        box.z0, box.z1 = min(box.z0, below(member.z)), max(box.z1, above(member.z))
        box.west, box.east = min(box.west, below(x)), max(box.east, above(x))
        box.south, box.north = min(box.south, below(row.y)), max(box.north, above(row.y))
    for i in range(boxes.size - 1, 0, -1):
        box = boxes[i]
        over = boxes[(i - 1) >> FAN_BITS]
        times[(i - 1) >> FAN_BITS] = max(times[(i - 1) >> FAN_BITS], times[i])
        over.x0, over.x1 = min(over.x0, box.x0), max(over.x1, box.x1)
        over.y0, over.y1 = min(over.y0, box.y0), max(over.y1, box.y1)
        over.z0, over.z1 = min(over.z0, box.z0), max(over.z1, box.z1)
        over.west, over.east = min(over.west, box.west), max(over.east, box.east)
        over.south, over.north = min(over.south, box.south), max(over.north, box.north)


def leaf_depth(n_members: int) -> int:
    """Depth of the leaves of a segment; the root is never one."""
    depth = 1
    while n_members > LEAF << (FAN_BITS * depth):
        depth += 1
    return depth


def n_boxes(n_members: int) -> int:
    """Number of nodes of a segment, empty ones before its last leaf included."""
    depth = leaf_depth(n_members)
    return int(first_node(depth) + nodes_at(n_members, depth, depth))


def median_of(values: Longs) -> int:
    """A value that half of the given ones do not exceed."""
    half = (values.size - 1) // 2
    return int(np.partition(values, half)[half])
