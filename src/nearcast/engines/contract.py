"""What an engine is: subscriptions of one query kind in, changes out.

There are two contracts. A `Notifier` (Within, Similar) tells of arrivals and keeps no result rows: what it would show
is found again among the live messages. A `Keeper` (TopK, Nearest) keeps the result of every subscription. Both are
deterministic, do no I/O and know no wall clock: the same events give the same changes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from nearcast.columns.arena import Array, Floats, Ints, State
from nearcast.space.space import Space
from nearcast.text.vocabulary import Vocabulary
from nearcast.window.window import LiveMessages, Steps

Stats = dict[str, Any]


class Changes(NamedTuple):
    """Updates as engines say them: one row an update, in the order of events."""

    events: Ints  # int32[n]: position of the event in its `Steps`
    slots: Ints  # int32[n]: subscription
    messages: Ints  # int32[n]: message slot
    signs: Ints  # int32[n]: +1 or -1
    scores: Floats  # float64[n]: score or distance; NaN for Within

    def take(self, rows: Array) -> Changes:
        """Only these rows, given by number or by flags."""
        return Changes(self.events[rows], self.slots[rows], self.messages[rows], self.signs[rows], self.scores[rows])


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


def together(changes: Sequence[Changes]) -> Changes:
    """Changes one after another, as they are."""
    return Changes(*(np.concatenate(column) for column in zip(*changes, strict=True)))


class EngineContext(NamedTuple):
    """What all engines of a broker share."""

    space: Space
    vocabulary: Vocabulary
    live: LiveMessages


class Engine(Protocol):
    """What both contracts have in common."""

    def insert(self, slots: Ints) -> None:
        """Subscriptions that were just written to the table; their results are empty so far."""

    def remove(self, slots: Ints) -> None:
        """Subscriptions that are about to be freed in the table."""

    def publish(self, steps: Steps) -> Changes:
        """Arrivals and expiries, event by event."""

    def reweighed(self) -> None:
        """Weights of words, and with them norms and weights of all rows, were just changed."""

    def check(self) -> None:
        """Assert that all arrays are consistent."""

    def stats(self) -> Stats:
        """Counts of work and bytes."""

    def state(self) -> State:
        """All that a snapshot must hold."""

    def load(self, state: State) -> None:
        """Become what `state` says."""


class Notifier(Engine, Protocol):
    """Tells which subscriptions an arriving message matches. Without a window no message is live.

    `publish` says its changes in the order of events; the order between subscriptions inside an event is free.
    """

    def fill(self, slots: Ints) -> Changes:
        """Live messages that match these subscriptions, all as ``+`` of event 0; nothing is filed."""

    def moved(self, slots: Ints, before: Array) -> Changes:
        """Subscriptions, each once, whose place or region was just changed in the table: the net change, as event 0.

        `before` has their rows as they were. The points of old regions can be read through them until this returns;
        then the table closes its gaps.
        """

    def find(self, slot: int) -> tuple[Ints, Floats]:
        """Live messages that match a subscription, in the order of its result, and their scores."""


class Keeper(Engine, Protocol):
    """Keeps the best k messages of every subscription."""

    def refresh(self, slots: Ints) -> Changes:
        """Evaluate anew: after registration with backfill, a move, or new weights; the net change, as one event."""

    def result(self, slot: int) -> tuple[Ints, Floats]:
        """Messages in the result, best first, and their scores."""

    def kept(self, slots: Ints) -> tuple[Ints, Ints, Floats]:
        """How many messages each of these holds, which, and how they rank: all that is known without a window."""

    def resume(self, slots: Ints, n_kept: Ints, messages: Ints, ranks: Floats) -> None:
        """Subscriptions that were just inserted go on with what `kept` said of them elsewhere; nothing is said."""

    def mark_messages(self, held: Array) -> None:
        """Set held[slot] for every message that a result needs."""
