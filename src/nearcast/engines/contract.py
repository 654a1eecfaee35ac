"""What an engine is: it files the subscriptions of one query kind and turns events into changes of their results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol, cast

import numpy as np

from nearcast.columns.arena import Array, Floats, Ints, Longs, State
from nearcast.columns.message_table import MessageTable
from nearcast.engines.change_order import UNORDERED, order_found, rows_by_event_and_slot, take_rows
from nearcast.jit import kernel
from nearcast.model.kinds import Kind
from nearcast.space.space import Space
from nearcast.text.vocabulary import Vocabulary
from nearcast.window.live import LiveMessages, Steps

Stats = dict[str, Any]

_MANY = 4096  # rows that are better copied by a kernel


class Changes(NamedTuple):
    """Updates as engines emit them: one row an update, in the order of events."""

    events: Ints  # int32[n]: position of the event in its `Steps`
    slots: Ints  # int32[n]: subscription
    messages: Ints  # int32[n]: message slot
    signs: Ints  # int32[n]: +1 or -1
    scores: Floats  # float64[n]: score, before it fades, or distance; NaN for Within

    def take(self, rows: Array) -> Changes:
        """Only these rows, given by number or by flags."""
        return Changes(self.events[rows], self.slots[rows], self.messages[rows], self.signs[rows], self.scores[rows])

    def in_order(self, rows: Longs) -> Changes:
        """All of them, in the order of these numbers."""
        if rows.size < _MANY:
            return Changes._make([column.take(rows) for column in self])
        out = room_for_changes(rows.size)
        take_rows(self, rows, out)
        return out


def room_for_changes(n: int) -> Changes:
    """Arrays for `n` changes, to be written."""
    return Changes._make([*(np.empty(n, np.int32) for _ in range(4)), np.empty(n)])


_NONE = np.zeros(0, np.int32)
NO_CHANGES = Changes(_NONE, _NONE, _NONE, _NONE, np.zeros(0))


def entering(slots: Ints, messages: Ints, scores: Floats) -> Changes:
    """Everything of one event enters."""
    return Changes(np.zeros(slots.size, np.int32), slots, messages, np.ones(slots.size, np.int32), scores)


def difference(before: Changes, after: Changes) -> Changes:
    """What leaves, with the score that it had, and what enters when one `fill` is followed by another."""
    had, has = (pairs.slots.astype(np.int64) << 32 | pairs.messages for pairs in (before, after))
    leaves, enters = before.take(~np.isin(had, has)), after.take(~np.isin(has, had))
    return together([leaves._replace(signs=-leaves.signs), enters])


def net_matches(held: Changes, matched: Changes, since: Longs, sequences: Longs) -> Changes:
    """What engines that keep no results emit if messages are withdrawn.

    `held` are the matches of what was withdrawn in each event, `matched` those of what arrived. A subscription that
    has both hears nothing: the message stays, under the same id. `since` is that of the subscriptions by slot, and
    `sequences` are those of the messages: one that was never in a result does not leave it.
    """
    counts = sequences[held.messages] > since[held.slots]
    held, matched = by_event_and_slot(held if counts.all() else held.take(counts)), by_event_and_slot(matched)
    n = held.slots.size + matched.slots.size
    out = room_for_changes(n)
    n = merge_matches(held, matched, out)
    return Changes._make(column[:n] for column in out)


def by_event_and_slot(changes: Changes) -> Changes:
    """In the order of events, then of slots; those of one subscription in an event as they are."""
    if order_found(changes.events, changes.slots) != UNORDERED:
        return changes
    return changes.in_order(rows_by_event_and_slot(changes))


@kernel
def merge_matches(held: Any, matched: Any, out: Any) -> int:
    """Write what is in one of two lists by event and slot: what was held leaves, what matches enters; how many."""
    n, i, j, n_held, n_matched = 0, 0, 0, held.slots.size, matched.slots.size
    while i < n_held or j < n_matched:
        side = 0  # of the next row: negative for one that was held alone, positive for one that matches alone
        if i == n_held or j == n_matched:
            side = -1 if j == n_matched else 1
        elif held.events[i] != matched.events[j]:
            side = -1 if held.events[i] < matched.events[j] else 1
        elif held.slots[i] != matched.slots[j]:
            side = -1 if held.slots[i] < matched.slots[j] else 1
        if side < 0:
            out.events[n], out.slots[n], out.messages[n] = held.events[i], held.slots[i], held.messages[i]
            out.signs[n], out.scores[n] = -1, held.scores[i]
        elif side > 0:
            out.events[n], out.slots[n], out.messages[n] = matched.events[j], matched.slots[j], matched.messages[j]
            out.signs[n], out.scores[n] = 1, matched.scores[j]
        n += side != 0
        i += side <= 0
        j += side >= 0
    return n


def net_kept(changes: Changes, steps: Steps) -> Changes:
    """Changes of kept results, without those of messages that are updated and stay in a result under the same id."""
    if not changes.slots.size or not steps.withdrawn.size or not steps.n_arrivals:
        return changes
    given, out = by_event_and_slot(changes), room_for_changes(changes.slots.size)
    n = drop_stays(given, steps.withdrawn, steps.arrivals, out)
    return Changes._make(column[:n] for column in out)


@kernel
def drop_stays(given: Any, withdrawn: Ints, arrivals: Ints, out: Any) -> int:
    """Copy rows by event and slot, without those of messages that leave and come under the same id; how many stay."""
    n, first = 0, 0
    while first < given.slots.size:
        event, slot = given.events[first], given.slots[first]
        end, left, came = first, -1, -1
        while end < given.slots.size and given.events[end] == event and given.slots[end] == slot:
            if given.signs[end] < 0 and given.messages[end] == withdrawn[event]:
                left = end
            elif given.signs[end] > 0 and given.messages[end] == arrivals[event]:
                came = end
            end += 1
        stays = left >= 0 and came >= 0
        for row in range(first, end):
            if stays and row in (left, came):
                continue
            out.events[n], out.slots[n], out.messages[n] = event, slot, given.messages[row]
            out.signs[n], out.scores[n] = given.signs[row], given.scores[row]
            n += 1
        first = end
    return n


def together(changes: Sequence[Changes]) -> Changes:
    """Changes one after another, as they are."""
    return Changes(*(np.concatenate(column) for column in zip(*changes, strict=True)))


class EngineContext(NamedTuple):
    """What all engines of a broker share."""

    space: Space
    vocabulary: Vocabulary
    live: LiveMessages


class Engine(Protocol):
    """The subscriptions of one query kind: filed, matched, and told apart from all others by their slots.

    Deterministic, without I/O and without a wall clock: the same events give the same changes. An engine that keeps
    no results (`Within`, `Similar`) only notifies: what it would show is found again among the live messages. One that
    does (`TopK`, `Nearest`) is a `KeepsResults` as well, and `keeps_results` says so.
    """

    table: Any  # the subscriptions: a `WithinTable` or a `PointTable`
    context: EngineContext
    keeps_results: bool

    def insert(self, slots: Ints) -> None:
        """File subscriptions that were just written to the table; their results are empty so far."""

    def remove(self, slots: Ints) -> None:
        """Take out subscriptions that are about to be freed in the table."""

    def move(self, slots: Ints, before: Array) -> Changes:
        """Subscriptions, each once, whose place or region was just changed in the table: the net change, as event 0.

        `before` has their rows as they were. The points of old regions can be read through them until this returns;
        then the table closes its gaps.
        """

    def publish(self, steps: Steps) -> Changes:
        """Arrivals, withdrawals and expiries, in the order of events; that between subscriptions in an event is free.

        What is withdrawn leaves before all else, and is told; a message that an update leaves in a result is not.
        """

    def who_wants(self, messages: MessageTable, steps: Steps) -> tuple[Ints, Floats]:
        """Who would hear of the one arrival of one event, a row of `messages`, and its ranks; nothing happens by it.

        An engine that keeps results also names some whose k best the message does not reach, and counts on no expiry:
        who holds a message that leaves in this event may want others than those. Work is counted as always.
        """

    def fill(self, slots: Ints) -> Changes:
        """What live messages mean to these subscriptions, beyond what is kept for them: the net change, as event 0.

        An engine that keeps no results finds every match and emits all of them as ``+``.
        """

    def result(self, slot: int) -> tuple[Ints, Floats]:
        """Live messages in the result of a subscription, in its order, and their scores."""

    def reweighed(self) -> None:
        """Weights of words, and with them norms and weights of all rows, were just changed."""

    def stats(self) -> Stats:
        """Counts of work and bytes."""

    def check(self) -> None:
        """Assert that all arrays are consistent."""

    def state(self) -> State:
        """All that a snapshot must hold."""

    def load(self, state: State) -> None:
        """Become what `state` says."""


class KeepsResults(Engine, Protocol):
    """What is asked only of engines that keep the best k messages of every subscription."""

    def kept(self, slots: Ints) -> tuple[Ints, Ints, Floats]:
        """How many messages each of these holds, which, and how they rank: all that is known without a window."""

    def resume(self, slots: Ints, n_kept: Ints, messages: Ints, ranks: Floats) -> None:
        """Let subscriptions that were just inserted go on with what `kept` said of them elsewhere; emits nothing."""

    def mark_messages(self, held: Array) -> None:
        """Set held[slot] for every message that a result needs."""


Engines = Mapping[Kind, Engine]


def keeping(engines: Engines) -> dict[Kind, KeepsResults]:
    """Those of the engines that keep results."""
    return {kind: cast(KeepsResults, engine) for kind, engine in engines.items() if engine.keeps_results}
