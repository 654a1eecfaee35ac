"""Subtrees that are built again slice by slice, while subscriptions and words keep coming."""

from __future__ import annotations

from pathlib import Path

import pytest
from compare import identical
from contract.contenders import Contender, Judge, Town, broker_class, engine_of

import nearcast as nc
from nearcast.engines.within import ApTreeSettings
from nearcast.engines.within import ap_tree as tree

DRIFTING = Contender("within", "tree", ApTreeSettings(fanout=4, leaf=2, visit=16, drift=1e-9))
SQUARES = [(x, y) for x in range(0, 80, 10) for y in range(0, 80, 10)]


def test_a_root_under_way_learns_words_that_come_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tree, "ROWS_PER_CALL", (40, 40))
    town = Town(9)
    ours, judge = (kind(town.space, nc.Window(count=50)) for kind in (broker_class(DRIFTING), Judge))
    queries = [(n, town.query("within")) for n in range(60)]
    for one in (ours, judge):
        one.subscribe_many(queries)
    engine = engine_of(ours, DRIFTING)
    ids, under_way = iter(range(100, 10_000)), 0
    for turn in range(60):
        words = [f"new{turn}x{i}" for i in range(40)]
        joining = [(next(ids), nc.Within(nc.Box(*town.place(), 50, 50), [word])) for word in words[:4]]
        rare = nc.Message(id=10_000 + turn, lon=40, lat=40, keywords=words)
        messages = [rare, *town.messages(5, 5 * turn)]
        for method, rows in (("subscribe_many", joining), ("publish", messages)):
            identical(getattr(ours, method)(rows), getattr(judge, method)(rows))
            under_way += engine.tree.rebuild is not None and engine.tree.rebuild.part == 0
        ours.check()
    assert under_way > 20
    assert engine.tree.n_rebuilds > 1


def test_a_leaf_that_nothing_can_cut_grows_by_more_than_the_usual_room() -> None:
    broker = nc.Broker(nc.Space((0, 0, 16, 16), "euclidean"))
    query = nc.Within(nc.Box(1, 1, 2, 2), "word")
    broker.subscribe_many([(n, query) for n in range(12_288)])  # its range of entries is full
    broker.subscribe_many([(n, query) for n in range(12_288, 12_300)])
    broker.check()
    assert len(broker.publish([nc.Message(id=1, lon=1.5, lat=1.5, text="word", ts=1)])) == 12_300


def test_a_box_over_more_leaves_than_scratch_has_room_for_is_filed_under_all_of_them() -> None:
    town = Town(3)
    ours, judge = (kind(town.space, nc.Window(count=50)) for kind in (broker_class(DRIFTING), Judge))
    queries = [(n, nc.Within(nc.Box(x, y, x + 1, y + 1), "word")) for n, (x, y) in enumerate(SQUARES)]
    everywhere = [(f"all {n}", nc.Within(nc.Box(0, 0, 100, 100), "word")) for n in range(8)]
    messages = [nc.Message(id=n, lon=x + 0.5, lat=y, text="word", ts=n) for n, (x, y) in enumerate(SQUARES)]
    engine_of(ours, DRIFTING).tree.work = tree.new_work(4)
    for method, rows in (("subscribe_many", queries), ("subscribe_many", everywhere), ("publish", messages)):
        identical(getattr(ours, method)(rows), getattr(judge, method)(rows))
    ours.check()
    ours.unsubscribe_many([name for name, _ in everywhere])
    ours.check()
    assert engine_of(ours, DRIFTING).tree.work.path.size > len(SQUARES) // 2


def test_a_subtree_under_way_comes_back_with_a_snapshot(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A part that is being rebuilt names the node that it hangs from; a restore once refused that."""
    monkeypatch.setattr(tree, "ROWS_PER_CALL", (1, 1))
    town = Town(5)
    broker = broker_class(DRIFTING)(town.space, nc.Window(count=50))
    broker.subscribe_many([(n, town.query("within")) for n in range(80)])
    own = engine_of(broker, DRIFTING).tree
    part = next(int(own.layout.nodes["part"][node]) for node in range(1, 9) if own.layout.nodes["part"][node] > 0)
    own.begin_rebuild(part)
    broker.publish(list(town.messages(2)))
    assert own.rebuild is not None
    assert own.layout.parts["node"][own.rebuild.shadow] >= 0
    broker.snapshot(tmp_path / "file")
    restored = broker_class(DRIFTING).restore(tmp_path / "file")
    restored.check()
    messages = list(town.messages(60, 10))
    identical(broker.publish(messages), restored.publish(messages))
