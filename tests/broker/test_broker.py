from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import nearcast as nc
from nearcast.model.kinds import LABELS

NAN, INF = float("nan"), float("inf")
HUGE = 10**400


def test_the_example_of_the_design(tmp_path: Path) -> None:
    corpus = ["ramen sushi", "fire downtown", "new place"]
    ts, path, weights = 1_700_000_100_000, tmp_path / "broker", nc.Weights.fit(["other words"])

    space = nc.Space(bounds=(-74.3, 40.5, -73.7, 40.9), metric="haversine")
    broker = nc.Broker(space, window=nc.Window(count=1_000_000), weights=nc.Weights.fit(corpus))

    broker.subscribe("ann", nc.TopK(lon=-73.98, lat=40.75, keywords="ramen sushi", k=20, alpha=0.4))  # -> Updates
    broker.subscribe("bob", nc.Within(nc.Box(-74.0, 40.7, -73.9, 40.8), "fire OR smoke"), expires=None)
    said = []
    for u in broker.publish([nc.Message(id="m1", lon=-73.97, lat=40.76, text="New ramen place", ts=1_700_000_000_000)]):
        said.append((u.subscription, u.sign, u.message, u.score))  # noqa: PERF401
    ((subscription, sign, message, score),) = said
    assert (subscription, sign, message) == ("ann", "+", "m1")
    assert 0.4 < score < 1
    moved = broker.move("ann", lon=-73.95, lat=40.70)
    assert len(moved) == 0, "a message that stays is not mentioned"
    ((id, after),) = broker.results("ann")
    assert id == "m1"
    assert after < score
    assert broker.explain("ann", "m1").in_result
    broker.unsubscribe("bob")
    broker.advance(ts)
    broker.reweigh(weights)
    assert broker.stats()["subscriptions"]["all"] == 1
    broker.snapshot(path)
    assert nc.Broker.restore(path).results("ann") == broker.results("ann")


def test_words_that_fold_in_two_steps_find_themselves() -> None:
    broker = nc.Broker(nc.Space((0, 0, 9, 9), "euclidean"), nc.Window(count=10))
    for word in ("\u1fb3\u0308", "\u0390", "\u1fb7\u0301", "\u01f0\u0323"):
        broker.subscribe(f"list {word}", nc.Nearest(1, 1, [word], k=9))
        broker.subscribe(f"text {word}", nc.Within(nc.Box(0, 0, 9, 9), word))
        given = {"id": [f"{word} text", f"{word} list"], "lon": [1.0] * 2, "lat": [1.0] * 2}
        given |= {"text": [word, None], "keywords": [None, [word]]}
        told = broker.publish(pa.table(given))
        assert {(u.subscription, u.message) for u in told} >= {(f"list {word}", f"{word} list")}, ascii(word)
        assert (f"text {word}", f"{word} text") in {(u.subscription, u.message) for u in told}, ascii(word)


# ---------------------------------------------------------------------------------------------------------- bad input


def filled(window: nc.Window | None = None, metric: str = "haversine", id: Callable[[int], Any] = str) -> nc.Broker:
    broker = nc.Broker(nc.Space((-10, -10, 10, 10), metric), window)
    queries: list[Any] = [nc.Within(nc.Box(-1, -1, 1, 1), "fire OR smoke"), nc.Similar(0, 0, "fire", 0.5, 0.5)]
    queries += [nc.Nearest(0, 0, "fire", 2)] + ([nc.TopK(0, 0, "fire smoke", 2)] if window else [])
    broker.subscribe_many((id(n), query) for n, query in enumerate(queries))
    broker.publish([nc.Message(id(n), n / 10, 0, "fire smoke"[: 4 + 6 * (n % 2)], ts=1000 + n) for n in range(6)])
    return broker


def everything(broker: nc.Broker) -> Any:
    stats = broker.stats()
    stats.pop("index")  # counts questions
    ids = broker.parts.registry.ids.to_arrow(broker.parts.registry.ids.keys.numbers()).to_pylist()
    return json.dumps([stats, {str(id): broker.results(id) for id in ids}], sort_keys=True)


def refused(broker: nc.Broker, call: Callable[[], Any]) -> nc.InvalidInput:
    """The refusal of a call that must change nothing."""
    before = everything(broker)
    with pytest.raises(nc.InvalidInput) as error:
        call()
    assert everything(broker) == before
    broker.check()
    return error.value


BOX = nc.Box(0, 0, 1, 1)
BAD_QUERIES: list[tuple[Callable[[], Any], str, str]] = [
    (lambda: nc.Nearest(NAN, 0, "a"), "lon", "lon must be finite, got nan"),
    (lambda: nc.Nearest(0, -INF, "a"), "lat", "lat must be finite, got -inf"),
    (
        lambda: nc.Nearest(0, 90.5, "a"),
        "lat",
        'lat must be within [-90, 90] under haversine (plain coordinates: metric="euclidean"), got 90.5',
    ),
    (lambda: nc.Nearest(None, 0, "a"), "lon", "lon must be a number, got None"),
    (lambda: nc.Nearest(True, 0, "a"), "lon", "lon must be a number, got True"),
    (lambda: nc.Nearest([1], 0, "a"), "lon", "lon must be a number, got [1]"),
    (lambda: nc.Nearest("1", 0, "a"), "lon", "lon must be a number, got '1'"),
    (lambda: nc.Nearest(HUGE, 0, "a"), "lon", "lon must be finite, got 1000"),
    (lambda: nc.Nearest(0, 0, ""), "keywords", "keywords must hold at least one word, got ''"),
    (lambda: nc.Nearest(0, 0, []), "keywords", "keywords must hold at least one word, got ()"),
    (lambda: nc.Nearest(0, 0, ["", ""]), "keywords", "keywords must hold at least one word, got ('', '')"),
    (lambda: nc.Nearest(0, 0, None), "keywords", "keywords is required, got None"),
    (lambda: nc.Nearest(0, 0, 5), "keywords", "keywords must be a list of strings, got 5"),
    (lambda: nc.Nearest(0, 0, ["a", 5]), "keywords", "keywords must hold strings only, got 5"),
    (lambda: nc.Nearest(0, 0, "a\ud800"), "keywords", "keywords must be valid Unicode (lone surrogate at position 2)"),
    (lambda: nc.Nearest(0, 0, "a", k=0), "k", "k must be >= 1, got 0"),
    (lambda: nc.Nearest(0, 0, "a", k=-5), "k", "k must be >= 1, got -5"),
    (lambda: nc.Nearest(0, 0, "a", k=2.0), "k", "k must be a whole number, got 2.0"),
    (lambda: nc.Nearest(0, 0, "a", k=True), "k", "k must be a whole number, got True"),
    (lambda: nc.Nearest(0, 0, "a", k=HUGE), "k", f"k must be <= {2**31 - 1}, got 1000"),
    (lambda: nc.Nearest(0, 0, "a", match="some"), "match", "match must be one of all, any, got 'some'"),
    (lambda: nc.Nearest(0, 0, "a", backfill=1), "backfill", "backfill must be true or false, got 1"),
    (lambda: nc.Similar(0, 0, "a", 1.5, 0.5), "delta", "delta must be in [0, 1], got 1.5"),
    (lambda: nc.Similar(0, 0, "a", 0.5, NAN), "tau", "tau must be finite, got nan"),
    (lambda: nc.Similar(0, 0, "a", 0.5, -0.1), "tau", "tau must be in [0, 1], got -0.1"),
    (lambda: nc.Similar(0, 0, "a", 0.5, 0.5, "bm25"), "measure", "measure must be one of weighted, overlap"),
    (lambda: nc.TopK(0, 0, "a", alpha=2), "alpha", "alpha must be in [0, 1], got 2"),
    (lambda: nc.TopK(0, 0, "a"), "kind", "kind needs a broker with a window, got 'topk'"),
    (lambda: nc.Within(BOX, "a AND"), "keywords", "keywords is malformed at position 6"),
    (lambda: nc.Within(BOX, "NOT a"), "keywords", "keywords "),
    (lambda: nc.Within(BOX, "a AND NOT a"), "keywords", "keywords "),
    (lambda: nc.Within(BOX, "(a"), "keywords", "keywords is malformed"),
    (
        lambda: nc.Within(None, "a"),
        "region",
        "region must be a Box, Circle, Polygon or MultiPolygon",
    ),
    (
        lambda: nc.Within([0, 0, 1], "a"),
        "region",
        "region is malformed (bbox must be [min_lon, min_lat, max_lon, max_lat]",
    ),
    (lambda: nc.Within(nc.Box(0, 1, 1, 0), "a"), "min_lat", "min_lat must be <= max_lat (0.0), got 1.0"),
    (lambda: nc.Within(nc.Box(0, 0, NAN, 1), "a"), "max_lon", "max_lon must be finite, got nan"),
    (lambda: nc.Within(nc.Box(0, -91, 1, 0), "a"), "region", "region must keep latitudes within [-90, 90] under"),
    (lambda: nc.Within(nc.Circle(0, 0, -1), "a"), "radius", "radius must be >= 0, got -1"),
    (lambda: nc.Within(nc.Circle(0, 95, 1), "a"), "region", "region must keep latitudes within [-90, 90] under"),
    (lambda: nc.Within(nc.Polygon([(0, 0), (1, 1)]), "a"), "points", "points must "),
    (lambda: nc.Within(nc.Polygon([(0, 0), (1, 1), (0, 95)]), "a"), "region", "region must keep latitudes within"),
    (lambda: None, "query", "query must be a Within, Similar, TopK or Nearest, got None"),
    (lambda: "ramen", "query", "query must be a Within, Similar, TopK or Nearest, got 'ramen'"),
]


@pytest.mark.parametrize(("make", "field", "message"), BAD_QUERIES, ids=range(len(BAD_QUERIES)))
def test_queries_that_cannot_be_honoured(make: Callable[[], Any], field: str, message: str) -> None:
    broker = filled()
    error = refused(broker, lambda: broker.subscribe("new", make()))
    assert error.field == field
    assert str(error).startswith(message)
    assert error.value is not nc.Broker


BAD_IDS: list[tuple[Any, str]] = [
    (None, "id must be a string or a whole number, got None"),
    (True, "id must be a string or a whole number, got True"),
    (1.5, "id must be a string or a whole number, got 1.5"),
    (NAN, "id must be a string or a whole number, got nan"),
    (["a"], "id must be a string or a whole number, got ['a']"),
    (b"a", "id must be a string or a whole number, got b'a'"),
    ("\ud800", "id must be valid Unicode (lone surrogate at position 1), got '\\ud800'"),
    (2**63, f"id must be <= {2**63 - 1}, got {2**63}"),
    (-(2**63) - 1, f"id must be >= {-(2**63)}, got {-(2**63) - 1}"),
    (HUGE, f"id must be <= {2**63 - 1}, got 1000"),
    (7, "id must be a string like the ids before it, got 7"),
]


@pytest.mark.parametrize(("id", "message"), BAD_IDS)
def test_ids_that_cannot_be(id: Any, message: str) -> None:
    broker = filled(nc.Window(count=100))
    for call in (
        lambda: broker.subscribe(id, nc.Nearest(0, 0, "a")),
        lambda: broker.publish(nc.Message(id, 0, 0, "a", ts=9999)),
    ):
        error = refused(broker, call)
        assert error.field == "id"
        assert str(error).startswith(message)
    for call in (lambda: broker.unsubscribe(id), lambda: broker.results(id), lambda: broker.explain(id, "1")):
        error = refused(broker, call)
        assert isinstance(error, nc.UnknownId)
        assert error.field == "id"
    error = refused(broker, lambda: broker.move(id, lon=1, lat=1))
    assert error.field == "id"
    before = everything(broker)
    for rejects in (
        broker.subscribe_many([(id, nc.Nearest(0, 0, "a"))]).rejects,
        broker.publish([{"id": id, "lon": 0, "lat": 0, "text": "a", "ts": 9999}]).rejects,
        broker.unsubscribe_many([id]).rejects,
        broker.move_many([{"id": id, "lon": 0, "lat": 0}]).rejects,
    ):
        assert [(reject.row, reject.field) for reject in rejects] == [(0, "id")]
    assert everything(broker) == before


def test_mixed_id_types_the_other_way() -> None:
    broker = filled(nc.Window(count=100), id=int)
    error = refused(broker, lambda: broker.subscribe("a", nc.Nearest(0, 0, "a")))
    assert str(error) == "id must be an integer like the ids before it, got 'a'"
    error = refused(broker, lambda: broker.publish(nc.Message("a", 0, 0, "a")))
    assert str(error) == "id must be an integer like the ids before it, got 'a'"
    assert broker.results(np.int64(0)) == broker.results(0)
    assert isinstance(refused(broker, lambda: broker.subscribe(np.int64(0), nc.Nearest(0, 0, "a"))), nc.DuplicateId)
    assert isinstance(refused(broker, lambda: broker.results("0")), nc.UnknownId)


BAD_MESSAGES: list[tuple[dict[str, Any], str, str]] = [
    ({"lon": NAN}, "lon", "lon must be finite, got nan"),
    ({"lat": INF}, "lat", "lat must be finite, got inf"),
    (
        {"lat": -90.001},
        "lat",
        'lat must be within [-90, 90] under haversine (plain coordinates: metric="euclidean"), got -90.001',
    ),
    ({"lon": None}, "lon", "lon "),
    ({"lon": False}, "lon", "lon must be a number, got False"),
    ({"lat": [0]}, "lat", "lat must be a number, got [0]"),
    ({"lat": HUGE}, "lat", "lat must be finite, got 1000"),
    ({"text": None}, "text", "text is required when there are no keywords, got None"),
    ({"text": 5}, "text", "text must be a string, got 5"),
    ({"text": ["a"]}, "text", "text must be a string, got ['a']"),
    ({"text": "\udc00"}, "text", "text must be valid Unicode (lone surrogate at position 1)"),
    ({"keywords": ["a"]}, "keywords", "keywords must be left out when text is given, got ['a']"),
    ({"text": None, "keywords": ["a", None]}, "keywords", "keywords must hold strings only, got None"),
    ({"text": None, "keywords": {"a": 1}}, "keywords", "keywords must be a list of strings, got {'a': 1}"),
    ({"ts": 1.5}, "ts", "ts must be whole epoch milliseconds, a datetime or an ISO 8601 string, got 1.5"),
    ({"ts": True}, "ts", "ts must be whole epoch milliseconds, a datetime or an ISO 8601 string, got True"),
    ({"ts": HUGE}, "ts", f"ts must be <= {2**62}, got 1000"),
    (
        {"expires": NAN},
        "expires",
        "expires must be whole epoch milliseconds, a datetime or an ISO 8601 string, got nan",
    ),
    ({"ts": 1000 + 5 + 60_001}, "ts", "ts must be at most 60 seconds ahead of the clock, got 61006"),
    ({"id": "3"}, "id", "id must not be the id of a live message, got '3'"),
]


@pytest.mark.parametrize(("change", "field", "message"), BAD_MESSAGES, ids=range(len(BAD_MESSAGES)))
def test_messages_that_cannot_be_honoured(change: dict[str, Any], field: str, message: str) -> None:
    broker = filled(nc.Window(count=100, max_ahead=60))
    row = {"id": "new", "lon": 0.0, "lat": 0.0, "text": "fire", "ts": 2000, **change}
    error = refused(broker, lambda: broker.publish(nc.Message(**row)))
    assert error.field == field
    assert str(error).startswith(message)
    before = everything(broker)
    updates = broker.publish([row])
    assert len(updates) == 0
    ((at, name, reason),) = [(reject.row, reject.field, reject.reason) for reject in updates.rejects]
    assert (at, name) == (0, field)
    assert reason.startswith(message[:12])
    assert everything(broker) == before
    good = {"id": "good", "lon": 0.0, "lat": 0.0, "text": "fire", "ts": 1005}
    updates = broker.publish([row, good, row])
    assert [reject.row for reject in updates.rejects] == [0, 2]
    assert {update.message for update in updates if update.sign == "+"} == {"good"}


@pytest.mark.parametrize("rows", [None, 5, 2.5, True, "ann", b"ann"])
def test_what_is_no_batch_at_all(rows: Any) -> None:
    broker = filled()
    for method in (broker.publish, broker.subscribe_many, broker.unsubscribe_many, broker.move_many):
        before = everything(broker)
        with pytest.raises(nc.InvalidInput, match="must be many"):
            method(rows)
        assert everything(broker) == before


def test_a_batch_that_breaks_off_changes_nothing() -> None:
    broker = filled(nc.Window(count=100))

    def messages() -> Any:
        yield nc.Message("new", 0, 0, "fire")
        raise OSError("the line went dead")

    before = everything(broker)
    with pytest.raises(OSError, match="dead"):
        broker.publish(messages())
    with pytest.raises(OSError, match="dead"):
        broker.subscribe_many((name, nc.Nearest(0, 0, "a")) for name in messages() if name)
    assert everything(broker) == before


def test_brokers_that_cannot_be() -> None:
    space = nc.Space((0, 0, 1, 1), metric="euclidean")
    for given, message in [
        ((None,), "space must be a Space, got None"),
        (((0, 0, 1, 1),), "space must be a Space, got (0, 0, 1, 1)"),
        ((space, 5), "window must be a Window or None, got 5"),
        ((space, None, {"a": 1}), "weights must be Weights or None, got {'a': 1}"),
    ]:
        with pytest.raises(nc.InvalidInput) as error:
            nc.Broker(*given)  # type: ignore[arg-type]
        assert str(error.value) == message
    broker = filled(nc.Window())
    error = refused(broker, lambda: broker.reweigh(None))  # type: ignore[arg-type, assignment]
    assert str(error) == "weights must be Weights, got None"


@pytest.mark.parametrize("ts", [None, 1.5, True, NAN, "5", HUGE])
def test_times_that_cannot_be(ts: Any) -> None:
    broker = filled(nc.Window())
    assert refused(broker, lambda: broker.advance(ts)).field == "ts"
    assert refused(broker, lambda: broker.subscribe("new", nc.Nearest(0, 0, "a"), expires=ts or "x")).field == "expires"


# ------------------------------------------------------------------------------------------------------ subscriptions


def test_duplicate_and_unknown_subscriptions() -> None:
    broker = filled(nc.Window())
    error = refused(broker, lambda: broker.subscribe("1", nc.Nearest(0, 0, "a")))
    assert isinstance(error, nc.DuplicateId)
    assert str(error) == "id must not be the id of another subscription, got '1'"
    for call in (lambda: broker.unsubscribe("x"), lambda: broker.move("x", lon=0, lat=0), lambda: broker.results("x")):
        error = refused(broker, call)
        assert isinstance(error, nc.UnknownId)
        assert isinstance(error, LookupError)
        assert str(error) == "id must be the id of a subscription, got 'x'"


def test_duplicates_in_a_batch() -> None:
    broker = filled(nc.Window())
    query, clock = nc.Nearest(0, 0, "fire"), broker.stats()["clock"]
    rows = [
        ("a", query),
        ("b", query),
        ("a", query),
        ("1", query),
        ("b", query, clock),
        ("c", query, clock),
        ("c", query),
    ]
    updates = broker.subscribe_many(rows)
    assert [(reject.row, reject.field) for reject in updates.rejects] == [(2, "id"), (3, "id"), (4, "id")]
    assert updates.rejects[1].reason == "id must not be the id of another subscription, got '1'"
    assert {update.subscription for update in updates} == {"a", "b", "c"}
    one_by_one = filled(nc.Window())
    for row, given in enumerate(rows):
        if row in (2, 3, 4):
            with pytest.raises(nc.DuplicateId):
                one_by_one.subscribe(*given)
        else:
            one_by_one.subscribe(*given)
    assert one_by_one.stats()["subscriptions"] == broker.stats()["subscriptions"]


def test_unsubscribing_many() -> None:
    for ids in (["0", "x", "0", "1"], [{"id": "0"}, {"id": "x"}, {"id": "0"}, {"id": "1"}]):
        forms = [ids, iter(ids)]
        if isinstance(ids[0], str):
            forms += [
                pa.array(ids),
                pa.table({"id": ids}),
                pa.table({"id": ids}).to_batches()[0],
                pa.chunked_array([ids]),
            ]
        for form in forms:
            broker = filled(nc.Window())
            updates = broker.unsubscribe_many(form)
            assert [(reject.row, reject.field) for reject in updates.rejects] == [(1, "id"), (2, "id")]
            assert len(updates) == 0
            assert broker.stats()["subscriptions"]["all"] == 2
            broker.check()
    broker = filled(nc.Window())
    assert [reject.field for reject in broker.unsubscribe_many([{}, {"id": None}, pa.scalar(1)]).rejects] == ["id"] * 3
    assert broker.unsubscribe_many(pa.table({"name": ["0"]})).rejects[0].field == "id"


def test_an_id_may_be_used_again_after_it_ended() -> None:
    broker = filled(nc.Window())
    broker.unsubscribe("0")
    assert [update.sign for update in broker.subscribe("0", nc.Nearest(0, 0, "fire", 1))] == ["+"]


def test_subscriptions_expire_silently() -> None:
    broker = nc.Broker(nc.Space((0, 0, 8, 8), metric="euclidean"), nc.Window(count=2))
    for id, query in [
        ("w", nc.Within(nc.Box(0, 0, 8, 8), "a")),
        ("s", nc.Similar(0, 0, "a", 0.5, 0)),
        ("t", nc.TopK(0, 0, "a")),
        ("n", nc.Nearest(0, 0, "a")),
    ]:
        broker.subscribe(id, query, expires=10)
    assert {update.subscription for update in broker.publish(nc.Message(1, 0, 0, "a", ts=9))} == set("wstn")
    assert (
        len(broker.publish([nc.Message(2, 0, 0, "a", ts=10), nc.Message(3, 0, 0, "a"), nc.Message(4, 0, 0, "a")])) == 0
    )
    assert broker.stats()["subscriptions"] == {**dict.fromkeys(LABELS, 0), "all": 0}
    with pytest.raises(nc.UnknownId):
        broker.results("w")
    assert len(broker.subscribe("w", nc.Nearest(0, 0, "a"), expires=10)) == 0, "over before it began"
    assert broker.stats()["subscriptions"]["all"] == 0
    broker.subscribe("w", nc.Nearest(0, 0, "a"), expires=11)
    assert len(broker.advance(11)) == 0
    assert broker.stats()["subscriptions"]["all"] == 0
    broker.check()


def test_a_batch_ends_subscriptions_in_its_midst() -> None:
    broker = nc.Broker(nc.Space((0, 0, 8, 8), metric="euclidean"), nc.Window())
    broker.subscribe("w", nc.Within(nc.Box(0, 0, 8, 8), "a"), expires=5)
    updates = broker.publish([nc.Message(n, 0, 0, "a", ts=n) for n in range(8)])
    assert [update.message for update in updates] == [0, 1, 2, 3, 4]


def test_moves_that_cannot_be() -> None:
    broker = filled(nc.Window())  # within, similar, nearest, topk
    for call, field, message in [
        (
            lambda: broker.move("0", lon=1, lat=1),
            "region",
            "region is required to move a within subscription, got None",
        ),
        (
            lambda: broker.move("1", region=BOX),
            "region",
            "region must be left out to move a similar subscription, which has",
        ),
        (
            lambda: broker.move("3", region=BOX),
            "region",
            "region must be left out to move a topk subscription, which has",
        ),
        (lambda: broker.move("1", lon=1), "lat", "lat is required when there is no region, got None"),
        (lambda: broker.move("1"), "lon", "lon is required when there is no region, got None"),
        (
            lambda: broker.move("1", lon=1, lat=91),
            "lat",
            'lat must be within [-90, 90] under haversine (plain coordinates: metric="euclidean"), got 91.0',
        ),
        (lambda: broker.move("1", lon=NAN, lat=0), "lon", "lon must be finite, got nan"),
        (lambda: broker.move("0", region=[0, 0, 1]), "region", "region is malformed (bbox must be [min_lon, min_lat,"),
        (
            lambda: broker.move("0", lon=1, lat=1, region=BOX),
            "lon",
            "lon must be left out when a region is given, got 1",
        ),
        (lambda: broker.move("0", region=nc.Box(0, 0, 1, 99)), "region", "region must keep latitudes within"),
    ]:
        error = refused(broker, call)
        assert error.field == field
        assert str(error).startswith(message)
    flat = filled(nc.Window(), "euclidean")
    error = refused(flat, lambda: flat.move("0", region=nc.Box(1, 0, 0, 1)))
    assert str(error).startswith("region must have min_lon <= max_lon unless the metric is haversine, got Box(")
    still = filled()
    error = refused(still, lambda: still.move("2", lon=1, lat=1))
    assert str(error) == "id must not be a nearest subscription: without a window it cannot move, got '2'"


def test_moving_many() -> None:
    region = {"type": "Circle", "coordinates": [0, 0], "radius": 5000}
    rows: list[Any] = [
        {"id": "2", "lon": 0.5, "lat": 0.0},
        {"id": "x", "lon": 0.5, "lat": 0.0},
        {"id": "0", "region": region},
        {"id": "0", "lon": 1, "lat": 1},
        {"id": "3", "lon": 0.25},
        {"id": "3", "lon": 0.25, "lat": 0, "colour": "red"},
        "0",
        {"lon": 0.25, "lat": 0},
    ]
    broker, single = filled(nc.Window()), filled(nc.Window())
    updates = broker.move_many(rows)
    expected = [*single.move("2", lon=0.5, lat=0), *single.move("0", region=nc.Circle(0, 0, 5000))]
    assert list(updates) == expected
    assert [(r.row, r.field) for r in updates.rejects] == [
        (1, "id"),
        (3, "region"),
        (4, "lat"),
        (5, "colour"),
        (6, "move"),
        (7, "id"),
    ]
    table = pa.table({"id": ["2", "0"], "lon": [0.5, None], "lat": [0.0, None], "region": [None, json.dumps(region)]})
    in_bulk = filled(nc.Window())
    assert list(in_bulk.move_many(table)) == expected
    assert everything(in_bulk).split('"clock"')[0] == everything(single).split('"clock"')[0]


# ------------------------------------------------------------------------------------------------- messages and time


def test_what_calls_return() -> None:
    broker = nc.Broker(nc.Space((0, 0, 8, 8), metric="euclidean"), nc.Window(count=2))
    nothing = broker.subscribe("n", nc.Nearest(0, 0, "a", k=1))
    assert isinstance(nothing, nc.Updates)
    assert (list(nothing), nothing.rejects) == ([], [])
    assert list(broker.publish(nc.Message("far", 3, 4, "a", ts=7))) == [nc.Update("n", "far", "+", 5.0, 7)]
    assert list(broker.publish([nc.Message("near", 0, 1, "a", ts=6)])) == [
        nc.Update("n", "far", "-", 5.0, 7),
        nc.Update("n", "near", "+", 1.0, 7),
    ]
    assert list(broker.publish([{"id": "x", "lon": 9, "lat": 9, "text": "a", "likes": 3}])) == []
    assert list(broker.publish(nc.Message("y", 0, 9, "b", ts=8))) == [
        nc.Update("n", "near", "-", 1.0, 8),
        nc.Update("n", "x", "+", 162**0.5, 8),
    ]
    assert broker.results("n") == [("x", 162**0.5)]
    assert list(broker.unsubscribe("n")) == []
    assert list(broker.advance(9)) == []
    assert list(broker.publish([])) == list(broker.publish(iter([]))) == []
    assert broker.stats()["clock"] == 9
    assert broker.stats()["messages"] == {"live": 2, "sequence": 4, "late": 0, "withdrawn": 0}


def test_late_messages_are_counted_and_notify_nobody() -> None:
    broker = nc.Broker(nc.Space((0, 0, 8, 8), metric="euclidean"), nc.Window(age=1))
    broker.subscribe("w", nc.Within(nc.Box(0, 0, 8, 8), "a"))
    updates = broker.publish(
        [nc.Message(1, 0, 0, "a", ts=5000), nc.Message(2, 0, 0, "a", ts=4000), nc.Message(3, 0, 0, "a", expires=5000)]
    )
    assert [update.message for update in updates] == [1]
    assert updates.rejects == []
    assert broker.stats()["messages"] == {"live": 1, "sequence": 1, "late": 2, "withdrawn": 0}


def test_arrow_and_objects_may_be_mixed_in_one_life() -> None:
    broker = nc.Broker(nc.Space((0, 0, 8, 8), metric="euclidean"), nc.Window())
    broker.subscribe_many(
        pa.table(
            {"id": [1, 2], "kind": ["nearest", "topk"], "lon": [0.0, 1.0], "lat": [0.0, 1.0], "keywords": ["a", "a b"]}
        )
    )
    broker.subscribe(3, nc.Within(nc.Box(0, 0, 8, 8), "a"))
    updates = broker.publish(pa.table({"id": ["p"], "lon": [1], "lat": [1], "text": ["A!"]}))
    assert sorted((update.subscription, update.message) for update in updates) == [(1, "p"), (2, "p"), (3, "p")]
    assert updates.to_arrow().column("subscription").type == pa.int64()
    assert len(broker.publish(nc.Message("q", 1, 1, "a"))) == 3
    assert [id for id, _ in broker.results(3)] == ["q", "p"]


def test_stats_tell_sizes_and_work() -> None:
    stats = filled(nc.Window()).stats()
    assert stats["subscriptions"] == {"within": 1, "similar": 1, "topk": 1, "nearest": 1, "all": 4}
    assert stats["messages"] == {"live": 6, "sequence": 6, "late": 0, "withdrawn": 0}
    assert stats["engines"].keys() == set(LABELS)
    assert all(stats["engines"][kind]["offered"] > 0 for kind in ("topk", "nearest"))
    assert stats["engines"]["within"]["messages"] == 6
    assert stats["engines"]["similar"]["arrivals"] == 6
    assert stats["words"] == 2
    assert all(n > 0 for n in stats["bytes"].values())
    assert nc.Broker(nc.Space((0, 0, 1, 1), metric="euclidean")).stats()["clock"] is None


def test_ids_that_come_too_late_fix_the_type_of_ids_too() -> None:
    """A batch and single calls must refuse the same rows."""
    broker = nc.Broker(nc.Space((0, 0, 10, 10), metric="euclidean"), nc.Window(age=1))
    broker.advance(10_000)
    rows = [{"id": 1, "lon": 0, "lat": 0, "text": "late", "ts": 0}, {"id": "a", "lon": 0, "lat": 0, "text": "x"}]
    assert [reject.row for reject in broker.publish(rows).rejects] == [1]
    assert [reject.row for reject in broker.publish([rows[1]]).rejects] == [0]
    query = nc.Nearest(0, 0, "x")
    assert [reject.row for reject in broker.subscribe_many([(1, query, 5), ("a", query)]).rejects] == [1]
    assert [reject.row for reject in broker.subscribe_many([("a", query)]).rejects] == [0]


@pytest.mark.parametrize("ts", [2**62 + 1, -(2**62) - 1])
def test_times_past_all_ages_are_refused(ts: int) -> None:
    broker = nc.Broker(nc.Space((0, 0, 10, 10), metric="euclidean"), nc.Window(age=1))
    with pytest.raises(nc.InvalidInput, match="ts must be"):
        broker.advance(ts)
    row = {"id": "a", "lon": 0.0, "lat": 0.0, "text": "x", "ts": ts}
    table = pa.Table.from_pylist([row])
    assert (
        [r.field for r in broker.publish([row]).rejects] == [r.field for r in broker.publish(table).rejects] == ["ts"]
    )


def test_one_message_may_be_given_as_its_json_form() -> None:
    broker = nc.Broker(nc.Space((0, 0, 10, 10), metric="euclidean"), nc.Window(count=5))
    broker.subscribe("s", nc.Nearest(0, 0, "x"))
    assert len(broker.publish({"id": "a", "lon": 0.0, "lat": 0.0, "text": "x", "ts": 1})) == 1
    with pytest.raises(nc.InvalidInput, match="lat"):
        broker.publish({"id": "b", "lon": 0.0, "text": "x"})


def test_updates_have_the_types_of_the_ids_also_when_there_are_none() -> None:
    broker = nc.Broker(nc.Space((0, 0, 10, 10), metric="euclidean"), nc.Window(count=5))
    broker.subscribe(1, nc.Nearest(0, 0, "x"))
    some = broker.publish([nc.Message(7, 0, 0, "x", ts=1)])
    none = broker.publish([nc.Message(8, 0, 0, "y", ts=1)])
    assert len(some) == 1
    assert len(none) == 0
    for updates in (none, broker.publish([]), broker.unsubscribe(1)):
        assert updates.to_arrow().schema == some.to_arrow().schema
