"""`SimilarStamp`: the engine of `Similar` subscriptions."""

from __future__ import annotations

import numpy as np

from nearcast.columns.arena import Array, Floats, Ints, State, with_room
from nearcast.columns.message_table import MessageLayout, MessageTable, most_terms
from nearcast.columns.subscription_tables import PointTable
from nearcast.engines.contract import NO_CHANGES, Changes, EngineContext, Stats, net_matches, room_for_changes
from nearcast.engines.live_search import LiveSearch, matching_similar
from nearcast.engines.similar.candidates import COST, FILTER, VERIFY
from nearcast.engines.similar.invariants import check_index
from nearcast.engines.similar.layout import (
    MARKS,
    MOST_MEMBERS,
    MOST_RANKED,
    N_ACCESSED,
    N_ANSWERS,
    N_ARRIVALS,
    N_CANDIDATES,
    N_COUNTERS,
    N_FILTERED,
    N_LEAVES,
    N_PRUNED,
    N_VERIFIED,
    NEAR_MEMBER,
    PROBE,
    STRIP,
    TOKEN,
    Matches,
    MatchInput,
    StampScratch,
)
from nearcast.engines.similar.match import StepsCall, match_held, place_keys, sort_by_event
from nearcast.engines.similar.prefixes import WORD
from nearcast.engines.similar.settings import StampSettings
from nearcast.engines.similar.stamp_index import StampIndex
from nearcast.held import HeldCall, unchanged
from nearcast.window.index.index import frame_of
from nearcast.window.live import Steps

_STRATEGIES = {"cost": COST, "verify": VERIFY, "filter": FILTER}
FIRST_ROOM = 4096  # matches
_FIRST, _NONE = np.zeros(1, np.int32), np.zeros(0, np.int32)
MOST_ROOM = 1 << 20  # matches; only one event alone gets more


class SimilarStamp:
    """Finds which `Similar` subscriptions a message matches, by prefixes filed under region and word."""

    keeps_results = False

    def __init__(self, table: PointTable, context: EngineContext, settings: StampSettings | None = None) -> None:
        self.table = table
        self.context = context
        self._search = LiveSearch(matching_similar, context)
        self._frame = frame_of(context.space)
        self.index = StampIndex(context.space, settings or StampSettings())
        self._scratch = StampScratch(
            self._search.dense(), np.zeros(MARKS, np.uint8), np.zeros(1, dtype=PROBE), np.zeros(0, dtype=WORD),
            np.zeros(0, dtype=TOKEN), np.zeros(0, np.int32), np.zeros(MOST_MEMBERS + 1, np.int64),
            np.zeros(MOST_MEMBERS + 1, dtype=NEAR_MEMBER), np.zeros(STRIP), np.zeros(STRIP), np.zeros(MOST_RANKED),
            np.zeros(MOST_MEMBERS + 1, np.uint8), np.zeros(N_COUNTERS, np.int64), np.zeros(N_COUNTERS, np.int64),
        )  # fmt: skip
        self._scratch.probe["strategy"] = _STRATEGIES[self.settings.strategy]
        self._room = _room(FIRST_ROOM)
        self._ones = np.ones(0, np.int32)
        self._given: MatchInput | None = None
        self._match_steps: HeldCall[StepsCall] = HeldCall(match_held)

    @property
    def settings(self) -> StampSettings:
        return self.index.settings

    # Subscriptions

    def insert(self, slots: Ints) -> None:
        self.index.insert(slots, self.table.layout, self.context.vocabulary.idf)

    def remove(self, slots: Ints) -> None:
        self.index.remove(slots, self.table.layout, self.context.vocabulary.idf)

    def move(self, slots: Ints, before: Array) -> Changes:
        self.remove(slots)
        self.insert(slots)
        return self._search.moved(self.table.layout, slots, before)

    def reweighed(self) -> None:
        self.index.clear()
        self.insert(self.table.used_slots)

    # Messages

    def publish(self, steps: Steps) -> Changes:
        if not len(self.table):
            return NO_CHANGES
        matched = self._match(steps, self.context.live.table.layout)
        if not steps.withdrawn.size:
            return matched
        messages = self.context.live.table.layout
        held = self._match(steps.of_withdrawn(), messages)
        return net_matches(held, matched, self.table.rows["since"], messages.rows["sequence"])

    def who_wants(self, messages: MessageTable, steps: Steps) -> tuple[Ints, Floats]:
        found = self._match(steps, messages.layout) if len(self.table) else NO_CHANGES
        return found.slots, found.scores

    def _match(self, steps: Steps, messages: MessageLayout) -> Changes:
        """Who matches the arrivals, all as ``+``."""
        order = self._by_place(steps, messages)
        if not order.size:
            return NO_CHANGES
        self._prepare(most_terms(messages.rows, steps.arrivals))
        parts = messages, self.table.layout, self.context.vocabulary.idf, self.index.space
        given = self._given = unchanged(self._given, MatchInput, *parts)
        found: list[Matches] = []
        done = 0
        while done < order.size:
            before = done
            call = StepsCall(steps, order, given, self.index.layout, self._scratch, self._room)
            done, n = self._match_steps(call, before)
            room = self._room
            part = Matches(room.events[:n], room.slots[:n], room.scores[:n])
            if done == before or (done < order.size and room.slots.size < MOST_ROOM):
                self._room = _room(2 * room.slots.size)
            elif done < order.size:
                part = Matches(part.events.copy(), part.slots.copy(), part.scores.copy())
            found.append(part)
        everything = found[0] if len(found) == 1 else _joined(found)
        if not everything.slots.size:
            return NO_CHANGES
        if order.size == 1:
            events, slots, scores = everything.events.copy(), everything.slots.copy(), everything.scores.copy()
            if events.size > self._ones.size:
                self._ones = np.ones(2 * events.size, np.int32)
            return Changes(events, slots, steps.arrivals.take(events), self._ones[: events.size], scores)
        changes = room_for_changes(everything.slots.size)
        sort_by_event(everything, steps.arrivals, np.zeros(steps.arrivals.size + 1, np.int64), changes)
        return changes

    def _by_place(self, steps: Steps, messages: MessageLayout) -> Ints:
        """The events that have arrivals, neighbours one after another: they come to the same leaves."""
        if steps.arrivals.size == 1:
            return _FIRST if steps.arrivals[0] >= 0 else _NONE
        keys = np.empty(steps.arrivals.size, np.int64)
        n = place_keys(steps, messages, self._frame, keys)
        return (np.sort(keys[:n]) & 0xFFFFFFFF).astype(np.int32)

    def _prepare(self, n_words: int) -> None:
        """Grow the scratch for messages of up to `n_words` words."""
        scratch, dense, n_nodes = self._scratch, self._search.dense(), self.index.n_nodes
        if (
            dense is scratch.dense
            and n_words < scratch.words.size
            and n_words <= scratch.tokens.size
            and n_nodes + 2 <= scratch.stack.size
        ):
            return
        self._scratch = scratch._replace(
            dense=dense,
            words=with_room(scratch.words, n_words + 1),
            tokens=with_room(scratch.tokens, n_words),
            stack=with_room(scratch.stack, n_nodes + 2),
        )

    # Live messages

    def fill(self, slots: Ints) -> Changes:
        return self._search.fill(self.table.layout, slots)

    def result(self, slot: int) -> tuple[Ints, Floats]:
        return self._search.find(self.table.layout, slot)

    # Upkeep

    def check(self) -> None:
        scratch = self._scratch
        self._search.check()
        assert not scratch.marks.any(), "words must be taken back between calls"
        assert not scratch.counts.any(), "counts must be taken back between leaves"
        check_index(self.index, self.table.layout, self.table.used_slots, self.context.vocabulary.idf)

    def stats(self) -> Stats:
        counters = self._scratch.counters
        names = {
            "arrivals": N_ARRIVALS, "accessed": N_ACCESSED, "candidates": N_CANDIDATES, "answers": N_ANSWERS,
            "regions pruned": N_PRUNED, "leaves read": N_LEAVES, "leaves verified": N_VERIFIED,
            "leaves filtered": N_FILTERED,
        }  # fmt: skip
        arrays = (*self._scratch, *self._room)
        return {
            "engine": "stamp",
            **{name: int(counters[at]) for name, at in names.items()},
            "regions": self.index.n_nodes,
            "leaves": self.index.n_leaves,
            "bytes": self.index.nbytes + sum(array.nbytes for array in arrays),
        }

    def state(self) -> State:
        return {
            "index": self.index.state(),
            "counters": self._scratch.counters,
        }

    def load(self, state: State) -> None:
        self.index = StampIndex(self.context.space, self.settings)
        self.index.load(state["index"])
        self._scratch.counters[:] = state["counters"]


def _joined(parts: list[Matches]) -> Matches:
    events, slots, scores = zip(*parts, strict=True)
    return Matches(np.concatenate(events), np.concatenate(slots), np.concatenate(scores))


def _room(n: int) -> Matches:
    return Matches(np.empty(n, np.int32), np.empty(n, np.int32), np.empty(n))
