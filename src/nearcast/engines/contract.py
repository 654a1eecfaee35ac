"""What an engine is: subscriptions of one query kind in, changes out.

There are two contracts. A `Notifier` (Within, Similar) tells of arrivals and keeps no result rows: what it would show
is found again among the live messages. A `Keeper` (TopK, Nearest) keeps the result of every subscription. Both are
deterministic, do no I/O and know no wall clock: the same events give the same changes.
"""

from __future__ import annotations

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


_NONE = np.zeros(0, np.int32)
NO_CHANGES = Changes(_NONE, _NONE, _NONE, _NONE, np.zeros(0))


class Surroundings(NamedTuple):
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

    def check(self) -> None:
        """Assert that all arrays are consistent."""

    def stats(self) -> Stats:
        """Counts of work and bytes."""

    def state(self) -> State:
        """All that a snapshot must hold."""

    def load(self, state: State) -> None:
        """Become what `state` says."""


class Notifier(Engine, Protocol):
    """Tells which subscriptions an arriving message matches."""

    def find(self, slot: int) -> tuple[Ints, Floats]:
        """Live messages that match a subscription, in the order of its result, and their scores."""

    def moved(self, slots: Ints) -> None:
        """Subscriptions whose place or region was just changed in the table."""


class Keeper(Engine, Protocol):
    """Keeps the best k messages of every subscription."""

    def refresh(self, slots: Ints) -> Changes:
        """Evaluate anew: after registration with backfill, a move, or new weights; the net change, as one event."""

    def result(self, slot: int) -> tuple[Ints, Floats]:
        """Messages in the result, best first, and their scores."""

    def mark_messages(self, held: Array) -> None:
        """Set held[slot] for every message that a result needs."""
