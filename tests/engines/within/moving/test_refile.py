"""Moves through the tree: the updates are those of the brute force, however entries and messages are filed."""

from __future__ import annotations

import os
from typing import Any

import pytest
from compare import identical
from contract.contenders import Contender, Judge, Town, broker_class, engine_of, made
from strategies import Seeded, StreamMaker, make_setting

import nearcast as nc
from nearcast.engines.within import ApTreeSettings
from nearcast.errors import InvalidInput
from nearcast.model.event import Move
from nearcast.model.query import Within

COMPILED = os.environ.get("NUMBA_DISABLE_JIT", "0") == "0"
N_SEEDS, N_EVENTS, N_ROUNDS = (12, 150, 12) if COMPILED else (2, 60, 2)
METHODS = ("publish", "publish", "publish", "move", "move", "move", "subscribe", "unsubscribe", "advance")
SETTINGS = [
    ApTreeSettings(fanout=4, leaf=2, visit=16, drift=0.01),
    ApTreeSettings(fanout=4, leaf=4, visit=16, drift=float("inf"), priority="space"),
    ApTreeSettings(fanout=4, leaf=2, visit=16, drift=0.01, messages="index"),
]


def contender(settings: ApTreeSettings) -> Contender:
    return Contender("within", "tree", settings)


def updates_of(broker: nc.Broker, event: Any) -> list[Any] | str:
    try:
        return list(event.happen_to(broker) or ())
    except InvalidInput as error:
        return error.field


@pytest.mark.parametrize("settings", SETTINGS, ids=repr)
def test_streams_of_moves(settings: ApTreeSettings) -> None:
    """All kinds of regions, plain and on the globe, with every kind of window and none."""
    for seed in range(N_SEEDS):
        source = Seeded(1000 + seed)
        setting = make_setting(source)
        ours, judge = made(broker_class(contender(settings)), setting), made(Judge, setting)
        maker = StreamMaker(source, setting)
        n = 0
        while n < N_EVENTS:
            event = maker.make("subscribe" if n < 10 else source.pick(METHODS))
            maker.kinds = {id: kind for id, kind in maker.kinds.items() if kind is Within}
            if event.method == "subscribe" and not isinstance(event.arguments[1], Within):
                continue
            n += 1
            updates, expected = updates_of(ours, event), updates_of(judge, event)
            if isinstance(updates, str) or isinstance(expected, str):
                assert updates == expected
            else:
                identical(updates, expected)
            ours.check()


def region(town: Town, near: tuple[float, float], side: float) -> nc.Box | nc.Circle | nc.Polygon:
    x, y = near
    shape = town.random.randrange(4)
    if shape < 2:
        return nc.Box(x, y, x + side, y + side)
    return nc.Circle(x, y, side) if shape == 2 else nc.Polygon([(x, y), (x + side, y), (x, y + side)])


WINDOWS = [nc.Window(count=120), nc.Window(age=1.5), nc.Window(count=300, age=2), None]
WINDOWS = WINDOWS if COMPILED else WINDOWS[2:3]  # plain Python is slow


@pytest.mark.parametrize("window", WINDOWS, ids=repr)
@pytest.mark.parametrize("settings", SETTINGS, ids=repr)
def test_a_town_on_the_move(settings: ApTreeSettings, window: nc.Window | None) -> None:
    """Small steps and large ones, cells that empty and fill again, leaves that split and nodes that merge."""
    town = Town(21)
    kind = contender(settings)
    ours, judge = (made_of(town.space, window) for made_of in (broker_class(kind), Judge))
    places = {n: town.place() for n in range(150)}
    queries = [(n, town.query("within")) for n in places]
    identical(ours.subscribe_many(queries[:100]), judge.subscribe_many(queries[:100]))
    for at in range(N_ROUNDS):
        messages = list(town.messages(60, 60 * at))
        identical(ours.publish(messages), judge.publish(messages))
        if at == 2:
            identical(ours.subscribe_many(queries[100:]), judge.subscribe_many(queries[100:]))
        moves = []
        for n in town.random.sample(range(100), 60):
            x, y = places[n] if town.random.random() < 0.7 else town.place()
            places[n] = (x + town.random.uniform(-0.5, 0.5), y + town.random.uniform(-0.5, 0.5))
            moves.append(Move(id=n, region=region(town, places[n], town.random.choice([0.5, 1.0, 4.0, 30.0]))))
        identical(ours.move_many(moves), judge.move_many(moves))
        ours.check()
        if at % 4 == 3:
            gone = town.random.sample(range(150), 40)
            back = [(n, town.query("within")) for n in gone]
            for broker in (ours, judge):
                broker.unsubscribe_many(gone)
            ours.check()
            identical(ours.subscribe_many(back), judge.subscribe_many(back))
    stats = engine_of(ours, kind).stats()
    assert stats["splits"] > 0 or not COMPILED
    assert (stats["following"]["scanned"] > 0) is (settings.messages == "leaves" and window is not None)


def test_a_move_inside_a_cell_scans_nothing_that_stays() -> None:
    """A box that keeps holding a whole cell need not look at its messages."""
    town = Town(3)
    kind = contender(ApTreeSettings(fanout=16, leaf=2, visit=16, priority="space"))
    broker = broker_class(kind)(town.space, nc.Window(count=500))
    spread = [(n, Within(nc.Box(n % 16, n // 16, n % 16 + 0.5, n // 16 + 0.5), "word0")) for n in range(256)]
    broker.subscribe_many([*spread, (999, Within(nc.Box(-0.5, -0.5, 16.5, 16.5), "word0"))])
    broker.publish(town.messages(300))
    before = engine_of(broker, kind).stats()["following"]["scanned"]
    listed = int(engine_of(broker, kind).tree.layout.leaves["n_messages"].sum())
    broker.move(999, region=nc.Box(-0.6, -0.6, 16.6, 16.6))
    assert 0 <= engine_of(broker, kind).stats()["following"]["scanned"] - before < listed
    broker.check()
