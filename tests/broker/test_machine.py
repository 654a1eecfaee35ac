"""Random events go to the broker and to the judge, one after another; after each, updates and results are compared."""

from __future__ import annotations

import os
import random
from collections.abc import Sequence
from itertools import groupby
from typing import Any

import pytest
from compare import Follower
from definitions import Definitions, Ground, Id, Lifetime, Refused
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from strategies import METHODS, Event, Seeded, Setting, StreamMaker, brokers, make_setting, streams

import nearcast as nc
from nearcast.errors import InvalidInput
from nearcast.model.message import Message
from nearcast.model.query import Nearest, Query, Similar, TopK, Within
from nearcast.model.region import Box, Circle, Polygon

COMPILED = os.environ.get("NUMBA_DISABLE_JIT", "0") == "0"
N_EXAMPLES = 60 if COMPILED else 10
N_SEEDS = 64 if COMPILED else 8  # streams of N_EVENTS each
N_EVENTS = 120
N_SUBSCRIPTIONS, N_MESSAGES, N_LIVE = (250, 700, 200) if COMPILED else (30, 100, 30)


def replay(setting: Setting, events: Sequence[Event]) -> None:
    """Broker and judge see the same events; the first difference raises AssertionError."""
    judge, broker = setting.judge(), setting.broker()
    follower = Follower(judge)
    for number, event in enumerate(events):
        try:
            event.happen_to(judge)
        except Refused as reason:
            try:
                event.happen_to(broker)
            except InvalidInput:
                pass
            else:
                raise AssertionError(f"not refused, though {reason}: {event}") from None
        else:
            try:
                updates = event.happen_to(broker)
            except InvalidInput as error:
                raise AssertionError(f"refused: {event}") from error
            follower.follow(updates or ())
        if number % 4 == 3:  # updates are judged at every event; results, which they add up to, now and then
            follower.check_all(broker)
    follower.check_all(broker)


def shortest(setting: Setting, events: Sequence[Event]) -> list[Event]:
    """Events without which the replay would not fail, left over from a stream that fails."""
    kept = list(events)
    for event in list(reversed(events)):
        fewer = [other for other in kept if other is not event]
        try:
            replay(setting, fewer)
        except Exception:
            kept = fewer
    return kept


@settings(
    max_examples=N_EXAMPLES, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)
@given(st.data())
def test_drawn_streams(data: st.DataObject) -> None:
    setting = data.draw(brokers())
    replay(setting, data.draw(streams(setting)))


@pytest.mark.parametrize("first", range(0, N_SEEDS, N_SEEDS // 8))
def test_seeded_streams(first: int) -> None:
    for seed in range(first, first + N_SEEDS // 8):
        source = Seeded(seed)
        setting = make_setting(source)
        maker = StreamMaker(source, setting)
        events = [maker.make(method) for method in ["subscribe"] * 4 + [source.pick(METHODS) for _ in range(N_EVENTS)]]
        try:
            replay(setting, events)
        except Exception as error:
            lines = [f"seed {seed}, {setting}", *map(repr, shortest(setting, events)), str(error)]
            raise AssertionError("\n".join(lines)) from error


# ---------------------------------------------------------------------------------------------------- one large stream


class Town:
    """Seeded subscriptions and messages of a few hundred words, anywhere and on a grid."""

    def __init__(self, ground: Ground, seed: int) -> None:
        self.random = random.Random(seed)
        self.west, self.south, self.east, self.north = ground.bounds
        self.scale = 1.0 if ground.metric == "euclidean" else 111_000.0
        self.words = [f"word{n}" for n in range(200)]
        self.shares = [1 / (n + 1) for n in range(200)]

    def place(self) -> tuple[float, float]:
        along, up = self.random.uniform(-0.1, 1.1), self.random.uniform(-0.1, 1.1)
        if self.random.random() < 0.5:
            along, up = round(along * 16) / 16, round(up * 16) / 16
        return self.west + along * (self.east - self.west), self.south + up * (self.north - self.south)

    def some_words(self, least: int, most: int) -> list[str]:
        return self.random.choices(self.words, self.shares, k=self.random.randint(least, most))

    def region(self) -> Box | Circle | Polygon:
        lon, lat = self.place()
        side = (self.east - self.west) * self.random.choice((0.25, 0.5, 0.75))
        shape = self.random.choice(("box", "box", "circle", "polygon"))
        if shape == "box":
            return Box(lon - side, lat - side, lon + side, lat + side)
        if shape == "circle":
            return Circle(lon, lat, side * self.scale)
        return Polygon([(lon - side, lat - side), (lon + side, lat - side), (lon, lat), (lon, lat + side)])

    def query(self) -> Query:
        kind, (lon, lat) = self.random.randrange(4), self.place()
        k, share, backfill = self.random.choice((1, 3, 10, 20)), self.random.random(), self.random.random() < 0.8
        if kind == 0:
            first, second, third = self.some_words(3, 3)
            return Within(self.region(), f"{first} OR {second} AND NOT ({third} AND word0)", backfill)
        if kind == 1:
            measure = self.random.choice(("weighted", "overlap", "jaccard", "dice", "cosine"))
            return Similar(lon, lat, self.some_words(1, 4), share, self.random.uniform(0.4, 0.9), measure, backfill)
        if kind == 2:
            return TopK(lon, lat, self.some_words(1, 4), k, share, backfill)
        return Nearest(lon, lat, self.some_words(1, 2), k, self.random.choice(("all", "any")), backfill)

    def message(self, id: Id, ts: int) -> Message:
        expires = ts + self.random.randint(1, 40_000) if self.random.random() < 0.2 else None
        return Message(id, *self.place(), None, self.some_words(1, 8), ts, expires)


@pytest.mark.slow
@pytest.mark.parametrize(
    "ground",
    [Ground((0, 0, 1, 1), "euclidean"), Ground((-74.5, 40.25, -73.5, 41.25), "haversine")],
    ids=lambda g: g.metric,
)
def test_large_stream(ground: Ground) -> None:
    """Messages in batches of any size; every one has its own `ts`, which tells its updates from those of the others."""
    town = Town(ground, 1)
    texts = [" ".join(town.some_words(1, 8)) for _ in range(500)]
    setting = Setting(ground, Lifetime(count=N_LIVE, age=N_LIVE * 0.15), texts)
    judge, broker = setting.judge(), setting.broker()
    follower = Follower(judge)

    def both(event: Event) -> None:
        event.happen_to(judge)
        follower.follow(event.happen_to(broker))

    messages = [town.message(n, 100 * n) for n in range(N_MESSAGES)]
    _publish(judge, broker, follower, town, messages[:N_LIVE])
    for n in range(N_SUBSCRIPTIONS):
        both(Event("subscribe", (n, town.query())))
    rest = messages[N_LIVE:]
    while rest:
        _publish(judge, broker, follower, town, rest[:50])
        rest = rest[50:]
        for n in town.random.sample(range(N_SUBSCRIPTIONS), 10):
            if isinstance(judge.standing[n].question.query, Within):
                both(Event("move", (n,), {"region": town.region()}))
            else:
                lon, lat = town.place()
                both(Event("move", (n,), {"lon": lon, "lat": lat}))
        follower.check_all(broker)
    both(Event("reweigh", (texts[:50],)))
    follower.check_all(broker)


def _publish(
    judge: Definitions, broker: nc.Broker, follower: Follower, town: Town, messages: Sequence[Message]
) -> None:
    waiting = list(messages)
    while waiting:
        n = town.random.choice((1, 7, 40))
        batch, waiting = waiting[:n], waiting[n:]
        told: dict[int, list[Any]] = {
            ts: list(some) for ts, some in groupby(_by_time(broker.publish(batch)), lambda u: u.ts)
        }
        for message in batch:
            judge.publish(message)
            follower.follow(told.pop(message.ts or 0, []))
        assert not told, "updates at times when nothing happened"


def _by_time(updates: Any) -> list[Any]:
    return sorted(updates, key=lambda update: update.ts)


# ------------------------------------------------------------------------------------------------------------- borders


def found(query: Query, message: Message, metric: str = "euclidean") -> list[tuple[Id, float | None]]:
    """What a query is told of one message; the corners of the bounds are 5 apart."""
    broker = nc.Broker(nc.Space(bounds=(0, 0, 3, 4), metric=metric), window=nc.Window(count=9))
    broker.subscribe("s", query)
    return [(update.message, update.score) for update in broker.publish(message)]


@pytest.mark.parametrize(
    ("region", "lon", "lat", "inside"),
    [
        (Box(0, 0, 1, 1), 1, 1, True),
        (Box(1, 1, 1, 1), 1, 1, True),
        (Box(0, 0, 1, 1), 1.0000000000000002, 1, False),
        (Circle(0, 0, 5), 3, 4, True),
        (Circle(0, 0, 5), -4, -3, True),
        (Circle(1, 1, 0), 1, 1, True),
        (Circle(0, 0, 5), 3, 4.00000001, False),
        (Polygon([(0, 0), (4, 0), (0, 4)]), 2, 2, True),
        (Polygon([(0, 0), (4, 0), (0, 4)]), 0, 0, True),
        (Polygon([(0, 0), (4, 0), (0, 4)]), 2, 2.0000000000000004, False),
        (Polygon([(0, 0), (0.3, 0.1), (0, 1)]), 0.15, 0.05, True),
        (Polygon([(0, 0), (8, 0), (8, 8), (0, 8)], [[(2, 2), (6, 2), (6, 6), (2, 6)]]), 2, 4, True),
        (Polygon([(0, 0), (8, 0), (8, 8), (0, 8)], [[(2, 2), (6, 2), (6, 6), (2, 6)]]), 4, 4, False),
        (Polygon([(0, 0), (2, 0), (2, 2), (0, 2)], [[(4, 4), (6, 4), (6, 6), (4, 6)]]), 5, 5, True),
    ],
)
def test_the_border_of_a_region_counts(region: Any, lon: float, lat: float, inside: bool) -> None:
    assert found(Within(region, "fire"), Message("m", lon, lat, "fire")) == ([("m", None)] if inside else [])


@pytest.mark.parametrize(
    ("delta", "tau", "measure", "text", "lon", "lat", "score"),
    [
        (0.5, 0.5, "weighted", "fire", 0, 2.5, 0.5),
        (0.5, 0.25, "overlap", "fire", 3, 4, 0.25),
        (1.0, 0.25, "jaccard", "fire road sushi", 9, 9, 0.25),
        (1.0, 0.5, "dice", "fire road", 9, 9, 0.5),
        (1.0, 0.5, "cosine", "fire road", 9, 9, 0.5),
        (0.0, 0.5, "weighted", "", 0, 2.5, 0.5),
        (0.0, 1.0, "cosine", "", 0, 0, 1.0),
        (0.5, 0.0, "dice", "road", 9, 9, 0.0),
    ],
)
def test_a_score_equal_to_the_threshold_matches(
    delta: float, tau: float, measure: str, text: str, lon: float, lat: float, score: float
) -> None:
    query = Similar(0, 0, "fire smoke", delta, tau, measure)
    assert found(query, Message("m", lon, lat, text)) == [("m", score)]
    if 0 < tau < 1:
        assert found(Similar(0, 0, "fire smoke", delta, tau + 1e-6, measure), Message("m", lon, lat, text)) == []
