"""Seeded `Similar` subscriptions and messages that favour what breaks prefixes, and brokers to compare."""

from __future__ import annotations

import os
import random
from typing import Any

import nearcast as nc
from nearcast.engines.oracle import SimilarOracle
from nearcast.engines.similar import StampSettings
from nearcast.model.kinds import Kind

COMPILED = os.environ.get("NUMBA_DISABLE_JIT", "0") == "0"
MEASURES = ("weighted", "overlap", "jaccard", "dice", "cosine")
SIMILAR = Kind.SIMILAR


def broker_with(make: Any, space: nc.Space, window: nc.Window | None = None, weights: Any = None) -> nc.Broker:
    """A broker whose `Similar` subscriptions are kept by `make(table, context)`, or by the engine of these settings."""
    return nc.Broker(space, window, weights, {"similar": make})


def pair(
    settings: StampSettings, space: nc.Space, window: nc.Window | None = None, weights: Any = None
) -> list[nc.Broker]:
    """The same broker twice: by prefixes, and by trying every subscription."""
    return [broker_with(make, space, window, weights) for make in (settings, SimilarOracle)]


def engine_of(broker: nc.Broker) -> Any:
    return broker.parts.engines[SIMILAR]


class Scene:
    """Places in clumps, on a line and far out; words of unequal weight; thresholds at both ends and in between."""

    def __init__(self, seed: int, metric: str) -> None:
        self.random = random.Random(seed)
        self.metric = metric
        self.words = [f"w{n}" for n in range(30)]
        self.shares = [1 / (n + 1) for n in range(30)]
        self.weights = nc.Weights.fit([" ".join(self.random.choices(self.words, k=4)) for _ in range(50)])
        if seed % 4 == 3:
            self.weights = nc.Weights()  # every word weighs the same
        plain = metric == "euclidean"
        reach = self.random.choice([2.0, 5.0, 30.0]) * (1.0 if plain else 3e5)
        self.space = nc.Space((0, 0, 16, 16) if plain else (-180, -90, 180, 90), metric, reach)

    def place(self) -> tuple[float, float]:
        pick = self.random
        sort = pick.random()
        if self.metric == "euclidean":
            if sort < 0.02:
                return pick.choice([-1e200, 1e39, 1e-300]), 1e5
            return (
                (pick.uniform(-3, 19), pick.uniform(-3, 19)) if sort < 0.6 else (pick.randint(0, 3), pick.randint(0, 3))
            )
        if sort < 0.6:
            return pick.uniform(-200, 200), pick.uniform(-90, 90)
        return pick.choice([-180, 180, 0, 179.9, 539.5]), pick.choice([-90, 90, 0, 89.9])

    def query(self, measure: str | None = None) -> nc.Similar:
        pick = self.random
        delta = pick.choice([0, 1, 0.5, pick.random(), pick.random(), pick.random()])
        tau = pick.choice([0, 1, 0.5, pick.random(), pick.uniform(0.4, 1), pick.uniform(0.4, 1)])
        words = pick.choices(self.words, self.shares, k=pick.choice([1, 2, 3, 4, 5, 12, 40]))
        return nc.Similar(*self.place(), words, delta, tau, measure or pick.choice(MEASURES))

    def messages(self, n: int, first: int) -> list[nc.Message]:
        pick = self.random
        return [
            nc.Message(
                first + i,
                *self.place(),
                keywords=pick.choices([*self.words, "unknown"], k=pick.choice([0, 1, 3, 6, 15])),
                ts=first + i,
            )
            for i in range(n)
        ]
