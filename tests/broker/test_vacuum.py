"""Words and messages that nobody holds are forgotten."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

import nearcast as nc
from broker.test_broker import filled
from nearcast.broker.vacuum import Vacuum


def test_without_a_window_nothing_is_kept_but_the_nearest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nearcast.broker.vacuum.LEAST", 50)
    broker = filled()
    assert broker.results("0") == broker.results("1") == []
    assert [id for id, _ in broker.results("2")] == ["0", "1"]
    assert len(broker.publish(nc.Message("0", 0, 0, "fire"))) > 0, "ids are not checked"
    assert [id for id, _ in broker.results("2")] == ["0", "0"]
    broker.unsubscribe("2")
    broker.publish(nc.Message("z", 0, 0, "fire"))
    assert broker.stats()["messages"]["live"] == 0
    broker.subscribe("2", nc.Nearest(0, 0, "fire", 3))
    for first in range(0, 400, 40):
        broker.publish([nc.Message(str(i), 0, 0, "fire", ts=i) for i in range(first, first + 40)])
        assert broker.stats()["messages"]["live"] <= 60
    assert [id for id, _ in broker.results("2")] == ["399", "398", "397"]


def test_words_that_nothing_holds_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nearcast.broker.vacuum.LEAST", 50)
    broker = nc.Broker(nc.Space((0, 0, 8, 8), metric="euclidean"), nc.Window(count=10))
    broker.subscribe("n", nc.Nearest(0, 0, "keep", k=2))
    broker.subscribe("w", nc.Within(nc.Box(0, 0, 8, 8), "keep AND NOT never"))
    for n in range(12):
        broker.publish([nc.Message(f"{n}-{i}", 0, 0, f"keep word{n}x{i}", ts=n) for i in range(40)])
        assert broker.stats()["words"] < 150
    assert len(broker.results("n")) == 2
    assert len(broker.results("w")) == 10
    assert broker.explain("w", "11-39").parts["because of"] == ["keep"]
    broker.check()


@pytest.mark.parametrize("window", [nc.Window(count=10), None], ids=repr)
@pytest.mark.parametrize("many", [False, True])
def test_words_of_subscriptions_that_come_and_go_are_forgotten(
    window: nc.Window | None, many: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once only messages and the clock had words swept, so that they grew without end while none came."""
    monkeypatch.setattr("nearcast.broker.vacuum.LEAST", 50)
    sweep_words, sweeps = Vacuum.sweep_words, []

    def counted(vacuum: Vacuum) -> None:
        sweeps.append(vacuum)
        sweep_words(vacuum)

    monkeypatch.setattr(Vacuum, "sweep_words", counted)
    broker = nc.Broker(nc.Space((0, 0, 8, 8), metric="euclidean"), window)
    broker.subscribe("n", nc.Nearest(0, 0, "keep", k=2))
    kinds: list[Any] = [nc.Nearest(0, 0, "a"), nc.Similar(0, 0, "a", 0.5, 0.5), nc.Within(nc.Box(0, 0, 8, 8), "a")]
    most, n_rounds = 0, 60
    for n in range(n_rounds):
        words = [f"word{n}x{i}" for i in range(len(kinds))]
        queries = [
            (word, dataclasses.replace(kind, keywords=f"a AND NOT {word}" if isinstance(kind, nc.Within) else word))
            for word, kind in zip(words, kinds, strict=True)
        ]
        if many:
            broker.subscribe_many(queries)
            broker.unsubscribe_many([id for id, _ in queries])
        else:
            for id, query in queries:
                broker.subscribe(id, query)
                broker.unsubscribe(id)
        most = max(most, broker.stats()["words"])
    assert most < 80
    assert 0 < len(sweeps) <= n_rounds * len(kinds) // 50 + 1
    broker.check()


def test_without_messages_there_is_nothing_to_sweep() -> None:
    """Only messages that some result holds are kept; where none is, no array that was once long is looked at."""
    broker = nc.Broker(nc.Space((0, 0, 8, 8), metric="euclidean"))
    broker.subscribe("n", nc.Nearest(0, 0, "fire", 3))
    broker.publish([nc.Message(i, 0, 0, "fire") for i in range(100)])
    broker.unsubscribe("n")
    assert broker.stats()["messages"]["live"] == 0
    kept: list[Any] = []
    broker.parts.context.live.keep_only = kept.append  # type: ignore[method-assign]
    broker.subscribe("w", nc.Within(nc.Box(0, 0, 8, 8), "fire"))
    broker.unsubscribe("w")
    broker.advance(5)
    assert kept == []
