"""Trie-Qd: an ordered trie over all words of a clause, and at each of its nodes a quadtree over the boxes."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from bench.rivals.cells import DEEPEST, pack
from bench.rivals.clauses import Entries, rarer
from bench.rivals.lists import NO_KEY, home
from bench.rivals.quadtree import IN_ROOT, LIFE, Quadtrees
from bench.rivals.rq_tree import SHORT, note_levels
from nearcast.columns.arena import Array, Floats, Ints, Longs, record, with_room
from nearcast.columns.message_table import MessageLayout
from nearcast.columns.subscription_tables import WithinTable
from nearcast.engines.contract import EngineContext
from nearcast.jit import NEED_ROOM, kernel
from nearcast.space.cells import cell_index
from nearcast.window.live import Steps

_ROOT = 0
_MOST_FULL = 0.6

EDGE = record(("key", "i8"), ("node", "i4"))  # from a node by a word to the next


class Trie(NamedTuple):
    """The trie as kernels see it."""

    edges: Array  # EDGE[power of two], open addressing
    counts: Ints  # int32[n_terms]: words stand in the order of falling counts
    known: Array  # uint8[n_terms]: is there an edge by this word?
    shares: Floats  # float64[]: of messages that hold each word
    levels: Ints  # int32[n_nodes]: levels of the quadtree of each node, as bits


@kernel
def find_edge(edges, node, word):
    """Position of the edge from a node by a word, or of the free one that it should get."""
    key = (np.int64(node) << 31) | word
    at = home(key, edges.size)
    while edges[at].key != key and edges[at].key != NO_KEY:
        at = (at + 1) & (edges.size - 1)
    return at


@kernel
def sort_words(words, n, counts):
    """Put the most frequent word first."""
    for i in range(1, n):
        word = words[i]
        j = i
        while j > 0 and rarer(counts, words[j - 1], word):
            words[j] = words[j - 1]
            j -= 1
        words[j] = word


@kernel
def walk_clauses(rows, clauses, trie, scratch, first, n_nodes, nodes, chances):
    """The node of each clause from clause `first` on, and the chance that a message holds all its words.

    New nodes get the numbers from `n_nodes` on. Returns the number of nodes and the clause that found the edges too
    full, or the number of clauses.
    """
    clause = 0
    for row in rows:
        at = row.clause_start
        while at < row.clause_start + row.clause_size:
            if clause >= first:
                n = clauses[at]
                if n_nodes + n > _MOST_FULL * trie.edges.size:
                    return n_nodes, clause
                for i in range(n):
                    scratch[i] = clauses[at + 2 + i]
                sort_words(scratch, n, trie.counts)
                node, chance = _ROOT, 1.0
                for i in range(n):
                    chance *= trie.shares[min(np.int64(scratch[i]), trie.shares.size - 1)]
                    edge = find_edge(trie.edges, node, scratch[i])
                    if trie.edges[edge].key == NO_KEY:
                        trie.edges[edge].key = (np.int64(node) << 31) | scratch[i]
                        trie.edges[edge].node = n_nodes
                        trie.known[scratch[i]] = 1
                        n_nodes += 1
                    node = trie.edges[edge].node
                nodes[clause], chances[clause] = node, chance
            clause += 1
            at += 2 + clauses[at] + clauses[at + 1]
    return n_nodes, clause


@kernel
def move_edges(old, edges):
    """Take the edges over into a larger table."""
    for i in range(old.size):
        if old[i].key != NO_KEY:
            edges[find_edge(edges, old[i].key >> 31, old[i].key & 0x7FFFFFFF)] = old[i]


@kernel
def write_levels(trie, node, row, column, keys, n):
    """Write the keys of a node's cells around a place; returns how many keys there are then, or NEED_ROOM."""
    if n + DEEPEST + 1 > keys.size:
        return NEED_ROOM
    for level in range(DEEPEST + 1):
        if trie.levels[node] >> level & 1:
            up = DEEPEST - level
            keys[n] = pack(node, level, row >> up, column >> up)
            n += 1
    return n


@kernel
def probe_trie(arrivals, messages, bounds, trie, scratch, stack, starts, keys):
    """Every node that the words of each arrival reach, at all levels in use; returns how many keys, or NEED_ROOM.

    Paper: [APTREE] 3.1, ordered keyword trie. `scratch` has room for the words of a message, `stack` for as many
    pairs of a node and the position of the next word to try.
    """
    side = 1 << DEEPEST
    n = 0
    for event in range(arrivals.size):
        starts[event] = n
        if arrivals[event] < 0:
            continue
        message = messages.rows[arrivals[event]]
        column = cell_index(bounds[0], bounds[2], side, message.x)
        row = cell_index(bounds[1], bounds[3], side, message.y)
        n_words = 0
        for i in range(message.term_start, message.term_start + message.n_terms):
            if messages.terms[i] < trie.known.size and trie.known[messages.terms[i]]:
                scratch[n_words] = messages.terms[i]
                n_words += 1
        sort_words(scratch, n_words, trie.counts)
        depth = 0
        stack[0, 0], stack[0, 1] = _ROOT, 0
        while depth >= 0:
            node, word = stack[depth, 0], stack[depth, 1]
            if word == n_words:
                depth -= 1
                continue
            stack[depth, 1] += 1
            edge = trie.edges[find_edge(trie.edges, node, scratch[word])]
            if edge.key == NO_KEY:
                continue
            if trie.levels[edge.node]:
                n = write_levels(trie, edge.node, row, column, keys, n)
                if n == NEED_ROOM:
                    return n
            depth += 1
            stack[depth, 0], stack[depth, 1] = edge.node, word + 1
    starts[arrivals.size] = n
    return n


class TrieQd(Quadtrees):
    """All words first."""

    name = "trie_qd"

    def __init__(self, table: WithinTable, context: EngineContext) -> None:
        super().__init__(table, context)
        self._clear()

    def _clear(self) -> None:
        self._edges = _no_edges(64)
        self._n_nodes = _ROOT + 1
        self._known = np.zeros(0, np.uint8)
        self._levels = np.zeros(64, np.int32)
        self._lengths = np.zeros(0, np.int64)  # entries of each node, when all were filed last

    @property
    def _trie(self) -> Trie:
        return Trie(self._edges, self._counts, self._known, self._shares, self._levels)

    def _learn(self, slots: Ints) -> None:
        super()._learn(slots)
        self._clear()
        lengths = np.zeros(0, np.int64)
        for entries, rows in self._entries(slots):
            nodes, _ = self._nodes(entries, rows)
            lengths = with_room(lengths, self._n_nodes)
            lengths += np.bincount(nodes, minlength=lengths.size)
        self._lengths = lengths

    def _nodes(self, entries: Entries, rows: Array) -> tuple[Ints, Floats]:
        """The node of each entry, made where there is none, and the chance that a message comes by."""
        n = entries.words.size
        nodes, chances = np.zeros(n, np.int32), np.zeros(n)
        self._known = with_room(self._known, self.context.vocabulary.idf.size)
        scratch = np.zeros(int(rows["clause_size"].max(initial=0)), np.int32)
        done = 0
        while done < n:
            self._n_nodes, done = walk_clauses(
                rows, self.within.layout.clauses, self._trie, scratch, done, self._n_nodes, nodes, chances
            )
            if done < n:
                old, self._edges = self._edges, _no_edges(2 * self._edges.size)
                move_edges(old, self._edges)
        return nodes, chances

    def _keys(self, entries: Entries, rows: Array, filing: bool) -> tuple[Longs, Ints]:
        nodes, chances = self._nodes(entries, rows)
        is_long = (nodes < self._lengths.size) & (self._lengths[np.minimum(nodes, self._lengths.size - 1)] > SHORT)
        keys, owners = self._cells(entries, nodes, np.where(is_long, LIFE * chances, IN_ROOT))
        if filing:
            self._levels = with_room(self._levels, self._n_nodes)
            note_levels(keys, self._levels)
        return keys, owners

    def _probe(self, steps: Steps, messages: MessageLayout) -> tuple[Longs, Longs]:
        starts = np.empty(steps.arrivals.size + 1, np.int64)
        longest = int(messages.rows["n_terms"][steps.arrivals].max())
        scratch, stack = np.zeros(longest, np.int32), np.zeros((longest + 1, 2), np.int64)
        room = 64 * steps.arrivals.size + 1024
        while True:
            keys = np.empty(room, np.int64)
            bounds = self.context.space.bounds
            n = probe_trie(steps.arrivals, messages, bounds, self._trie, scratch, stack, starts, keys)
            if n != NEED_ROOM:
                return starts, keys[:n]
            room *= 2

    @property
    def nbytes(self) -> int:
        return super().nbytes + self._edges.nbytes + self._known.nbytes + self._levels.nbytes + self._lengths.nbytes


def _no_edges(n: int) -> Array:
    edges = np.zeros(n, EDGE)
    edges["key"] = NO_KEY
    return edges
