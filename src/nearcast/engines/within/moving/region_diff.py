"""Compares the messages in lists with an old and a new region: which leave and which enter, each once: kernels.

Paper: [APTREE] section 4.2.5, algorithm 6.
Departs: decided by "in the new region and not in the old" with the exact check, whatever leaf a message is found in.
Where lists lack messages that may still live, the subscription is noted, and answered from the message index.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from nearcast.columns.arena import Array, Floats, Ints, Longs
from nearcast.columns.fields.conditions import NO_CONDITION, satisfies
from nearcast.columns.message_table import MessageLayout
from nearcast.columns.pattern_rows import PatternInput, patterns_of
from nearcast.columns.regions import BOX
from nearcast.columns.scores import gather
from nearcast.columns.subscription_tables import WithinLayout, clauses_hold, in_region
from nearcast.engines.within.layout import NOTHING, TreeLayout
from nearcast.engines.within.moving.leaf_messages import LiveBounds, is_still_live, known_since
from nearcast.engines.within.paths import region_of
from nearcast.jit import kernel, prefetch

NEED_CHANGES = -3  # too little room for changes
OLD, NEW = 1, 2  # sides: where an entry was filed, and where it is, or is to be
_AHEAD = 6  # how many messages ahead rows are prefetched


class DiffInput(NamedTuple):
    """What lists are compared with."""

    messages: MessageLayout
    subscriptions: WithinLayout
    before: WithinLayout  # the same, but rows as they were, by place in the batch; none where nothing was before
    metric: int
    live: LiveBounds
    oldest: int  # no live message has a smaller sequence
    sides: int  # OLD | NEW after a move, else NEW
    lists: bool  # are there lists of messages?
    patterns: PatternInput


class DiffRoom(NamedTuple):
    """Scratch and room of a comparison."""

    dense: Floats  # float64[n_terms]: zeros between calls
    stamps: Longs  # int64[n_messages]: the question, by its number, that a message was last compared for
    found: Longs  # int64[]: places in a list that need the exact check; as long as `slots`
    crossing: Longs  # int64[]: messages that cross the border: twice the slot, plus 1 to leave; as long as `slots`
    incomplete: Array  # bool[n_batch]: the lists lack messages that may still live
    slots: Ints  # int32[]: out
    messages: Ints  # int32[]: out
    signs: Ints  # int32[]: out
    bounds: Array  # float32[8]: old and new box
    counts: Longs  # int64[N_COUNTS]


N_CHANGES, STAMP, SCANNED, VERIFIED = range(4)  # positions in `counts`
N_COUNTS = 4


@kernel
def rounded_box(rows: Array, i: int, bounds: Array, first: int) -> bool:
    """Write a subscription's box, rounded as places in lists are, or an empty one if there is none; is it exact?

    Rounding keeps order: a place in the box stays in it, and one that is well inside after rounding was inside.
    """
    if i >= rows.size:
        bounds[first : first + 2], bounds[first + 2 : first + 4] = np.inf, -np.inf
        return True
    row = rows[i]
    wraps = row.x0 > row.x1
    bounds[first], bounds[first + 2] = (-np.inf, np.inf) if wraps else (np.float32(row.x0), np.float32(row.x1))
    bounds[first + 1], bounds[first + 3] = np.float32(row.y0), np.float32(row.y1)
    return row.region_kind == BOX and not wraps


@kernel
def scan_list(listed: Array, start: int, n: int, bounds: Array, exact: bool, found: Longs) -> int:
    """Write where in a list messages are that may be in one of the two boxes, and not surely in both; how many."""
    ox0, oy0, ox1, oy1 = bounds[0], bounds[1], bounds[2], bounds[3]
    x0, y0, x1, y1 = bounds[4], bounds[5], bounds[6], bounds[7]
    n_found = 0
    for at in range(start, start + n):
        x, y = listed[at].x, listed[at].y
        was = not ((x < ox0) | (x > ox1) | (y < oy0) | (y > oy1))
        will = not ((x < x0) | (x > x1) | (y < y0) | (y > y1))
        stays = (
            exact & (x > ox0) & (x < ox1) & (y > oy0) & (y < oy1) & (x > x0) & (x < x1) & (y > y0) & (y < y1)
        )  # fmt: skip
        found[n_found] = at
        n_found += (was | will) & (not stays)
    return n_found


@kernel
def find_crossing(listed: Array, n_found: int, i: int, slot: int, stamp: int, diff: DiffInput, room: DiffRoom) -> int:
    """Write to room.crossing which of the messages found live and cross the border; returns how many."""
    rows, terms, subscriptions, metric = diff.messages.rows, diff.messages.terms, diff.subscriptions, diff.metric
    since, had = subscriptions.rows[slot].since, i < diff.before.rows.size
    found, crossing, stamps = room.found, room.crossing, room.stamps
    n = 0
    for j in range(n_found):
        prefetch(rows, listed[found[min(j + _AHEAD, n_found - 1)]].slot)
        message, mark = listed[found[j]].slot, listed[found[j]].mark
        if stamps[message] == stamp or not is_still_live(rows, message, mark, diff.live):
            continue
        stamps[message] = stamp
        row = rows[message]
        if row.sequence <= since:
            continue
        was = had and in_region(diff.before, i, metric, row.x, row.y)
        if was != in_region(subscriptions, slot, metric, row.x, row.y):
            prefetch(terms, row.term_start)
            crossing[n] = 2 * message + was
            n += 1
    return n


@kernel
def emit_changes(n_crossing: int, slot: int, diff: DiffInput, room: DiffRoom) -> None:
    """Emit those of the messages that crossed the border whose words satisfy the expression."""
    rows, terms, dense, crossing = diff.messages.rows, diff.messages.terms, room.dense, room.crossing
    condition, conditions = diff.subscriptions.rows[slot].condition, diff.subscriptions.conditions
    found = diff.patterns.found
    n = room.counts[N_CHANGES]
    for j in range(n_crossing):
        message, was = crossing[j] >> 1, crossing[j] & 1
        if condition != NO_CONDITION and not satisfies(conditions, condition, diff.messages.fields, message):
            continue
        start, n_terms = rows[message].term_start, rows[message].n_terms
        for at in range(start, start + n_terms):
            dense[terms[at]] = 1.0
        n_patterns = patterns_of(diff.patterns, diff.messages, message, dense) if found.size > 0 else 0
        if clauses_hold(diff.subscriptions, slot, dense):
            room.slots[n], room.messages[n], room.signs[n] = slot, message, -1 if was else 1
            n += 1
        gather(terms, start, n_terms, dense)
        gather(found, 0, n_patterns, dense)
    room.counts[N_CHANGES] = n
    room.counts[VERIFIED] += n_crossing


@kernel
def inside_both(tree: TreeLayout, part: int, diff: DiffInput, i: int, slot: int) -> Any:
    """Do the boxes of a subscription, old and new, hold all of the region below a part? The paper's case 1."""
    x0, y0, x1, y1 = region_of(tree, part)
    old, new = diff.before.rows[i], diff.subscriptions.rows[slot]
    across = max(old.x0, new.x0) <= x0 and min(old.x1, new.x1) >= x1
    return across and max(old.y0, new.y0) <= y0 and min(old.y1, new.y1) >= y1


@kernel
def diff_lists(tree: TreeLayout, n: int, i: int, slot: int, diff: DiffInput, work: Any, room: DiffRoom) -> int:
    """Compare the lists of all leaves on a path of `n`; 0 or NEED_CHANGES. `i` is the position in the batch."""
    if room.incomplete[i]:
        return 0
    had = i < diff.before.rows.size
    exact = rounded_box(diff.before.rows, i, room.bounds, 0)
    exact = rounded_box(diff.subscriptions.rows, slot, room.bounds, 4) and exact
    enough = max(diff.oldest - 1, diff.subscriptions.rows[slot].since)
    n_rows = 0
    for j in range(n):
        child = tree.parts[work.path[j]].child
        if child >= 0 or (had and exact and inside_both(tree, work.path[j], diff, i, slot)):
            continue
        if (diff.live.last if child == NOTHING else known_since(tree, work.path[j])) > enough:
            room.incomplete[i] = True
            return 0
        n_rows += 0 if child == NOTHING else tree.leaves[-2 - child].n_messages
    if room.counts[N_CHANGES] + n_rows >= room.slots.size:
        return NEED_CHANGES
    room.counts[SCANNED] += n_rows
    for j in range(n):
        child = tree.parts[work.path[j]].child
        if child >= NOTHING:
            continue
        leaf = tree.leaves[-2 - child]
        if leaf.n_messages == 0 or (had and exact and inside_both(tree, work.path[j], diff, i, slot)):
            continue
        n_found = scan_list(tree.listed, leaf.message_start, leaf.n_messages, room.bounds, exact, room.found)
        emit_changes(find_crossing(tree.listed, n_found, i, slot, room.counts[STAMP] + i, diff, room), slot, diff, room)
    return 0
