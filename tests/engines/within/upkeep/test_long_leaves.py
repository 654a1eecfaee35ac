"""Subscriptions that are all alike make leaves that cannot be partitioned: they end and move in one go."""

from __future__ import annotations

import os
from typing import Any

import pytest
from compare import identical
from contract.contenders import Judge, Town

import nearcast as nc
from nearcast.engines.within import ap_tree as tree
from nearcast.engines.within.upkeep.long_leaves import LONG
from nearcast.model.event import Move
from nearcast.model.query import Within

COMPILED = os.environ.get("NUMBA_DISABLE_JIT", "0") == "0"


class Applied:
    """Notes how many changes each call to `apply_deferred` applies."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.n_deferred: list[int] = []
        self._before = tree.apply_deferred
        monkeypatch.setattr(tree, "apply_deferred", self)

    def __call__(self, layout: Any, entries: Any, deferred: Any, firsts: Any) -> None:
        self.n_deferred.append(deferred.size)
        self._before(layout, entries, deferred, firsts)
        assert not firsts.any()


@pytest.mark.parametrize("keywords", ["word0", "word0 word1 AND NOT word2 OR word3 OR word1 word4"])
def test_who_is_alike_ends_and_moves_as_the_brute_force_says(keywords: str, monkeypatch: pytest.MonkeyPatch) -> None:
    n, n_messages = (3 * LONG, 30) if COMPILED else (LONG + 40, 4)
    town, applied = Town(11), Applied(monkeypatch)
    ours, judge = (kind(town.space, nc.Window(count=20)) for kind in (nc.Broker, Judge))
    queries = [(i, Within(nc.Box(2, 2, 9, 9), keywords)) for i in range(n)]
    queries += [(-1 - i, town.query("within")) for i in range(50)]
    near, far = nc.Box(3, 2, 9.5, 9), nc.Box(20, 20, 22, 22)
    shuffled = town.random.sample(range(n), n)
    steps: list[tuple[str, Any]] = [
        ("subscribe_many", queries),
        ("publish", list(town.messages(n_messages))),
        ("move_many", [Move(i, region=near) for i in shuffled]),
        ("move_many", [Move(i, region=far if i % 3 else near) for i in shuffled[: n // 2]]),
        ("publish", list(town.messages(n_messages, 1000))),
        ("unsubscribe", 7),
        ("unsubscribe_many", [i for i in shuffled[: n // 3] if i != 7]),
        ("move_many", [Move(i, region=nc.Box(2, 2, 9, 9)) for i in shuffled[n // 3 :] if i != 7]),
        ("publish", list(town.messages(n_messages, 2000))),
        ("unsubscribe_many", [i for i in shuffled[n // 3 :] if i != 7]),
        ("publish", list(town.messages(n_messages, 3000))),
    ]
    for method, given in steps:
        updates, expected = (getattr(broker, method)(given) for broker in (ours, judge))
        identical(updates, expected)
        ours.check()
    assert max(applied.n_deferred) >= n


def test_a_batch_goes_through_a_long_leaf_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Once each entry was searched by itself, in as many steps as the leaf is long."""
    n, applied = (20 * LONG if COMPILED else 2 * LONG), Applied(monkeypatch)
    broker = nc.Broker(nc.Space((0, 0, 16, 16), metric="euclidean"), nc.Window(count=10))
    broker.subscribe_many([(i, Within(nc.Box(2, 2, 9, 9), "word0")) for i in range(n)])
    assert applied.n_deferred == []
    broker.move_many([Move(i, region=nc.Box(2, 2, 8, 8)) for i in range(n)])
    broker.unsubscribe_many(range(n - 1, -1, -1))
    assert applied.n_deferred == [n, n]
