"""Every engine that must pass the contract, and brokers that it, or the plainest judge, works in."""

from __future__ import annotations

import random
from collections.abc import Iterator
from functools import partial
from typing import Any, NamedTuple

from definitions import Ground
from strategies import METHODS, Event, Seeded, Setting, StreamMaker, make_setting

import nearcast as nc
from nearcast.broker.engines import STANDARD
from nearcast.engines.contract import EngineContext
from nearcast.engines.exact import NEAREST, TOPK
from nearcast.engines.nearest.aoiq import AoiqSettings
from nearcast.engines.nearest.grid import GridSettings
from nearcast.engines.nearest.settings import NearestSettings
from nearcast.engines.oracle import KeptOracle, SimilarOracle, WithinOracle
from nearcast.engines.parted import PartedEngine, Workers
from nearcast.engines.similar import StampSettings
from nearcast.engines.topk import SkypeSettings
from nearcast.engines.within import ApTreeSettings
from nearcast.model.kinds import Kind
from nearcast.model.message import Message
from nearcast.model.query import QUERIES, Nearest, Query, Similar, TopK, Within
from nearcast.model.region import Box, Circle
from nearcast.window.index.brute_force import BruteForceIndex


class Contender(NamedTuple):
    """An engine of one kind of query."""

    kind: str
    name: str
    choice: Any  # settings of the standard engine, or what makes another from its table and context
    n_parts: int = 1

    @property
    def replaces(self) -> bool:
        """Is it another engine than the standard one?"""
        return callable(self.choice)

    def __repr__(self) -> str:
        return f"{self.kind}-{self.name}"


def in_parts(contender: Contender, n: int, table: Any, context: EngineContext) -> PartedEngine:
    """The standard engine of a contender in `n` parts, which threads take."""
    standard = STANDARD[Kind.of(contender.kind)].engine
    return PartedEngine(partial(standard, settings=contender.choice), table, context, Workers(n))


CONTENDERS = [
    Contender("within", "oracle", WithinOracle),
    Contender("within", "tree", ApTreeSettings()),
    Contender("within", "small-tree", ApTreeSettings(fanout=4, leaf=3, drift=0.01, visit=1)),
    Contender("similar", "oracle", SimilarOracle),
    Contender("similar", "wide", StampSettings()),
    Contender("similar", "stamp", StampSettings(fanout=8)),
    Contender("topk", "oracle", partial(KeptOracle, TOPK)),
    Contender("topk", "skype", SkypeSettings()),
    Contender("topk", "small-cells", SkypeSettings(cell=12, groups=3)),
    Contender("nearest", "oracle", partial(KeptOracle, NEAREST)),
    Contender("nearest", "indexed", NearestSettings()),
    Contender(
        "nearest",
        "coarse",
        NearestSettings(AoiqSettings(words=1, height=3, update_ratio=1e-9), GridSettings(finest=2)),
    ),
]
IN_PARTS = {"small-tree": 2, "stamp": 3, "small-cells": 2, "coarse": 3}
CONTENDERS += [
    Contender(one.kind, f"{one.name}-in-{n}", partial(in_parts, one, n), n)
    for one in CONTENDERS
    for n in [IN_PARTS.get(one.name, 1)]
    if n > 1
]
DECAYS = (None, 0.001, None, 0.05, 0.5, 60.0)  # seconds, of TopK
WHERES = (None, None, "kind = 'a'", "price < 10", "kind IN ('a', 'b') AND price >= 5", "NOT kind = 'c' OR price = 7")
ORACLES = {contender.kind: contender.choice for contender in CONTENDERS if contender.name == "oracle"}


def broker_class(contender: Contender) -> type[nc.Broker]:
    """Brokers in which the contender answers for its kind."""

    class Contested(nc.Broker):
        def __init__(self, *given: Any, engines: Any = None, **named: Any) -> None:
            super().__init__(*given, engines={contender.kind: contender.choice, **(engines or {})}, **named)

        @classmethod
        def restore(cls, path: Any, engines: Any = None) -> nc.Broker:
            return super().restore(path, {contender.kind: contender.choice} if contender.replaces else None)

    return Contested


class Judge(nc.Broker):
    """Oracles over an index that tries every message: nothing is filed anywhere."""

    def __init__(self, *given: Any, engines: Any = None, **named: Any) -> None:
        super().__init__(*given, engines={**ORACLES, **(engines or {})}, **named)
        self.parts.context.live.index = BruteForceIndex(self.space)  # type: ignore[assignment]

    @classmethod
    def restore(cls, path: Any, engines: Any = None) -> nc.Broker:
        return super().restore(path, ORACLES)


def engine_of(broker: nc.Broker, contender: Contender) -> Any:
    return broker.parts.engines[Kind.of(contender.kind)]


def table_of(broker: nc.Broker, contender: Contender) -> Any:
    return broker.parts.tables[Kind.of(contender.kind)]


def made(kind: type[nc.Broker], setting: Setting) -> nc.Broker:
    """A broker of this class in the setting."""
    like = setting.broker()
    return kind(like.space, like.window, like.parts.context.vocabulary.weights, analyzer=like.analyzer)


def stream(seed: int, contender: Contender, n_events: int) -> tuple[Setting, list[Event]]:
    """Events that only the contender's kind of query has a part in."""
    source = Seeded(seed)
    setting = make_setting(source)
    while contender.kind == "topk" and setting.lifetime is None:
        setting = make_setting(source)
    maker = StreamMaker(source, setting)
    wanted = QUERIES[contender.kind]
    events: list[Event] = []
    while len(events) < n_events:
        event = maker.make("subscribe" if len(events) < 4 else source.pick(METHODS))
        maker.kinds = {n: kind for n, kind in maker.kinds.items() if kind is wanted}
        if event.method != "subscribe" or isinstance(event.arguments[1], wanted):
            events.append(event)
    return setting, events


class Town:
    """Many seeded queries and messages of a hundred words, or as many as asked for, anywhere and on a grid."""

    def __init__(self, seed: int, n_words: int = 100) -> None:
        self.random = random.Random(seed)
        self.ground = Ground((0, 0, 16, 16), "euclidean")
        self.words = [f"word{n}" for n in range(n_words)]
        self.shares = [1 / (n + 1) for n in range(n_words)]

    @property
    def space(self) -> nc.Space:
        return nc.Space(self.ground.bounds, metric="euclidean")

    def place(self) -> tuple[float, float]:
        x, y = self.random.uniform(-1, 17), self.random.uniform(-1, 17)
        return (round(x), round(y)) if self.random.random() < 0.5 else (x, y)

    def some_words(self, most: int) -> list[str]:
        return self.random.choices(self.words, self.shares, k=self.random.randint(1, most))

    def query(self, kind: str, most: int = 3) -> Query:
        """A query of at most `most` words, repeated ones included."""
        (x, y), words = self.place(), self.some_words(most)
        backfill, where = self.random.random() < 0.8, self.random.choice(WHERES)
        if kind == "within":
            side = self.random.choice([1.0, 4.0, 8.0])
            region = Box(x, y, x + side, y + side) if self.random.random() < 0.5 else Circle(x, y, side)
            shapes = [" OR ".join(words), tuple(words[: 2 + most // 10])] * 2
            shapes += [f'"{words[0]} {words[-1]}"', f'{words[0]}* NOT "{words[-1]} {words[0]}"']
            return Within(region, self.random.choice(shapes), backfill, where)
        if kind == "similar":
            share, tau = self.random.choice([0.25, 0.5, 0.75]), self.random.choice([0.6, 0.75, 0.9])
            return Similar(
                x, y, words, share, tau, self.random.choice(["weighted", "jaccard", "cosine"]), backfill, where
            )
        k = self.random.choice([1, 2, 5, 20, 60])
        if kind == "topk":
            alpha = self.random.random()
            return TopK(x, y, words, k, alpha, backfill, where, DECAYS[int(1e6 * alpha) % len(DECAYS)])
        return Nearest(x, y, words, k, self.random.choice(["all", "any"]), backfill, where)

    def messages(self, n: int, first: int = 0) -> Iterator[Message]:
        for i in range(first, first + n):
            life = self.random.choice([None, None, None, 50, 400])
            ts = 10 * i + self.random.choice([0, 0, 0, -30])
            fields = {"price": self.random.randrange(20), "kind": self.random.choice("abc")}
            words, expires = self.some_words(6), None if life is None else ts + life
            text = (None, words) if i % 3 else (" ".join(words), None)
            yield Message(i, *self.place(), *text, ts, expires, fields)
