"""`AoiqTree` owns the arrays of the tree, grows them, and finds which subscriptions arrivals may concern."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nearcast.columns.arena import Array, Ints, Longs, State, with_room
from nearcast.columns.message_table import MessageLayout
from nearcast.columns.subscription_tables import PointLayout
from nearcast.engines.blocks import N_HEADS as N_RANGES
from nearcast.engines.blocks import USED
from nearcast.engines.contract import Stats
from nearcast.engines.nearest.aoiq.insert import file_many, rank_words, remove_many
from nearcast.engines.nearest.aoiq.invariants import check_tree
from nearcast.engines.nearest.aoiq.layout import (
    BLOCK,
    CANDIDATES,
    CHILDREN,
    DEEPEST,
    ENTRY,
    FREE_BLOCK,
    FREE_PREFIX,
    HISTOGRAM,
    MOST_NODES,
    MOST_WORDS,
    N_BLOCKS,
    N_DEAD,
    N_HEADS,
    N_LISTS,
    N_PREFIXES,
    N_SEEN,
    NOTHING,
    PREFIX,
    PROBED,
    REVIVED,
    SWEPT,
    TOUCHED,
    UNLINKED,
    UNRANKED,
    EventRange,
    Habits,
    TreeLayout,
    TreeShape,
    first_cell,
    place_of,
)
from nearcast.engines.nearest.aoiq.match import FindCall, collect_held, scan_held
from nearcast.engines.nearest.aoiq.sweep import sweep_lists, sweep_prefixes
from nearcast.errors import InvalidInput
from nearcast.held import HeldCall
from nearcast.jit import NEED_ROOM, kernel
from nearcast.model.checks import number, whole
from nearcast.space.space import Space
from nearcast.window.live import Steps

LEAST = 1024  # dead entries not worth a sweep
_PACE = 6  # places of lists, and of prefixes, that are swept for each subscription that is filed or ends
MEMORY = 1 << 20  # messages after which what was seen counts half


@dataclass(frozen=True, slots=True)
class AoiqSettings:
    """Parameters of the AOIQ-tree, the paper's by default.

    Parameters
    ----------
    words
        m: words of a prefix, by which lists are found.
    height
        Theta_h: level of the deepest nodes.
    update_ratio
        Theta_U: what an update costs, where verifying one subscription costs 1.
    """

    words: int = 2
    height: int = 10
    update_ratio: float = 0.001

    def __post_init__(self) -> None:
        whole("words", self.words, 1, MOST_WORDS)
        whole("height", self.height, 0, DEEPEST)
        if not 0 < number("update_ratio", self.update_ratio) <= 1:
            raise InvalidInput("update_ratio", self.update_ratio, "must be > 0 and <= 1")


@kernel
def rehash(keys: Longs, values: Ints, into_keys: Longs, into_values: Ints) -> None:
    """Put all keys with their values into larger arrays."""
    for i in range(keys.size):
        if keys[i] != 0:
            place = place_of(into_keys, keys[i] - 1)
            into_keys[place], into_values[place] = keys[i], values[i]


def _rehashed(keys: Longs, values: Ints, n: int) -> tuple[Longs, Ints]:
    """The arrays themselves if at most three quarters of them would be used by `n` keys, else larger ones."""
    if 4 * n <= 3 * keys.size:
        return keys, values
    room = max(4 * n // 3 + 1, keys.size * 5 // 4)
    larger = np.zeros(room, dtype=np.int64), np.zeros(room, dtype=np.int32)
    rehash(keys, values, *larger)
    return larger


def _empty(n_terms: int) -> TreeLayout:
    heads = np.zeros(N_HEADS, np.int64)
    heads[[FREE_PREFIX, FREE_BLOCK]] = NOTHING
    return TreeLayout(
        heads, np.full(n_terms, NOTHING, np.int32),
        np.zeros(64, np.int64), np.zeros(64, np.int32), np.zeros(16, PREFIX),
        np.zeros(64, np.int64), np.zeros(64, np.int32), np.zeros(32, BLOCK), np.zeros(64, ENTRY),
        np.zeros(N_RANGES, np.int64),
    )  # fmt: skip


class AoiqTree:
    """Subscriptions by node and words."""

    def __init__(self, space: Space, settings: AoiqSettings) -> None:
        self._space_input = space.kernel_input
        self._shape = TreeShape(settings.words, settings.height, float(settings.update_ratio))
        self.height = settings.height
        self._tree = _empty(0)
        self._habits = Habits(
            np.zeros(0, np.int32), np.zeros(0, np.int32), np.zeros(int(first_cell(HISTOGRAM + 1)), np.int32)
        )
        self._lowest = 0
        self._collect: HeldCall[FindCall] = HeldCall(collect_held)
        self._scan: HeldCall[FindCall] = HeldCall(scan_held)
        self._units = np.empty(1024, dtype=np.int64)
        self._n_rows = 0  # entries that are alive
        self._n_filed = 0  # subscriptions
        self._n_rebuilds = 0

    def ensure_terms(self, n_terms: int) -> None:
        """Terms up to this number may come."""
        known = self._habits.ranks.size
        if n_terms > known:
            ranks, firsts = with_room(self._habits.ranks, n_terms), with_room(self._tree.firsts, n_terms)
            ranks[known:], firsts[known:] = UNRANKED, NOTHING
            self._habits = self._habits._replace(ranks=ranks, seen=with_room(self._habits.seen, n_terms))
            self._tree = self._tree._replace(firsts=firsts)

    def build(self, filed: Array, subscriptions: PointLayout, buffers: Array, slots: Ints) -> None:
        """File all subscriptions again, which are these, with their words ordered by what was seen."""
        habits, heads = self._habits, self._tree.heads
        rows = subscriptions.rows[slots]
        asked = np.zeros(habits.ranks.size, dtype=np.int64)
        count_asked(subscriptions, slots, asked)
        terms = np.flatnonzero(asked)
        habits.ranks[:] = UNRANKED
        order = np.lexsort((terms, asked[terms], habits.seen[terms]))
        habits.ranks[terms[order]] = np.arange(terms.size, dtype=np.int32)
        self._lowest = 0
        self._tree = _empty(habits.ranks.size)
        self._tree.heads[[N_SEEN, PROBED, TOUCHED, CANDIDATES, UNLINKED, REVIVED]] = heads[
            [N_SEEN, PROBED, TOUCHED, CANDIDATES, UNLINKED, REVIVED]
        ]
        filed["n_rows"][slots] = 0
        self._n_filed = self._n_rows = 0
        self._n_rebuilds += 1
        self._file(filed, subscriptions, buffers, slots)
        self._n_filed = rows.size

    def file(self, filed: Array, subscriptions: PointLayout, buffers: Array, slots: Ints, n_new: int) -> None:
        """File these subscriptions, each once, by the ranges that they have now; `n_new` of them for the first time."""
        self._lowest = int(rank_words(subscriptions, slots, self._habits.ranks, self._lowest))
        self._file(filed, subscriptions, buffers, slots)
        self._n_filed += n_new
        self._sweep(filed, slots.size)

    def _sweep(self, filed: Array, n_slots: int) -> None:
        """Collect some garbage, if there is any; after a round prefixes drop the levels that have no lists."""
        tree = self._tree
        if tree.heads[N_DEAD] <= self._n_rows // 8 + LEAST:
            return
        if sweep_lists(tree, filed, _PACE * n_slots):
            used = tree.prefixes[: tree.heads[N_PREFIXES]]
            used["levels"] &= used["coming"] | CHILDREN
            used["coming"] = 0
        sweep_prefixes(tree, _PACE * n_slots)

    def _file(self, filed: Array, subscriptions: PointLayout, buffers: Array, slots: Ints) -> None:
        self._n_rows -= int(filed["n_rows"][slots].sum())
        done = 0
        while done < slots.size:
            rest = slots[done:]
            done += file_many(
                self._tree, self._habits, filed, subscriptions, buffers, rest, self._space_input, self._shape
            )
            if done < slots.size:
                self._grow()
        self._n_rows += int(filed["n_rows"][slots].sum())

    def _grow(self) -> None:
        """A little more room of everything, at least for one more subscription; arrays double if they must."""
        tree, heads = self._tree, self._tree.heads
        n_prefixes, n_lists = int(heads[N_PREFIXES] * 1.1) + 4 * MOST_WORDS, int(heads[N_LISTS] * 1.1) + 4 * MOST_NODES
        n_blocks = int(heads[N_BLOCKS] * 1.1) + 4 * MOST_NODES
        longest = int(tree.blocks["n_rows"].max(initial=0))
        prefix_keys, prefix_ids = _rehashed(tree.prefix_keys, tree.prefix_ids, n_prefixes)
        list_keys, list_heads = _rehashed(tree.list_keys, tree.list_heads, n_lists)
        if list_keys is not tree.list_keys:
            heads[SWEPT] = 0  # places have changed, and a round must look at all lists
        self._tree = tree._replace(
            prefix_keys=prefix_keys,
            prefix_ids=prefix_ids,
            prefixes=with_room(tree.prefixes, n_prefixes),
            list_keys=list_keys,
            list_heads=list_heads,
            blocks=with_room(tree.blocks, n_blocks),
            entries=with_room(tree.entries, int(tree.ranges[USED] * 1.05) + 2 * longest + 64 * MOST_NODES),
        )

    def remove(self, filed: Array, slots: Ints) -> None:
        """These subscriptions end."""
        self._n_rows -= int(filed["n_rows"][slots].sum())
        self._n_filed -= slots.size
        remove_many(self._tree, filed, slots)
        self._sweep(filed, slots.size)

    def find(
        self, filed: Array, steps: Steps, events: EventRange, messages: MessageLayout, pairs: Longs, n_pairs: int
    ) -> tuple[Longs, int]:
        """Candidates for the arrivals of these events, after the `n_pairs` that are there; maybe in a larger array."""
        if not self._n_filed:
            return pairs, n_pairs
        if self._tree.heads[N_SEEN] > MEMORY:
            self._halve_counts()
        where, shape = self._space_input, self._shape
        while True:
            call = FindCall(self._tree, self._habits, filed, steps, messages, where, shape, self._units, pairs)
            n_units = self._collect(call, *events)
            if n_units != NEED_ROOM:
                break
            self._units = np.empty(2 * self._units.size, dtype=np.int64)
        if n_units > 1:
            self._units[:n_units].sort()
        while True:
            n: int = self._scan(call, n_units, n_pairs)
            if n != NEED_ROOM:
                return call.pairs, n
            call = call._replace(pairs=with_room(call.pairs, 2 * call.pairs.size))

    def _halve_counts(self) -> None:
        self._tree.heads[N_SEEN] //= 2
        self._tree.prefixes["hits"] //= 2
        self._habits.seen[:] //= 2
        self._habits.cells[:] //= 2

    @property
    def n_filed(self) -> int:
        """Subscriptions."""
        return self._n_filed

    def check(self, filed: Array, slots: Ints) -> None:
        """Assert that the tree is consistent and holds exactly these subscriptions."""
        check_tree(self._tree, filed, slots, self._n_rows, self._space_input.bounds, self.height)
        assert slots.size == self._n_filed

    @property
    def nbytes(self) -> int:
        """Bytes in use; room ahead is never touched, so the system has not given it out yet."""
        tree, heads = self._tree, self._tree.heads
        used = (
            tree.prefixes[: heads[N_PREFIXES]], tree.blocks[: heads[N_BLOCKS]], tree.entries[: tree.ranges[USED]],
            tree.prefix_keys, tree.prefix_ids, tree.list_keys, tree.list_heads, tree.firsts, *self._habits, self._units,
        )  # fmt: skip
        return sum(array.nbytes for array in used)

    def stats(self) -> Stats:
        heads = self._tree.heads
        return {
            "entries": self._n_rows,
            "dead": int(heads[N_DEAD]),
            "lists": int(heads[N_LISTS]),
            "blocks": int(heads[N_BLOCKS]),
            "prefixes": int(heads[N_PREFIXES]),
            "probed": int(heads[PROBED]),
            "touched": int(heads[TOUCHED]),
            "candidates": int(heads[CANDIDATES]),
            "unlinked": int(heads[UNLINKED]),
            "revived": int(heads[REVIVED]),
            "rebuilds": self._n_rebuilds,
            "bytes": self.nbytes,
        }

    def state(self) -> State:
        tree, heads = self._tree, self._tree.heads
        used = {
            "prefixes": tree.prefixes[: heads[N_PREFIXES]],
            "blocks": tree.blocks[: heads[N_BLOCKS]],
            "entries": tree.entries[: tree.ranges[USED]],
        }
        return {
            "tree": {**tree._asdict(), **used},
            "habits": self._habits._asdict(),
            "lowest": self._lowest,
            "rows": self._n_rows,
            "filed": self._n_filed,
            "rebuilds": self._n_rebuilds,
        }

    def load(self, state: State) -> None:
        self._tree = TreeLayout(*(state["tree"][name] for name in TreeLayout._fields))
        self._tree = self._tree._replace(prefixes=self._tree.prefixes.copy())  # which every message counts in
        self._habits = Habits(*(state["habits"][name].copy() for name in Habits._fields))
        self._lowest, self._n_rebuilds = state["lowest"], state["rebuilds"]
        self._n_rows, self._n_filed = state["rows"], state["filed"]


@kernel
def count_asked(subscriptions: PointLayout, slots: Ints, counts: Longs) -> None:
    """Add how many of these subscriptions ask for each word."""
    for slot in slots:
        row = subscriptions.rows[slot]
        for i in range(row.term_start, row.term_start + row.n_terms):
            counts[subscriptions.terms[i]] += 1
