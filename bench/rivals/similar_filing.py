"""What both trees share: each subscription has a leaf, and postings under keys of a node and a word."""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import NamedTuple

import numpy as np

from bench.rivals.lists import Lists, ListsLayout
from bench.rivals.similar_base import Centre, SimilarRival, to_units
from bench.rivals.similar_tree import Tree, load, place_all
from nearcast.columns.arena import Array, Floats, Ints, Longs, record, with_room
from nearcast.columns.subscription_tables import PointTable
from nearcast.engines.contract import EngineContext, Stats
from nearcast.jit import kernel
from nearcast.space.space import SpaceInput

NO_WORD = 0xFFFFFFFF  # where subscriptions are filed that a place alone can satisfy

POSTING = record(
    ("slot", "i4"),  # a subscription, or a child of the node
    ("tag", "i4"),  # which of the subscription's postings
    ("bound", "f4"),  # a squared reach, or a share of words
    ("x", "f4"),  # where the subscription is, see `similar_base`
    ("y", "f4"),
    ("z", "f4"),
)


class Walk(NamedTuple):
    """An index as matching kernels see it, and their scratch."""

    tree: Tree
    lists: ListsLayout
    stack: Ints  # int32[n_nodes]
    stamps: Longs  # int64[n_slots]: the number of the last message that a subscription was touched by
    text: Floats  # float64[n_nodes or n_slots, whichever is more]: shares, all 0 between nodes
    touched: Longs  # int64[n_slots]: postings


class Ground(NamedTuple):
    """What subscriptions are filed by, besides themselves."""

    where: SpaceInput
    centre: Centre
    idf: Floats


@kernel
def key_of(node, term):
    """The key of a list."""
    return np.int64(node) << 32 | np.int64(term)


@kernel
def put_place(where, centre, row, posting, reach):
    """Write where the subscription of `row` is, and its squared reach; a place that cannot be compared is reached."""
    u, v, w = to_units(where, centre, row.x, row.y)
    posting.bound = reach
    if u == math.inf:
        u, v, w = 0.0, 0.0, 0.0
        if reach >= 0.0:
            posting.bound = math.inf
    posting.x, posting.y, posting.z = u, v, w


@kernel
def is_placed(posting):
    """Can the place be compared?"""
    return posting.x != 0.0 or posting.y != 0.0 or posting.z != 0.0


class Filed(NamedTuple):
    """Postings on their way into the lists."""

    keys: Longs
    rows: Array  # POSTING[n]


class Filing(SimilarRival):
    """Subscriptions in an R-tree with lists."""

    n_parts = 1
    best_fanout = 128  # of those tried with a million subscriptions over tweets

    def __init__(self, table: PointTable, context: EngineContext, fanout: int | None = None) -> None:
        super().__init__(table, context)
        self.fanout = fanout or self.best_fanout
        self._n_built = 0
        self._lists = Lists(POSTING)
        self._tree = load(table.rows, np.zeros(0, np.int32), np.zeros(0, np.int32), self.n_parts, self.fanout, 0)
        self._stamps = np.zeros(0, np.int64)
        self._text = np.zeros(0)
        self._stack = np.zeros(0, np.int32)
        self._touched = np.zeros(0, np.int64)

    @abstractmethod
    def _postings(self, slots: Ints) -> Filed:
        """What is filed of these subscriptions, which have their leaves."""

    @abstractmethod
    def _raise(self, slots: Ints, filed: Filed) -> Filed:
        """Widen what nodes say of these subscriptions; returns what is to be filed beside their own postings."""

    def _parts(self, slots: Ints) -> Ints:
        """Which tree each belongs to."""
        return np.zeros(slots.size, np.int32)

    def insert(self, slots: Ints) -> None:
        n_filed = self._n_filed + slots.size
        if n_filed > 2 * self._n_built or (self._tree.roots[self._parts(slots)] < 0).any():
            self._build()
            return
        self._add(slots)
        self._n_filed = n_filed

    def _add(self, slots: Ints) -> None:
        self._tree = self._tree._replace(leaves=with_room(self._tree.leaves, self.points.slots.capacity))
        place_all(self._tree, self.points.rows, slots, self._parts(slots), self.context.space.metric_code)
        own = self._postings(slots)
        for filed in (self._raise(slots, own), own):
            self._lists.add(filed.keys, np.arange(filed.keys.size, dtype=np.int32), filed.rows)

    def _drop(self, slots: Ints) -> None:
        filed = self._postings(slots)
        self._lists.drop(filed.keys, np.arange(filed.keys.size, dtype=np.int32), filed.rows)

    def remove(self, slots: Ints) -> None:
        self._drop(slots)
        self._n_filed -= slots.size

    def refile(self, slots: Ints) -> None:
        self._drop(slots)
        self._add(slots)

    def _build(self) -> None:
        slots = self.points.used_slots
        metric = self.context.space.metric_code
        self._tree = load(self.points.rows, slots, self._parts(slots), self.n_parts, self.fanout, metric)
        self._lists = Lists(POSTING)
        own = self._postings(slots)
        parts = [self._raise(slots, own), own]
        self._lists.build([(keys, np.arange(keys.size, dtype=np.int32), rows) for keys, rows in parts])
        self._n_filed = self._n_built = slots.size

    @property
    def _ground(self) -> Ground:
        return Ground(self._space, self._centre, self.context.vocabulary.idf)

    @property
    def _walk(self) -> Walk:
        n_slots, n_nodes = self.points.slots.capacity, self._tree.nodes.size
        self._stamps = with_room(self._stamps, n_slots)
        self._text = with_room(self._text, max(n_slots, n_nodes))
        self._stack = with_room(self._stack, n_nodes)
        self._touched = with_room(self._touched, n_slots)
        return Walk(self._tree, self._lists.layout, self._stack, self._stamps, self._text, self._touched)

    def check(self) -> None:
        super().check()
        assert not self._text.any(), "scratch must be clean between calls"

    def stats(self) -> Stats:
        return {**super().stats(), "tree nodes": self._tree.nodes.size, "lists": self._lists.n_lists}

    @property
    def nbytes(self) -> int:
        return self._tree.nodes.nbytes + self._tree.leaves.nbytes + self._lists.nbytes
