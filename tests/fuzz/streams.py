"""A seed goes in; a setting and a list of events come out: few events of few words, or a crowd of many."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Sequence
from itertools import groupby
from typing import Any

from definitions import Ground, Lifetime
from strategies import GROUNDS, MEASURES, METHODS, NAMINGS, Event, Seeded, Setting, StreamMaker, make_setting

from nearcast.model.message import Message
from nearcast.model.query import Nearest, Query, Similar, TopK, Within
from nearcast.model.region import Box, Circle, Polygon

BULK = ("publish", "update", "subscribe", "unsubscribe", "move")  # events of which many can come in one call

_ODD = (  # spellings that fold to one another, or grow when they do, or hold no letter of their own
    "stra\u00dfe", "STRASSE", "\u01c6", "\u01c5", "\ufb01re", "fire", "\u0130", "i\u0307", "\u017f", "\u212b",
    "A\u030a", "\u1fb3", "\u1fb3\u0308", "\ud55c", "\u1112\u1161\u11ab", "\u6771\u4eac", "\u00bd", "\u2460", "\ufdfa",
    "a" * 300,
)  # fmt: skip
_SIDES = ((0.0, 0.0), (4.0, 4.0), (8.0, 0.0), (1.0, 7.0))  # of a plane, where many places are one
_CORNERS = ((180.0, 0.0), (-180.0, 0.0), (179.75, 5.0), (-179.75, 5.0), (0.0, 90.0), (90.0, 90.0), (0.0, -90.0),
            (540.0, 5.0), (-74.0, 40.75))  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Batch:
    """Single events of one method that go to a broker in one call, if they are `bulk`."""

    method: str
    events: tuple[Event, ...]
    bulk: bool

    def __repr__(self) -> str:
        return repr(list(self.events)) if self.bulk else repr(self.events[0])


def cut(events: Sequence[Event], seed: int) -> list[Batch]:
    """The events in batches of any size."""
    pick, batches = random.Random(seed), []
    for method, run in groupby(events, lambda event: event.method):
        left = list(run)
        while left:
            n = pick.choice((1, 1, 2, 5, 20, 100, 400)) if method in BULK else 1
            batches.append(Batch(method, tuple(left[:n]), method in BULK and (n > 1 or pick.random() < 0.5)))
            left = left[n:]
    return batches


def few(seed: int) -> tuple[Setting, list[Event]]:
    """Some hundred events of a handful of words, places and subscribers: ties everywhere."""
    source = Seeded(seed)
    setting = make_setting(source)
    maker = StreamMaker(source, setting)
    events = [maker.make("subscribe") for _ in range(source.pick((1, 4, 8)))]
    n = source.pick((60, 150))
    while len(events) < n:
        method = source.pick(METHODS)
        events += [maker.make(method) for _ in range(source.pick((1, 1, 2, 6)))]
    return setting, events


def crowd(seed: int) -> tuple[Setting, list[Event]]:
    """Hundreds of subscriptions and messages, of one word to thousands."""
    maker = Crowd(seed)
    return maker.stream(maker.pick.choice((250, 500)), (1, 3, 10, 40))


def long(seed: int) -> tuple[Setting, list[Event]]:
    """Thousands of events in long runs, so that indexes of messages are built, pruned and built again."""
    maker = Crowd(seed)
    maker.n_ids = maker.pick.choice((60, 400))
    if maker.lifetime is not None:
        maker.lifetime = dataclasses.replace(maker.lifetime, count=maker.pick.choice((None, 60, 700)))
    return maker.stream(2500, (1, 100, 400))


class Crowd:
    """Makes a stream of many subscribers; what it favours is drawn first."""

    def __init__(self, seed: int) -> None:
        self.pick = pick = random.Random(seed)
        self.ground: Ground = pick.choice(GROUNDS)
        self.lifetime = None
        if pick.random() < 0.85:
            self.lifetime = Lifetime(
                pick.choice((None, 1, 7, 60, 300)), pick.choice((None, 0.3, 2, 20)), pick.choice((None, None, 0.5))
            )
        n_words = pick.choice((4, 30, 300))
        self.words = [f"w{n}" for n in range(n_words)] + pick.sample(_ODD, 4)
        self.shares = [1 / (n + 1) for n in range(n_words)] + [0.05] * 4
        self.name = pick.choice(NAMINGS[:3])
        self.n_ids = pick.choice((40, 150, 400))  # of subscriptions, used again and again
        self.lengths = pick.choice(((1,), (1, 2, 3), (1, 2, 3, 20), (1, 60)))  # of subscriptions
        self.asks = pick.choice((0, 3, 40))  # how many values fields have
        self.long = pick.random() < 0.3  # a message of thousands of words comes by
        self.kinds = pick.choice((("within",), ("similar",), ("topk",), ("nearest",), *[tuple(_MAKES)] * 4))
        self.updates = pick.choice((0, 1, 4))  # how often messages change, if they do
        self.registered: dict[int, str] = {}
        self.clock, self.n_messages = pick.choice((0, 1_700_000_000_000)), 0

    def stream(self, n: int, runs: Sequence[int]) -> tuple[Setting, list[Event]]:
        """About `n` events, in runs of one kind that are so long."""
        setting = Setting(self.ground, self.lifetime, [self.some_words(4) for _ in range(self.pick.choice((0, 3, 40)))])
        events: list[Event] = [self.subscribe() for _ in range(self.pick.choice((1, 30, 120)))]
        while len(events) < n:
            make = self.pick.choice(
                (self.publish,) * 4
                + (self.subscribe,) * 3
                + (self.move, self.unsubscribe)
                + (self.update,) * self.updates
            )
            events += [make() for _ in range(self.pick.choice(runs))]
            if self.updates and self.pick.random() < 0.3:
                events.append(Event("retract", (self.name(self.earlier()),)))
            if self.pick.random() < 0.15:
                events.append(self.advance() if self.pick.random() < 0.7 else self.reweigh())
        return setting, events

    # Events

    def publish(self) -> Event:
        self.n_messages += 1
        n = self.pick.randrange(self.n_messages) if self.pick.random() < 0.1 else self.n_messages
        return Event("publish", (self.message(n),))

    def update(self) -> Event:
        self.n_messages += 1
        return Event("update", (self.message(self.earlier()),))

    def earlier(self) -> int:
        """The number of a message, rather of a late one: it may live."""
        return max(0, self.n_messages - self.pick.randrange(self.pick.choice((3, 60, 700))))

    def message(self, n: int) -> Message:
        pick = self.pick
        ts = None if pick.random() < 0.1 else self.clock + pick.choice((0, 0, 1, 10, 10, 30, -1, -200, 900))
        self.clock = max(self.clock, ts or self.clock)
        life = pick.choice((*[None] * 8, 1, 50, 400, 5000, 0))
        expires = None if life is None else (self.clock if ts is None else ts) + life
        words = self.some_words(pick.choice((0, 1, 2, 4, 8, 8, 100 if pick.random() < 0.2 else 3)))
        if self.long and pick.random() < 0.01:
            first = pick.randrange(20_000)
            words += [f"x{n}" for n in range(first, first + 5000)]
        lon, lat = self.place()
        if pick.random() < 0.5:
            return Message(self.name(n), lon, lat, " ".join(words), None, ts, expires, self.fields())
        return Message(self.name(n), lon, lat, None, words, ts, expires, self.fields())

    def subscribe(self) -> Event:
        n, kind = self.pick.randrange(self.n_ids), self.pick.choice(self.kinds)
        self.registered.setdefault(n, kind)
        stay = self.pick.choice((*[None] * 10, 40, 400, 4000, 0))
        expires = None if stay is None else self.clock + stay
        return Event("subscribe", (self.name(n), _MAKES[kind](self)), {"expires": expires})

    def unsubscribe(self) -> Event:
        n = self.pick.choice([*self.registered, self.pick.randrange(self.n_ids)])
        self.registered.pop(n, None)
        return Event("unsubscribe", (self.name(n),))

    def move(self) -> Event:
        n = self.pick.choice([*self.registered, self.pick.randrange(self.n_ids)])
        if (self.registered.get(n) == "within") != (self.pick.random() < 0.03):
            return Event("move", (self.name(n),), {"region": self.region()})
        lon, lat = self.place()
        return Event("move", (self.name(n),), {"lon": lon, "lat": lat})

    def advance(self) -> Event:
        ts = self.clock + self.pick.choice((0, 1, 50, 400, 2500, -100))
        self.clock = max(self.clock, ts)
        return Event("advance", (ts,))

    def reweigh(self) -> Event:
        return Event("reweigh", ([self.some_words(5) for _ in range(self.pick.choice((0, 2, 30)))],))

    # What they are made of

    def some_words(self, n: int) -> list[str]:
        return self.pick.choices(self.words, self.shares, k=n)

    def place(self) -> tuple[float, float]:
        pick, ground = self.pick, self.ground
        sort = pick.random()
        if ground.metric == "euclidean":
            if sort < 0.02:
                return pick.choice((-1e6, 1e200, 1e-300)), pick.uniform(-100, 100)
            return pick.choice(_SIDES) if sort < 0.4 else (pick.uniform(-1, 9), pick.uniform(-1, 9))
        west, south, east, north = ground.bounds
        if sort < 0.05:
            return pick.uniform(-800, 800), pick.uniform(-90.5, 90.5)
        if sort < 0.4:
            return pick.choice(_CORNERS)
        return pick.uniform(west - 1, east + 1), max(-90.0, min(90.0, pick.uniform(south - 1, north + 1)))

    def region(self) -> Box | Circle | Polygon:
        pick, (x, y) = self.pick, self.place()
        side, unit = pick.choice((0.0, 0.5, 2.0, 6.0)), 1.0 if self.ground.metric == "euclidean" else 111_000.0
        shape = pick.choice(("box", "box", "circle", "polygon"))
        if shape == "circle":
            return Circle(x, y, side * unit * pick.choice((1, 1, 30)))
        if shape == "polygon" and abs(x) < 1e6:
            return Polygon([(x - side - 1, y), (x, y - side - 1), (x + side + 1, y), (x, y + side / 2), (x - 1, y + 1)])
        if unit > 1 and pick.random() < 0.2:
            return Box(170.0, y - side, -170.0, y + side)
        if unit > 1:  # a latitude past the pole is there now and then, to be refused
            return Box(x - side, max(-90.0, y - side), x + side, y + side if y > 90.0 else min(90.0, y + side))
        return Box(x - side, y - side, x + side, y + side)

    def fields(self) -> dict[str, Any] | None:
        """Fields of messages; a stream has none, few values for ties, or many."""
        pick = self.pick
        if not self.asks or pick.random() < 0.1:
            return None
        made: dict[str, Any] = {"price": pick.randrange(self.asks), "kind": f"k{pick.randrange(self.asks)}"}
        if pick.random() < 0.5:
            made["tags"] = [f"t{pick.randrange(self.asks)}" for _ in range(pick.randrange(4))]
        if pick.random() < 0.3:
            made["open"] = pick.random() < 0.5
        if pick.random() < 0.1:
            made[pick.choice(("price", "kind"))] = pick.choice(("k1", 1.5, True, ["k1", "k2"]))
        return made

    def where(self) -> str | None:
        pick = self.pick
        if not self.asks or pick.random() < 0.3:
            return None
        n = pick.randrange(self.asks)
        parts = (
            f"price < {n}", f"price = {n}", f"kind = 'k{n}'", f"kind IN ('k{n}', 'k{n + 1}', 'k0')", f"tags = 't{n}'",
            "open = TRUE", f"kind >= 'k{n}'", "HAS tags", f"NOT price > {n}", f"tags != 't{n}'",
        )  # fmt: skip
        shape = pick.choice(("{}", "{}", "{} AND {}", "{} AND {} AND {}", "{} OR {}", "({} OR {}) AND {}"))
        return shape.format(*pick.sample(parts, shape.count("{}")))

    @property
    def backfill(self) -> bool:
        return self.pick.random() < 0.75

    def within(self) -> Query:
        words = self.some_words(self.pick.choice(self.lengths))
        one, other, third = self.some_words(3)
        shapes: list[Any] = [
            words,
            " OR ".join(words[:40]),
            f"{one} AND NOT {other} OR {third}",
            f"({one} OR {other}) {third}",
            f'"{one} {other}" OR {third}',
            f'{one} NOT "{other} {third}"',
            f"{one[:2]}* NOT {other[:3]}*",
        ]
        try:
            return Within(self.region(), self.pick.choice(shapes), self.backfill, self.where())
        except ValueError:  # x AND NOT x, or a word that the text rules leave nothing of
            return Within(self.region(), "w0", self.backfill, self.where())

    def similar(self) -> Query:
        pick, words = self.pick, self.some_words(self.pick.choice(self.lengths))
        share, tau = pick.choice((0.0, 1.0, 0.5, pick.random())), pick.choice((0.0, 1.0, 0.5, pick.random()))
        return Similar(*self.place(), words, share, tau, pick.choice(MEASURES), self.backfill, self.where())

    def topk(self) -> Query:
        pick, words = self.pick, self.some_words(self.pick.choice(self.lengths))
        k, share = pick.choice((1, 2, 5, 20, 1000)), pick.choice((0.0, 1.0, 0.5, pick.random()))
        decay = pick.choice((None, None, 0.001, 0.1, 5, 3600))
        return TopK(*self.place(), words, k, share, self.backfill, self.where(), decay)

    def nearest(self) -> Query:
        pick, words = self.pick, self.some_words(self.pick.choice(self.lengths))
        k, match = pick.choice((1, 2, 5, 20, 1000)), pick.choice(("all", "any"))
        return Nearest(*self.place(), words[: 3 if match == "all" else None], k, match, self.backfill, self.where())


_MAKES = {"within": Crowd.within, "similar": Crowd.similar, "topk": Crowd.topk, "nearest": Crowd.nearest}
