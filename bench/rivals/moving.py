"""Rivals whose subscriptions move: live messages are filed like arrivals look, and searched when a region changes."""

from __future__ import annotations

import numpy as np

from bench.rivals.base import Filing
from bench.rivals.clauses import Entries
from bench.rivals.live import Found, Levels, LiveLists, Search, note_levels_of, search_lists
from nearcast.columns.arena import Array, Ints, Longs, with_room
from nearcast.columns.clauses import split_clauses
from nearcast.columns.subscription_tables import WithinTable
from nearcast.engines.contract import NO_CHANGES, Changes, EngineContext, Stats, together
from nearcast.window.live import Steps

_CHUNK = 10_000  # messages filed at a time
_ROOT = 1  # bit of level 0

Pairs = tuple[Ints, Ints]  # subscriptions and messages


class Moving(Filing):
    """Stands before the class that says how subscriptions are filed."""

    _always = _ROOT  # levels at which every message is filed under all its words, as bits

    def __init__(self, table: WithinTable, context: EngineContext) -> None:
        super().__init__(table, context)
        self._held = LiveLists()
        self._masks = np.zeros(0, np.int32)
        self._is_building = False

    @property
    def _filing(self) -> Levels:
        return Levels(self.context.space.bounds, self._always, self._masks)

    def _build(self) -> None:
        self._masks = np.zeros(self.context.vocabulary.idf.size, np.int32)
        self._is_building = True
        super()._build()
        self._is_building = False
        self._held = LiveLists()
        self._hold(self.context.live.table.live_slots)

    def _keys(self, entries: Entries, rows: Array, filing: bool) -> tuple[Longs, Ints]:
        keys, owners = super()._keys(entries, rows, filing)
        if filing:
            self._masks = with_room(self._masks, self.context.vocabulary.idf.size)
            fresh = np.empty(keys.size, np.int64)
            fresh = fresh[: note_levels_of(keys, self._filing, fresh)]
            if fresh.size and not self._is_building:
                self._held.hold_deeper(fresh, self.context.live.table.layout, self._filing)
        return keys, owners

    def publish(self, steps: Steps) -> Changes:
        changes = super().publish(steps)
        self._hold(steps.arrivals[steps.arrivals >= 0])
        return changes

    def _hold(self, slots: Ints) -> None:
        """File messages, if there is a window that keeps them."""
        if self.context.live.window is not None:
            for at in range(0, slots.size, _CHUNK):
                self._held.hold(slots[at : at + _CHUNK], self.context.live.table.layout, self._filing)

    def _asks_patterns(self, slots: Ints) -> Array:
        """Which of these ask for phrases or prefixes: messages are filed under words, so the broker's index helps."""
        patterns, layout = self.context.vocabulary.patterns, self.within.layout
        asks = np.zeros(slots.size, bool)
        if len(patterns):
            for at, row in enumerate(layout.rows[slots]):
                packed = layout.clauses[row["clause_start"] : row["clause_start"] + row["clause_size"]]
                terms = np.concatenate([side for clause in split_clauses(packed) for side in clause]).tolist()
                asks[at] = any(patterns.is_prefix(term) or patterns.words_of(term).size for term in terms)
        return asks

    def fill(self, slots: Ints) -> Changes:
        asks = self._asks_patterns(slots)
        if asks.any():
            return together([super().fill(slots[asks]), self.fill(slots[~asks])])
        here = self.within.layout
        entries = self._enter(slots, here.rows[slots])
        keys, owners = self._keys(entries, here.rows[slots], False)
        nowhere = np.zeros(0, np.int32)
        return _changes(self._look_up(Search(keys, owners, entries, here, slots, here, nowhere)), None)

    def move(self, slots: Ints, before: Array) -> Changes:
        asks = self._asks_patterns(slots)
        if asks.any():
            return together([super().move(slots[asks], before[asks]), self.move(slots[~asks], before[~asks])])
        new = self.within.layout
        old = new._replace(rows=before)
        at = np.arange(slots.size, dtype=np.int32)
        entries = self._enter(slots, before)
        keys, owners = self._keys(entries, before, False)
        gone = self._look_up(Search(keys, owners, entries, old, at, new, slots))
        self._lists.drop(keys, owners, entries.rows)
        entries = self._enter(slots, new.rows[slots])
        keys, owners = self._keys(entries, new.rows[slots], True)
        self._lists.add(keys, owners, entries.rows)
        return _changes(self._look_up(Search(keys, owners, entries, new, slots, old, at)), gone)

    def _look_up(self, search: Search) -> Pairs:
        live = self.context.live
        if live.window is None:
            return np.zeros(0, np.int32), np.zeros(0, np.int32)
        self._present = with_room(self._present, self.context.vocabulary.idf.size)
        moment = (live.last, live.clock, live.limits.newest)
        parts: list[Pairs] = [(np.zeros(0, np.int32), np.zeros(0, np.int32))]
        done, room = 0, 4096
        while done < search.keys.size:
            found = Found(self._present, np.empty(room, np.int32), np.empty(room, np.int32), self.counters)
            upto, n = search_lists(done, search, self._held.layout, live.table.layout, self._metric, moment, found)
            parts.append((found.slots[:n].copy(), found.messages[:n].copy()))
            room = 2 * room if upto == done else room
            done = upto
        slots, messages = (np.concatenate(column) for column in zip(*parts, strict=True))
        return slots, messages

    def stats(self) -> Stats:
        held = int(self._held.layout.heads["n"].sum())
        return {**super().stats(), "held": held, "message bytes": self._held.nbytes}

    @property
    def nbytes(self) -> int:
        return super().nbytes + self._masks.nbytes + self._held.nbytes


def _changes(entering: Pairs, leaving: Pairs | None) -> Changes:
    """One event in which these messages enter, and others leave."""
    parts = [(entering, 1)] if leaving is None else [(leaving, -1), (entering, 1)]
    slots, messages = (np.concatenate([pairs[column] for pairs, _ in parts]) for column in (0, 1))
    signs = np.concatenate([np.full(pairs[0].size, sign, np.int32) for pairs, sign in parts])
    if not slots.size:
        return NO_CHANGES
    return Changes(np.zeros(slots.size, np.int32), slots, messages, signs, np.full(slots.size, np.nan))
