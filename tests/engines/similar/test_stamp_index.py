"""Leaves split, merge and are reclaimed; the walker finds what is broken."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import nearcast as nc
from engines.similar.scenes import COMPILED, Scene, broker_with, engine_of, pair
from nearcast.engines.similar import StampSettings
from nearcast.engines.similar import stamp_index as index
from nearcast.engines.similar.layout import ALIVE, EITHER, FARTHEST, INSIDE_SHIFT, LOCAL_MASK, NEAR

MANY = 600 if COMPILED else 80


def filled(n: int = MANY, fanout: int = 8) -> nc.Broker:
    scene = Scene(2, "euclidean")
    broker = broker_with(StampSettings(fanout), scene.space)
    broker.subscribe_many([(i, scene.query()) for i in range(n)])
    return broker


@pytest.fixture
def _small_leaves(monkeypatch: pytest.MonkeyPatch) -> None:
    """No leaf is built with more than forty members."""
    monkeypatch.setattr(index, "MOST_LISTED", 40)


def test_leaves_have_at_most_fanout_members_when_built() -> None:
    layout = engine_of(filled()).index.layout
    near = layout.leaves[(layout.leaves["kind"] == NEAR) & (layout.leaves["n_listed"] > 0)]
    assert near.size > MANY // 20
    spread = near["n_listed"][near["n_listed"] > 8]
    assert spread.size < near.size // 2  # only equal places stay together


def test_the_list_of_the_dummy_word_reads_members_one_after_another() -> None:
    built = engine_of(filled(600, fanout=64)).index
    layout, n_read = built.layout, 0
    leaves = layout.leaves[built.leaf_numbers]
    for leaf in leaves[leaves["kind"] == NEAR]:
        n = int(leaf["star_outside"] + leaf["star_inside"])
        listed = layout.entries[leaf["entry_start"] : leaf["entry_start"] + n] & LOCAL_MASK
        assert listed.tolist() == list(range(n))
        n_read += n
    assert n_read > MANY // 20


@pytest.mark.usefixtures("_small_leaves")
def test_places_that_cannot_be_told_apart() -> None:
    ours, judge = pair(StampSettings(8), nc.Space((0, 0, 16, 16), metric="euclidean", max_distance=4.0))
    scene = Scene(5, "euclidean")
    queries = [(i, nc.Similar(3, 3, scene.query().keywords, 0.5, scene.random.random())) for i in range(200)]
    messages = scene.messages(20, 0)
    for broker in (ours, judge):
        for first in range(0, 200, 50):
            broker.subscribe_many(queries[first : first + 50])
        broker.unsubscribe_many(range(0, 200, 3))
    ours.check()
    assert (engine_of(ours).index.layout.nodes["axis"] == EITHER).any()
    assert [(u.subscription, u.score) for u in sorted(ours.publish(messages), key=repr)] == [
        (u.subscription, u.score) for u in sorted(judge.publish(messages), key=repr)
    ]


@pytest.mark.usefixtures("_small_leaves")
def test_what_is_removed_is_reclaimed() -> None:
    broker = filled()
    before = engine_of(broker).stats()
    for first in range(0, MANY, 50):
        broker.unsubscribe_many(range(first, min(first + 50, MANY)))
        broker.check()
    after = engine_of(broker).stats()
    assert (after["leaves"], after["regions"]) == (2, 2)
    assert before["leaves"] > 5
    assert all(pool.used < 400 for pool in engine_of(broker).index.pools.values())


def test_merged_leaves_hold_what_both_held() -> None:
    broker = filled()
    n_leaves = engine_of(broker).stats()["leaves"]
    kept = range(0, MANY, 9)
    broker.unsubscribe_many(i for i in range(MANY) if i % 9)
    broker.check()
    assert engine_of(broker).stats()["leaves"] < n_leaves / 2
    assert len(broker.parts.tables[1]) == len(kept)


def test_no_more_leaves_than_can_be_numbered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index, "MOST_LEAVES", 6)
    broker = filled()
    assert engine_of(broker).stats()["leaves"] <= 6
    broker.check()


def test_members_of_many_words_wait_for_their_lists_while_the_broker_is_restored(tmp_path: Path) -> None:
    """#19: those of one word that came then were listed together with them, in scratch for one word."""
    broker = nc.Broker(nc.Space((0, 0, 10, 10), metric="euclidean"))
    for n in range(30):
        broker.subscribe(n, nc.Similar(5, 5, [f"word{n}{letter}" for letter in "abcdefghijklmnopqrst"], 0.5, 0.5))
    broker.snapshot(tmp_path / "broker")
    again = nc.Broker.restore(tmp_path / "broker")
    for n in range(30, 230):
        again.subscribe(n, nc.Similar(5, 5, "one", 0.5, 0.5))
    again.check()
    assert len(again.publish(nc.Message("m", 5, 5, "one"))) == 230


BREAKS = {
    "a place moved": lambda a, leaf: a.members["x"].__setitem__(leaf["member_start"], 1e9),
    "dead members were not counted": lambda a, leaf: a.leaves["n_dead"].__iadd__(1),
    "words differ": lambda a, leaf: a.terms.__setitem__(leaf["word_start"], a.terms[leaf["word_start"]] ^ 1),
    "entries differ": lambda a, leaf: a.entries.__setitem__(
        leaf["entry_start"], a.entries[leaf["entry_start"]] ^ (1 << INSIDE_SHIFT)
    ),
    "a bound is too high": lambda a, leaf: a.nodes["least"].__setitem__(leaf["node"], FARTHEST),
    "does not know its parent": lambda a, leaf: a.nodes["parent"].__setitem__(leaf["node"], 9999),
    "a home is another's": lambda a, leaf: a.homes["near"].__setitem__(slice(None), a.homes["near"][::-1].copy()),
}


@pytest.mark.parametrize("broken", BREAKS)
def test_the_walker_sees_what_is_broken(broken: str) -> None:
    broker = filled()
    broker.check()
    layout = engine_of(broker).index.layout
    fullest = np.argmax(np.where(layout.leaves["kind"] == NEAR, layout.leaves["n_listed"], 0))
    BREAKS[broken](layout, layout.leaves[fullest])
    with pytest.raises(AssertionError, match=broken if broken != "a home is another's" else "fil|home"):
        broker.check()


def test_a_dead_member_stays_until_its_leaf_is_built_anew() -> None:
    broker = filled(MANY, 64)
    layout = engine_of(broker).index.layout
    broker.unsubscribe(0)
    gone = layout.members["state"] & ALIVE == 0
    used = np.zeros(gone.size, dtype=bool)
    for leaf in layout.leaves[layout.leaves["n_members"] > 0]:
        used[leaf["member_start"] : leaf["member_start"] + leaf["n_members"]] = True
    assert 1 <= np.count_nonzero(gone & used) <= 2
    broker.check()
