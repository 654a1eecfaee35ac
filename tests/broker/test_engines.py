"""Which engine answers for a kind is chosen when a broker is made, and is part of its snapshot."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from contract.contenders import Town

import nearcast as nc
from nearcast.engines.nearest.aoiq import AoiqSettings
from nearcast.engines.oracle import WithinOracle
from nearcast.model.kinds import LABELS, Kind

CHOSEN: dict[str, Any] = {
    "within": nc.ApTreeSettings(fanout=5, leaf=3),
    "similar": nc.StampSettings(fanout=9),
    "topk": nc.SkypeSettings(cell=7, strategy="kmax", share=2.0),
    "nearest": nc.NearestSettings(AoiqSettings(words=1)),
}


def filled(engines: Any, town: Town) -> nc.Broker:
    broker = nc.Broker(town.space, nc.Window(count=50), engines=engines)
    broker.subscribe_many([(n, town.query(LABELS[n % 4])) for n in range(20)])
    broker.publish(town.messages(80))
    return broker


def test_settings_are_used_and_come_back_with_a_snapshot(tmp_path: Path) -> None:
    broker = filled(CHOSEN, Town(1))
    broker.snapshot(tmp_path / "file")
    for one in (broker, nc.Broker.restore(tmp_path / "file")):
        found: Any = one.parts.engines
        assert {kind.label: engine.settings for kind, engine in found.items()} == CHOSEN


def test_answers_are_the_same_for_all_settings() -> None:
    usual, chosen = filled(None, Town(2)), filled(CHOSEN, Town(2))
    assert [usual.results(n) for n in range(20)] == [chosen.results(n) for n in range(20)]


def test_another_engine_must_be_given_again(tmp_path: Path) -> None:
    broker = filled({"within": WithinOracle}, Town(3))
    assert isinstance(broker.parts.engines[Kind.WITHIN], WithinOracle)
    broker.snapshot(tmp_path / "file")
    with pytest.raises(nc.SnapshotError, match="its within engine was not the standard one; name its maker"):
        nc.Broker.restore(tmp_path / "file")
    again = nc.Broker.restore(tmp_path / "file", engines={"within": WithinOracle})
    assert [again.results(n) for n in range(20)] == [broker.results(n) for n in range(20)]


@pytest.mark.parametrize(
    ("engines", "message"),
    [
        (5, "engines must map kinds of queries to settings, or to makers of engines, got 5"),
        ({"near": None}, "engines must be one of within, similar, topk, nearest, got 'near'"),
        ({"within": 7}, "engines['within'] must be ApTreeSettings, or make an engine, got 7"),
        ({"topk": nc.ApTreeSettings()}, "engines['topk'] must be SkypeSettings, or make an engine"),
    ],
)
def test_a_choice_that_cannot_be_is_refused(engines: Any, message: str) -> None:
    with pytest.raises(nc.InvalidInput) as refused:
        nc.Broker(nc.Space((0, 0, 1, 1), metric="euclidean"), engines=engines)
    assert str(refused.value).startswith(message)


def test_settings_are_not_given_to_a_restored_broker(tmp_path: Path) -> None:
    nc.Broker(nc.Space((0, 0, 1, 1), metric="euclidean")).snapshot(tmp_path / "file")
    with pytest.raises(nc.InvalidInput, match="must be left out: a snapshot has its settings"):
        nc.Broker.restore(tmp_path / "file", engines={"within": nc.ApTreeSettings()})
