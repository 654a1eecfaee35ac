"""Settings of the tree: what is refused, and what the bound on copies does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from compare import identical
from contract.contenders import Contender, Judge, Town, broker_class, engine_of

import nearcast as nc
from nearcast.engines.within import ApTreeSettings
from nearcast.errors import InvalidInput


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"drift": 0.0}, "drift must be > 0, got 0.0"),
        ({"cuts": "best"}, "cuts must be one of heuristic, optimal, even, got 'best'"),
        ({"priority": "words"}, "priority must be one of cost, keyword, space, got 'words'"),
        ({"messages": "tree"}, "messages must be one of leaves, index, got 'tree'"),
        ({"copies": 0.5}, "copies must be from 1 to 1000, got 0.5"),
        ({"copies": float("inf")}, "copies must be finite, got inf"),
        ({"copies": float("nan")}, "copies must be finite, got nan"),
        ({"copies": 1001}, "copies must be from 1 to 1000, got 1001"),
        ({"copies": "3"}, "copies must be a number, got '3'"),
        ({"visit": -1}, "visit must be from 0 to 1000000.0, got -1"),
        ({"visit": "100"}, "visit must be a number, got '100'"),
        ({"sample": 5}, "sample must be a list of messages, got 5"),
        ({"sample": [{"id": 1}]}, "sample must hold messages only, got {'id': 1}"),
    ],
)
def test_what_cannot_be_honoured_is_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        ApTreeSettings(**given)
    assert str(caught.value) == message


def n_held(copies: float) -> int:
    """Entries in all leaves of a tree over overlapping boxes; its answers are those of the brute force."""
    town = Town(4)
    settings = ApTreeSettings(fanout=64, leaf=4, visit=16, copies=copies, priority="space")
    kind = Contender("within", "tree", settings)
    ours, judge = (make(town.space, nc.Window(count=50)) for make in (broker_class(kind), Judge))
    boxes = [(*town.place(), 1 + n % 5) for n in range(200)]
    queries = [(n, nc.Within(nc.Box(x, y, x + side, y + side), "word0")) for n, (x, y, side) in enumerate(boxes)]
    messages = list(town.messages(40))
    for method, rows in (("subscribe_many", queries), ("publish", messages)):
        identical(getattr(ours, method)(rows), getattr(judge, method)(rows))
    ours.check()
    return sum(level["entries"] for level in engine_of(ours, kind).stats()["tree"]["levels"])


def test_copies_bound_the_memory() -> None:
    few, usual, many = (n_held(copies) for copies in (1, 3, 1000))
    assert 200 <= few < usual < many
    assert usual <= 3.2 * 200  # the bound is kept on average, by an estimate


def test_a_sample_shapes_the_tree_and_changes_no_answer(tmp_path: Path) -> None:
    """Messages that all lie in one corner: the cost model learns of it before the first arrives."""
    town = Town(9)
    sample = [nc.Message(n, n % 7 / 7, n % 5 / 5, " ".join(town.some_words(5))) for n in range(3000)]
    brokers = [
        nc.Broker(
            town.space,
            nc.Window(count=50),
            engines={"within": ApTreeSettings(leaf=4, fanout=8, visit=16, sample=given)},
        )
        for given in ((), sample)
    ]
    queries = [(n, town.query("within")) for n in range(60)]
    for broker in brokers:
        broker.subscribe_many(queries)
    shapes = [broker.stats()["engines"]["within"]["tree"] for broker in brokers]
    assert shapes[0] != shapes[1]
    messages = list(town.messages(60))
    identical(brokers[0].publish(messages), brokers[1].publish(messages))
    brokers[1].snapshot(tmp_path / "file")
    restored = nc.Broker.restore(tmp_path / "file")
    restored.check()
    more = list(town.messages(60, 100))
    identical(restored.publish(more), brokers[1].publish(more))
