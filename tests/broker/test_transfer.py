"""Subscriptions that go from broker to broker in mid-stream are told what one broker would have told them."""

from __future__ import annotations

import os
import random
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from contract.contenders import Town
from strategies import METHODS, Seeded, StreamMaker, make_setting

import nearcast as nc
from nearcast.broker.snapshots import snapshot
from nearcast.errors import DuplicateId, InvalidInput

COMPILED = os.environ.get("NUMBA_DISABLE_JIT", "0") == "0"
EVERYBODY = ("publish", "update", "retract", "advance", "reweigh")  # events that all brokers see


def by_subscription(updates: Any) -> dict[Any, list[tuple[Any, ...]]]:
    told = defaultdict(list)
    for update in updates:
        told[update.subscription].append((update.message, update.sign, update.score, update.ts))
    return dict(told)


def hand_over(giver: nc.Broker, taker: nc.Broker, ids: list[Any], place: Path) -> None:
    """By way of a file, as between machines."""
    snapshot.write(place, giver.export_subscriptions([*ids, "nobody"]))
    giver.unsubscribe_many(ids)
    taker.adopt(snapshot.read(place))


@pytest.mark.parametrize("seed", range(30 if COMPILED else 4))
def test_two_brokers_that_pass_subscriptions_on_are_one(seed: int, tmp_path: Path) -> None:
    source = Seeded(seed)
    setting = make_setting(source)
    maker = StreamMaker(source, setting)
    rng = random.Random(seed)
    one, several = setting.broker(), [setting.broker(), setting.broker()]
    owners: dict[Any, int] = {}
    for number in range(120):
        event = maker.make("subscribe" if number < 4 else source.pick(METHODS))
        try:
            expected = by_subscription(event.happen_to(one) or ())
        except InvalidInput:
            expected = None
        name = event.arguments[0] if event.arguments else None
        if event.method == "subscribe":
            owners.setdefault(name, rng.randrange(2))
        concerned = several if event.method in EVERYBODY else [several[owners.get(name, 0)]]
        told: dict[Any, Any] | None = {}
        for broker in concerned:
            try:
                told = {**(told or {}), **by_subscription(event.happen_to(broker) or ())}
            except InvalidInput:
                told = None
        assert told == expected, event
        if number % 3 == 2:
            giver = rng.randrange(2)
            live = [
                id for id, owner in owners.items() if owner == giver and several[giver].parts.registry.find(id) >= 0
            ]
            moving = rng.sample(live, rng.randint(0, len(live)))
            hand_over(several[giver], several[1 - giver], moving, tmp_path / "moved")
            owners.update(dict.fromkeys(moving, 1 - giver))
    for broker in several:
        broker.check()
    for id, owner in owners.items():
        if one.parts.registry.find(id) >= 0:
            assert several[owner].results(id) == one.results(id)


@pytest.mark.parametrize("window", [None, nc.Window(count=60, age=2)], ids=repr)
def test_many_go_at_once_and_take_everything_along(window: nc.Window | None, tmp_path: Path) -> None:
    n = 120 if COMPILED else 20
    kinds = ("within", "similar", "nearest") if window is None else ("within", "similar", "topk", "nearest")
    town = Town(3)
    queries = [(i, town.query(kinds[i % len(kinds)])) for i in range(n)]
    queries.append((n, nc.Within(nc.Polygon([(0, 0), (9, 0), (0, 9)]), "word0 AND NOT (word1 OR word2) OR word3")))
    messages = list(town.messages(3 * n))
    one, giver, taker = (nc.Broker(town.space, window) for _ in range(3))
    for broker in (one, giver):
        broker.subscribe_many(queries)
    for broker in (one, giver, taker):
        broker.publish(messages[:n])
    hand_over(giver, taker, list(range(0, n + 1, 2)), tmp_path / "moved")
    for first in (n, 2 * n):
        said = [by_subscription(broker.publish(messages[first : first + n])) for broker in (one, giver, taker)]
        assert said[1] | said[2] == said[0]
        assert not said[1].keys() & said[2].keys()
    for broker in (giver, taker):
        broker.check()
    assert {id: taker.results(id) for id in range(0, n + 1, 2)} == {id: one.results(id) for id in range(0, n + 1, 2)}
    with pytest.raises(DuplicateId, match="id must not be the id of another subscription, got 0"):
        taker.adopt(one.export_subscriptions([0]))
    assert giver.export_subscriptions([0]) == {}


def giving(
    id: Any, window: nc.Window | None = None, metric: str = "euclidean", message: Any = "m", **more: Any
) -> nc.Broker:
    broker = nc.Broker(nc.Space((0, 0, 9, 9), metric), window, **more)
    broker.subscribe(id, nc.Nearest(1, 1, "fire", k=2))
    broker.publish({"id": message, "lon": 1, "lat": 2, "text": "fire"})
    return broker


@pytest.mark.parametrize("window", [None, nc.Window(count=9)], ids=repr)
def test_ids_of_another_type_are_not_adopted(window: nc.Window | None) -> None:
    for own, other in (("a", 1), (1, "a")):
        taker, rows = giving(own, window), giving(other, window).export_subscriptions([other])
        before = taker.stats()
        with pytest.raises(InvalidInput, match=r"id must be .* like the ids before it, got "):
            taker.adopt(rows)
        assert taker.stats() == before
        assert taker.subscription_ids.to_pylist() == [own]


def test_messages_whose_ids_have_another_type_are_not_adopted() -> None:
    taker = giving("a", message=5)
    with pytest.raises(
        InvalidInput, match=r"rows must have messages whose ids are like those here \(integer\), got 'str"
    ):
        taker.adopt(giving("b", message="m").export_subscriptions(["b"]))
    taker.adopt(giving("b", message=5).export_subscriptions(["b"]))
    assert taker.results("b") == [(5, 1.0)]


@pytest.mark.parametrize(
    ("other", "reason"),
    [
        ({"metric": "haversine"}, "rows must come from a broker whose metric is euclidean, got 'haversine'"),
        ({"window": nc.Window(count=3)}, "rows must come from a broker with the same window, got 'nearest'"),
        (
            {"analyzer": nc.Analyzer(accents="fold")},
            f"rows must come from a broker with the same analyzer, {nc.Analyzer()}, "
            f"got {nc.Analyzer(accents='fold').state()}",
        ),
    ],
    ids=str,
)
def test_copies_that_cannot_live_here(other: dict[str, Any], reason: str) -> None:
    taker = nc.Broker(nc.Space((0, 0, 9, 9), metric="euclidean"))
    with pytest.raises(InvalidInput) as refused:
        taker.adopt(giving("a", **other).export_subscriptions(["a"]))
    assert str(refused.value) == reason
    windowed = nc.Broker(nc.Space((0, 0, 9, 9), metric="euclidean"), nc.Window(count=3))
    with pytest.raises(InvalidInput, match="rows must come from a broker with the same window"):
        windowed.adopt(giving("a").export_subscriptions(["a"]))
    assert len(windowed.subscription_ids) == len(taker.subscription_ids) == 0


def test_one_id_under_two_kinds_is_not_adopted() -> None:
    one, two, taker = (nc.Broker(nc.Space((0, 0, 9, 9), metric="euclidean"), nc.Window(count=3)) for _ in range(3))
    one.subscribe("a", nc.Nearest(1, 1, "fire"))
    two.subscribe("a", nc.TopK(1, 1, "fire"))
    with pytest.raises(DuplicateId, match="id must not be the id of another subscription, got 'a'"):
        taker.adopt(one.export_subscriptions(["a"]) | two.export_subscriptions(["a"]))
    assert len(taker.subscription_ids) == 0


@pytest.mark.parametrize("window", [None, nc.Window(count=9)], ids=repr)
def test_only_what_was_exported_is_adopted(window: nc.Window | None) -> None:
    giver, taker = giving(1, window), nc.Broker(nc.Space((0, 0, 9, 9), metric="euclidean"), window)
    giver.subscribe(2, nc.Within(nc.Polygon([(0, 0), (9, 0), (0, 9)]), "fire OR NOT smoke fire"))
    rows = giver.export_subscriptions([1, 2])
    spoilt: list[Any] = [5, None, "rows", [], [rows], {"nearest": {}}, {"nearest": None}, {"other": rows["nearest"]}]
    spoilt += [{1: rows["nearest"]}, {"within": rows["nearest"]} if window else {"similar": 5}]
    for kind, part in rows.items():
        for name, value in part.items():
            left = {inner: kept for inner, kept in part.items() if inner != name}
            spoilt += [{kind: left}, {kind: left | {name: None}}]
            if isinstance(value, np.ndarray) and value.size:
                other = value.copy()
                other.view(np.uint8).reshape(-1)[-1] ^= 1
                spoilt += [{kind: left | {name: other}}, {kind: left | {name: value[:-1]}}]
                spoilt.append({kind: left | {name: value.tolist()}})
    for odd in spoilt:
        with pytest.raises(InvalidInput, match="rows must be what export_subscriptions gave"):
            taker.adopt(odd)
    assert len(taker.subscription_ids) == 0
    taker.adopt(rows)
    assert sorted(taker.subscription_ids.to_pylist()) == [1, 2]


def test_ids_that_nobody_can_have_are_passed_over() -> None:
    broker = giving(1)
    for ids in ([2**70], [1.5, None, b"a", "x"], [], pa.array([7]), pa.array([1.0]), pa.nulls(2), [{"id": 2**70}]):
        assert broker.export_subscriptions(ids) == {}
    assert broker.export_subscriptions([2**70, 1, "x"]).keys() == {"nearest"}
    for one in (1, "abc", None, {"id": 1}):
        with pytest.raises(InvalidInput, match="ids must be many"):
            broker.export_subscriptions(one)
