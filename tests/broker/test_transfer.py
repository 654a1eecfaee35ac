"""Subscriptions that go from broker to broker in mid-stream are told what one broker would have told them."""

from __future__ import annotations

import os
import random
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
from contract.contenders import Town
from strategies import METHODS, Seeded, StreamMaker, make_setting

import nearcast as nc
from nearcast.broker import snapshot
from nearcast.errors import DuplicateId, InvalidInput

COMPILED = os.environ.get("NUMBA_DISABLE_JIT", "0") == "0"
EVERYBODY = ("publish", "advance", "reweigh")  # events that all brokers see


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
