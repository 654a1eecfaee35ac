"""What the rivals share: `Rival` has the publish loop, `Filing` files subscriptions in lists by key.

An arrival looks into the lists of some keys. A rival of that kind says how: `_learn` looks at all subscriptions before
they are filed again, `_keys` names the lists of entries, `_probe` those of arrivals. All is filed again when there are
twice as many subscriptions as the last time.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator

import numpy as np

from bench.rivals.clauses import ENTRY, Entries, count_words, entries_of
from bench.rivals.lists import Lists
from bench.rivals.match import Probes, Work, match_many
from nearcast.columns.arena import Array, Ints, Longs, State, with_room
from nearcast.columns.message_table import MessageLayout, MessageTable
from nearcast.columns.subscription_tables import WithinTable
from nearcast.engines.contract import NO_CHANGES, Changes, EngineContext, Stats
from nearcast.engines.oracle import WithinOracle
from nearcast.window.live import Steps

_CHUNK = 1 << 18  # subscriptions filed at a time
_ROOM = 4096


class Rival(WithinOracle):
    """A `Notifier` for `Within`; live messages for one subscription come from the broker's own index."""

    name = "rival"

    def __init__(self, table: WithinTable, context: EngineContext) -> None:
        super().__init__(table, context)
        self.within = table
        self.counters = np.zeros(3, np.int64)
        self._n_filed = 0
        self._present = np.zeros(0, np.uint8)
        self._room = (np.zeros(_ROOM, np.int32), np.zeros(_ROOM, np.int32))

    @abstractmethod
    def _match_from(self, first: int, steps: Steps, messages: MessageLayout, work: Work) -> tuple[int, int]:
        """Matches from event `first` on: the event to go on with, and how many were written."""

    def _prepare(self, steps: Steps, messages: MessageLayout) -> None:
        """These events, whose arrivals are rows of `messages`, are about to be matched."""

    @abstractmethod
    def refile(self, slots: Ints, before: Array) -> None:
        """Subscriptions whose regions were changed."""

    @abstractmethod
    def _build(self) -> None:
        """File all subscriptions of the table again."""

    @property
    def _metric(self) -> int:
        return self.context.space.metric_code

    def _matches(self, steps: Steps, told: MessageTable) -> Changes:
        if not self._n_filed or not (steps.arrivals >= 0).any():
            return NO_CHANGES
        self._present = with_room(self._present, self.context.vocabulary.idf.size)
        messages, arrivals = self._rows_of(told, steps.arrivals)
        own = steps._replace(arrivals=arrivals)
        self._prepare(own, messages)
        found: list[tuple[Ints, Ints]] = []
        event = 0
        while event < steps.arrivals.size:
            work = Work(self._present, *self._room, self.counters)
            done, n = self._match_from(event, own, messages, work)
            found.append((work.events[:n].copy(), work.slots[:n].copy()))
            if done == event:
                self._room = (np.zeros(2 * work.slots.size, np.int32), np.zeros(2 * work.slots.size, np.int32))
            event = done
        events, slots = (np.concatenate(parts) for parts in zip(*found, strict=True))
        n = events.size
        return Changes(events, slots, steps.arrivals[events], np.ones(n, np.int32), np.full(n, np.nan))

    def move(self, slots: Ints, before: Array) -> Changes:
        self.refile(slots, before)
        return super().move(slots, before)

    def check(self) -> None:
        super().check()
        assert not self._present.any(), "scratch must be clean between calls"
        assert self._n_filed == len(self.within)

    def stats(self) -> Stats:
        touched, verified, matched = self.counters.tolist()
        work = {"touched": touched, "verified": verified, "candidates": verified, "matched": matched}
        return {"engine": self.name, **work, "bytes": self.nbytes}

    @property
    @abstractmethod
    def nbytes(self) -> int:
        """Of the index."""

    def state(self) -> State:
        return {}

    def load(self, state: State) -> None:
        self._build()


class Filing(Rival):
    """Subscriptions in lists."""

    def __init__(self, table: WithinTable, context: EngineContext) -> None:
        super().__init__(table, context)
        self._n_built = 0
        self._lists = Lists(ENTRY)
        self._counts = np.zeros(0, np.int32)  # how many clauses hold each word, when all were filed last

    @abstractmethod
    def _learn(self, slots: Ints) -> None:
        """All subscriptions are about to be filed."""

    @abstractmethod
    def _keys(self, entries: Entries, rows: Array, filing: bool) -> tuple[Longs, Ints]:
        """Keys of the lists that these entries are in, and for each the entry; `filing` if they are about to be."""

    @abstractmethod
    def _probe(self, steps: Steps, messages: MessageLayout) -> tuple[Longs, Longs]:
        """Starts and keys of the lists that each arrival looks into."""

    def insert(self, slots: Ints) -> None:
        if self._n_filed + slots.size > 2 * self._n_built:
            self._build()
            return
        self._add(slots)
        self._n_filed += slots.size

    def remove(self, slots: Ints) -> None:
        self._drop(slots, self.within.rows[slots])
        self._n_filed -= slots.size

    def refile(self, slots: Ints, before: Array) -> None:
        self._drop(slots, before)
        self._add(slots)

    def _add(self, slots: Ints) -> None:
        for entries, rows in self._entries(slots):
            self._lists.add(*self._keys(entries, rows, True), entries.rows)

    def _drop(self, slots: Ints, rows: Array) -> None:
        entries = self._enter(slots, rows)
        self._lists.drop(*self._keys(entries, rows, False), entries.rows)

    def _build(self) -> None:
        slots = self.within.used_slots
        self._counts = np.zeros(self.context.vocabulary.idf.size, np.int32)
        for part in _cut(slots):
            count_words(self.within.rows[part], self.within.layout.clauses, self._counts)
        self._learn(slots)
        self._lists = Lists(ENTRY)
        self._lists.build([(*self._keys(entries, rows, True), entries.rows) for entries, rows in self._entries(slots)])
        self._n_filed = self._n_built = slots.size

    def _entries(self, slots: Ints) -> Iterator[tuple[Entries, Array]]:
        """Entries of subscriptions as the table has them, with its rows, some at a time."""
        for part in _cut(slots):
            rows = self.within.rows[part]
            yield self._enter(part, rows), rows

    def _enter(self, slots: Ints, rows: Array) -> Entries:
        return entries_of(rows, slots, self.within.layout.clauses, self._metric, self._counts)

    def _prepare(self, steps: Steps, messages: MessageLayout) -> None:
        starts, keys = self._probe(steps, messages)
        self._probes = Probes(starts, keys, np.empty(int(np.diff(starts).max()), np.int64))

    def _match_from(self, first: int, steps: Steps, messages: MessageLayout, work: Work) -> tuple[int, int]:
        done: tuple[int, int] = match_many(
            steps, first, messages, self.within.layout, self._metric, self._probes, self._lists.layout, work
        )
        return done

    def stats(self) -> Stats:
        entries = int(self._lists.layout.heads["n"].sum())
        return {**super().stats(), "entries": entries, "lists": self._lists.n_lists}

    @property
    def nbytes(self) -> int:
        return self._lists.nbytes + self._counts.nbytes


def _cut(slots: Ints) -> list[Ints]:
    return [slots[at : at + _CHUNK] for at in range(0, slots.size, _CHUNK)]
