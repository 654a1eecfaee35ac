"""How many live messages a query would match: as many as its result would hold if k were no limit."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from contract.contenders import Town

import nearcast as nc
from nearcast.model.kinds import LABELS
from nearcast.model.query import Query


def unlimited(query: Query) -> Query:
    least = {"k": 10_000} if isinstance(query, nc.TopK | nc.Nearest) else {}
    return dataclasses.replace(query, backfill=True, **least)


@pytest.mark.parametrize("label", LABELS)
def test_as_many_as_a_result_without_limit(label: str) -> None:
    town = Town(11)
    broker = nc.Broker(town.space, nc.Window(count=40, age=3600))
    found = 0
    for turn in range(6):
        broker.publish(list(town.messages(20, 20 * turn)))
        for _ in range(10):
            query, n_words = town.query(label), broker.stats()["words"]
            estimate = broker.estimate(query)
            assert broker.stats()["words"] == n_words
            broker.subscribe("one", unlimited(query))
            assert estimate.matches == len(broker.results("one"))
            broker.unsubscribe("one")
            found += estimate.matches
        broker.check()
    assert found > 20


def test_an_hour_is_counted_from_the_oldest_live_message() -> None:
    broker = nc.Broker(nc.Space((0, 0, 10, 10), metric="euclidean"), nc.Window(count=3))
    query = nc.Within(nc.Box(0, 0, 9, 9), "ramen")
    assert broker.estimate(query) == nc.Estimate(0, None)
    broker.publish(nc.Message(0, 1, 1, "ramen", ts=1000))
    assert broker.estimate(query) == nc.Estimate(1, None)
    broker.publish([nc.Message(n, 1, 1, "ramen", ts=1000 + 600_000 * n) for n in range(1, 4)])
    assert broker.estimate(query) == nc.Estimate(3, 3 * 3_600_000 / 1_200_000)
    broker.advance(1000 + 3 * 600_000 + 2_400_000)
    assert broker.estimate(query) == nc.Estimate(3, 3.0)
    assert broker.estimate(nc.Nearest(1, 1, "ramen unheard")) == nc.Estimate(0, 0.0)


def test_what_cannot_be_estimated_is_refused() -> None:
    space = nc.Space((0, 0, 10, 10), metric="euclidean")
    with pytest.raises(nc.InvalidInput, match="window must be given to estimate"):
        nc.Broker(space).estimate(nc.Nearest(1, 1, "a"))
    with pytest.raises(nc.InvalidInput, match="query"):
        nc.Broker(space, nc.Window(count=3)).estimate("ramen")  # type: ignore[arg-type]


def test_broad_subscriptions_are_refused_with_the_estimate(tmp_path: Path) -> None:
    space = nc.Space((0, 0, 10, 10), metric="euclidean")
    broker = nc.Broker(space, nc.Window(count=100), max_matches_per_hour=30)
    everything, little = nc.Within(nc.Box(0, 0, 9, 9), "ramen"), nc.Within(nc.Box(0, 0, 9, 9), "ramen soba")
    broker.subscribe("early", everything)  # while nothing is known
    broker.publish([nc.Message(n, 1, 1, "ramen" if n % 10 else "ramen soba", ts=60_000 * n) for n in range(61)])
    told = r"query must match at most 30 messages an hour, by what is live now, got '61 an hour \(61 matches\)'"
    for replace in (False, True):
        with pytest.raises(nc.InvalidInput, match=told):
            broker.subscribe("early" if replace else "ann", everything, replace=replace)
    assert len(broker.results("early")) == 61
    broker.snapshot(tmp_path / "file")
    for one in (broker, nc.Broker.restore(tmp_path / "file")):
        updates = one.subscribe_many([("a", everything), ("b", little), ("c", nc.Nearest(1, 1, "ramen"))])
        assert [(reject.row, reject.field) for reject in updates.rejects] == [(0, "query"), (2, "query")]
        assert one.subscription_ids.to_pylist() == ["early", "b"]
        one.check()


@pytest.mark.parametrize("as_table", [False, True])
def test_moves_that_make_a_subscription_too_broad_are_refused_with_the_estimate(as_table: bool) -> None:
    """Also if it was registered without looking back; what others match does not depend on their place."""
    broker = nc.Broker(nc.Space((0, 0, 10, 10), metric="euclidean"), nc.Window(count=200), max_matches_per_hour=60)
    broker.publish([nc.Message(n, 1 + n % 2 * 6, 1 + n % 2 * 6, "ramen", ts=30_000 * n) for n in range(121)])
    broker.subscribe("box", nc.Within(nc.Box(5, 5, 9, 9), "ramen", backfill=False))
    broker.subscribe("like", nc.Similar(9.9, 9.9, "ramen", delta=0.5, tau=0.8))
    with pytest.raises(nc.InvalidInput, match=r"query must match at most 60 messages an hour"):
        broker.subscribe("all", nc.Nearest(1, 1, "ramen", k=1))
    broker.subscribe("top", nc.TopK(1, 1, "soba", k=1))
    told = r"move must match at most 60 messages an hour, by what is live now, got '121 an hour \(121 matches\)'"
    with pytest.raises(nc.InvalidInput, match=told):
        broker.move("box", region=nc.Box(0, 0, 9, 9))
    with pytest.raises(nc.InvalidInput, match=told):
        broker.move("like", lon=4, lat=4)
    assert broker.subscription("box").query.region == nc.Box(5, 5, 9, 9)
    rows: Any = [
        {"id": "box", "region": [0, 0, 9, 9]},
        {"id": "nobody", "lon": 1, "lat": 1},
        {"id": "top", "lon": 2, "lat": 2},
        {"id": "like", "lon": 4, "lat": 4},
        {"id": "box", "region": [6, 6, 9, 9]},
    ]
    if as_table:
        sides = ("min_lon", "min_lat", "max_lon", "max_lat")
        boxes = [dict(zip(sides, row.pop("region"), strict=True)) if "region" in row else {} for row in rows]
        empty = dict.fromkeys(("id", "lon", "lat", *sides))
        rows = pa.Table.from_pylist([{**empty, **row, **box} for row, box in zip(rows, boxes, strict=True)])
    rejects = broker.move_many(rows).rejects
    assert [(reject.row, reject.field) for reject in rejects] == [(0, "move"), (1, "id"), (3, "move")]
    assert "got '121 an hour" in rejects[0].reason
    assert broker.subscription("box").query.region == nc.Box(6, 6, 9, 9)
    assert broker.subscription("top").query.lon == 2
    assert broker.subscription("like").query.lon == 9.9
    broker.check()


def test_limits_that_cannot_be() -> None:
    space = nc.Space((0, 0, 10, 10), metric="euclidean")
    for limit, window in (
        (0, nc.Window(count=3)),
        (math.nan, nc.Window(count=3)),
        ("many", nc.Window(count=3)),
        (5, None),
    ):
        with pytest.raises(nc.InvalidInput, match="max_matches_per_hour"):
            nc.Broker(space, window, max_matches_per_hour=limit)  # type: ignore[arg-type]
