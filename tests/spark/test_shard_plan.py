"""A plan deals subscriptions out evenly, by a task over a sample of messages."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import nearcast as nc
from nearcast.errors import InvalidInput
from nearcast.partition.footprint import find_footprints
from nearcast.partition.partition import fit
from nearcast.partition.sample import Sample
from nearcast.spark.encode import shards_of
from nearcast.spark.shard_plan import live_messages, plan

SPACE = nc.Space((0, 0, 8, 8), metric="euclidean")
WORDS = ("ant", "bee", "cat", "dog", "eel", "fox")
MESSAGES = "id bigint, lon double, lat double, text string, ts bigint"
ASKED = "id string, kind string, lon double, lat double, keywords string, k bigint"


def message_rows(n: int) -> list[tuple[Any, ...]]:
    rng = np.random.default_rng(3)
    return [(i, *rng.uniform(0, 8, 2).tolist(), " ".join(rng.choice(WORDS, 2)), 1_000 * i) for i in range(n)]


def asked_rows(n: int) -> list[tuple[Any, ...]]:
    rng = np.random.default_rng(4)
    made = zip(rng.uniform(0, 8, (n, 2)).tolist(), rng.integers(0, 6, n), rng.integers(1, 9, n), strict=True)
    return [(f"s{i}", "nearest", *place, WORDS[word], int(k)) for i, (place, word, k) in enumerate(made)]


@pytest.fixture(scope="module")
def frames(spark: Any) -> tuple[Any, Any]:
    return spark.createDataFrame(message_rows(500), MESSAGES), spark.createDataFrame(asked_rows(200), ASKED)


def test_every_method_assigns_everybody(frames: tuple[Any, Any]) -> None:
    for method in ("dkm", "kop", "sop", "hash"):
        found = plan(*frames, space=SPACE, shards=4, method=method).toArrow()
        assert sorted(found.column("id").to_pylist()) == sorted(row[0] for row in asked_rows(200))
        assert set(found.column("event").to_pylist()) == {"assign"}
        assert set(found.column("shard").to_pylist()) == {0, 1, 2, 3}
        if method == "hash":
            assert found.column("shard").to_pylist() == shards_of(found.column("id").combine_chunks(), 4).tolist()
        if method == "dkm":
            loads = np.bincount(found.column("shard").to_numpy(), found.column("cost").to_numpy(), 4)
            assert np.ptp(loads) / loads.mean() < 0.1


def test_moves_are_proposed_from_the_work_that_was_measured(spark: Any, frames: tuple[Any, Any]) -> None:
    messages, asked = frames
    even = plan(messages, asked, space=SPACE, shards=2, work=[10.0, 9.0]).collect()
    assert even == []
    crowded = asked.selectExpr("*", "0 shard", "IF(id = 's1', 'unsubscribe', NULL) event", "1L ts")
    moves = plan(messages, crowded, space=SPACE, shards=2, work=[10.0, 0.0]).collect()
    assert {row.shard for row in moves} == {1}
    assert 10 < len(moves) < 120
    assert "s1" not in {row.id for row in moves}
    with pytest.raises(InvalidInput, match="work must be a number >= 0 for each of 2 shards"):
        plan(messages, asked, space=SPACE, shards=2, work=[1.0])


def test_what_cannot_be_planned_is_named(spark: Any, frames: tuple[Any, Any]) -> None:
    messages, asked = frames
    with pytest.raises(InvalidInput, match="method must be one of dkm, kop, sop, hash, got 'best'"):
        plan(messages, asked, space=SPACE, shards=2, method="best")
    stream = spark.readStream.format("rate").load()
    with pytest.raises(InvalidInput, match="messages must be a batch frame"):
        plan(stream, asked, space=SPACE, shards=2)
    with pytest.raises(InvalidInput, match="space must be a Space"):
        plan(messages, asked, space=(0, 0, 1, 1), shards=2)  # type: ignore[arg-type]


def test_a_window_tells_how_many_messages_live(frames: tuple[Any, Any]) -> None:
    messages, _ = frames
    assert live_messages(messages, None) is None
    assert live_messages(messages, nc.Window(count=70)) == 70
    assert live_messages(messages, nc.Window(age=100)) == pytest.approx(500 * 100 / 499)
    assert live_messages(messages, nc.Window(count=70, age=100)) == 70


def test_in_a_small_window_results_change_more_often() -> None:
    import pyarrow as pa

    names = [part.split()[0] for part in MESSAGES.split(", ")]
    table = pa.table(dict(zip(names, map(list, zip(*message_rows(2_000), strict=True)), strict=True)))
    given = [dict(zip(("id", "kind", "lon", "lat", "keywords", "k"), row, strict=True)) for row in asked_rows(50)]
    areas = []
    for live in (None, 2_000, 200, 20):
        boxes = find_footprints(given, Sample(SPACE, table, None, live)).boxes
        with np.errstate(invalid="ignore"):
            areas.append((boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1]))
    assert (areas[0] == areas[1]).all()
    assert (areas[1] < areas[2]).all()
    assert (areas[2] <= areas[3]).all()
    partition, _ = fit("dkm", given, table, 2, SPACE, live=200)
    again = type(partition).load(partition.state())
    assert (again.costs(given) == partition.costs(given)).all()
