"""Finds the leaves that messages reach, many messages together, level by level: kernels.

A message that is looked for under two longitudes has two probes, all others one. While one probe takes a step, what
the next ones need for theirs is prefetched.

Paper: [APTREE] section 3.2.3, algorithm 1.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from nearcast.columns.arena import Array, Ints, Longs, record, with_room
from nearcast.columns.fields.decode import LIST
from nearcast.columns.fields.values import n_fields
from nearcast.columns.message_table import MessageLayout
from nearcast.engines.within.layout import (
    KEYWORD,
    NOTHING,
    ROOT,
    UNRANKED,
    VERSION,
    TreeLayout,
)
from nearcast.engines.within.paths import cell_at, cut_of
from nearcast.jit import LANES, NEED_ROOM, allocating, kernel, prefetch
from nearcast.space.distance import HAVERSINE, wrap
from nearcast.space.rounding import below

CHUNK = 256  # messages that go down together at most
NEED_FRONTIER = -2  # the frontier has too little room
_NO_OFFSET = 127  # of the parts where probes begin: no word is used up

PROBE = record(
    ("x", "f4"),  # rounded down
    ("y", "f4"),
    ("event", "i4"),  # which of the messages
    ("word_start", "i4"),
    ("n_words", "i4"),
    ("twin", "i4"),  # 1 if another probe follows, for the same message
)
STOP = record(  # a node or part that a probe reaches
    ("probe", "i4"),
    ("at", "i4"),  # a node, or a part
    ("eta", "i4"),  # how many of its words are used up
    ("offset", "i4"),  # of the node before
)
REACHED = record(  # a leaf that a probe reaches
    ("probe", "i4"),
    ("part", "i4"),
    ("start", "i4"),  # the first line of its block
    ("n_rows", "i4"),
)


class DescentInput(NamedTuple):
    """Messages that go down a tree, and what their way depends on."""

    slots: Ints  # int32[]: which of the rows of `messages`; none where negative
    messages: MessageLayout  # phrases and prefixes among their words
    ranks: Ints  # int32[n_terms]
    metric: int
    stored: Ints  # int32[]: beside `slots`, where each is stored
    rows: Array  # MESSAGE[]: all that are stored


class Frontier(NamedTuple):
    """Where a chunk of messages stands in the tree: scratch of the search."""

    probes: Array  # PROBE[2 * CHUNK]
    keys: Longs  # int64[]: the words of probes, rank << 32 | term, increasing
    leads: Ints  # int32[2 * n_terms]: the part that each word leads to first, and the version of the tree this was for
    nodes: Array  # STOP[]: nodes to visit
    parts: Array  # STOP[]: parts to go on from
    reached: Array  # REACHED[]: leaves, as they were found
    leaves: Array  # REACHED[]: the same, by probe
    leaf_start: Ints  # int32[2 * CHUNK + 1]
    n_visited: Longs  # int64[1]: nodes


_GROWING = ("keys", "nodes", "parts", "reached", "leaves")


def new_frontier() -> Frontier:
    """A frontier with little room."""
    stops = [np.zeros(1024, STOP), np.zeros(1024, STOP), np.zeros(1024, REACHED), np.zeros(1024, REACHED)]
    starts = np.zeros(2 * CHUNK + 1, np.int32)
    return Frontier._make(
        [
            np.zeros(2 * CHUNK, PROBE),
            np.zeros(1024, np.int64),
            np.zeros(0, np.int32),
            *stops,
            starts,
            np.zeros(1, np.int64),
        ]
    )


def grown_frontier(frontier: Frontier) -> Frontier:
    """The same with twice the room for what a chunk may reach."""
    return frontier._replace(
        **{name: with_room(getattr(frontier, name), 2 * getattr(frontier, name).size) for name in _GROWING}
    )


def with_terms(frontier: Frontier, n_terms: int) -> Frontier:
    """The same with room for the leads of `n_terms` terms."""
    return frontier._replace(leads=with_room(frontier.leads, 2 * n_terms))


@allocating
def sort_many(keys: Longs) -> None:
    """Sort numbers by Numba's own method, which allocates."""
    keys.sort()


@kernel
def sort_keys(keys: Longs, start: int, end: int) -> None:
    """Sort a stretch of numbers that is mostly short."""
    if end - start > 24:
        sort_many(keys[start:end])
        return
    for i in range(start + 1, end):
        key, j = keys[i], i
        while j > start and keys[j - 1] > key:
            keys[j] = keys[j - 1]
            j -= 1
        keys[j] = key


@kernel
def write_probes(descent: DescentInput, first: int, end: int, frontier: Frontier) -> int:
    """Write the probes of the messages from `first` to `end`, with those words that a subscription asks for; how many.

    Keys of fields count as words here.

    NEED_ROOM if they have too many words.
    """
    rows, terms, ranks, keys, probes = (
        descent.messages.rows,
        descent.messages.terms,
        descent.ranks,
        frontier.keys,
        frontier.probes,
    )
    leads, slots, wraps, fields = frontier.leads, descent.slots, descent.metric == HAVERSINE, descent.messages.fields
    n, n_keys = 0, 0
    for event in range(first, end):
        if slots[event] < 0:
            continue
        message = rows[slots[event]]
        n_values = n_fields(fields, slots[event])
        if n_keys + message.n_terms + n_values > keys.size:
            return NEED_ROOM
        start = n_keys
        for i in range(message.term_start, message.term_start + message.n_terms):
            rank = np.int64(ranks[terms[i]])
            if rank != UNRANKED:
                prefetch(leads, 2 * terms[i])
                keys[n_keys] = rank << 32 | terms[i]
                n_keys += 1
        for i in range(n_values):
            value = fields.values[fields.spans[slots[event]].start + i]
            rank = np.int64(ranks[value.key])
            if rank != UNRANKED and value.type != LIST:
                keys[n_keys] = rank << 32 | value.key
                n_keys += 1
        sort_keys(keys, start, n_keys)
        # Circles are filed by wrapped longitudes, boxes and polygons by given ones: where they differ, look under both.
        twin = wraps and not -180.0 <= message.x < 180.0
        for turn in range(1 + twin):
            probe = probes[n]
            probe.x, probe.y = below(wrap(message.x) if turn else message.x), below(message.y)
            probe.event, probe.word_start, probe.n_words, probe.twin = event, start, n_keys - start, twin - turn
            n += 1
    return n


@kernel
def first_part(tree: TreeLayout, rank: int) -> int:
    """The part that a word leads to from the root past all cuts at the first offset; NOTHING if no cut has the word."""
    part, child = NOTHING, tree.parts[ROOT].child
    while child >= 0 and tree.nodes[child].kind == KEYWORD and tree.nodes[child].offset == 0:
        node = tree.nodes[child]
        part = node.first + 1 + cut_of(tree.highs, node.first + 1, node.n_parts, rank)
        if not tree.parts[part].low <= rank <= tree.parts[part].high:
            return NOTHING
        child = tree.parts[part].child
    return part


@kernel
def enter_by_words(tree: TreeLayout, n_probes: int, frontier: Frontier) -> int:
    """Write the part that each word of the probes leads to first; how many, or NEED_ROOM.

    That is the same for all messages, so frontier.leads keeps it until nodes change. Nothing is in the dummies on the
    way: every entry has a first word.
    """
    probes, keys, leads, stops, parts = frontier.probes, frontier.keys, frontier.leads, frontier.parts, tree.parts
    version, n = tree.heads[VERSION], 0
    for p in range(n_probes):
        start, n_words, last = probes[p].word_start, probes[p].n_words, NOTHING
        if n + n_words > stops.size:
            return NEED_ROOM
        for i in range(n_words):
            term = keys[start + i] & 0xFFFFFFFF
            if leads[2 * term + 1] != version:
                leads[2 * term], leads[2 * term + 1] = first_part(tree, keys[start + i] >> 32), version
            part = leads[2 * term]
            if part in (NOTHING, last):
                continue
            last = part
            prefetch(parts, part)
            stop = stops[n]
            stop.probe, stop.at, stop.eta, stop.offset = p, part, i, 0
            n += 1
    return n


@kernel
def enter_at(origin: int, n_probes: int, frontier: Frontier) -> int:
    """Let all probes begin at the part `origin`; returns how many, or NEED_ROOM."""
    if n_probes > frontier.parts.size:
        return NEED_ROOM
    for p in range(n_probes):
        stop = frontier.parts[p]
        stop.probe, stop.at, stop.eta, stop.offset = p, origin, 0, _NO_OFFSET
    return n_probes


@kernel
def expand_parts(tree: TreeLayout, n_parts: int, n_reached: int, frontier: Frontier) -> tuple[int, int]:
    """Write what hangs below the first `n_parts` of frontier.parts; how many nodes and leaves, or NEED_ROOM."""
    parts, tree_nodes, lines = tree.parts, tree.nodes, tree.lines
    stops, nodes, reached = frontier.parts, frontier.nodes, frontier.reached
    if n_parts > nodes.size or n_reached + n_parts > reached.size:
        return NEED_ROOM, 0
    n = 0
    for i in range(n_parts):
        stop = stops[i]
        part = parts[stop.at]
        child, start = part.child, part.start
        if child == NOTHING:
            continue
        if child >= 0:
            prefetch(tree_nodes, child)
            prefetch(lines, start)
            prefetch(lines, start + LANES)
            node = nodes[n]
            node.probe, node.at, node.eta, node.offset = stop.probe, child, stop.eta, stop.offset
            n += 1
        else:
            leaf = reached[n_reached]
            leaf.probe, leaf.part, leaf.start, leaf.n_rows = stop.probe, stop.at, start, part.now
            n_reached += 1
    return n, n_reached


@kernel
def visit_nodes(tree: TreeLayout, n_nodes: int, frontier: Frontier) -> int:
    """Write the parts that probes go on to from the first `n_nodes` of frontier.nodes; how many, or NEED_ROOM.

    Paper: [APTREE] section 3.2.3, algorithm 1.
    Departs: a cut of several words may have a child for the same offset again; it begins at the word that hit.
    """
    nodes, parts, highs = tree.nodes, tree.parts, tree.highs
    stops, probes, keys, out = frontier.nodes, frontier.probes, frontier.keys, frontier.parts
    n = 0
    for i in range(n_nodes):
        stop = stops[i]
        node, probe = nodes[stop.at], probes[stop.probe]
        if n + probe.n_words + 2 > out.size:
            return NEED_ROOM
        first, offset = node.first, node.offset
        eta = stop.eta + (offset > stop.offset)
        if node.kind == KEYWORD:
            at = first
            for j in range(eta, probe.n_words):
                rank = keys[probe.word_start + j] >> 32
                cut = first + 1 + cut_of(highs, first + 1, node.n_parts, rank)
                if cut == at or not parts[cut].low <= rank <= parts[cut].high:
                    continue
                at = cut
                target = out[n]
                target.probe, target.at, target.eta, target.offset = stop.probe, at, j, offset
                n += 1
        else:
            at = first + 1 + cell_at(tree, node, probe.x, probe.y)
            prefetch(parts, at)
            target = out[n]
            target.probe, target.at, target.eta, target.offset = stop.probe, at, eta, offset
            n += 1
        if node.has_dummy:
            prefetch(parts, first)
            target = out[n]
            target.probe, target.at, target.eta, target.offset = stop.probe, first, eta, offset
            n += 1
    return n


@kernel
def group_by_probe(n_probes: int, n_reached: int, frontier: Frontier) -> None:
    """Put the leaves reached in the order of probes: those of probe p are leaves[leaf_start[p] : leaf_start[p + 1]]."""
    starts, reached, leaves = frontier.leaf_start, frontier.reached, frontier.leaves
    starts[: n_probes + 1] = 0
    for i in range(n_reached):
        starts[reached[i].probe + 1] += 1
    for p in range(n_probes):
        starts[p + 1] += starts[p]
    for i in range(n_reached):
        p = reached[i].probe
        leaves[starts[p]] = reached[i]
        starts[p] += 1
    for p in range(n_probes, 0, -1):
        starts[p] = starts[p - 1]
    starts[0] = 0


@kernel
def find_leaves(tree: TreeLayout, descent: DescentInput, first: int, end: int, origin: int, frontier: Frontier) -> int:
    """Find the leaves below the part `origin` that the messages from `first` to `end`, at most CHUNK, reach.

    Returns the number of probes, or NEED_ROOM. The leaves of each are in frontier.leaves.
    """
    n_probes = write_probes(descent, first, end, frontier)
    if n_probes == NEED_ROOM:
        return NEED_ROOM
    root = tree.parts[ROOT].child
    if origin == ROOT and root >= 0 and tree.nodes[root].kind == KEYWORD:
        n_parts = enter_by_words(tree, n_probes, frontier)
    else:
        n_parts = enter_at(origin, n_probes, frontier)
    n_reached, n_visited = 0, 0
    while n_parts > 0:
        n_nodes, n_reached = expand_parts(tree, n_parts, n_reached, frontier)
        if n_nodes == NEED_ROOM:
            return NEED_ROOM
        n_visited += n_nodes
        n_parts = visit_nodes(tree, n_nodes, frontier)
    if n_parts == NEED_ROOM or n_reached > frontier.leaves.size:
        return NEED_ROOM
    group_by_probe(n_probes, n_reached, frontier)
    frontier.n_visited[0] += n_visited
    return n_probes
