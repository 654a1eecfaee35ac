"""The engine finds what trying every subscription finds, whatever is filed, filtered or moved."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from compare import identical

import nearcast as nc
from engines.similar.scenes import COMPILED, MEASURES, Scene, broker_with, engine_of, pair
from nearcast.engines.similar import FILTERS, STRATEGIES, StampSettings, engine
from nearcast.errors import SetupError
from nearcast.model.event import Move
from nearcast.workload import datasets, subscriptions

FEW, MANY = (60, 400) if COMPILED else (15, 40)
ROUNDS = 6 if COMPILED else 3


@pytest.mark.parametrize("filters", FILTERS)
@pytest.mark.parametrize("measure", MEASURES)
def test_no_filter_loses_an_answer(measure: str, filters: str) -> None:
    for n, strategy in enumerate(STRATEGIES):
        scene = Scene(10 * FILTERS.index(filters) + n, ("euclidean", "haversine")[(n + len(filters)) % 2])
        ours, judge = pair(StampSettings(8, filters, strategy), scene.space, None, scene.weights)
        queries = [(i, scene.query(measure)) for i in range(MANY)]
        messages = scene.messages(FEW // 2, 0)
        for broker in (ours, judge):
            broker.subscribe_many(queries)
        ours.check()
        expected = list(judge.publish(messages))
        assert len(expected) > FEW
        identical(ours.publish(messages), expected)
        work = engine_of(ours).stats()
        assert work["answers"] == len(expected) <= work["candidates"]
        assert work["leaves filtered"] == 0 or (strategy != "verify" and "ST" in filters)


@pytest.mark.parametrize("metric", ["euclidean", "haversine"])
@pytest.mark.parametrize("fanout", [8, 64])
def test_subscriptions_come_go_and_move(metric: str, fanout: int) -> None:
    scene = Scene(fanout, metric)
    brokers = pair(StampSettings(fanout), scene.space, nc.Window(count=30), scene.weights)
    living: list[int] = []
    for step in range(2 * ROUNDS):
        new = [(1000 * step + i, scene.query()) for i in range(scene.random.choice([1, 5, MANY // 4]))]
        living += [id for id, _ in new]
        gone = scene.random.sample(living, scene.random.choice([0, 1, len(living) // 2, len(living)]))
        living = [id for id in living if id not in gone]
        moves = [Move(id, *scene.place()) for id in scene.random.sample(living, min(3, len(living)))]
        messages = scene.messages(10, 100 * step)
        weights = nc.Weights.fit([" ".join(scene.random.choices(scene.words, k=9))])
        said = []
        for broker in brokers:
            told = list(broker.subscribe_many(new))
            broker.unsubscribe_many(gone)
            told += broker.move_many(moves)
            told += broker.publish(messages)
            if step % 4 == 3:
                told += broker.reweigh(weights)
            said.append(told)
        brokers[0].check()
        identical(*said)
        for id in living[:3]:
            assert brokers[0].results(id) == brokers[1].results(id)


def test_a_restored_engine_keeps_its_settings_and_its_work(tmp_path: Path) -> None:
    scene = Scene(1, "euclidean")
    settings = StampSettings(16, "SP+ST+HI", "filter")
    broker = broker_with(settings, scene.space)
    broker.subscribe_many([(n, scene.query()) for n in range(MANY)])
    broker.publish(scene.messages(5, 0))
    broker.snapshot(tmp_path / "broker")
    restored = nc.Broker.restore(tmp_path / "broker")
    assert engine_of(restored).settings == settings
    counted = {name: value for name, value in engine_of(broker).stats().items() if name != "bytes"}
    assert {name: value for name, value in engine_of(restored).stats().items() if name != "bytes"} == counted
    restored.check()
    messages = scene.messages(10, 100)
    identical(restored.publish(messages), broker.publish(messages))


def test_all_earlier_matches_count_not_just_the_heaviest() -> None:
    """Where the published algorithm 3 presumes exactly k earlier matches, it loses this answer."""
    weights = nc.Weights.fit([*["third"] * 7, *["second third"] * 3, "first second third"])
    for settings in (StampSettings(strategy=strategy) for strategy in STRATEGIES):
        ours, judge = pair(settings, nc.Space((0, 0, 1, 1), metric="euclidean", max_distance=1.0), None, weights)
        for broker in (ours, judge):
            broker.subscribe("s", nc.Similar(0, 0, "first second third", delta=0.5, tau=0.7))
        message = nc.Message("m", 0.5, 0, "first second third", ts=1)
        assert [update.score for update in judge.publish(message)] == [0.75]
        assert [update.score for update in ours.publish(message)] == [0.75]


def test_one_event_may_match_more_than_there_was_room_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "FIRST_ROOM", 64)
    broker = broker_with(StampSettings(), nc.Space((0, 0, 1, 1), metric="euclidean"))
    n = 200
    broker.subscribe_many((i, nc.Similar(0, 0, "word", delta=0.5, tau=0.25)) for i in range(n))
    for arrivals in (1, 3):
        told = broker.publish([nc.Message(i, 0, 0, "word", ts=1) for i in range(arrivals)])
        assert len(told) == arrivals * n
    assert engine_of(broker).stats()["answers"] == 4 * n


def test_very_long_subscriptions_and_messages() -> None:
    words = [f"word{n}" for n in range(3000 if COMPILED else 300)]
    weights = nc.Weights.fit([" ".join(words[:n]) for n in range(1, len(words), 97)])
    ours, judge = pair(StampSettings(8), nc.Space((0, 0, 10, 10), metric="euclidean"), None, weights)
    for broker in (ours, judge):
        for n, measure in enumerate(MEASURES):
            broker.subscribe(n, nc.Similar(1, 1, words, 0.9, 0.6, measure))
            broker.subscribe(10 + n, nc.Similar(1, 1, words[-1], 0.9, 0.6, measure))
    messages = [nc.Message(n, 1 + n, 1, keywords=words[: n * len(words) // 8], ts=1) for n in range(9)]
    expected = list(judge.publish(messages))
    assert expected
    identical(ours.publish(messages), expected)
    ours.check()


def test_without_subscriptions_or_words_nothing_is_said() -> None:
    broker = broker_with(StampSettings(), nc.Space((0, 0, 1, 1), metric="euclidean"))
    assert not list(broker.publish(nc.Message(1, 0, 0, "word", ts=1)))
    broker.subscribe("a", nc.Similar(0, 0, "word", delta=1, tau=1))
    assert not list(broker.publish(nc.Message(2, 0, 0, "", ts=1)))
    assert [update.score for update in broker.publish(nc.Message(3, 0.5, 0, "word", ts=1))] == [1.0]


@pytest.mark.parametrize("name", ["poi_simplegeo_us", "tweets_2021_2022"])
def test_real_places_and_words(name: str) -> None:
    try:
        table = datasets.read(name)
    except SetupError as error:
        pytest.skip(str(error))
    n, m = (3000, 25) if COMPILED else (30, 5)
    table = table.slice(0, 20_000 if COMPILED else 500)
    source = subscriptions.Source.of(table)
    weights = nc.Weights.fit(table["text"].to_pylist())
    space = nc.Space(source.bounds, "haversine", 300_000.0)
    ours, judge = pair(StampSettings(64), space, None, weights)
    for first, measure in enumerate(MEASURES):
        for made in subscriptions.similar(source, n, 3, measure=measure, first_id=1 + first * n):
            for broker in (ours, judge):
                broker.subscribe_many(made)
    messages = table.slice(0, m).drop_columns("ts").append_column("ts", pa.array(np.ones(m, np.int64)))
    expected = list(judge.publish(messages))
    assert expected
    identical(ours.publish(messages), expected)
    work = engine_of(ours).stats()
    assert not COMPILED or work["candidates"] <= 3 * work["answers"]
