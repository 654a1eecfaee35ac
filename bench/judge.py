"""A broker's updates for a sample of its subscriptions go in; `WrongAnswer` if plain Python finds others.

The brute force is `tests/definitions.py`, the meanings of the design written out for reading. It holds the sampled
subscriptions alone, and all live messages, so that its work stays small however many subscriptions the broker has.
"""

from __future__ import annotations

import math
import sys
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

from bench.figure import FOLDER, WrongAnswer
from nearcast import Message, Space, Subscription, Update, Window

sys.path.append(str(FOLDER.parent / "tests"))

from definitions import FOREVER, TOLERANCE, Arrival, Definitions, Ground, Lifetime, bag_of

__all__ = ["Judge", "bag_of", "same_score"]


class Judge:
    """What a sample of subscriptions must be told."""

    def __init__(self, space: Space, window: Window, corpus: Sequence[str]) -> None:
        self._judge = Definitions(
            Ground(space.bounds, space.metric, space.max_distance), Lifetime(window.count, window.age), corpus
        )

    def hold(self, messages: Iterable[Message]) -> None:
        """Messages that are live already; only for windows that count."""
        judge = self._judge
        for message in messages:
            judge.last += 1
            judge.live[judge.last] = Arrival(judge.last, message, FOREVER, bag_of(message.text or ""))
            judge.clock = max(message.ts or 0, judge.clock or 0)

    def subscribe(self, subscriptions: Iterable[Subscription]) -> None:
        """The sample."""
        for subscription in subscriptions:
            self._judge.subscribe(subscription.id, subscription.query, subscription.expires)

    def compare(self, messages: Iterable[Message], told: Iterable[Update]) -> int:
        """The updates that these messages caused, in order; returns how many questions were answered alike."""
        expected = by_subscription(update for message in messages for update in self._judge.publish(message))
        heard = by_subscription(update for update in told if update.subscription in self._judge.standing)
        for id in self._judge.standing:
            if not same(heard[id], expected[id]):
                raise WrongAnswer(f"subscription {id}: told {heard[id]}, but right is {expected[id]}")
        return len(self._judge.standing)


def by_subscription(updates: Iterable[Update]) -> dict[Any, list[Update]]:
    """Each subscriber's updates in their order."""
    streams: dict[Any, list[Update]] = defaultdict(list)
    for update in updates:
        streams[update.subscription].append(update)
    return streams


def same(told: Sequence[Update], expected: Sequence[Update]) -> bool:
    """Equal updates in equal order; scores within the tolerance."""
    return len(told) == len(expected) and all(
        (a.message, a.sign, a.ts) == (b.message, b.sign, b.ts) and same_score(a.score, b.score)
        for a, b in zip(told, expected, strict=True)
    )


def same_score(told: float | None, expected: float | None) -> bool:
    """Both missing, or within the tolerance of each other."""
    if told is None or expected is None:
        return told is expected
    return math.isclose(told, expected, rel_tol=TOLERANCE, abs_tol=1e-12)
