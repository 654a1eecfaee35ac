"""The AP-Tree: `ApTree` builds it, inserts and removes entries, and maintains it.

Paper: [APTREE] sections 3.3.4 and 3.3.5.
"""

from __future__ import annotations

import math

import numpy as np

from nearcast.columns.arena import Array, Ints, State, with_room
from nearcast.columns.subscription_tables import WithinTable
from nearcast.engines.contract import EngineContext
from nearcast.engines.within.arrays import TreeArrays
from nearcast.engines.within.build.builder import TreeBuilder
from nearcast.engines.within.build.layout import (
    BY_COST,
    EVEN_CUTS,
    HEURISTIC_CUTS,
    OPTIMAL_CUTS,
    WORDS_FIRST,
    Plan,
)
from nearcast.engines.within.build.layout import SPACE_FIRST as BY_SPACE_FIRST
from nearcast.engines.within.build.recent_messages import RecentMessages
from nearcast.engines.within.entries import write_pairs
from nearcast.engines.within.layout import (
    CURSOR,
    INTS_PER_LINE,
    N_LEAVES,
    N_LINES,
    N_NODES,
    NOTHING,
    ROOT,
    UP_TO,
    VERSION,
    TreeLayout,
)
from nearcast.engines.within.moving.leaf_lists import LeafLists
from nearcast.engines.within.moving.velocity import Velocities
from nearcast.engines.within.settings import (
    COST,
    EVEN,
    HEURISTIC,
    IN_LEAVES,
    KEYWORD_FIRST,
    OPTIMAL,
    SPACE_FIRST,
    ApTreeSettings,
)
from nearcast.engines.within.upkeep.drift import drift
from nearcast.engines.within.upkeep.insert_remove import (
    DRIFTING,
    NEED_DEFERRED,
    NEED_PATH,
    OVERFULL,
    UNDERFULL,
    LeafLimits,
    Work,
    insert_entries,
    remove_entries,
)
from nearcast.engines.within.upkeep.long_leaves import apply_deferred, by_leaf
from nearcast.engines.within.upkeep.rebuild import Rebuild
from nearcast.engines.within.upkeep.subtree import (
    clear_below,
    collect_entries,
    filed_below,
    path_to_root,
    replace_subtree,
)
from nearcast.engines.within.word_order import WordOrder
from nearcast.jit import NEED_ROOM

_CUTS = {HEURISTIC: HEURISTIC_CUTS, OPTIMAL: OPTIMAL_CUTS, EVEN: EVEN_CUTS}
_NOTHING_TO_DO: Ints = np.zeros(0, dtype=np.int32)
_PRIORITIES = {COST: BY_COST, KEYWORD_FIRST: WORDS_FIRST, SPACE_FIRST: BY_SPACE_FIRST}
_LEAST_SHARE = 0.001  # of all entries below a node that is worth rebuilding (section 5.1.3)
_ROWS_PER_EVENT = 16  # rows of a rebuild handled for every event of a call
ROWS_PER_CALL = (4096, 32_768)  # at least and at most in one call
ROWS_EARNED = 4  # by every event; a subtree that drifted waits until as many rows as it has are earned
LISTED_PER_ENTRY = 16  # live messages for each entry that are listed with a new tree at most
_SMALLEST_LEAF = 4
_OTHER_MOVES = 4.0  # times that movement must make lists cheaper or more expensive for the root to be built again
DEFERRED_ROOM = 1024  # deferred changes that room is kept for
_NOTED = 1 << 16  # subscriptions whose pairs are noted together after a restore


class ApTree:
    """Entries of the subscriptions in a table, filed by words and space."""

    def __init__(self, table: WithinTable, context: EngineContext, settings: ApTreeSettings) -> None:
        self.table = table
        self.context = context
        self.settings = settings
        listing = context.live.window is not None and settings.messages == IN_LEAVES
        self.lists = LeafLists(context) if listing else None
        self.arrays = TreeArrays()
        self.order = WordOrder()
        self.recent = RecentMessages()
        self.recent.learn(settings.sample, context.vocabulary)
        self.velocities = Velocities()
        self.n_entries = 0
        self.n_splits = self.n_merges = self.n_rebuilds = 0
        self._built_with_sample = False  # was the sample full when the root was built?
        self._built_moving = False  # did subscriptions move then?
        self._list_weight = 0.0  # what comparing lists cost then, for each entry of a leaf
        self._building = TreeBuilder(settings.fanout)
        self.pairs = np.zeros(0, np.int32)  # by slot: see `entries.write_pairs`
        self.work = new_work(1024)
        self.rebuild: Rebuild | None = None
        self._n_rows_earned = 0  # rows, since the last rebuild began

    @property
    def layout(self) -> TreeLayout:
        return self.arrays.layout

    @property
    def rebuilding(self) -> bool:
        """Is a subtree being built again?"""
        return self.rebuild is not None

    @property
    def since(self) -> int:
        """New leaves and widened cuts know messages after this sequence.

        While lists catch up it is past what they catch up with, since that round does not complete them.
        """
        last, heads = self.context.live.last, self.layout.heads
        return last if heads[CURSOR] == NOTHING else max(last, int(heads[UP_TO]) + 1)

    @property
    def leaf(self) -> int:
        """Entries of a leaf that is not partitioned: fewer where each compares its list of messages when it moves."""
        smallest = min(_SMALLEST_LEAF, self.settings.leaf)
        return max(smallest, round(self.settings.leaf / (1.0 + self._list_weight)))

    @property
    def limits(self) -> LeafLimits:
        """When leaves are split and nodes merged, and what new leaves know."""
        return LeafLimits(self.leaf, self.leaf // 2, self.since)

    # Building

    def build(self) -> None:
        """Build the whole tree again, with words ranked again, from what recent messages or live ones are like.

        Its leaves know all live messages if these are not very many, else only those to come.
        """
        table, slots, since = self.table, self.table.used_slots, self.since
        self.recent.begin_with(self.context.live.table)
        self.order = WordOrder.of(table, self.recent, self.order.ranks.size)
        self.arrays = TreeArrays(int(self.layout.heads[VERSION]))
        self.work = new_work(1024)
        self.rebuild, self._built_with_sample = None, self.recent.full
        self._learn_moves()
        entries = self.order.entries(table, table.layout.rows[slots], slots)
        self.note_pairs(entries)
        self._building.adopt(entries)
        lists = self.lists
        if lists is not None and len(self.context.live.table) > LISTED_PER_ENTRY * entries.size:
            lists = None
        self._hang(ROOT, entries.size, since if lists is None else 0)
        self.layout.parts["now"][ROOT] = self.n_entries = entries.size
        self._building = TreeBuilder(self.settings.fanout)
        if lists is not None:
            lists.list_all(self.arrays, self.order)

    def _hang(self, part: int, n_rows: int, since: int) -> None:
        """Build a tree from the building's first `n_rows` entries, below a part."""
        sample, plan = self.recent.ranked(self.order.ranks), self._plan(since)
        if n_rows <= plan.leaf:
            self._building.hang_leaf(self.arrays, part, n_rows, plan)
        else:
            self._building.start(self.arrays, part, n_rows, sample, self.work.path)
            self._building.run(self.arrays, self.order, plan, sample)

    def _learn_moves(self) -> None:
        """A root is about to be built: how subscriptions move counts in what it costs."""
        self._built_moving, self._list_weight = self.velocities.is_moving, self._weight_of_lists()

    def _weight_of_lists(self) -> float:
        if self.lists is None:
            return 0.0
        return self.velocities.list_weight(len(self.context.live.table), len(self.table))

    def _plan(self, since: int) -> Plan:
        settings = self.settings
        moving, copies = self.velocities, float(settings.copies)
        return Plan(
            settings.fanout, self.leaf, settings.visit / (1.0 + self._list_weight), _CUTS[settings.cuts],
            _PRIORITIES[settings.priority], copies, since, moving.messages, moving.displacements, moving.pace(settings),
        )  # fmt: skip

    # Inserting and removing

    def insert(self, slots: Ints) -> None:
        """File subscriptions that were just written to the table."""
        entries = self.order.entries(self.table, self.table.layout.rows[slots], slots)
        self.note_pairs(entries)
        self._insert(entries, ROOT, self.order.ranks)
        self.n_entries += entries.size
        self._note_changed(slots, None)
        self._split()

    def _insert(self, entries: Array, origin: int, ranks: Ints) -> None:
        limits, rows, done = self.limits, self.table.layout.rows, 0
        while done < entries.size:
            done, code = insert_entries(self.layout, ranks, entries, done, origin, rows, limits, self.work)
            self.make_room(code)

    def note_pairs(self, entries: Array) -> None:
        """Note which of these subscriptions, that are new or changed, one or two words decide about."""
        self.pairs = with_room(self.pairs, 2 * self.table.slots.capacity)
        write_pairs(entries, self.pairs)

    def remove(self, slots: Ints) -> None:
        """Remove subscriptions that are about to be freed in the table."""
        rows = self.table.layout.rows[slots]
        entries = self.order.entries(self.table, rows, slots)
        self._remove(entries, ROOT, self.order.ranks)
        self.n_entries -= entries.size
        self._note_changed(slots, rows)
        self._merge()
        self.velocities.forget(slots)
        if self.n_entries == 0:  # nothing matches now, so that nothing could be listed
            self.arrays, self.rebuild = TreeArrays(int(self.layout.heads[VERSION])), None

    def unrank(self, patterns: Ints) -> None:
        """Take the ranks from terms that are new patterns, which hold for messages that did not come by these ranks.

        A term has a rank already if it was another pattern's, or a word's, before it was freed.
        """
        if patterns.size:
            self.order.unrank(patterns)
            if self.rebuild is not None:
                self.rebuild.order.unrank(patterns)

    def _remove(self, entries: Array, origin: int, ranks: Ints) -> None:
        limits, done = self.limits, 0
        while done < entries.size:
            done, code = remove_entries(self.layout, ranks, entries, done, origin, limits, self.work)
            self.make_room(code)
        self.apply_deferred(entries)

    def apply_deferred(self, entries: Array) -> None:
        """Apply the changes that were deferred while these entries were removed or moved."""
        n = int(self.work.n_deferred[0])
        if n:
            deferred = self.work.deferred[:n]
            firsts = np.zeros(self.table.slots.capacity, np.int32)
            apply_deferred(self.layout, entries, by_leaf(deferred, entries), firsts)
            self.work.n_deferred[0] = 0
            if n > DEFERRED_ROOM:
                self.work = self.work._replace(deferred=np.zeros(DEFERRED_ROOM, np.int64))

    def after_move(self, slots: Ints, before: Array) -> None:
        """Split and merge after these subscriptions, whose rows were `before`, were refiled."""
        self._note_changed(slots, before)
        self._split()
        self._merge()

    def _note_changed(self, slots: Ints, before: Array | None) -> None:
        if self.rebuild is not None:
            self.rebuild.order.ensure_terms(self.order.ranks.size)
            self.rebuild.note(self.table, slots, before)

    def make_room(self, code: int) -> None:
        """Make room of the kind that a kernel asked for."""
        if code == NEED_PATH:
            self._grow_path()
        elif code == NEED_DEFERRED:
            deferred = self.work.deferred
            self.work = self.work._replace(deferred=with_room(deferred, 2 * deferred.size))
        elif code == NEED_ROOM:  # more than there is: a kernel does not say how much was missing
            tree, heads = self.layout, self.layout.heads
            n_leaves = tree.leaves.size - int(heads[N_LEAVES])
            n_lines = tree.ints.size // INTS_PER_LINE - int(heads[N_LINES])
            self.arrays.make_room(leaves=n_leaves + 1024, lines=n_lines + max(1024, self.n_entries // 32))

    def _grow_path(self) -> None:
        self.work = new_work(2 * self.work.path.size, self.work)

    # Leaves that split, nodes that merge

    def _split(self) -> None:
        """Partition the leaves that became too long; their messages go to the new leaves."""
        lists = self.lists
        for leaf in self._take_todo(OVERFULL).tolist():
            part = int(self.layout.leaves["part"][leaf])
            if self.layout.parts["child"][part] == -2 - leaf and self.layout.parts["now"][part] > self.leaf:
                since = int(self.layout.leaves["since"][leaf])
                messages = lists.messages_in(self.arrays, leaf) if lists is not None else None
                self._hang(part, self._take_down(part), since)
                if lists is not None and messages is not None:
                    lists.list_below(self.arrays, self.order, part, *messages)
                self.n_splits += 1

    def _merge(self) -> None:
        """Make leaves of nodes that have few entries left.

        Departs: at half of θ_p, so that a list on the edge does not split and merge again and again.
        """
        since = self.since
        for part in np.unique(self._take_todo(UNDERFULL)).tolist():
            if self.layout.parts["child"][part] >= 0 and self.layout.parts["now"][part] < self.leaf // 2:
                if self.rebuild is not None and self._is_below(self.rebuild.part, part):
                    self._abandon_rebuild(self.rebuild.shadow)
                self._hang(part, self._take_down(part), since)
                self.n_merges += 1

    def _take_todo(self, kind: int) -> Ints:
        work = self.work
        if not work.n_todo[kind]:
            return _NOTHING_TO_DO
        listed = (work.overfull, work.drifting, work.underfull)[kind][: work.n_todo[kind]].copy()
        work.n_todo[kind] = 0
        return listed

    def _take_down(self, part: int) -> int:
        """Move all entries below a part to the building's stack, and free what held them; returns how many."""
        n = int(self.layout.parts["now"][part])
        found = self._collect(part, self._building.stack(n))
        assert found == n, "the weight of a part is the number of entries below it"
        self._clear(part)
        return n

    def _collect(self, part: int, out: Array) -> int:
        subscriptions, ranks = self.table.layout, self.order.ranks
        while (n := collect_entries(self.layout, part, subscriptions, ranks, out, self.work.path)) == NEED_ROOM:
            self._grow_path()
        return int(n)

    def _clear(self, part: int) -> None:
        while clear_below(self.layout, part, self.work.path) == NEED_ROOM:
            self._grow_path()

    def _is_below(self, part: int, other: int) -> bool:
        """Does the first part lie below the other, or is it the same?"""
        n = int(path_to_root(self.layout, part, self.work.path))
        return other == ROOT or other in self.work.path[:n]

    # Drift

    def maintain(self, n_events: int) -> None:
        """Do some upkeep after a call of `n_events` events: continue a rebuild, or begin one that is due."""
        self._n_rows_earned += ROWS_EARNED * n_events
        if self.rebuild is None:
            part = self._find_drifted()
            if part is not None:
                self.begin_rebuild(part)
        if self.rebuild is not None:
            least, most = ROWS_PER_CALL
            n_rows = min(most, max(least, _ROWS_PER_EVENT * n_events))
            self.rebuild.order.ensure_terms(self.order.ranks.size)
            if self.rebuild.step(self.arrays, self.table, n_rows, self.work.path):
                self._finish_rebuild(self.rebuild)
        if self.lists is not None:
            self.lists.maintain(self.arrays, self.order, n_events)

    def _find_drifted(self) -> int | None:
        """The part of the largest node whose weights have moved too far; the root once the sample is full."""
        parts, nodes = self.layout.parts, self.layout.nodes
        noted = self._take_todo(DRIFTING)
        if self.settings.drift == math.inf or parts["child"][ROOT] < 0:
            return None
        if self.recent.full and not self._built_with_sample and self.recent.n_arrived >= self.n_entries:
            return ROOT  # there were enough messages to share its cost
        if self._n_rows_earned >= self.n_entries and self._moves_differ():
            return ROOT
        if not noted.size:
            return None
        worst, weight = None, max(self.settings.leaf, int(_LEAST_SHARE * self.n_entries))
        for node in np.unique(noted[noted < self.layout.heads[N_NODES]]).tolist():
            part, first, n = int(nodes["part"][node]), int(nodes["first"][node]), int(nodes["n_parts"][node]) + 1
            if parts["child"][part] != node or not weight < parts["now"][part] <= self._n_rows_earned:
                continue
            if drift(parts["built"], parts["now"], first, n) > self.settings.drift:
                worst, weight = part, int(parts["now"][part])
        return worst

    def _moves_differ(self) -> bool:
        """Do subscriptions move now, if they did not when the root was built, or is it far more or less work?"""
        if not self.velocities.is_moving:
            return False
        change = (1.0 + self._weight_of_lists()) / (1.0 + self._list_weight)
        return not self._built_moving or not 1.0 / _OTHER_MOVES < change < _OTHER_MOVES

    def begin_rebuild(self, part: int) -> None:
        """Begin to build the subtree of a part again; a new root ranks words again."""
        order = WordOrder.of(self.table, self.recent, self.order.ranks.size) if part == ROOT else self.order
        sample = self.recent.ranked(order.ranks)
        if part == ROOT:
            self._learn_moves()
        self.rebuild = Rebuild(self.arrays, part, order, self._plan(self.since), sample)
        self._built_with_sample, self._n_rows_earned = self._built_with_sample or part == ROOT, 0
        if part != ROOT:
            stack = self.rebuild.builder.stack(int(self.layout.parts["now"][part]))
            self.rebuild.collected(self._collect(part, stack))

    def _finish_rebuild(self, rebuild: Rebuild) -> None:
        """Bring the new subtree up to date, and let it take the place of the old one."""
        self.rebuild = None
        part, shadow, order, table = rebuild.part, rebuild.shadow, rebuild.order, self.table
        order.ensure_terms(self.order.ranks.size)
        changed = rebuild.changed
        if changed.size:
            self._remove(self._filed_below(part, rebuild.olds, order), shadow, order.ranks)
            alive = changed[table.numbers[changed] >= 0]
            entries = order.entries(table, table.rows[alive], alive)
            self._insert(self._filed_below(part, entries, order), shadow, order.ranks)
        self._clear(part)
        replace_subtree(self.layout, part, shadow, self.since)
        self.order = order
        self.n_rebuilds += 1
        if self.lists is not None:
            self.lists.count_misses(int(self.layout.parts["now"][part]))
        self._split()

    def _filed_below(self, part: int, entries: Array, order: WordOrder) -> Array:
        """Those of the entries that are filed below a part."""
        if part == ROOT:
            return entries
        found, work = np.zeros(entries.size, dtype=np.bool_), self.work
        while filed_below(self.layout, order.ranks, entries, part, work.path, work.path_ranks, found) == NEED_ROOM:
            self._grow_path()
            work = self.work
        return entries[found]

    def _abandon_rebuild(self, shadow: int) -> None:
        """Discard a subtree that is not complete, which hangs below this spare part."""
        self.rebuild = None
        self._clear(shadow)
        replace_subtree(self.layout, shadow, shadow, 0)

    # State

    @property
    def nbytes(self) -> int:
        rebuild = self.rebuild.builder.nbytes if self.rebuild is not None else 0
        work = sum(array.nbytes for array in self.work)
        ranks = self.order.ranks.nbytes
        return (
            self.arrays.nbytes + ranks + self.pairs.nbytes + self.recent.nbytes + self._building.nbytes + rebuild + work
        )

    def state(self) -> State:
        """All but a subtree that is not complete, which is begun again, and lists of what is to be done."""
        return {
            "arrays": self.arrays.state(),
            "order": self.order.state(),
            "recent": self.recent.state(),
            "velocities": self.velocities.state(),
            "entries": self.n_entries,
            "earned": self._n_rows_earned,
            "informed": self._built_with_sample and (self.rebuild is None or self.rebuild.part != ROOT),
            "moving": self._built_moving and (self.rebuild is None or self.rebuild.part != ROOT),
            "lists": self._list_weight,
            "shadow": NOTHING if self.rebuild is None else self.rebuild.shadow,
            "splits": self.n_splits,
            "merges": self.n_merges,
            "rebuilds": self.n_rebuilds,
        }

    def load(self, state: State) -> None:
        self.arrays.load(state["arrays"])
        self.order.load(state["order"])
        self.recent.load(state["recent"])
        self.velocities.load(state["velocities"])
        slots = self.table.used_slots
        for chosen in np.array_split(slots, 1 + slots.size // _NOTED):
            self.note_pairs(self.order.entries(self.table, self.table.layout.rows[chosen], chosen))
        self.n_entries, self._built_with_sample = int(state["entries"]), bool(state["informed"])
        self._n_rows_earned = int(state["earned"])
        self._built_moving, self._list_weight = bool(state["moving"]), float(state["lists"])
        self.n_splits, self.n_merges, self.n_rebuilds = state["splits"], state["merges"], state["rebuilds"]
        if state["shadow"] != NOTHING:
            self._abandon_rebuild(int(state["shadow"]))


def new_work(size: int, old: Work | None = None) -> Work:
    """Scratch of this size; what is to be done is carried over."""
    longs = (np.zeros(n, np.int64) for n in (3, DEFERRED_ROOM, 1))
    work = Work._make([*(np.zeros(size, np.int32) for _ in range(6)), *longs])
    if old is not None:
        work = work._replace(deferred=old.deferred, n_deferred=old.n_deferred)
        for name in ("overfull", "drifting", "underfull", "n_todo"):
            getattr(work, name)[: getattr(old, name).size] = getattr(old, name)
    return work
