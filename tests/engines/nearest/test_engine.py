"""`Nearest` at a size where balls close, shrink, grow and move: every update is the brute force's."""

from __future__ import annotations

import os
import random
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from compare import identical
from contract.contenders import Judge

import nearcast as nc
from nearcast.columns import arena
from nearcast.engines.nearest.aoiq import AoiqSettings
from nearcast.engines.nearest.aoiq import tree as ordered_index
from nearcast.engines.nearest.grid import GridSettings
from nearcast.engines.nearest.grid import grid as grid_index
from nearcast.engines.nearest.settings import NearestSettings
from nearcast.model.event import Move
from nearcast.model.kinds import Kind
from nearcast.model.message import Message

COMPILED = os.environ.get("NUMBA_DISABLE_JIT", "0") == "0"
N_SUBSCRIPTIONS, N_MESSAGES = (400, 3000) if COMPILED else (40, 240)
PLANE, PACIFIC, POLE = (0, 0, 16, 16), (165, -10, 180, 10), (-180, 75, 180, 90)
NEAREST = Kind.NEAREST


class Crowd:
    """Seeded subscriptions and messages of few words in two clusters, some outside the bounds."""

    def __init__(self, seed: int, bounds: tuple[float, float, float, float]) -> None:
        self.random = random.Random(seed)
        self.bounds = bounds
        self.words = [f"w{n}" for n in range(30)]
        self.shares = [1 / (n + 1) for n in range(30)]

    def place(self) -> tuple[float, float]:
        x0, y0, x1, y1 = self.bounds
        draw = self.random
        cluster = draw.choice([(0.3, 0.4, 0.02), (0.8, 0.7, 0.1), (0.99, 0.98, 0.05), (0.5, 0.5, 0.5)])
        x = x0 + (x1 - x0) * (cluster[0] + draw.uniform(-1.1, 1.1) * cluster[2])
        y = y0 + (y1 - y0) * (cluster[1] + draw.uniform(-1.1, 1.1) * cluster[2])
        if draw.random() < 0.3:
            x, y = round(x), round(y)
        return x, (min(y, 90.0) if y1 == 90 else y)

    def some(self, most: int) -> list[str]:
        return self.random.choices(self.words, self.shares, k=self.random.randint(1, most))

    def query(self) -> nc.Nearest:
        draw = self.random
        match = draw.choice(["all", "all", "any"])
        k = draw.choice([1, 2, 3, 5, 12])
        return nc.Nearest(*self.place(), self.some(5), k, match, backfill=draw.random() < 0.8)

    def messages(self, n: int, first: int) -> Iterator[Message]:
        for i in range(first, first + n):
            life = self.random.choice([None, None, None, None, 60, 900])
            ts = 10 * i
            yield Message(i, *self.place(), None, self.some(9), ts, None if life is None else ts + life)


def engine_in(broker: nc.Broker) -> Any:
    return broker.parts.engines[NEAREST]


SETTINGS = [
    NearestSettings(),
    NearestSettings(AoiqSettings(words=1, height=4, update_ratio=1e-6)),
    NearestSettings(AoiqSettings(words=3, height=12, update_ratio=1e-9), GridSettings(finest=14)),
    NearestSettings(AoiqSettings(words=5, height=0, update_ratio=1.0), GridSettings(finest=0)),
]
CASES = [
    (nc.Window(count=500), nc.Space(PLANE, metric="euclidean"), SETTINGS[0]),
    (nc.Window(age=4), nc.Space(PLANE, metric="euclidean"), SETTINGS[1]),
    (nc.Window(count=700, age=5), nc.Space(PACIFIC, "haversine"), SETTINGS[2]),
    (nc.Window(count=300), nc.Space(POLE, "haversine"), SETTINGS[3]),
    (None, nc.Space(PACIFIC, "haversine"), SETTINGS[2]),
    (None, nc.Space(PLANE, metric="euclidean"), SETTINGS[1]),
]


def sweep_early(monkeypatch: pytest.MonkeyPatch) -> None:
    """Any garbage is worth a sweep."""
    for module in (ordered_index, grid_index):
        monkeypatch.setattr(module, "_LEAST", 0)


@pytest.mark.parametrize("case", range(len(CASES)))
def test_updates_are_those_of_the_brute_force(case: int, monkeypatch: pytest.MonkeyPatch) -> None:
    if case % 2 == 0:
        sweep_early(monkeypatch)
    window, space, settings = CASES[case]
    crowd = Crowd(case, space.bounds)
    ours, judge = nc.Broker(space, window, engines={"nearest": settings}), Judge(space, window)
    engine = engine_in(ours)
    queries = [(n, crowd.query()) for n in range(N_SUBSCRIPTIONS)]
    half, first = N_SUBSCRIPTIONS // 2, 0
    identical(ours.subscribe_many(queries[:half]), judge.subscribe_many(queries[:half]))
    rounds = 10 if COMPILED else 4
    for n in range(rounds):
        messages = list(crowd.messages(N_MESSAGES // rounds, first))
        first += len(messages)
        said: list[Any] = []
        for cut in (messages[:7], messages[7:]) if n % 2 else ([m] for m in messages[:40]):
            said += ours.publish(cut)
        said += ours.publish([] if n % 2 else messages[40:])
        identical(said, list(judge.publish(messages)))
        ours.check()
        if n == 1:
            identical(ours.subscribe_many(queries[half:]), judge.subscribe_many(queries[half:]))
        if n >= 2:
            gone = crowd.random.sample(range(half), 5) if n == 2 else []
            for broker in (ours, judge):
                broker.unsubscribe_many(gone)
        if n >= 3 and window is not None:
            moves = [Move(id, *crowd.place()) for id in crowd.random.sample(range(half, N_SUBSCRIPTIONS), 10)]
            identical(ours.move_many(moves), judge.move_many(moves))
            ours.check()
    for id in range(half, N_SUBSCRIPTIONS):
        assert ours.results(id) == judge.results(id)
    work = engine.stats()
    assert 0 < work["candidates"] < N_SUBSCRIPTIONS * first / 4
    assert work["all"]["unlinked"] + work["any"]["unlinked"] > 0 or not COMPILED


@pytest.mark.parametrize("match", ["all", "any"])
def test_places_farther_apart_than_any_number(match: str) -> None:
    broker = nc.Broker(nc.Space(PLANE, metric="euclidean"), nc.Window(count=4))
    broker.subscribe("far", nc.Nearest(-1.7e308, 0.0, ["w"], 2, match))
    for n, x in enumerate((1.7e308, 1.6e308, 0.0, 1.5e308)):
        broker.publish([Message(n, x, 0.0, None, ["w"], n)])
    farthest = sys.float_info.max
    assert broker.results("far") == [(2, 1.7e308), (3, farthest)]
    broker.move("far", lon=-1.6e308, lat=0.0)
    assert broker.results("far") == [(2, 1.6e308), (3, farthest)]
    for n in range(4, 7):
        broker.publish([Message(n, 1.7e308, 0.0, None, ["w"], n)])
        broker.check()
    assert broker.results("far") == [(6, farthest), (5, farthest)]


def test_what_nobody_uses_goes_bit_by_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    sweep_early(monkeypatch)
    crowd = Crowd(7, PLANE)
    settings = NearestSettings(AoiqSettings(words=2, height=8, update_ratio=1e-9))
    broker = nc.Broker(nc.Space(PLANE, metric="euclidean"), nc.Window(count=100), engines={"nearest": settings})
    engine = engine_in(broker)
    n, sizes = (300, []) if COMPILED else (30, [])
    for turn in range(8):
        crowd.words = [f"w{turn}-{i}" for i in range(30)]
        broker.subscribe_many([(turn * n + i, crowd.query()) for i in range(n)])
        broker.publish(list(crowd.messages(n, turn * n)))
        broker.check()
        if turn:
            broker.unsubscribe_many(range((turn - 1) * n, turn * n))
            broker.check()
        sizes.append([engine.stats()["all"][name] for name in ("lists", "blocks", "prefixes")])
        sizes[-1].append(engine.stats()["any"]["lists"])
    for first, last in zip(sizes[1], sizes[-1], strict=True):
        assert last < 4 * first


def test_a_sweep_goes_no_more_than_twice_around(monkeypatch: pytest.MonkeyPatch) -> None:
    """Once subscriptions that are all alike have few lists, which were swept once for each of them."""
    sweep_early(monkeypatch)
    sweep_some, swept = grid_index.sweep_some, []

    def sweep(grid: Any, filed: Any, n_places: int) -> None:
        swept.append((n_places, grid.lists.size))
        sweep_some(grid, filed, n_places)

    monkeypatch.setattr(grid_index, "sweep_some", sweep)
    n = 500 if COMPILED else 50
    broker = nc.Broker(nc.Space(PLANE, metric="euclidean"), nc.Window(count=10))
    engine = engine_in(broker)
    broker.subscribe_many([(i, nc.Nearest(4, 4, "w0 w1", 2, "any")) for i in range(n)])
    broker.move_many([Move(i, 5, 5) for i in range(n)])
    broker.check()
    broker.unsubscribe_many(range(n // 2))
    broker.check()
    assert swept
    assert all(n_places <= 2 * n_lists < n for n_places, n_lists in swept)
    assert engine.stats()["any"]["dead"] == 0


@pytest.mark.parametrize(
    ("made", "field"),
    [
        (lambda: AoiqSettings(words=6), "words"),
        (lambda: AoiqSettings(height=13), "height"),
        (lambda: AoiqSettings(update_ratio=0.0), "update_ratio"),
        (lambda: GridSettings(finest=15), "finest"),
    ],
)
def test_settings_are_checked(made: Any, field: str) -> None:
    with pytest.raises(nc.InvalidInput, match=f"{field} must be") as caught:
        made()
    assert caught.value.field == field


@pytest.mark.parametrize("n", [2, 3, 40])
def test_lists_of_one_become_lists_of_two_in_a_pool_with_no_room(
    n: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """#19: room for one entry more was made again and again, where the first block of a list has two."""
    monkeypatch.setattr(arena, "FIRST_ROOM", 1)
    broker = nc.Broker(nc.Space(PLANE, metric="euclidean"), nc.Window(count=9))
    broker.subscribe(0, nc.Nearest(1, 1, "fire", match="any"))
    broker.snapshot(tmp_path / "broker")
    again = nc.Broker.restore(tmp_path / "broker")
    again.subscribe_many([(i, nc.Nearest(1, 1, "fire", match="any")) for i in range(1, n)])
    again.check()
    assert len(again.publish(Message("m", 1, 1, "fire"))) == n
