"""Files live messages with leaves: every leaf has the list of the messages that reached it: kernels.

A message that expired stays in a list until the list is full or all lists are swept. A list is complete for messages
newer than the `since` of its leaf and of all nodes above. Catching up makes all lists complete again: every live
message is sent through the tree once more, a few at a time, and added where a list lacks it.

Paper: [APTREE] section 4.2.4 and line 9 of algorithm 5.
Departs: "every relevant leaf holds the message" is true only of leaves that were there when it arrived, which is what
`since` is for.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from nearcast.columns.arena import Array, Ints
from nearcast.engines.within.arrays import class_of, class_room, free_leaf, give_range, take_range
from nearcast.engines.within.descend import CHUNK, NEED_FRONTIER, DescentInput, Frontier, find_leaves
from nearcast.engines.within.layout import (
    CATCH_UP,
    FREE_LISTS,
    LISTED_ROWS,
    N_LEAVES,
    N_LISTED,
    NO_NODE,
    NOTHING,
    ROOT,
    SWEPT,
    UP_TO,
    TreeLayout,
)
from nearcast.held import opened
from nearcast.jit import NEED_ROOM, kernel, prefetch
from nearcast.space.distance import HAVERSINE
from nearcast.window.window import is_live

MARK = 2**31 - 1  # of a sequence these bits are kept
_FIRST_ROOM = 2  # messages that a new list has room for
_AHEAD = 8  # how many messages ahead rows are prefetched


class LiveBounds(NamedTuple):
    """Which messages are live: what `is_live` asks for."""

    last: int  # newest sequence
    clock: int
    newest: int  # how many of the newest messages live


@kernel
def is_still_live(rows: Array, slot: int, mark: int, live: LiveBounds) -> Any:
    """Is the message that was listed still there, and live?"""
    row = rows[slot]
    return row.sequence & MARK == mark and is_live(row, live.last, live.clock, live.newest)


@kernel
def drop_messages(listed: Array, rows: Array, start: int, n: int, live: LiveBounds, since: int) -> int:
    """Keep the live messages of a list that are newer than `since`, in their order; returns how many."""
    end = start + n
    kept = start
    for at in range(start, end):
        prefetch(rows, listed[min(at + _AHEAD, end - 1)].slot)
        slot = listed[at].slot
        if is_still_live(rows, slot, listed[at].mark, live) and rows[slot].sequence > since:
            listed[kept] = listed[at]
            kept += 1
    return kept - start


@kernel
def drop_dead(tree: TreeLayout, leaf: int, rows: Array, live: LiveBounds, since: int) -> None:
    """Drop messages from the list of a leaf: those that expired, and those not newer than `since`."""
    row = tree.leaves[leaf]
    n = drop_messages(tree.listed, rows, row.message_start, row.n_messages, live, since)
    tree.heads[LISTED_ROWS] -= row.n_messages - n
    row.n_messages = n


@kernel
def resize_list(tree: TreeLayout, leaf: int, size_class: int) -> bool:
    """Move a list to a range of another size, if there is room; True if so."""
    row = tree.leaves[leaf]
    n_used = tree.heads[N_LISTED] + class_room(size_class)
    if tree.heads[FREE_LISTS + size_class] == NOTHING and n_used > tree.listed.size:
        return False
    start = take_range(tree.heads, tree.listed["slot"], N_LISTED, FREE_LISTS, size_class)
    if row.message_room != NOTHING:
        for i in range(row.n_messages):
            tree.listed[start + i] = tree.listed[row.message_start + i]
        give_range(tree.heads, tree.listed["slot"], FREE_LISTS, row.message_room, row.message_start)
    row.message_start, row.message_room = start, size_class
    return True


@kernel
def make_list_room(tree: TreeLayout, leaf: int, rows: Array, live: LiveBounds) -> bool:
    """Make room for one more message: a full list drops what expired, and grows if it is still mostly full; can it?"""
    row = tree.leaves[leaf]
    if row.message_room == NOTHING:
        return resize_list(tree, leaf, class_of(_FIRST_ROOM))
    room = class_room(row.message_room)
    if row.n_messages < room:
        return True
    drop_dead(tree, leaf, rows, live, 0)
    if 4 * row.n_messages <= 3 * room:
        return True
    return resize_list(tree, leaf, row.message_room + 1) or row.n_messages < room


@kernel
def append_message(tree: TreeLayout, leaf: int, slot: int, rows: Array, metric: int, live: LiveBounds) -> bool:
    """Add a message to a list, unless it is the one that was added last; False if there is no room.

    Under haversine a longitude that is not in [-180, 180) is not kept: circles take it as wrapped, boxes do not.
    """
    row = tree.leaves[leaf]
    message = rows[slot]
    mark = message.sequence & MARK
    if row.n_messages > 0:
        last = tree.listed[row.message_start + row.n_messages - 1]
        if last.slot == slot and last.mark == mark:
            return True
    if not make_list_room(tree, leaf, rows, live):
        return False
    place = tree.listed[row.message_start + row.n_messages]
    place.slot, place.mark = slot, mark
    place.x, place.y = message.x, message.y
    if metric == HAVERSINE and not -180.0 <= message.x < 180.0:
        place.x = math.nan
    row.n_messages += 1
    tree.heads[LISTED_ROWS] += 1
    return True


class VisitCall(NamedTuple):
    """Messages, and the leaves that they came to."""

    tree: TreeLayout
    visitors: Ints  # int32[]: messages, and
    visits: Ints  # int32[]: the parts of the leaves
    rows: Array  # MESSAGE[]
    metric: int


@kernel
def list_visits(held: Any, first: int, n_visits: int, last: int, clock: int, newest: int) -> int:
    """Add messages, unless they expired already, to the lists of the leaves that they visited, of a `Held` call.

    The last three say what is live. Returns the visit to resume with: short of `n_visits` there was no room.
    """
    call = opened(held)
    tree, rows, live = call.tree, call.rows, LiveBounds(last, clock, newest)
    for i in range(first, n_visits):
        ahead = call.visits[min(i + _AHEAD, n_visits - 1)]
        prefetch(tree.leaves, -2 - tree.parts[ahead].child)
        slot = call.visitors[i]
        leaf = -2 - tree.parts[call.visits[i]].child
        if is_live(rows[slot], last, clock, newest) and not append_message(tree, leaf, slot, rows, call.metric, live):
            return i
    return n_visits


@kernel
def list_below(
    tree: TreeLayout,
    descent: DescentInput,
    first: int,
    origin: int,
    live: LiveBounds,
    frontier: Frontier,
    caught_up: int,
) -> tuple[int, int]:
    """Add messages to the lists of all leaves below the part `origin` that they reach.

    Returns how many are done, and NEED_ROOM, NEED_WAVE or 0.
    """
    while first < descent.slots.size:
        end = min(first + CHUNK, descent.slots.size)
        n_probes = find_leaves(tree, descent, first, end, origin, frontier)
        if n_probes == NEED_ROOM:
            return first, NEED_FRONTIER
        for i in range(frontier.leaf_start[n_probes]):
            event = frontier.probes[frontier.leaves[i].probe].event
            leaf = -2 - tree.parts[frontier.leaves[i].part].child
            tree.leaves[leaf].caught_up = caught_up
            if not append_message(tree, leaf, descent.stored[event], descent.rows, descent.metric, live):
                return event, NEED_ROOM
        first = end
    return first, 0


@kernel
def known_since(tree: TreeLayout, part: int) -> Any:
    """The list of the leaf below a part is complete for messages newer than this."""
    child = tree.parts[part].child
    since = tree.leaves[-2 - child].since
    node = tree.parts[part].node
    while node != NO_NODE:
        since = max(since, tree.nodes[node].since)
        node = tree.parts[tree.nodes[node].part].node
    return since


@kernel
def choose_live(tree: TreeLayout, rows: Array, first: int, live: LiveBounds, slots: Ints) -> None:
    """Write the slots from `first` on whose messages are live and not newer than this round of catching up, else -1."""
    for i in range(slots.size):
        message = rows[first + i]
        lacks = message.sequence <= tree.heads[UP_TO] and is_live(message, live.last, live.clock, live.newest)
        slots[i] = first + i if lacks else NOTHING


@kernel
def catch_up(
    tree: TreeLayout, descent: DescentInput, first: int, live: LiveBounds, frontier: Frontier
) -> tuple[int, int]:
    """Add messages to the lists that lack them; returns as `list_below`.

    Lists that became incomplete after this round began (`since` > heads[UP_TO]) are left to the next one. What a list
    holds of messages that it may lack is dropped when it is first met in this round: nothing is listed twice.
    """
    rows = descent.rows
    while first < descent.slots.size:
        end = min(first + CHUNK, descent.slots.size)
        n_probes = find_leaves(tree, descent, first, end, ROOT, frontier)
        if n_probes == NEED_ROOM:
            return first, NEED_FRONTIER
        for i in range(frontier.leaf_start[n_probes]):
            event = frontier.probes[frontier.leaves[i].probe].event
            slot, part = descent.stored[event], frontier.leaves[i].part
            since = known_since(tree, part)
            if not rows[slot].sequence <= since <= tree.heads[UP_TO]:
                continue
            leaf = -2 - tree.parts[part].child
            if tree.leaves[leaf].caught_up != tree.heads[CATCH_UP]:
                tree.leaves[leaf].caught_up = tree.heads[CATCH_UP]
                drop_dead(tree, leaf, rows, live, since)
            if not append_message(tree, leaf, slot, rows, descent.metric, live):
                return event, NEED_ROOM
        first = end
    return first, 0


@kernel
def sweep_lists(tree: TreeLayout, first: int, n_most: Any, rows: Array, live: LiveBounds) -> Any:
    """Drop expired messages from the lists of leaves from `first` on, about `n_most`; returns the leaf to resume with.

    Lists that became short move to a smaller range; a leaf with neither entries nor messages is given back.
    """
    n = 0
    for leaf in range(first, tree.heads[N_LEAVES]):
        if n > n_most:
            return leaf
        row = tree.leaves[leaf]
        n += 1
        if (
            not 0 <= row.part < tree.parts.size
            or tree.parts[row.part].child != -2 - leaf
            or row.message_room == NOTHING
        ):
            continue
        n += row.n_messages
        drop_dead(tree, leaf, rows, live, 0)
        if row.n_messages == 0 and tree.parts[row.part].now == 0:
            free_leaf(tree, leaf)
        elif 4 * row.n_messages < class_room(row.message_room):
            resize_list(tree, leaf, class_of(max(_FIRST_ROOM, 2 * row.n_messages)))
    tree.heads[SWEPT] = tree.heads[LISTED_ROWS]
    return tree.heads[N_LEAVES]
