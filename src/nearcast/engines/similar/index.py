"""Subscriptions by region and word: the arrays behind the kernels, how they grow, and how leaves split and merge."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from nearcast.columns.arena import Array, Ints, Longs, Slots, State, with_room
from nearcast.columns.subscriptions import PointLayout
from nearcast.engines.similar.build import (
    BY_REGION,
    BY_TEXT,
    FLAT,
    append_members,
    bury_members,
    choose_leaves,
    count_lists,
    fill_leaf,
    write_lists,
)
from nearcast.engines.similar.layout import (
    ALIVE,
    ANYWHERE,
    BY_X,
    BY_Y,
    EITHER,
    FARTHEST,
    HOME,
    LEAF,
    LEAF_AXIS,
    LIST,
    MEMBER,
    MOST_LEVELS,
    MOST_MEMBERS,
    NEAR,
    NODE,
    NOWHERE,
    StampLayout,
)
from nearcast.engines.similar.prefixes import WORD, Draft
from nearcast.engines.similar.regions import narrow
from nearcast.engines.similar.settings import Settings
from nearcast.space.distance import HAVERSINE, wrap
from nearcast.space.space import Space

_TAIL = 16  # a leaf has room for a sixteenth of its members more before it is built anew
_LEAST_TAIL = 16
_DEAD = 4  # a leaf is built anew when a quarter of its members is dead
_MOST_LISTED = MOST_MEMBERS * _TAIL // (_TAIL + 1) - _LEAST_TAIL  # members of a leaf when it is built
_MOST_LEAVES = 65535  # homes have 16 bits for one
_POOLS: dict[str, Any] = {
    "members": MEMBER,
    "terms": np.int32,
    "shares": np.uint16,
    "entries": np.uint32,
    "lists": LIST,
}


class StampIndex:
    """Everything that is filed, of subscriptions that `table` holds."""

    def __init__(self, space: Space, settings: Settings) -> None:
        self.settings = settings
        self.where = space.metric_code, space.max_distance
        self._draft = Draft(
            np.zeros(0, dtype=WORD),
            np.zeros(MOST_LEVELS + 1, np.int32),
            np.zeros(MOST_LEVELS + 1, np.int32),
            np.zeros(0, np.int64),
        )
        self.clear()

    def clear(self) -> None:
        """Forget everything."""
        self._nodes, self._leaves = np.zeros(0, dtype=NODE), np.zeros(0, dtype=LEAF)
        self._homes = np.zeros(0, dtype=HOME)
        self._node_slots, self._leaf_slots = Slots(), Slots()
        self.pools: dict[str, Array] = {name: np.zeros(0, dtype=dtype) for name, dtype in _POOLS.items()}
        self.n_used = dict.fromkeys(_POOLS, 0)
        self._dead = dict.fromkeys(_POOLS, 0)
        for root in (NEAR, ANYWHERE):
            self._new_leaf(self._new_node(-1), root, (-math.inf, -math.inf, math.inf, math.inf))

    @property
    def layout(self) -> StampLayout:
        pools = self.pools
        return StampLayout(
            self._nodes, self._leaves, pools["members"], pools["terms"], pools["shares"], pools["entries"],
            pools["lists"], self._homes,
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
        arrays = [self._nodes, self._leaves, self._homes, *self.pools.values(), *self._draft]
        return sum(array.nbytes for array in arrays) + self._node_slots.nbytes + self._leaf_slots.nbytes

    @property
    def flags(self) -> int:
        settings = self.settings
        return (
            (0 if settings.regions else FLAT)
            + (BY_REGION if settings.region_prefixes else 0)
            + (BY_TEXT if settings.text_prefixes else 0)
        )

    # Filing

    def draft(self, n_words: int, n_keys: int) -> Draft:
        """Scratch for subscriptions of up to so many words and leaves of up to so many entries."""
        draft = self._draft
        self._draft = draft._replace(words=with_room(draft.words, n_words + 2), keys=with_room(draft.keys, n_keys))
        return self._draft

    def insert(self, slots: Ints, subscriptions: PointLayout, idf: Array) -> None:
        """File subscriptions."""
        n_homes = self._homes.size
        self._homes = with_room(self._homes, int(slots.max(initial=-1)) + 1)
        self._homes[n_homes:] = (NOWHERE, NOWHERE)
        words = self.draft(int(subscriptions.rows["n_terms"][slots].max(initial=0)), 0).words
        leaves = np.empty((2, slots.size), np.int64)
        choose_leaves(self.layout, slots, subscriptions, idf, self.where[0], self.flags, words, leaves)
        rest = np.empty(slots.size, np.int64)
        for kind in (NEAR, ANYWHERE):
            n = append_members(
                self.layout, slots, leaves[kind], subscriptions, idf, self.where, self.flags, words, rest
            )
            for leaf, own in _groups(leaves[kind][rest[:n]]):
                self._rebuild(leaf, np.concatenate([self._alive(leaf), slots[rest[:n][own]]]), subscriptions, idf)
        self._compact_if_wasteful()

    def remove(self, slots: Ints, subscriptions: PointLayout, idf: Array) -> None:
        """Take subscriptions out; they are still in the table."""
        touched = np.empty(2 * slots.size, np.int64)
        n = bury_members(self.layout, slots, touched)
        for leaf in np.unique(touched[:n]).tolist():
            if self._leaves["n_dead"][leaf] * _DEAD > self._leaves["n_members"][leaf]:
                self._reclaim(leaf, subscriptions, idf)
        self._compact_if_wasteful()

    def _alive(self, leaf: int) -> Ints:
        """Slots of the members of a leaf that were not removed."""
        row = self._leaves[leaf]
        members = self.pools["members"][row["member_start"] : row["member_start"] + row["n_members"]]
        slots: Ints = members["slot"][members["state"] & ALIVE != 0]
        return slots

    def _reclaim(self, leaf: int, subscriptions: PointLayout, idf: Array) -> None:
        """Build a leaf anew without its dead, together with its sibling as long as both are small."""
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
            if 3 * together.size > 2 * self._most(kind):
                break
            cell = _hull(self._cell(leaf), self._cell(other))
            self._drop_leaf(leaf)
            self._drop_leaf(other)
            self._node_slots.give(np.array(children, dtype=np.int32))
            leaf, slots = self._new_leaf(parent, kind, cell), together
        self._rebuild(leaf, slots, subscriptions, idf)

    def _splice(self, parent: int, child: int) -> None:
        """Let an inner node take the place of its parent, whose other child is gone."""
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

    def _most(self, kind: int) -> int:
        """Most members of a leaf when it is built."""
        return min(self.settings.fanout, _MOST_LISTED) if kind == NEAR else _MOST_LISTED

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
        self._abandon(leaf)
        self._leaves[leaf] = np.zeros((), dtype=LEAF)
        self._leaf_slots.give(np.array([leaf], dtype=np.int32))

    def _abandon(self, leaf: int) -> None:
        row = self._leaves[leaf]
        self._dead["members"] += int(row["member_room"])
        self._dead["terms"] += int(row["word_room"])
        self._dead["shares"] += int(row["word_room"])
        self._dead["entries"] += int(row["n_entries"])
        self._dead["lists"] += int(row["n_lists"])

    def _take(self, name: str, n: int) -> int:
        """Room for n more rows at the end of a pool; it grows by an eighth, since memory counts more than copying."""
        start = self.n_used[name]
        pool = self.pools[name]
        if start + n > pool.size:
            grown = np.zeros(max(start + n, pool.size + pool.size // 8 + 64), dtype=pool.dtype)
            grown[:start] = pool[:start]
            self.pools[name] = grown
        self.n_used[name] = start + n
        return start

    def _rebuild(self, leaf: int, slots: Ints, subscriptions: PointLayout, idf: Array) -> None:
        """Make these the members of a leaf, or of the leaves that it is split into."""
        rows = subscriptions.rows
        waiting = [(leaf, slots)]
        while waiting:
            leaf, slots = waiting.pop()
            kind = int(self._leaves["kind"][leaf])
            halves = None
            if slots.size > self._most(kind) and (self.n_leaves < _MOST_LEAVES - 1):
                halves = self._halves(kind, rows["x"][slots], rows["y"][slots])
            if halves is None:
                self._build(leaf, slots, subscriptions, idf)
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

    def _halves(self, kind: int, x: Array, y: Array) -> tuple[int, float, Array] | None:
        """Where to cut places in two: axis, place of the cut and who is beyond; None if they must stay together."""
        if kind == NEAR:
            wide = 1.0
            if self.where[0] == HAVERSINE:
                far = np.flatnonzero((x < -180.0) | (x >= 180.0))
                x[far] = [wrap(value) for value in x[far].tolist()]
                wide = math.cos(math.radians(float(np.median(y))))
            sides = [(float(np.ptp(x)) * wide, BY_X, x), (float(np.ptp(y)), BY_Y, y)]
            for _, axis, values in sorted(sides, key=lambda side: -side[0]):
                middle = np.partition(values, values.size // 2)[values.size // 2]
                cut = float(middle) if middle > values.min() else float(values[values > middle].min(initial=math.inf))
                if math.isfinite(cut):
                    return axis, cut, values >= cut
        if x.size > _MOST_LISTED:
            return EITHER, 0.0, np.arange(x.size) >= _MOST_LISTED
        return None

    def _build(self, leaf: int, slots: Ints, subscriptions: PointLayout, idf: Array) -> None:
        """Write a leaf anew at the end of the pools."""
        self._abandon(leaf)
        n, n_words = slots.size, int(subscriptions.rows["n_terms"][slots].sum())
        draft = self.draft(int(subscriptions.rows["n_terms"][slots].max(initial=0)), n + n_words)
        tail = max(_LEAST_TAIL, n // _TAIL) if n else 0
        row = self._leaves[leaf]
        row["n_members"] = row["n_words"] = row["n_dead"] = 0
        row["member_room"], row["word_room"] = n + tail, n_words + tail * max(1, math.ceil(n_words / max(1, n)))
        row["member_start"] = self._take("members", int(row["member_room"]))
        row["word_start"] = self._take("terms", int(row["word_room"]))
        self._take("shares", int(row["word_room"]))
        sorted_keys = fill_leaf(self.layout, leaf, slots, subscriptions, idf, self.where, self.flags, draft)
        n_lists = count_lists(sorted_keys)
        row["n_lists"] = n_lists + n_lists // 3 + 1 if n_lists else 0
        row["entry_start"] = self._take("entries", sorted_keys.size)
        row["list_start"] = self._take("lists", int(row["n_lists"]))
        write_lists(self.layout, leaf, sorted_keys)
        narrow(self._nodes, int(row["node"]))

    def _compact_if_wasteful(self) -> None:
        if any(5 * self._dead[name] > self.n_used[name] + 256 for name in _POOLS):
            self._compact()

    def _compact(self) -> None:
        """Lay the leaves side by side again, from left to right."""
        starts = {"members": "member_start", "terms": "word_start", "shares": "word_start", "entries": "entry_start"}
        sizes = {"members": "member_room", "terms": "word_room", "shares": "word_room", "entries": "n_entries"}
        starts["lists"], sizes["lists"] = "list_start", "n_lists"
        leaves = self._leaves[self.leaf_numbers]
        for name, pool in self.pools.items():
            lengths = leaves[sizes[name]].astype(np.int64)
            fresh = np.zeros(int(lengths.sum()), dtype=pool.dtype)
            at = 0
            for start, length in zip(leaves[starts[name]].tolist(), lengths.tolist(), strict=True):
                fresh[at : at + length] = pool[start : start + length]
                at += length
            self.pools[name], self.n_used[name], self._dead[name] = fresh, at, 0
        for start, size in {starts[name]: sizes[name] for name in _POOLS}.items():
            lengths = leaves[size].astype(np.int64)
            self._leaves[start][self.leaf_numbers] = np.cumsum(lengths) - lengths

    def state(self) -> State:
        pools = {name: pool[: self.n_used[name]] for name, pool in self.pools.items()}
        return {
            "nodes": self._nodes,
            "leaves": self._leaves,
            "homes": self._homes,
            "node slots": self._node_slots.state(),
            "leaf slots": self._leaf_slots.state(),
            "pools": pools,
            "dead": dict(self._dead),
        }

    def load(self, state: State) -> None:
        self._nodes, self._leaves, self._homes = state["nodes"], state["leaves"], state["homes"]
        self._node_slots.load(state["node slots"])
        self._leaf_slots.load(state["leaf slots"])
        self.pools = dict(state["pools"])
        self.n_used = {name: pool.size for name, pool in self.pools.items()}
        self._dead = {name: int(n) for name, n in state["dead"].items()}


def _groups(numbers: Longs) -> list[tuple[int, Longs]]:
    """Each number that there is, and the positions where it is."""
    order = np.argsort(numbers, kind="stable")
    cuts = np.flatnonzero(np.diff(numbers[order])) + 1
    return [(int(numbers[own[0]]), own) for own in np.split(order, cuts) if own.size]


def _hull(*cells: tuple[float, float, float, float]) -> tuple[float, float, float, float]:
    west, south, east, north = zip(*cells, strict=True)
    return min(west), min(south), max(east), max(north)
