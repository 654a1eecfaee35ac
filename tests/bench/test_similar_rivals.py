"""The indexes that `Similar` is compared with answer like the brute force: a comparison with a wrong one is none."""

from __future__ import annotations

from functools import partial

import pytest
from compare import identical
from contract import test_contract as contract
from contract.contenders import Contender, Judge, Town, broker_class, engine_of

import nearcast as nc
from nearcast.cli.bench import part

RIVALS = [
    Contender("similar", rival.name, partial(rival, **settings))
    for rival, settings in part("rivals.similar_all").SMALL.items()
]

every_rival = pytest.mark.parametrize("rival", RIVALS, ids=repr)


@every_rival
def test_updates_are_those_of_the_brute_force(rival: Contender) -> None:
    """All measures, edge values, moves, expiries, new weights, both metrics, with and without a window."""
    contract.follow_streams(rival, 8, 80)


@every_rival
@pytest.mark.parametrize(("metric", "max_distance"), [("euclidean", 4.0), ("haversine", 4e5), ("euclidean", 0.004)])
def test_a_town(rival: Contender, metric: str, max_distance: float) -> None:
    """Enough subscriptions for trees, filed at once and little by little; then some leave, some move."""
    town = Town(3)
    queries = [(n, town.query("similar")) for n in range(900)]
    messages, asked = list(town.messages(240)), list(town.messages(30, 240))
    weights = nc.Weights.fit([" ".join(town.some_words(6)) for _ in range(50)])
    said, heard = [], []
    for kind in (broker_class(rival), Judge):
        broker = kind(nc.Space((0, 0, 16, 16), metric, max_distance), None, weights)
        updates = list(broker.subscribe_many(queries[:500]))
        updates += broker.publish(messages[:80])
        updates += broker.subscribe_many(queries[500:])
        broker.unsubscribe_many(range(0, 900, 3))
        for n in range(1, 900, 30):
            broker.move(n, lon=n % 16, lat=3.5)
        updates += broker.publish(messages[80:160])
        broker.reweigh(nc.Weights.fit(["word0 word1", "word2"]))
        updates += broker.publish(messages[160:])
        heard.append([broker.match(message) for message in asked])
        broker.check()
        said.append(updates)
        if kind is not Judge:
            work = engine_of(broker, rival).stats()
            assert 0 < work["answers"] <= work["candidates"] <= work["accessed"]
            assert work["bytes"] > 0
    assert len(said[0]) > 500
    identical(*said)
    assert heard[0] == heard[1]
    assert any(heard[0])
