"""The indexes that the benchmark compares with answer like the brute force: a comparison with a wrong one is none."""

from __future__ import annotations

import pytest
from compare import identical
from contract import test_contract as contract
from contract.contenders import Contender, Judge, Town, broker_class, engine_of, made, stream

import nearcast as nc
from nearcast.cli.bench import part

RIVALS = [Contender("within", rival.name, rival) for rival in part("rivals.all").RIVALS]

every_rival = pytest.mark.parametrize("rival", RIVALS, ids=repr)


@every_rival
def test_updates_are_those_of_the_brute_force(rival: Contender) -> None:
    """Boxes, circles and polygons, expressions, moves, expiries, both metrics, with and without a window."""
    for seed in range(6):
        setting, events = stream(seed, rival, 80)
        ours, judge = made(broker_class(rival), setting), made(Judge, setting)
        for event in events:
            (updates, refused), (expected, also_refused) = contract.told(ours, event), contract.told(judge, event)
            assert refused == also_refused, f"seed {seed}, {event}"
            identical(updates, expected)
            ours.check()


@every_rival
def test_a_town(rival: Contender) -> None:
    """Enough subscriptions for grids and trees, filed at once and one by one; then some leave."""
    town = Town(3)
    queries = [(n, town.query("within")) for n in range(1500)]
    messages = list(town.messages(300))
    said = []
    for kind in (broker_class(rival), Judge):
        broker = kind(town.space, nc.Window(count=100))
        updates = list(broker.publish(messages[:100]))
        updates += broker.subscribe_many(queries[:1000])
        updates += broker.publish(messages[100:200])
        updates += broker.subscribe_many(queries[1000:])
        broker.unsubscribe_many(range(0, 1500, 3))
        updates += broker.publish(messages[200:])
        broker.check()
        said.append(updates)
        if kind is not Judge:
            work = engine_of(broker, rival).stats()
            assert 0 < work["matched"] <= work["verified"] <= work["touched"]
            assert work["bytes"] > 0
    assert len(said[0]) > 1000
    identical(*said)


@every_rival
@pytest.mark.parametrize("window", [nc.Window(count=100), None], ids=repr)
def test_moves(rival: Contender, window: nc.Window | None) -> None:
    contract.test_many_at_once_fill_and_move_like_one_by_one(rival, window)
