"""`StampIndex` files subscriptions by region and word: it owns the arrays, grows them, splits and merges leaves."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from nearcast.columns.arena import Array, Ints, Longs, Slots, State, with_room
from nearcast.columns.subscription_tables import PointLayout
from nearcast.engines.similar.block_pool import BlockPool, with_headroom
from nearcast.engines.similar.build import (
    absorb_members,
    append_members,
    choose_leaves,
    count_lists,
    fill_leaf,
    mark_dead,
    write_lists,
)
from nearcast.engines.similar.layout import (
    ALIVE,
    ANYWHERE,
    BY_REGION,
    BY_TEXT,
    BY_X,
    BY_Y,
    EITHER,
    FARTHEST,
    FLAT,
    HOME,
    LEAF,
    LEAF_AXIS,
    LIST,
    MEMBER,
    MOST_MEMBERS,
    NEAR,
    NODE,
    NOWHERE,
    TERM_MASK,
    BuildInput,
    StampLayout,
)
from nearcast.engines.similar.prefixes import Draft, new_draft
from nearcast.engines.similar.region_tree import narrow
from nearcast.engines.similar.settings import StampSettings
from nearcast.space.distance import HAVERSINE, wrap
from nearcast.space.space import Space

_TAIL = 16  # a leaf has room for a sixteenth of its members more before it is rebuilt
LEAST_TAIL = 16
_DEAD = 4  # a leaf is rebuilt when a quarter of its members is dead
MOST_LISTED = MOST_MEMBERS * _TAIL // (_TAIL + 1) - LEAST_TAIL  # members of a leaf when it is built
MOST_LEAVES = 65535  # homes have 16 bits for one
_POOLS: dict[str, dict[str, Any]] = {
    "member": {"members": MEMBER},
    "word": {"terms": np.int32},
    "entry": {"entries": np.uint32},
    "list": {"lists": LIST},
}  # a leaf has a block of each, at its `..._start`, of `..._room` rows


class StampIndex:
    """The subscriptions of a table, filed by region and word."""

    def __init__(self, space: Space, settings: StampSettings) -> None:
        self.settings = settings
        self.space = space.kernel_input
        self._draft = new_draft(0, 0)
        self.clear()

    def clear(self) -> None:
        """Remove everything."""
        self._nodes, self._leaves = np.zeros(0, dtype=NODE), np.zeros(0, dtype=LEAF)
        self._homes = np.zeros(0, dtype=HOME)
        self._node_slots, self._leaf_slots = Slots(), Slots()
        self.pools = {name: BlockPool(**dtypes) for name, dtypes in _POOLS.items()}
        for root in (NEAR, ANYWHERE):
            self._new_leaf(self._new_node(-1), root, (-math.inf, -math.inf, math.inf, math.inf))

    @property
    def layout(self) -> StampLayout:
        members, words, entries, lists = (pool.arrays for pool in self.pools.values())
        return StampLayout(
            self._nodes, self._leaves, members["members"], words["terms"], entries["entries"], lists["lists"],
            self._homes,
        )  # fmt: skip

    @property
    def n_nodes(self) -> int:
        return len(self._node_slots)

    @property
    def n_leaves(self) -> int:
        return len(self._leaf_slots)

    @property
    def leaf_numbers(self) -> Ints:
        """All leaves, from left to right."""
        found, stack = [], [ANYWHERE, NEAR]
        while stack:
            node = self._nodes[stack.pop()]
            if node["axis"] == LEAF_AXIS:
                found.append(node["leaf"])
            else:
                stack += [int(node["high"]), int(node["low"])]
        return np.array(found, dtype=np.int32)

    @property
    def nbytes(self) -> int:
        arrays = [self._nodes, self._leaves, self._homes, *self._draft]
        pools = sum(pool.nbytes for pool in self.pools.values())
        return sum(array.nbytes for array in arrays) + pools + self._node_slots.nbytes + self._leaf_slots.nbytes

    @property
    def flags(self) -> int:
        settings = self.settings
        return (
            (0 if settings.regions else FLAT)
            + (BY_REGION if settings.region_prefixes else 0)
            + (BY_TEXT if settings.text_prefixes else 0)
        )

    def build_input(self, subscriptions: PointLayout, idf: Array) -> BuildInput:
        """What kernels that write read besides the index."""
        return BuildInput(subscriptions, idf, self.space, self.flags)

    # Filing

    def draft(self, slots: Ints, subscriptions: PointLayout, n_keys: int = 0) -> Draft:
        """Scratch for a kernel that orders the words of these subscriptions and writes up to `n_keys` keys.

        It is no part of the state: every call asks for what it needs, whatever earlier ones have left.
        """
        draft, n_words = self._draft, int(subscriptions.rows["n_terms"][slots].max(initial=0))
        self._draft = draft._replace(words=with_room(draft.words, n_words + 1), keys=with_room(draft.keys, n_keys))
        return self._draft

    def insert(self, slots: Ints, subscriptions: PointLayout, idf: Array) -> None:
        """File subscriptions."""
        assert idf.size <= TERM_MASK + 1, "members have 27 bits for a term"
        n_homes, n = self._homes.size, int(slots.max(initial=-1)) + 1
        if n > n_homes:
            self._homes = with_headroom(self._homes, n)
            self._homes[n_homes:] = (NOWHERE, NOWHERE)
        words = self.draft(slots, subscriptions).words
        given = self.build_input(subscriptions, idf)
        leaves = np.empty((2, slots.size), np.int64)
        choose_leaves(self.layout, slots, given, words, leaves)
        rest = np.empty(slots.size, np.int64)
        for kind in (NEAR, ANYWHERE):
            n = append_members(self.layout, slots, leaves[kind], given, words, rest)
            for leaf, own in _groups(leaves[kind][rest[:n]]):
                self._add(leaf, slots[rest[:n][own]], given)
        self._compact_if_wasteful()

    def remove(self, slots: Ints, subscriptions: PointLayout, idf: Array) -> None:
        """Take subscriptions out; they are still in the table."""
        touched = np.empty(2 * slots.size, np.int64)
        n = mark_dead(self.layout, slots, touched)
        given = self.build_input(subscriptions, idf)
        for leaf in np.unique(touched[:n]).tolist():
            if self._leaves["n_dead"][leaf] * _DEAD > self._leaves["n_members"][leaf]:
                self._reclaim(leaf, given)
        self._compact_if_wasteful()

    def _alive(self, leaf: int, first: int = 0) -> Ints:
        """Slots of the members of a leaf, from the one at `first` on, that were not removed."""
        row = self._leaves[leaf]
        members = self.layout.members[row["member_start"] + first : row["member_start"] + row["n_members"]]
        slots: Ints = members["slot"][members["state"] & ALIVE != 0]
        return slots

    def _reclaim(self, leaf: int, given: BuildInput) -> None:
        """Rebuild a leaf without its dead, together with its sibling as long as both are small."""
        slots = self._alive(leaf)
        kind = int(self._leaves["kind"][leaf])
        while (parent := int(self._nodes["parent"][self._leaves["node"][leaf]])) >= 0:
            children = int(self._nodes["low"][parent]), int(self._nodes["high"][parent])
            sibling = children[0] if children[1] == self._leaves["node"][leaf] else children[1]
            if not slots.size:
                self._drop_leaf(leaf)
                self._splice(parent, sibling)
                return
            if self._nodes["axis"][sibling] != LEAF_AXIS:
                break
            other = int(self._nodes["leaf"][sibling])
            together = np.concatenate([slots, self._alive(other)])
            if 3 * together.size > 2 * self._max_members(kind):
                break
            cell = _hull(self._cell(leaf), self._cell(other))
            self._drop_leaf(leaf)
            self._drop_leaf(other)
            self._node_slots.give(np.array(children, dtype=np.int32))
            leaf, slots = self._new_leaf(parent, kind, cell), together
        self._rebuild(leaf, slots, given)

    def _splice(self, parent: int, child: int) -> None:
        """Let a node take the place of its parent, whose other child is gone."""
        nodes = self._nodes
        other = int(nodes["high"][parent]) if child == nodes["low"][parent] else int(nodes["low"][parent])
        above = nodes["parent"][parent]
        nodes[parent] = nodes[child]
        nodes["parent"][parent] = above
        if nodes["axis"][parent] == LEAF_AXIS:
            self._leaves["node"][nodes["leaf"][parent]] = parent
        else:
            nodes["parent"][nodes["low"][parent]] = nodes["parent"][nodes["high"][parent]] = parent
        self._node_slots.give(np.array([child, other], dtype=np.int32))
        narrow(nodes, parent)

    def _max_members(self, kind: int) -> int:
        """Most members of a leaf when it is built."""
        return min(self.settings.fanout, MOST_LISTED) if kind == NEAR else MOST_LISTED

    # Leaves

    def _cell(self, leaf: int) -> tuple[float, float, float, float]:
        row = self._leaves[leaf]
        return float(row["west"]), float(row["south"]), float(row["east"]), float(row["north"])

    def _new_node(self, parent: int) -> int:
        at = int(self._node_slots.take(1)[0])
        self._nodes = with_room(self._nodes, self._node_slots.capacity)
        self._nodes["parent"][at] = parent
        return at

    def _new_leaf(self, node: int, kind: int, cell: tuple[float, float, float, float]) -> int:
        """An empty leaf without any room, at a node."""
        leaf = int(self._leaf_slots.take(1)[0])
        self._leaves = with_room(self._leaves, self._leaf_slots.capacity)
        row = np.zeros((), dtype=LEAF)
        row["west"], row["south"], row["east"], row["north"] = cell
        row["node"], row["kind"] = node, kind
        self._leaves[leaf] = row
        self._nodes["axis"][node], self._nodes["leaf"][node] = LEAF_AXIS, leaf
        self._nodes["least"][node] = FARTHEST
        return leaf

    def _drop_leaf(self, leaf: int) -> None:
        """Give back a leaf; its rows in the pools are dead."""
        for pool, start, size in self._blocks(leaf):
            pool.give(start, size)
        self._leaves[leaf] = np.zeros((), dtype=LEAF)
        self._leaf_slots.give(np.array([leaf], dtype=np.int32))

    def _blocks(self, leaf: int) -> list[tuple[BlockPool, int, int]]:
        """Start and size of what a leaf owns of each pool."""
        row = self._leaves[leaf]
        return [(pool, int(row[f"{name}_start"]), int(row[f"{name}_room"])) for name, pool in self.pools.items()]

    def _allocate(self, leaf: int, name: str, n: int) -> None:
        """Give a leaf a block of at least n rows; the caller gives back the one that it had."""
        self._leaves[f"{name}_start"][leaf], self._leaves[f"{name}_room"][leaf] = self.pools[name].take(n)

    def _add(self, leaf: int, slots: Ints, given: BuildInput) -> None:
        """Add members for which a leaf has no room: to its lists if it stays whole, else it is split."""
        subscriptions = given.subscriptions
        row = self._leaves[leaf]
        n_members, n_words = int(row["n_members"]), int(row["n_words"])
        if n_members + slots.size > self._max_members(int(row["kind"])):
            self._rebuild(leaf, np.concatenate([self._alive(leaf), slots]), given)
            return
        old = self._blocks(leaf)
        self._make_room(leaf, n_members + slots.size, n_words + int(subscriptions.rows["n_terms"][slots].sum()))
        for (pool, start, _), n, name in zip(old, (n_members, n_words), ("member_start", "word_start"), strict=False):
            to = int(self._leaves[name][leaf])
            for array in pool.arrays.values():
                array[to : to + n] = array[start : start + n]
        layout, draft = self.layout, self.draft(slots, subscriptions)
        into, rest = np.full(slots.size, leaf, np.int64), np.empty(0, np.int64)
        append_members(layout, slots, into, given, draft.words, rest)
        listed, n_all = int(self._leaves["n_listed"][leaf]), int(self._leaves["n_words"][leaf])
        n_new = n_members + slots.size - listed
        unlisted = self._alive(leaf, listed)  # those that come now, and some that came before
        draft = self.draft(unlisted, subscriptions, int(self._leaves["n_entries"][leaf]) + n_all + n_new)
        keys = absorb_members(layout, leaf, given, draft)
        self._write_lists(leaf, keys)
        for pool, start, size in old:
            pool.give(start, size)

    def _rebuild(self, leaf: int, slots: Ints, given: BuildInput) -> None:
        """Make these the members of a leaf, or of the leaves that it is split into."""
        rows = given.subscriptions.rows
        waiting = [(leaf, slots)]
        while waiting:
            leaf, slots = waiting.pop()
            kind = int(self._leaves["kind"][leaf])
            halves = None
            if slots.size > self._max_members(kind) and (self.n_leaves < MOST_LEAVES - 1):
                halves = self._cut(kind, rows["x"][slots], rows["y"][slots])
            if halves is None:
                self._build(leaf, slots, given)
                continue
            axis, cut, is_high = halves
            at, cell = int(self._leaves["node"][leaf]), self._cell(leaf)
            self._drop_leaf(leaf)
            west, south, east, north = cell
            cells = [cell, cell]
            if axis == BY_X:
                cells = [(west, south, cut, north), (cut, south, east, north)]
            elif axis == BY_Y:
                cells = [(west, south, east, cut), (west, cut, east, north)]
            children = self._new_node(at), self._new_node(at)
            for child, part in zip(children, cells, strict=True):
                waiting.append((self._new_leaf(child, kind, part), slots[is_high == (child == children[1])]))
            node = self._nodes[at]
            node["axis"], node["cut"], node["low"], node["high"] = axis, cut, *children

    def _cut(self, kind: int, x: Array, y: Array) -> tuple[int, float, Array] | None:
        """Where to cut places in two: axis, place of the cut and who is beyond; None if they must stay together."""
        if kind == NEAR:
            wide = 1.0
            if self.space.metric == HAVERSINE:
                far = np.flatnonzero((x < -180.0) | (x >= 180.0))
                x[far] = [wrap(value) for value in x[far].tolist()]
                wide = math.cos(math.radians(float(np.median(y))))
            sides = [(float(np.ptp(x)) * wide, BY_X, x), (float(np.ptp(y)), BY_Y, y)]
            for _, axis, values in sorted(sides, key=lambda side: -side[0]):
                middle = np.partition(values, values.size // 2)[values.size // 2]
                cut = float(middle) if middle > values.min() else float(values[values > middle].min(initial=math.inf))
                if math.isfinite(cut):
                    return axis, cut, values >= cut
        if x.size > MOST_LISTED:
            return EITHER, 0.0, np.arange(x.size) >= MOST_LISTED
        return None

    def _build(self, leaf: int, slots: Ints, given: BuildInput) -> None:
        """Write a leaf and its lists from these members."""
        subscriptions = given.subscriptions
        for pool, start, size in self._blocks(leaf):
            pool.give(start, size)
        n_words = int(subscriptions.rows["n_terms"][slots].sum())
        draft = self.draft(slots, subscriptions, slots.size + n_words)
        row = self._leaves[leaf]
        row["n_members"] = row["n_words"] = row["n_dead"] = 0
        self._make_room(leaf, slots.size, n_words)
        self._write_lists(leaf, fill_leaf(self.layout, leaf, slots, given, draft))
        narrow(self._nodes, int(row["node"]))

    def _make_room(self, leaf: int, n_members: int, n_words: int) -> None:
        """Blocks for members and words of a leaf, and for some that come later."""
        tail = max(LEAST_TAIL, n_members // _TAIL) if n_members else 0
        self._allocate(leaf, "member", n_members + tail)
        self._allocate(leaf, "word", n_words + tail * math.ceil(n_words / max(1, n_members)))

    def _write_lists(self, leaf: int, keys: Longs) -> None:
        """Write the lists of a leaf from sorted keys."""
        n_lists = count_lists(keys)
        self._leaves["n_lists"][leaf] = n_lists + n_lists // 5 + 1 if n_lists else 0
        self._allocate(leaf, "entry", keys.size)
        self._allocate(leaf, "list", int(self._leaves["n_lists"][leaf]))
        write_lists(self.layout, leaf, keys)

    def _compact_if_wasteful(self) -> None:
        """Lay the leaves side by side again, from left to right."""
        if not any(pool.wasteful for pool in self.pools.values()):
            return
        numbers = self.leaf_numbers
        for name, pool in self.pools.items():
            starts, sizes = (self._leaves[f"{name}_{what}"][numbers].astype(np.int64) for what in ("start", "room"))
            self._leaves[f"{name}_start"][numbers] = pool.compact(starts, sizes)

    def state(self) -> State:
        return {
            "nodes": self._nodes,
            "leaves": self._leaves,
            "homes": self._homes,
            "node slots": self._node_slots.state(),
            "leaf slots": self._leaf_slots.state(),
            "pools": {name: pool.state() for name, pool in self.pools.items()},
        }

    def load(self, state: State) -> None:
        self._nodes, self._leaves, self._homes = state["nodes"], state["leaves"], state["homes"]
        self._node_slots.load(state["node slots"])
        self._leaf_slots.load(state["leaf slots"])
        for name, pool in self.pools.items():
            pool.load(state["pools"][name])


def _groups(numbers: Longs) -> list[tuple[int, Longs]]:
    """Each number that there is, and the positions where it is."""
    order = np.argsort(numbers, kind="stable")
    cuts = np.flatnonzero(np.diff(numbers[order])) + 1
    return [(int(numbers[own[0]]), own) for own in np.split(order, cuts) if own.size]


def _hull(*cells: tuple[float, float, float, float]) -> tuple[float, float, float, float]:
    west, south, east, north = zip(*cells, strict=True)
    return min(west), min(south), max(east), max(north)
