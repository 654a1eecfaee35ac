"""Without a window, single messages that nobody keeps are told of as in a batch, and leave nothing behind."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from compare import identical
from contract.contenders import Town

import nearcast as nc
from nearcast.errors import InvalidInput

SPACE = nc.Space((0, 0, 16, 16), "euclidean")
NAMES: dict[str, Callable[[int], str | int]] = {"integer": int, "string": "message {}".format, "empty": lambda n: ""}


@pytest.mark.parametrize("naming", NAMES)
def test_told_as_in_a_batch(naming: str) -> None:
    town = Town(1)
    whole, cut = nc.Broker(SPACE), nc.Broker(SPACE)
    for broker in (whole, cut):
        kinds = ("within", "similar")
        broker.subscribe_many([(n, query) for n, query in enumerate(Town(2).query(kinds[n % 2]) for n in range(200))])
    arriving = [
        nc.Message(NAMES[naming](n), *town.place(), " ".join(town.some_words(6)), ts=10 * n) for n in range(300)
    ]
    told = list(whole.publish(arriving))
    said = [update for message in arriving for update in cut.publish(message)]
    identical(said, told)
    assert len(told) > 100
    assert {update.message for update in told} <= {message.id for message in arriving}
    for broker in (whole, cut):
        assert broker.stats()["messages"] == {"live": 0, "sequence": 300, "late": 0, "withdrawn": 0}
        broker.check()


def test_tables_and_attributes_of_what_passed() -> None:
    broker = nc.Broker(SPACE)
    for id in ("ann", "bob"):
        broker.subscribe(id, nc.Within(nc.Box(0, 0, 9, 9), '"new ramen" OR fir*'))
    broker.publish([nc.Message("m0", 1, 1, "x", ts=1)])
    for n, text in enumerate(("new ramen", "ramen new", "fires", "FIRE"), 1):
        updates = broker.publish(nc.Message(f"m\u00fc{n}", 1, 1, text, ts=10 + n))
        told = updates.to_arrow().to_pylist()
        heard = [] if n == 2 else ["ann", "bob"]
        expected = {"message": f"m\u00fc{n}", "sign": "+", "score": None, "ts": 10 + n}
        assert told == [{"subscription": id, **expected} for id in heard]
        assert updates.sequence.tolist() == [n + 1] * len(heard)
    assert broker.publish(nc.Message("late", 1, 1, "fire", ts=20, expires=14)).late


def test_nearest_come_and_go() -> None:
    """While there is one, messages are stored; what passed before is not found, and what came after is forgotten."""
    broker = nc.Broker(SPACE)
    broker.subscribe("all", nc.Within(nc.Box(0, 0, 16, 16), "a"))
    broker.publish([nc.Message(0, 1, 1, "a", ts=1)])
    for turn in range(3):
        first = 10 * turn
        assert len(broker.publish(nc.Message(first + 1, 1, 1, "a", ts=first + 1))) == 1
        assert broker.stats()["messages"]["live"] == 0
        assert len(broker.subscribe("near", nc.Nearest(1, 1, "a", k=2), expires=first + 6)) == 0
        assert len(broker.publish(nc.Message(first + 2, 1, 1, "a", ts=first + 2))) == 2
        assert broker.stats()["messages"]["live"] == 1
        assert broker.results("near") == [(first + 2, 0.0)]
        if turn == 1:
            broker.unsubscribe("near")
        updates = broker.publish(nc.Message(first + 7, 1, 1, "a", ts=first + 7))
        assert updates.ended == ([] if turn == 1 else ["near"])
        broker.check()
        assert len(broker.publish(nc.Message(first + 8, 1, 1, "a", ts=first + 8))) == 1
        assert broker.stats()["messages"]["live"] == 0


def test_what_is_refused_changes_nothing() -> None:
    broker = nc.Broker(SPACE)
    broker.publish([nc.Message(1, 1, 1, "a", ts=1)])
    with pytest.raises(InvalidInput, match="must be an integer like the ids before it"):
        broker.publish(nc.Message("x", 1, 1, "a", ts=1))
    assert broker.stats()["messages"]["sequence"] == 1
