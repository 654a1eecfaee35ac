"""Lists of messages against an old and a new region: what leaves and what enters, each message once.

Paper: [APTREE] section 4.2.5, algorithm 6.
Departs: decided by "in the new region and not in the old" with the exact check, whatever leaf a message is found in.
Where lists lack messages that may still live, the subscription is noted, and answered from the message index.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from nearcast.columns.arena import Array, Floats, Ints, Longs
from nearcast.columns.message_table import MessageLayout
from nearcast.columns.regions import BOX
from nearcast.columns.scores import gather
from nearcast.columns.subscription_tables import WithinLayout, clauses_hold, in_region
from nearcast.engines.within.build.tasks import region_of
from nearcast.engines.within.layout import NOTHING
from nearcast.engines.within.moving.leaf_messages import known_since, lives
from nearcast.jit import kernel, prefetch
from nearcast.space.space import SpaceInput

NEED_TOLD = -3  # room for what is told
OLD, NEW = 1, 2  # sides: where an entry was filed, and where it is, or is to be
_AHEAD = 6  # messages asked for in advance


class DiffInput(NamedTuple):
    """What lists are compared with."""

    messages: MessageLayout
    subscriptions: WithinLayout
    before: WithinLayout  # the same, but rows as they were, by place in the batch; none where nothing was before
    where: SpaceInput
    now: tuple[int, int, int]  # newest sequence, clock, count of the window
    oldest: int  # no live message has a smaller sequence
    sides: int  # OLD | NEW after a move, else NEW
    lists: bool  # are there lists?


class DiffRoom(NamedTuple):
    """Scratch and room of comparing."""

    dense: Floats  # float64[n_terms]: zeros between calls
    stamps: Longs  # int64[n_messages]: whom a message was last compared for
    found: Longs  # int64[]: places in a list that need the exact check; as long as `slots`
    fell: Array  # bool[n_batch]: the lists do not suffice
    slots: Ints  # int32[]: out
    messages: Ints  # int32[]: out
    signs: Ints  # int32[]: out
    bounds: Array  # float32[8]: old and new box
    counts: Longs  # int64[N_COUNTS]


N_TOLD, STAMP, SCANNED, VERIFIED = range(4)  # positions in `counts`
N_COUNTS = 4


@kernel
def rough_box(rows, i, bounds, first):
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
def scan_list(listed, start, n, bounds, exact, found):
    """Write where in a list stand messages that may be in one of the two boxes, and not surely in both; how many."""
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
def cross(listed, n_found, i, slot, stamp, look, told):
    """Keep of the messages found those that live and cross the border, as twice the slot, plus 1 to leave; how many."""
    rows, terms, subscriptions, metric = look.messages.rows, look.messages.terms, look.subscriptions, look.where[0]
    since, had = subscriptions.rows[slot].since, i < look.before.rows.size
    found, stamps = told.found, told.stamps
    n = 0
    for j in range(n_found):
        prefetch(rows, listed[found[min(j + _AHEAD, n_found - 1)]].slot)
        message, mark = listed[found[j]].slot, listed[found[j]].mark
        if stamps[message] == stamp or not lives(rows, message, mark, look.now):
            continue
        stamps[message] = stamp
        row = rows[message]
        if row.sequence <= since:
            continue
        was = had and in_region(look.before, i, metric, row.x, row.y)
        if was != in_region(subscriptions, slot, metric, row.x, row.y):
            prefetch(terms, row.term_start)
            found[n] = 2 * message + was
            n += 1
    return n


@kernel
def tell(n_found, slot, look, told):
    """Tell those of the messages that crossed the border whose words satisfy the expression."""
    rows, terms, dense, found = look.messages.rows, look.messages.terms, told.dense, told.found
    n = told.counts[N_TOLD]
    for j in range(n_found):
        message, was = found[j] >> 1, found[j] & 1
        start, n_terms = rows[message].term_start, rows[message].n_terms
        for at in range(start, start + n_terms):
            dense[terms[at]] = 1.0
        if clauses_hold(look.subscriptions, slot, dense):
            told.slots[n], told.messages[n], told.signs[n] = slot, message, -1 if was else 1
            n += 1
        gather(terms, start, n_terms, dense)
    told.counts[N_TOLD] = n
    told.counts[VERIFIED] += n_found


@kernel
def inside_both(tree, part, look, i, slot):
    """Do the boxes of a subscription, old and new, hold all of the region below a part? The paper's case 1."""
    x0, y0, x1, y1 = region_of(tree, part)
    old, new = look.before.rows[i], look.subscriptions.rows[slot]
    across = max(old.x0, new.x0) <= x0 and min(old.x1, new.x1) >= x1
    return across and max(old.y0, new.y0) <= y0 and min(old.y1, new.y1) >= y1


@kernel
def look_through(tree, n, i, slot, look, work, told):
    """Compare the lists of all leaves on a path of `n`; 0 or NEED_TOLD. `i` is the place in the batch."""
    if told.fell[i]:
        return 0
    had = i < look.before.rows.size
    exact = rough_box(look.before.rows, i, told.bounds, 0)
    exact = rough_box(look.subscriptions.rows, slot, told.bounds, 4) and exact
    enough = max(look.oldest - 1, look.subscriptions.rows[slot].since)
    n_rows = 0
    for j in range(n):
        child = tree.parts[work.path[j]].child
        if child >= 0 or (had and exact and inside_both(tree, work.path[j], look, i, slot)):
            continue
        if (look.now[0] if child == NOTHING else known_since(tree, work.path[j])) > enough:
            told.fell[i] = True
            return 0
        n_rows += 0 if child == NOTHING else tree.leaves[-2 - child].n_messages
    if told.counts[N_TOLD] + n_rows >= told.slots.size:
        return NEED_TOLD
    told.counts[SCANNED] += n_rows
    for j in range(n):
        child = tree.parts[work.path[j]].child
        if child >= NOTHING:
            continue
        leaf = tree.leaves[-2 - child]
        if leaf.n_messages == 0 or (had and exact and inside_both(tree, work.path[j], look, i, slot)):
            continue
        n_found = scan_list(tree.listed, leaf.message_start, leaf.n_messages, told.bounds, exact, told.found)
        tell(cross(tree.listed, n_found, i, slot, told.counts[STAMP] + i, look, told), slot, look, told)
    return 0
