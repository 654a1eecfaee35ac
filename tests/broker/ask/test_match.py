"""Who would hear of a message: those who hear of it when it is published."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
from contract.contenders import Town

import nearcast as nc
from nearcast.engines.exact import NEAREST, TOPK
from nearcast.engines.oracle import KeptOracle, SimilarOracle, WithinOracle
from nearcast.model.kinds import LABELS

ORACLES = {  # which try every subscription
    "within": WithinOracle,
    "similar": SimilarOracle,
    "topk": partial(KeptOracle, TOPK),
    "nearest": partial(KeptOracle, NEAREST),
}


@pytest.mark.parametrize(
    "window", [nc.Window(count=30), nc.Window(age=1.5), nc.Window(count=50, age=3), None], ids=repr
)
def test_those_who_hear_of_it_when_it_is_published(window: nc.Window | None, tmp_path: Path) -> None:
    town = Town(8)
    broker, judge = nc.Broker(town.space, window), nc.Broker(town.space, window, engines=ORACLES)
    kinds = [label for label in LABELS if window is not None or label != "topk"]
    asked = [nc.Subscription(n, town.query(kinds[n % len(kinds)])) for n in range(120)]
    asked += [nc.Subscription(1000 + n, town.query("nearest"), expires=500) for n in range(10)]
    for one in (broker, judge):
        assert not one.subscribe_many(asked).rejects
    n_heard = 0
    for turn, message in enumerate(town.messages(150)):
        n_words, clock = broker.stats()["words"], broker.stats()["clock"]
        heard = broker.match(message)
        assert heard == judge.match(message)
        assert (broker.stats()["words"], broker.stats()["clock"]) == (n_words, clock)
        judge.publish(message)
        updates = broker.publish(message)
        told = {update.subscription for update in updates if update.sign == "+" and update.message == message.id}
        assert set(heard) == told
        assert len(heard) == len(told)
        n_heard += len(told)
        if window is not None and turn % 10 == 9:
            for one in (broker, judge) if not updates.late else ():
                one.retract(message.id)
        if turn == 70:
            broker.snapshot(tmp_path / "broker")
            broker = nc.Broker.restore(tmp_path / "broker")
    broker.check()
    assert n_heard > 100


def test_it_raises_as_publish_does_and_late_messages_are_nobodys() -> None:
    broker = nc.Broker(nc.Space((0, 0, 9, 9), metric="euclidean"), nc.Window(age=1, max_ahead=60))
    broker.subscribe("ann", nc.Within(nc.Box(0, 0, 9, 9), "ramen"))
    message = nc.Message("m", 1, 1, "ramen", ts=10_000)
    assert broker.match(message) == ["ann"]
    broker.publish(message)
    with pytest.raises(nc.DuplicateId):
        broker.match(message)
    with pytest.raises(nc.InvalidInput, match="ahead of the clock"):
        broker.match(nc.Message("n", 1, 1, "ramen", ts=1_000_000))
    with pytest.raises(nc.InvalidInput, match="lon"):
        broker.match({"id": "n", "lat": 1, "text": "ramen"})
    assert broker.match(nc.Message("n", 1, 1, "ramen", ts=1)) == []
    assert broker.match(nc.Message("n", 1, 1, "unheard", ts=10_000)) == []
