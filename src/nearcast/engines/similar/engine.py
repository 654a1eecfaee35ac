"""`SimilarStamp`: the engine of `Similar` subscriptions."""

from __future__ import annotations

from dataclasses import asdict

import numpy as np

from nearcast.columns.arena import Array, Floats, Ints, State, with_room
from nearcast.columns.subscriptions import POINT, PointLayout, PointTable
from nearcast.engines.contract import NO_CHANGES, Changes, Stats, Surroundings, difference, entering
from nearcast.engines.search import matching_similar
from nearcast.engines.similar.candidates import COST, FILTER, VERIFY
from nearcast.engines.similar.index import StampIndex
from nearcast.engines.similar.layout import (
    GATHERED,
    MOST_MEMBERS,
    N_ACCESSED,
    N_ANSWERS,
    N_ARRIVALS,
    N_CANDIDATES,
    N_CHECKED,
    N_COUNTERS,
    N_FILTERED,
    N_LEAVES,
    N_PRUNED,
    N_VERIFIED,
    PROBE,
    TOKEN,
    Scratch,
)
from nearcast.engines.similar.match import match_steps
from nearcast.engines.similar.prefixes import WORD
from nearcast.engines.similar.settings import Settings
from nearcast.engines.similar.verify import Matches
from nearcast.engines.similar.walker import check_index
from nearcast.window.window import Steps

_STRATEGIES = {"cost": COST, "verify": VERIFY, "filter": FILTER}
_FIRST_ROOM = 4096


class SimilarStamp:
    """Tells which `Similar` subscriptions a message matches, by prefixes filed under region and word."""

    def __init__(self, table: PointTable, around: Surroundings, settings: Settings | None = None) -> None:
        self.table = table
        self.around = around
        self._index = StampIndex(around.space, settings or Settings())
        self._scratch = Scratch(
            np.zeros(0), np.zeros(1, dtype=PROBE), np.zeros(0, dtype=WORD), np.zeros(0, dtype=TOKEN),
            np.zeros(0, np.int32), np.zeros(MOST_MEMBERS + 1, np.int64), np.zeros(MOST_MEMBERS + 1, np.int32),
            np.zeros(GATHERED, dtype=POINT), np.zeros(MOST_MEMBERS + 1, np.uint8), np.zeros(N_COUNTERS, np.int64),
            np.zeros(N_COUNTERS, np.int64),
        )  # fmt: skip
        self._room = _room(_FIRST_ROOM)

    @property
    def settings(self) -> Settings:
        return self._index.settings

    @property
    def _where(self) -> tuple[int, float]:
        return self.around.space.metric_code, self.around.space.max_distance

    def _dense(self) -> Floats:
        """Scratch for every word there is."""
        if self.around.vocabulary.idf.size > self._scratch.dense.size:
            self._scratch = self._scratch._replace(
                dense=with_room(self._scratch.dense, self.around.vocabulary.idf.size)
            )
        return self._scratch.dense

    # Subscriptions

    def insert(self, slots: Ints) -> None:
        self._index.insert(slots, self.table.layout, self.around.vocabulary.idf)

    def remove(self, slots: Ints) -> None:
        self._index.remove(slots, self.table.layout, self.around.vocabulary.idf)

    def moved(self, slots: Ints, before: Array) -> Changes:
        self.remove(slots)
        self.insert(slots)
        old = self._fill(self.table.layout._replace(rows=before), np.arange(slots.size, dtype=np.int32), slots)
        return difference(old, self.fill(slots))

    def reweighed(self) -> None:
        self._index.clear()
        self.insert(self.table.used_slots)

    # Messages

    def publish(self, steps: Steps) -> Changes:
        live, idf = self.around.live, self.around.vocabulary.idf
        arrivals = steps.arrivals[steps.arrivals >= 0]
        if not len(self.table) or not arrivals.size:
            return NO_CHANGES
        self._prepare(int(live.table.layout.rows["n_terms"][arrivals].max()))
        found: list[tuple[Ints, Ints, Floats]] = []
        event = 0
        while event < steps.arrivals.size:
            after, n = match_steps(
                steps, event, live.table.layout, self.table.layout, self._where, idf, self._index.layout,
                self._scratch, self._room,
            )  # fmt: skip
            if n:
                found.append((self._room.events[:n].copy(), self._room.slots[:n].copy(), self._room.scores[:n].copy()))
            if after == event:
                self._room = _room(2 * self._room.slots.size)
            event = after
        if not found:
            return NO_CHANGES
        events, slots, scores = (np.concatenate(parts) for parts in zip(*found, strict=True))
        return Changes(events, slots, steps.arrivals[events], np.ones(events.size, np.int32), scores)

    def _prepare(self, n_words: int) -> None:
        """Scratch for messages of up to so many words."""
        self._dense()
        scratch = self._scratch
        self._scratch = scratch._replace(
            words=with_room(scratch.words, n_words + 1),
            tokens=with_room(scratch.tokens, n_words),
            stack=with_room(scratch.stack, self._index.n_nodes + 2),
        )
        scratch.probe["strategy"] = _STRATEGIES[self.settings.strategy]

    # Live messages

    def fill(self, slots: Ints) -> Changes:
        return self._fill(self.table.layout, slots, slots)

    def _fill(self, layout: PointLayout, rows: Ints, slots: Ints) -> Changes:
        """What the subscriptions in these rows of the layout match, told under their slots."""
        found = [self._find(layout, row) for row in rows.tolist()]
        if not found:
            return NO_CHANGES
        messages, scores = (np.concatenate(column) for column in zip(*found, strict=True))
        return entering(np.repeat(slots, [them.size for them, _ in found]), messages, scores)

    def find(self, slot: int) -> tuple[Ints, Floats]:
        return self._find(self.table.layout, slot)

    def _find(self, layout: PointLayout, row: int) -> tuple[Ints, Floats]:
        if self.around.live.window is None:
            return np.zeros(0, np.int32), np.zeros(0)
        return matching_similar(layout, row, self.around, self._dense())

    # Upkeep

    def check(self) -> None:
        scratch = self._scratch
        assert not scratch.dense.any(), "words must be taken back between calls"
        assert not scratch.counts.any(), "counts must be taken back between leaves"
        check_index(self._index, self.table.layout, self.table.used_slots, self.around.vocabulary.idf)

    def stats(self) -> Stats:
        counters = self._scratch.counters
        names = {
            "arrivals": N_ARRIVALS, "accessed": N_ACCESSED, "candidates": N_CANDIDATES, "checked": N_CHECKED,
            "answers": N_ANSWERS, "regions pruned": N_PRUNED, "leaves read": N_LEAVES,
            "leaves verified": N_VERIFIED, "leaves filtered": N_FILTERED,
        }  # fmt: skip
        arrays = (*self._scratch, *self._room)
        return {
            "engine": "stamp",
            **{name: int(counters[at]) for name, at in names.items()},
            "regions": self._index.n_nodes,
            "leaves": self._index.n_leaves,
            "bytes": self._index.nbytes + sum(array.nbytes for array in arrays),
        }

    def state(self) -> State:
        return {
            "settings": asdict(self.settings),
            "index": self._index.state(),
            "counters": self._scratch.counters,
        }

    def load(self, state: State) -> None:
        self._index = StampIndex(self.around.space, Settings(**state["settings"]))
        self._index.load(state["index"])
        self._scratch.counters[:] = state["counters"]


def _room(n: int) -> Matches:
    return Matches(np.empty(n, np.int32), np.empty(n, np.int32), np.empty(n))
