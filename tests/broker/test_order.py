"""The order of all updates, between subscriptions too, follows from the events: not from batches, forms or restores."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pytest

import nearcast as nc
from nearcast.model.codec import subscription_to_json
from nearcast.model.event import Move
from nearcast.model.query import Subscription
from nearcast.model.update import Update

WORDS = ("fire", "smoke", "ramen", "sushi", "rain")
COLUMNS = pa.schema(
    [
        ("id", pa.int64()), ("kind", pa.string()), ("region", pa.string()), ("lon", pa.float64()),
        ("lat", pa.float64()), ("delta", pa.float64()), ("tau", pa.float64()), ("k", pa.int64()),
        ("match", pa.string()), ("keywords", pa.list_(pa.string())), ("backfill", pa.bool_()), ("expires", pa.int64()),
    ]
)  # fmt: skip


class Run(NamedTuple):
    """Events of one sort, one after another."""

    method: str
    rows: list[Any]


class Told(NamedTuple):
    """All that a broker said."""

    updates: list[Update]
    ended: list[Any]


class Stream:
    """Runs of events over some hundred subscriptions that come and go, many of which end at the same time."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.n_messages, self.n_subscriptions, self.clock = 0, 0, 0
        self.standing: dict[int, Any] = {}

    def runs(self, n: int) -> list[Run]:
        methods = ("publish", "publish", "update", "retract", "advance", "subscribe", "unsubscribe", "move", "reweigh")
        return [
            Run("subscribe", [self.subscription() for _ in range(80)]),
            *(self.run(self.random.choice(methods)) for _ in range(n)),
        ]

    def run(self, method: str) -> Run:
        n = self.random.randint(1, 12)
        if method == "publish":
            return Run(method, [self.message(self.n_messages + 1) for _ in range(n)])
        if method == "update":
            return Run(method, [self.message(self.random.randint(1, self.n_messages + 1)) for _ in range(n)])
        if method == "retract":
            return Run(method, [self.random.randint(1, self.n_messages + 1)])
        if method == "advance":
            self.clock += self.random.randint(0, 400)
            return Run(method, [self.clock])
        if method == "subscribe":
            return Run(method, [self.subscription() for _ in range(2 * n)])
        if method == "unsubscribe":
            some = self.random.sample(sorted(self.standing), min(n, len(self.standing)))
            return Run(method, [(id, self.standing.pop(id))[0] for id in some])
        if method == "reweigh":
            texts = [" ".join(self.words()) for _ in range(self.random.randint(0, 6))]
            return Run(method, [nc.Weights.fit(texts)])
        return Run(method, [self.move() for _ in range(n) if self.standing])

    def place(self) -> tuple[float, float]:
        return self.random.randint(0, 32) / 4, self.random.randint(0, 32) / 4

    def words(self) -> list[str]:
        return [self.random.choice(WORDS) for _ in range(self.random.randint(1, 3))]

    def message(self, id: int) -> nc.Message:
        self.n_messages = max(self.n_messages, id)
        self.clock += self.random.choice((0, 0, 1, 30))
        expires = self.random.choice((None, None, self.clock + 50))
        return nc.Message(id, *self.place(), " ".join(self.words()), ts=self.clock, expires=expires)

    def region(self) -> Any:
        x, y = self.place()
        if self.random.random() < 0.4:
            return nc.Circle(x, y, 3.0)
        return nc.Box(x - 2, y - 2, x + 3, y + 3)

    def subscription(self) -> Subscription:
        kind = self.random.choice((nc.Within, nc.Similar, nc.TopK, nc.Nearest))
        words, (x, y), backfill = self.words(), self.place(), self.random.random() < 0.8
        query: Any
        if kind is nc.Within:
            query = nc.Within(self.region(), words, backfill)
        elif kind is nc.Similar:
            query = nc.Similar(x, y, words, 0.5, self.random.choice((0.3, 0.6)), backfill=backfill)
        elif kind is nc.TopK:
            query = nc.TopK(x, y, words, self.random.randint(1, 5), backfill=backfill)
        else:
            match = "any" if self.random.random() < 0.5 else "all"
            query = nc.Nearest(x, y, words, self.random.randint(1, 5), match, backfill)
        self.n_subscriptions += 1
        self.standing[self.n_subscriptions] = kind
        ends = self.random.choice((None, None, self.clock // 300 * 300 + 600))
        return Subscription(self.n_subscriptions, query, ends)

    def move(self) -> Move:
        id = self.random.choice(sorted(self.standing))
        if self.standing[id] is nc.Within:
            return Move(id, region=self.region())
        return Move(id, *self.place())


def broker() -> nc.Broker:
    space = nc.Space((0, 0, 8, 8), metric="euclidean")
    return nc.Broker(space, window=nc.Window(count=40, age=0.4))


def one_by_one(target: nc.Broker, run: Run) -> Told:
    told = Told([], [])
    for row in run.rows:
        given = (row,)
        if run.method == "subscribe":
            given = (row.id, row.query, row.expires)
        elif run.method == "move":
            given = (row.id, row.lon, row.lat, row.region)
        try:
            updates = getattr(target, run.method)(*given)
        except nc.InvalidInput:
            continue
        told.updates.extend(updates)
        told.ended.extend(updates.ended)
    return told


def table_of(rows: list[Subscription]) -> pa.Table:
    """Boxes and points can be read in bulk, circles cannot."""
    plain = [subscription_to_json(row) for row in rows]
    for row in plain:
        row["region"] = json.dumps(row["region"]) if "region" in row else None
        row["keywords"] = list(row["keywords"]) if not isinstance(row["keywords"], str) else row["keywords"].split()
    return pa.Table.from_pylist(plain, schema=COLUMNS)


def in_batches(cut: Callable[[int], int]) -> Callable[[nc.Broker, Run], Told]:
    """Take runs in batches of as many rows as `cut` says."""

    def take(target: nc.Broker, run: Run) -> Told:
        told = Told([], [])
        method = run.method if run.method in ("publish", "update") else f"{run.method}_many"
        if run.method in ("retract", "advance", "reweigh"):
            return one_by_one(target, run)
        rows = list(run.rows)
        while rows:
            n = cut(len(rows))
            some: Any = table_of(rows[:n]) if run.method == "subscribe" else rows[:n]
            updates = getattr(target, method)(some)
            told.updates.extend(updates)
            told.ended.extend(updates.ended)
            del rows[:n]
        return told

    return take


@pytest.mark.parametrize("seed", range(6))
def test_one_order_however_events_come(seed: int, tmp_path: Path) -> None:
    chance = random.Random(seed)
    whole, pieces = in_batches(lambda n: n), in_batches(lambda n: chance.randint(1, n))
    takers = {"singly": one_by_one, "batches": whole, "pieces": pieces, "restored": pieces}
    brokers = {name: broker() for name in takers}
    n_updates = n_ended = 0
    for step, run in enumerate(Stream(seed).runs(60)):
        expected = one_by_one(brokers["singly"], run)
        for name in ("batches", "pieces", "restored"):
            told = takers[name](brokers[name], run)
            assert told == expected, f"{name}, {run}"
        n_updates += len(expected.updates)
        n_ended += len(expected.ended)
        if step % 10 == 5:
            brokers["restored"].snapshot(tmp_path / "now.snapshot")
            brokers["restored"] = nc.Broker.restore(tmp_path / "now.snapshot")
    assert n_updates > 1000
    assert n_ended > 20


def test_updates_of_an_event_come_by_kind_then_by_slot() -> None:
    ours = broker()
    queries: list[Any] = [
        nc.Nearest(4, 4, "fire"), nc.Within(nc.Box(0, 0, 8, 8), "fire"), nc.TopK(4, 4, "fire"),
        nc.Similar(4, 4, "fire", 0.5, 0.1), nc.Within(nc.Box(1, 1, 8, 8), "fire"), nc.Nearest(4, 4, "fire", 1),
        nc.Within(nc.Box(2, 2, 8, 8), "fire"),
    ]  # fmt: skip
    ours.subscribe_many([(id, query) for id, query in enumerate(queries)])
    told = [update.subscription for update in ours.publish(nc.Message(1, 4, 4, "fire", ts=1))]
    assert told == [1, 4, 6, 3, 2, 0, 5]
    ours.unsubscribe(1)
    ours.subscribe(9, queries[1])  # in the place of the one that left
    told = [update.subscription for update in ours.publish(nc.Message(2, 4, 4, "fire", ts=1))]
    assert told == [9, 4, 6, 3, 2, 0, 5, 5]
