"""What a tree is built from: live messages before any arrives, and how subscriptions move."""

from __future__ import annotations

import nearcast as nc
from nearcast.engines.within import ApTreeSettings
from nearcast.engines.within.build.recent_messages import N_SAMPLED
from nearcast.engines.within.moving.velocity import Velocities
from nearcast.model.event import Move
from nearcast.model.kinds import Kind

PLANE = nc.Space((0, 0, 100, 100), metric="euclidean")


def messages(n: int, first: int = 0) -> list[nc.Message]:
    return [nc.Message(i, i * 7 % 100, i * 13 % 100, f"word{i % 5}") for i in range(first, first + n)]


def boxes(n: int) -> list[tuple[int, nc.Within]]:
    return [(i, nc.Within(nc.Box(i % 90, i % 80, i % 90 + 5, i % 80 + 5), f"word{i % 5}")) for i in range(n)]


def test_a_new_tree_learns_from_live_messages() -> None:
    broker = nc.Broker(PLANE, nc.Window(count=3 * N_SAMPLED))
    tree = broker.parts.engines[Kind.WITHIN].tree
    broker.publish(messages(100))
    assert tree.recent.n_kept == 0, "nobody asked"
    broker.subscribe_many(boxes(10))
    assert tree.recent.n_kept == 100
    other = nc.Broker(PLANE, nc.Window(count=3 * N_SAMPLED))
    other.publish(messages(2 * N_SAMPLED + 1))
    other.subscribe_many(boxes(10))
    assert N_SAMPLED // 2 < other.parts.engines[Kind.WITHIN].tree.recent.n_kept <= N_SAMPLED, "evenly thinned"


def test_subscriptions_that_move_make_leaves_shorter() -> None:
    still, moving = Velocities(), Velocities()
    for velocities, n_moves in ((still, 0), (moving, 4000)):
        for _ in range(8):
            velocities.observe(1000, n_moves, 1000)
    assert still.list_weight(1000, 1000) == 0.0
    assert moving.list_weight(1000, 1000) > moving.list_weight(100, 1000) > 0.0


def test_the_root_is_built_again_once_subscriptions_move() -> None:
    broker = nc.Broker(PLANE, nc.Window(count=400), engines={"within": ApTreeSettings(fanout=16, leaf=40, visit=16)})
    broker.subscribe_many(boxes(300))
    tree = broker.parts.engines[Kind.WITHIN].tree
    assert tree.leaf == 40
    for turn in range(6):
        broker.publish(messages(100, 100 * turn))
        moves = [Move(i, region=nc.Box((i + turn) % 90, i % 80, (i + turn) % 90 + 5, i % 80 + 5)) for i in range(300)]
        broker.move_many(moves)
        broker.check()
    assert tree.n_rebuilds > 0
    assert tree.leaf < 40


def test_moves_without_live_messages_change_nothing() -> None:
    broker = nc.Broker(PLANE)
    broker.subscribe_many(boxes(30))
    broker.publish(messages(20))
    assert len(broker.move_many([Move(i, region=nc.Box(0, 0, 100, 100)) for i in range(30)])) == 0
    assert len(broker.publish(messages(10, 50))) == 60
