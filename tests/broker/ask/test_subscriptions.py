"""Subscriptions come back as they stand: the same questions in a table that another broker takes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import Seeded, make_query, make_setting

import nearcast as nc
from nearcast.model.expression import MAX_WORDS
from nearcast.model.query import Query

WORLD = nc.Space((-180, -90, 180, 90), "haversine")
PLANE = nc.Space((0, 0, 10, 10), "euclidean")


def asked(query: Query) -> tuple[Any, ...]:
    """What a query asks, however it is written."""
    if isinstance(query, nc.Within):
        region: Any = query.region
        if isinstance(region, nc.MultiPolygon) and len(region.polygons) == 1:
            region = region.polygons[0]
        return region, query.clauses, query.backfill
    own: tuple[Any, ...]
    if isinstance(query, nc.Similar):
        own = (query.delta, query.tau, query.measure, sorted(query.words))
    elif isinstance(query, nc.TopK):
        own = (query.k, query.alpha, sorted(query.words))
    else:
        own = (query.k, query.match, sorted(set(query.words)))
    return query.kind, query.lon, query.lat, query.backfill, own


def round_trip(space: nc.Space, subscriptions: list[nc.Subscription]) -> pa.Table:
    ours, theirs = (nc.Broker(space, nc.Window(count=10)) for _ in range(2))
    assert ours.subscribe_many(subscriptions).rejects == []
    table = ours.subscriptions()
    assert theirs.subscribe_many(table).rejects == []
    assert theirs.subscriptions().equals(table)
    assert table.column("id").to_pylist() == [subscription.id for subscription in subscriptions]
    for subscription in subscriptions:
        for broker in (ours, theirs):
            again = broker.subscription(subscription.id)
            assert (again.id, again.expires) == (subscription.id, subscription.expires)
            assert asked(again.query) == asked(subscription.query)
    return table


@pytest.mark.parametrize("seed", range(12))
def test_any_subscriptions_come_back(seed: int) -> None:
    source = Seeded(seed)
    ground = make_setting(source).ground
    space = nc.Space(ground.bounds, ground.metric, ground.max_distance)
    queries: list[Query] = []
    while len(queries) < 40:
        try:
            query = make_query(source, ground)
            nc.Broker(space, nc.Window()).subscribe("a", query)
        except nc.InvalidInput:
            continue
        queries.append(query)
    expires = [None if n % 3 else 1_000 + n for n in range(40)]
    round_trip(space, [nc.Subscription(n, *pair) for n, pair in enumerate(zip(queries, expires, strict=True))])


def test_regions_come_back() -> None:
    ring = [(0.1, 0.2), (9.0, 1 / 3), (8.0, 7.0), (0.1, 0.2), (0.1, 0.2)]
    hole = [(1.0, 1.0), (2.0, 1.0), (2.0, 2.0)]
    regions = [
        nc.Box(170.0, -10.0, -170.0, 10.0), nc.Box(-0.0, 0.1, 1e-300, 0.3), nc.Circle(1 / 3, 2 / 3, 1234.5678901234567),
        nc.Polygon(ring, [hole, hole]), nc.Circle(0, 90, 0), nc.Polygon(hole),
        nc.MultiPolygon([nc.Polygon(ring, [hole]), nc.Polygon(hole)]),
    ]  # fmt: skip
    table = round_trip(WORLD, [nc.Subscription(str(n), nc.Within(one, "a")) for n, one in enumerate(regions)])
    assert table.column("min_lon").to_pylist() == [170.0, -0.0, None, None, None, None, None]
    assert table.column("region").null_count == 2


def test_expressions_come_back_in_their_normal_form() -> None:
    box = nc.Box(0, 0, 1, 1)
    written = {
        "fire": "fire",
        "Fire-Brigade smoke": "brigade fire smoke",
        "ipad AND (discount OR sale) AND NOT used": "discount ipad NOT used OR ipad sale NOT used",
        "a AND NOT (b OR c) OR straße": "a NOT b NOT c OR strasse",
    }
    pairs = [nc.Subscription(n, nc.Within(box, text)) for n, text in enumerate(written)]
    assert round_trip(PLANE, pairs).column("keywords").to_pylist() == list(written.values())


def test_lists_of_words_that_no_text_can_say() -> None:
    box = nc.Box(0, 0, 1, 1)
    lists = [
        nc.Within(box, ["new york", "PIZZA"]),
        nc.TopK(0, 0, ["c++", "c++", "a b"]),
        nc.Nearest(0, 0, ["AND", "_"]),
    ]
    plain = [nc.TopK(0, 0, "ramen ramen"), nc.Within(box, ["or", "not"]), nc.Nearest(1, 1, "a a")]
    expression: list[Query] = [nc.Within(box, "a OR b")]
    for queries, kind in (
        (plain, pa.string()),
        (plain + expression, pa.string()),
        (plain + lists, pa.list_(pa.string())),
    ):
        table = round_trip(PLANE, [nc.Subscription(n, query) for n, query in enumerate(queries)])
        assert table.column("keywords").type == kind
    both = plain + lists + expression
    table = round_trip(PLANE, [nc.Subscription(n, query) for n, query in enumerate(both)])
    assert pa.types.is_union(table.column("keywords").type)
    assert table.column("keywords").to_pylist()[3:] == [
        ["new york", "pizza"], ["a b", "c++", "c++"], ["_", "and"], "a OR b"
    ]  # fmt: skip


@given(st.lists(st.text(min_size=1, max_size=4), min_size=1, max_size=4), st.text(max_size=8))
def test_any_words_come_back(words: list[str], text: str) -> None:
    queries: list[Query] = []
    for keywords in (words, text):
        for make in (
            lambda k: nc.Within(nc.Box(0, 0, 1, 1), k),
            lambda k: nc.TopK(0, 0, k),
            lambda k: nc.Nearest(0, 0, k),
        ):
            try:
                queries.append(make(keywords))
            except nc.InvalidInput:
                continue
    round_trip(PLANE, [nc.Subscription(n, query) for n, query in enumerate(queries)])


def test_very_long_ones_come_back() -> None:
    box = nc.Box(0, 0, 1, 1)
    many = [f"w{n}" for n in range(MAX_WORDS + 1)]
    alternatives = " OR ".join(f"({' '.join(many[256 * n : 256 * n + 255])} NOT x{n})" for n in range(256))
    round_trip(PLANE, [nc.Subscription(1, nc.Within(box, many)), nc.Subscription(2, nc.Within(box, alternatives))])


def test_backfill_is_kept_whenever_it_was_said() -> None:
    broker = nc.Broker(PLANE, nc.Window(count=10))
    later = nc.Nearest(0, 0, "a", backfill=False)
    broker.subscribe("before", later)
    broker.subscribe("yes", nc.Nearest(0, 0, "a"))
    broker.publish(nc.Message("m", 1, 1, "a"))
    broker.subscribe("after", later)
    assert broker.subscriptions().column("backfill").to_pylist() == [False, True, False]
    assert [broker.results(id) == [] for id in ("before", "yes", "after")] == [False, False, True]
    broker.check()


def test_moves_ends_and_restores_are_seen(tmp_path: Any) -> None:
    broker = nc.Broker(PLANE, nc.Window(count=10))
    for n in range(6):
        broker.subscribe(n, nc.Nearest(n, n, "a"), expires=5 if n == 4 else None)
    broker.move(1, lon=7, lat=8)
    broker.unsubscribe(0)
    assert broker.advance(5).ended == [4]
    broker.subscribe(0, nc.TopK(1, 1, "b"))
    table = broker.subscriptions()
    assert table.column("id").to_pylist() == [1, 2, 3, 5, 0]
    assert broker.subscription(1).query == nc.Nearest(7, 8, "a")
    broker.snapshot(tmp_path / "broker.nc")
    assert nc.Broker.restore(tmp_path / "broker.nc").subscriptions().equals(table)
    for id in (4, "1", None):
        with pytest.raises(nc.UnknownId):
            broker.subscription(id)  # type: ignore[arg-type]


def test_nobody_is_subscribed() -> None:
    table = nc.Broker(PLANE).subscriptions()
    assert table.num_rows == 0
    assert nc.Broker(PLANE).subscribe_many(table).rejects == []
    some = nc.Broker(PLANE)
    some.subscribe(1, nc.Within(nc.Box(0, 0, 1, 1), "a"))
    assert some.subscriptions().schema.names == table.schema.names


def test_more_than_are_written_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nearcast.broker.ask.subscriptions.ROWS", 7)
    queries: list[Query] = [
        nc.Nearest(n, n, "a") if n % 2 else nc.Within(nc.Box(0, 0, n, n), "b") for n in range(1, 40)
    ]
    table = round_trip(PLANE, [nc.Subscription(n, query) for n, query in enumerate(queries)])
    assert table.column("id").num_chunks == 6
    assert np.array_equal(table.column("id").to_numpy(), np.arange(39))
