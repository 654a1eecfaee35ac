"""Messages filed with leaves: lists stay complete or say that they are not, forget the dead, and catch up."""

from __future__ import annotations

import os
from typing import Any

import pytest
from compare import identical
from contract.contenders import Contender, Judge, Town, broker_class, engine_of

import nearcast as nc
from nearcast.engines.within import ApTreeSettings
from nearcast.engines.within.layout import LISTED_ROWS, N_LEAVES
from nearcast.model.event import Move

COMPILED = os.environ.get("NUMBA_DISABLE_JIT", "0") == "0"
SMALL = Contender("within", "tree", ApTreeSettings(fanout=4, leaf=2, visit=16, drift=float("inf")))
BY_INDEX = Contender("within", "tree", ApTreeSettings(fanout=4, leaf=2, visit=16, messages="index"))


def listed(broker: nc.Broker, kind: Contender = SMALL) -> int:
    return int(engine_of(broker, kind).tree.layout.heads[LISTED_ROWS])


def asked(broker: nc.Broker) -> dict[str, int]:
    counts: dict[str, int] = engine_of(broker, SMALL).stats()["following"]
    return counts


def town_broker(window: nc.Window | None, kind: Contender = SMALL, n: int = 80) -> tuple[Town, nc.Broker]:
    town = Town(7)
    broker = broker_class(kind)(town.space, window)
    broker.subscribe_many([(n, town.query("within")) for n in range(n)])
    return town, broker


class Pair:
    """A tree and the brute force that get the same events."""

    def __init__(self, window: nc.Window, n: int) -> None:
        self.town = Town(7)
        self.ours, self.judge = (kind(self.town.space, window) for kind in (broker_class(SMALL), Judge))
        self.tree = engine_of(self.ours, SMALL).tree
        self.do("subscribe_many", [(n, self.town.query("within")) for n in range(n)])

    def do(self, method: str, rows: list[Any]) -> None:
        identical(getattr(self.ours, method)(rows), getattr(self.judge, method)(rows))
        self.ours.check()


def moves(town: Town, ids: Any) -> list[Move]:
    places = [(id, *town.place()) for id in ids]
    return [Move(id=id, region=nc.Box(x, y, x + 4, y + 4)) for id, x, y in places]


@pytest.mark.parametrize(("window", "kind"), [(None, SMALL), (nc.Window(count=50), BY_INDEX)], ids=["none", "index"])
def test_nothing_is_listed_where_lists_are_not_asked(window: nc.Window | None, kind: Contender) -> None:
    town, broker = town_broker(window, kind)
    broker.publish(town.messages(60))
    assert listed(broker, kind) == 0
    assert engine_of(broker, kind).room.visits.size == 0
    broker.check()


def test_a_tree_built_among_live_messages_knows_them() -> None:
    town = Town(8)
    broker = broker_class(SMALL)(town.space, nc.Window(count=200))
    judge = Judge(town.space, nc.Window(count=200))
    messages, queries = list(town.messages(200)), [(n, town.query("within")) for n in range(60)]
    for one in (broker, judge):
        one.publish(messages)
    identical(broker.subscribe_many(queries), judge.subscribe_many(queries))
    assert listed(broker) > 0
    assert asked(broker)["asked_index"] == 0
    broker.check()


def test_few_subscriptions_among_many_messages_ask_the_index() -> None:
    town = Town(9)
    broker = broker_class(SMALL)(town.space, nc.Window(count=200))
    broker.publish(town.messages(200))
    broker.subscribe_many([(n, town.query("within")) for n in range(3)])
    assert listed(broker) == 0
    assert asked(broker)["asked_index"] > 0
    broker.check()


def test_splits_hand_messages_down() -> None:
    """Subscriptions that come into leaves which were there are answered from lists, through splits."""
    pair = Pair(nc.Window(count=300), 40)
    pair.do("publish", list(pair.town.messages(150)))
    before = pair.tree.n_splits
    for at in range(0, 100, 10):
        pair.do("subscribe_many", [(100 + at + n, pair.town.query("within")) for n in range(10)])
    assert pair.tree.n_splits > before
    assert 0 < asked(pair.ours)["asked_index"] < asked(pair.ours)["asked"]


def test_the_dead_are_forgotten() -> None:
    """Lists do not grow with the number of messages that ever came."""
    town, broker = town_broker(nc.Window(count=100))
    sizes = []
    for at in range(60 if COMPILED else 4):
        broker.publish(town.messages(100, 100 * at))
        sizes.append(listed(broker))
    assert max(sizes[len(sizes) // 2 :]) <= 2 * max(sizes[: len(sizes) // 2]) + 4096
    broker.check()


@pytest.mark.skipif(not COMPILED, reason="too many messages for plain Python")
def test_sweeping_gives_back_what_nobody_visits() -> None:
    """Messages that all die at once leave their lists, also in leaves that none comes to again."""
    town, broker = town_broker(nc.Window(age=50), n=200)
    for at in range(30):
        broker.publish(town.messages(100, 100 * at))
    peak = listed(broker)
    assert peak > 4096
    far = [nc.Message(100_000 + n, 500.0, 500.0, None, ["word0"], 10_000_000 + n) for n in range(8000)]
    for at in range(0, 8000, 100):
        broker.publish(far[at : at + 100])
    broker.check()
    tree = engine_of(broker, SMALL).tree
    n_dead = 0
    for leaf in tree.layout.leaves[: tree.layout.heads[N_LEAVES]]:
        rows = tree.layout.listed[leaf["message_start"] : leaf["message_start"] + leaf["n_messages"]]
        n_dead += int((broker.parts.context.live.table.layout.rows["sequence"][rows["slot"]] != rows["mark"]).sum())
    assert n_dead < peak // 4


def test_catching_up_makes_lists_complete() -> None:
    """After enough questions that lists could not answer, live messages are sent through the tree again."""
    pair = Pair(nc.Window(count=400), 60)
    pair.do("publish", list(pair.town.messages(400)))
    places = [pair.town.place() for _ in range(40)]
    new = [(1000 + n, nc.Within(nc.Circle(*place, 3.0), f"new{n % 7} OR word{n}")) for n, place in enumerate(places)]
    pair.do("subscribe_many", new)
    n_asked = asked(pair.ours)["asked_index"]
    assert n_asked > 0
    at = 400
    while pair.tree.lists.n_caught_up == 0:
        pair.do("publish", list(pair.town.messages(2, at)))
        at += 2
        assert at < 500
    layout = pair.tree.layout
    used = [leaf for leaf, part in enumerate(layout.leaves["part"]) if layout.parts["child"][part] == -2 - leaf]
    assert not layout.leaves["since"][used].any()
    pair.do("move_many", [Move(id=1000 + n, region=nc.Circle(*place, 2.9)) for n, place in enumerate(places)])
    assert asked(pair.ours)["asked_index"] == n_asked


@pytest.mark.parametrize("window", [nc.Window(count=150), nc.Window(age=2)], ids=repr)
def test_catching_up_again_and_again(window: nc.Window) -> None:
    """New words widen cuts, cells empty and fill, while messages are sent through the tree."""
    pair = Pair(window, 60)
    town, n_turns = pair.town, 0
    for at in range(40 if COMPILED else 3):
        pair.tree.lists.count_misses(1000)
        pair.do("publish", list(town.messages(3, 3 * at)) if at % 2 else list(town.messages(20, 1000 + 20 * at)))
        new = [(2000 + 4 * at + n, nc.Within(nc.Circle(*town.place(), 4.0), f"word{n} OR word{at}")) for n in range(4)]
        pair.do("subscribe_many", new)
        pair.do("move_many", moves(town, town.random.sample(range(60), 10)))
        n_turns = pair.tree.lists.n_caught_up
    assert n_turns > 0
