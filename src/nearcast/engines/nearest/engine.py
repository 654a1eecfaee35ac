"""The engine: `NearestEngine` keeps the k nearest of every subscription, with an index for all words and one for any.

Events are taken in batches: the indexes find which subscriptions each arrival of a batch may concern, the events happen
to one subscription after another (`by_slot`), and then the indexes follow the search ranges that have changed.
"""

from __future__ import annotations

import numpy as np

from nearcast.columns.arena import Array, Floats, Ints, Longs, State, with_room
from nearcast.columns.message_table import MessageLayout
from nearcast.columns.subscription_tables import PointTable
from nearcast.engines.contract import EngineContext, Stats
from nearcast.engines.exact import ALL_WORDS, NEAREST
from nearcast.engines.kept.engine import BatchInput, KeptEngine, policy_of
from nearcast.engines.kept.layout import AsOf
from nearcast.engines.nearest.aoiq import AoiqTree
from nearcast.engines.nearest.aoiq.layout import EventRange
from nearcast.engines.nearest.by_slot import (
    DUE,
    EVENT,
    N_CURSOR,
    N_MOVED,
    N_SHORT,
    NEVER,
    NOBODY,
    SHORT,
    SLOT,
    SlotWork,
    settle_waiting,
    take_rest,
    take_slots,
)
from nearcast.engines.nearest.follow import DeepestLevels, redraw_boxes
from nearcast.engines.nearest.grid import GridPyramid
from nearcast.engines.nearest.search_range import FILED
from nearcast.engines.nearest.settings import NearestSettings
from nearcast.engines.nearest.timeline import (
    ARRIVED,
    MOMENT,
    WITHDRAWN,
    Timeline,
    key_pairs,
    key_waiting,
    list_moments,
)
from nearcast.engines.nearest.verify import LAST, N_CHECKED, N_READ, NO_KEY, verify_slots
from nearcast.jit import NEED_ROOM
from nearcast.window.live import Steps

_MOST_EVENTS = 1024  # of a candidate batch
_KEYS = 1 << 14  # room for what may concern somebody in a batch, at first


class NearestEngine(KeptEngine):
    """`Nearest`, all words and any word.

    Parameters
    ----------
    table
        The subscriptions.
    context
        What all engines of a broker share.
    settings
        Parameters of both indexes and of the buffers.
    """

    name = "nearest"

    def __init__(self, table: PointTable, context: EngineContext, settings: NearestSettings | None = None) -> None:
        self.settings = settings or NearestSettings()
        super().__init__(NEAREST, table, context, policy_of(context, self.settings.strategy, self.settings.share))
        self.start()
        self._keys = np.empty(_KEYS, dtype=np.int64)
        self._n_keys = 0
        self._ranks = np.empty(0)
        self._moments = np.zeros(0, dtype=MOMENT)
        self._leaving = False  # does any message leave in the batch under way?
        self._starts = np.zeros(_MOST_EVENTS + 1, dtype=np.int32)
        self._moved: list[Ints] = []  # subscriptions whose ranges may have changed in a batch
        self._n_verified = 0

    def start(self) -> None:
        """Nothing is filed."""
        self.all_words = AoiqTree(self.context.space, self.settings.aoiq)
        self.any_word = GridPyramid(self.context.space, self.settings.grid)
        self.filed = np.zeros(0, dtype=FILED)

    def _by_mode(self, slots: Ints) -> tuple[Ints, Ints]:
        """Those that ask for all words, and those that ask for any."""
        for_all = self.table.rows["mode"][slots] == ALL_WORDS
        return slots.compress(for_all), slots.compress(~for_all)

    def insert(self, slots: Ints) -> None:
        super().insert(slots)
        self.filed = with_room(self.filed, self.table.slots.capacity)
        of_all, of_any = self._by_mode(slots)
        if of_all.size:
            self.all_words.ensure_terms(self.context.vocabulary.capacity)
        if of_all.size > self.all_words.n_filed:
            self._build_all()
        else:
            self._file_all(of_all, of_all.size)
        self._file_any(of_any)

    def _build_all(self) -> None:
        buffers = self.results.layout.buffers
        self.all_words.build(self.filed, self.table.layout, buffers, self._by_mode(self.table.used_slots)[0])

    def _file_all(self, slots: Ints, n_new: int) -> None:
        if slots.size:
            self.all_words.file(self.filed, self.table.layout, self.results.layout.buffers, slots, n_new)

    def _file_any(self, slots: Ints) -> None:
        if slots.size:
            self.any_word.file(
                self.filed, self.table.layout, self.results.layout.buffers, slots, len(self.table),
                self.context.vocabulary.capacity,
            )  # fmt: skip

    def _file(self, slots: Ints) -> None:
        """File those that are filed already by the ranges that they have now."""
        of_all, of_any = self._by_mode(slots)
        self._file_all(of_all, 0)
        self._file_any(of_any)

    def remove(self, slots: Ints) -> None:
        of_all, of_any = self._by_mode(slots)
        self.all_words.remove(self.filed, of_all)
        self.any_word.remove(self.filed, of_any)
        super().remove(slots)

    def _run(self, batch: BatchInput) -> None:
        first, n_events = 0, batch.steps.arrivals.size
        while first < n_events:
            timeline = self._open(batch, first, min(first + _MOST_EVENTS, n_events))
            self._live_through(batch, timeline)
            self.close_batch()
            first = timeline.end
        if n_events > 1:
            self.results.sort_changes(n_events)

    def _open(self, batch: BatchInput, first: int, end: int) -> Timeline:
        """Find the candidates of the next events, and who waits for what leaves in them: keys."""
        steps = batch.steps
        n = self._find_pairs(steps, batch.messages, EventRange(first, end), 0)
        n_arriving = n
        if steps.withdrawn.size:
            n = self._find_pairs(steps.of_withdrawn(), batch.messages, EventRange(first, end), n)
        timeline = self._timeline(steps, first, end)
        key_pairs(timeline, ARRIVED, self._keys[:n_arriving])
        if n > n_arriving:
            key_pairs(timeline, WITHDRAWN, self._keys[n_arriving:n])
        self._n_keys = self._key_waiting(timeline, n)
        return timeline

    def _find_pairs(self, steps: Steps, messages: MessageLayout, events: EventRange, n: int) -> int:
        """Write event << 32 | slot for candidates after the first `n` keys; returns how many, with those."""
        if self.all_words.n_filed:
            self.all_words.ensure_terms(self.context.vocabulary.capacity)
        first = events.first
        while True:
            first, n_more = self.any_word.find(self.filed, steps, first, events.end, messages, self._keys[n:])
            n += n_more
            if first == events.end:
                break
            self._keys = with_room(self._keys, 2 * self._keys.size)
        self._keys, n = self.all_words.find(self.filed, steps, events, messages, self._keys, n)
        return n

    def _timeline(self, steps: Steps, first: int, end: int) -> Timeline:
        """The moments of these events."""
        n_expired = int(steps.expired_start[end] - steps.expired_start[first])
        self._leaving = self.results.policy.spare and (n_expired > 0 or steps.withdrawn.size > 0)
        self._moments = with_room(self._moments, n_expired + 3 * (end - first))
        timeline = Timeline(self._moments, self._starts, first, end)
        return timeline._replace(moments=self._moments[: list_moments(steps, timeline)])

    def _key_waiting(self, timeline: Timeline, n: int) -> int:
        """Write keys of those who wait for what leaves after the first `n`; returns how many, with those."""
        at = 0 if self._leaving else timeline.moments.size
        while at < timeline.moments.size:
            at, n = key_waiting(self.results.layout, timeline, at, self._keys, n)
            if at < timeline.moments.size:
                self._keys = with_room(self._keys, 2 * self._keys.size)
        return n

    def _work(self, keys: Longs, n_slots: int) -> SlotWork:
        """Nothing of these keys has happened; no more than `n_slots` subscriptions are concerned."""
        self._ranks = with_room(self._ranks, keys.size)
        read, cursor = np.zeros(N_READ, np.int64), np.zeros(N_CURSOR, np.int64)
        read[LAST], cursor[SLOT], cursor[EVENT], cursor[DUE] = NO_KEY, NOBODY, NEVER, NEVER
        moved, short = np.empty(n_slots, np.int32), np.empty(n_slots, SHORT)
        return SlotWork(keys, self._ranks[: keys.size], read, cursor, moved, short)

    def _live_through(self, batch: BatchInput, timeline: Timeline) -> None:
        """Let the events of a batch happen to one subscription after another."""
        keys = self._keys[: self._n_keys]
        keys.sort()
        work = self._work(keys, keys.size)
        while take_slots(batch, timeline, work, self.results.layout, self.results.policy) == NEED_ROOM:
            self._make_room()
        self._moved = [work.moved[: work.cursor[N_MOVED]]]
        self._n_verified += int(work.read[N_CHECKED])
        if work.cursor[N_SHORT]:
            self._refill_short(batch, timeline, work.short[: work.cursor[N_SHORT]])
        n = self._key_waiting(timeline, 0)
        if n:
            settle_waiting(batch, timeline, self._keys[:n], self.results.layout, self.results.policy)

    def _make_room(self) -> None:
        """Room for whatever may happen to a subscription in an event."""
        self.results.make_room_for_offers()
        self.results.make_room(0, 0, 0, 0, 2)

    def _refill_short(self, batch: BatchInput, timeline: Timeline, short: Array) -> None:
        """Evaluate again what was put off, as of its event, and let the rest of the batch happen to it."""
        steps = batch.steps
        while short.size:
            event = int(short["event"].min())
            now = short["event"] == event
            slots = short["slot"][now]
            self.refill(slots, AsOf(event, int(steps.lasts[event]), int(steps.clocks[event])))
            self.results.emit_changes(event)
            self._moved.append(slots)
            short = np.concatenate([short[~now], self._take_rest(batch, timeline, slots, event)])

    def _take_rest(self, batch: BatchInput, timeline: Timeline, slots: Ints, event: int) -> Array:
        """The events after this one happen to subscriptions; returns those that are short again."""
        work = self._work(np.empty(timeline.moments.size, dtype=np.int64), slots.size)
        layout, policy = self.results.layout, self.results.policy
        while not take_rest(batch, timeline, work, self.filed, slots, event, layout, policy):
            self._make_room()
            layout = self.results.layout
        self._n_verified += int(work.read[N_CHECKED])
        return work.short[: work.cursor[N_SHORT]]

    def _find(self, batch: BatchInput) -> tuple[Ints, Floats]:
        n = self._find_pairs(batch.steps, batch.messages, EventRange(0, 1), 0)
        slots = np.unique(self._keys[:n]).astype(np.int32)
        ranks = np.empty(slots.size)
        n = verify_slots(batch, batch.steps.arrivals[0], slots, self.results.layout, ranks)
        self._n_verified += slots.size
        return slots[:n], ranks[:n]

    def close_batch(self) -> None:
        """After a batch, let the indexes follow the ranges that have changed in it."""
        moved = self._moved[0] if len(self._moved) == 1 else np.concatenate(self._moved)
        if moved.size:
            self._follow_ranges(moved)

    def _follow_ranges(self, slots: Ints) -> None:
        """Draw the boxes of ranges that shrank, and file again where finer cells will do."""
        moved = np.empty(slots.size, dtype=np.int32)
        deepest = DeepestLevels(self.all_words.height, self.any_word.deepest(len(self.table)))
        n = redraw_boxes(
            self.filed, self.table.layout, self.results.layout.buffers, slots, self.context.space.kernel_input,
            deepest, moved,
        )  # fmt: skip
        if n:
            self._file(moved[:n])

    def resume(self, slots: Ints, n_kept: Ints, messages: Ints, ranks: Floats) -> None:
        super().resume(slots, n_kept, messages, ranks)
        self._file(slots)

    def refill(self, slots: Ints, as_of: AsOf) -> None:
        """Evaluate again, and file by the new ranges."""
        super().refill(slots, as_of)
        self._file(slots)

    def check(self) -> None:
        super().check()
        of_all, of_any = self._by_mode(self.table.used_slots)
        self.all_words.check(self.filed, of_all)
        self.any_word.check(self.filed, of_any)

    def stats(self) -> Stats:
        own = self.filed[: self.table.slots.capacity].nbytes + self._starts.nbytes
        own += self._keys.nbytes + self._ranks.nbytes + self._moments.nbytes
        shared, of_all, of_any = super().stats(), self.all_words.stats(), self.any_word.stats()
        return {
            **shared,
            "candidates": self._n_verified,
            "all": of_all,
            "any": of_any,
            "bytes": shared["bytes"] + own + of_all["bytes"] + of_any["bytes"],
        }

    def refile(self) -> None:
        """File all subscriptions again, by the ranges that they have."""
        self.start()
        self.filed = with_room(self.filed, self.table.slots.capacity)
        self.all_words.ensure_terms(self.context.vocabulary.capacity)
        self._build_all()
        self._file_any(self._by_mode(self.table.used_slots)[1])

    def state(self) -> State:
        own = {"verified": self._n_verified, "filed": self.filed}
        return {**super().state(), **own, "all": self.all_words.state(), "any": self.any_word.state()}

    def load(self, state: State) -> None:
        super().load(state)
        self.start()
        self._n_verified, self.filed = state["verified"], state["filed"].copy()
        self.all_words.load(state["all"])
        self.any_word.load(state["any"])
