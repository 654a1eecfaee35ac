"""`TopK(decay=...)`: scores that fade, from the query to the updates."""

from __future__ import annotations

import random
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from compare import Follower, identical
from definitions import Definitions, Lifetime
from places import Ground

import nearcast as nc
from nearcast.model.codec import subscription_from_json, subscription_to_json

BOUNDS = (0.0, 0.0, 8.0, 8.0)


def broker(**window: Any) -> nc.Broker:
    space = nc.Space(BOUNDS, metric="euclidean", max_distance=10)
    return nc.Broker(space, nc.Window(**(window or {"count": 100})))


def heard(updates: nc.Updates) -> list[tuple[str, str | int, float | None]]:
    return [(update.sign, update.message, update.score) for update in updates]


def test_a_half_life_is_seconds_or_a_timedelta_in_whole_milliseconds() -> None:
    assert nc.TopK(0, 0, "a").decay is None
    assert nc.TopK(0, 0, "a", decay=60) == nc.TopK(0, 0, "a", decay=timedelta(minutes=1))
    assert nc.TopK(0, 0, "a", decay=0.001).decay == 0.001
    assert nc.TopK(0, 0, "a", decay=1.001).decay == 1.001
    for wrong in (0, -1, 0.0005, 1.0001, float("nan"), float("inf"), 1e300, True, "60", timedelta(0), [1]):
        with pytest.raises(nc.InvalidInput, match="decay must be seconds or a timedelta, > 0 and in whole millis") as e:
            nc.TopK(0, 0, "a", decay=wrong)  # type: ignore[arg-type]
        assert e.value.field == "decay"
    with pytest.raises(nc.InvalidInput, match="decay must be"):
        nc.TopK(0, 0, "a", decay=timedelta(microseconds=1500))
    with pytest.raises(nc.InvalidInput, match="decay is not a field of a nearest subscription"):
        subscription_from_json({"id": 1, "kind": "nearest", "lon": 0, "lat": 0, "keywords": "a", "decay": 5})


def test_scores_are_told_as_they_are_after_the_event() -> None:
    ours = broker()
    ours.subscribe("ann", nc.TopK(0, 0, "ramen", k=1, alpha=0.5, decay=10))
    assert heard(ours.publish(nc.Message("m1", 0, 0, "ramen", ts=0))) == [("+", "m1", 1.0)]
    assert heard(ours.advance(5_000)) == []
    assert ours.results("ann") == [("m1", 2**-0.5)]
    assert heard(ours.publish(nc.Message("m2", 6, 8, "ramen", ts=10_000))) == [("-", "m1", 0.5), ("+", "m2", 0.5)]
    assert heard(ours.publish(nc.Message("late", 0, 0, "ramen", ts=0))) == [("-", "m2", 0.5), ("+", "late", 0.5)]
    ours.advance(40_000)
    assert heard(ours.retract("late")) == [("-", "late", 0.0625), ("+", "m2", 0.0625)]
    assert heard(ours.update(nc.Message("m2", 6, 8, "ramen", ts=40_000))) == []
    assert ours.results("ann") == [("m2", 0.5)]


def test_the_parts_of_a_score_that_fades() -> None:
    ours = broker()
    ours.subscribe("ann", nc.TopK(0, 0, "ramen", alpha=0.5, decay=10))
    ours.publish([nc.Message("m1", 6, 8, "ramen", ts=0), nc.Message("m2", 0, 0, "soup", ts=20_000)])
    said = ours.explain("ann", "m1")
    assert (said.in_result, said.score) == (True, 0.125)
    assert {name: said.parts[name] for name in ("base", "decay factor", "score")} == {
        "base": 0.5,
        "decay factor": 0.25,
        "score": 0.125,
    }


def test_the_order_is_exact_where_no_float_is_small_enough() -> None:
    ours = broker()
    ours.subscribe("ann", nc.TopK(0, 0, "ramen", k=3, alpha=0.5, decay=0.001))
    places = [(6.0, 8.0), (0.0, 0.0), (3.0, 4.0), (0.0, 0.0)]
    ours.publish([nc.Message(f"m{i}", *place, "ramen", ts=i // 2) for i, place in enumerate(places)])
    ours.advance(10**9)
    assert ours.results("ann") == [("m3", 0.0), ("m2", 0.0), ("m1", 0.0)]  # 2, 1.5, 1 and .5 by the key
    assert [message for _, message, _ in heard(ours.subscribe("bob", nc.TopK(0, 0, "ramen", k=4, decay=0.001)))] == [
        "m3", "m2", "m1", "m0",
    ]  # fmt: skip
    assert heard(ours.retract("m3")) == [("-", "m3", 0.0), ("+", "m0", 0.0), ("-", "m3", 0.0)]


def test_a_message_that_cannot_score_comes_last_however_new_it_is() -> None:
    ours = broker()
    ours.subscribe("ann", nc.TopK(0, 0, "ramen", k=2, alpha=1.0, decay=0.001))
    ours.publish(nc.Message("m1", 0, 1, "ramen", ts=0))
    ours.publish([nc.Message(f"far{i}", 6, 8, "ramen", ts=10**6 + i) for i in range(2)])
    assert ours.results("ann") == [("m1", 0.0), ("far1", 0.0)]


def test_replacing_a_half_life_is_one_event() -> None:
    ours = broker()
    ours.subscribe("ann", nc.TopK(0, 0, "ramen", k=1, decay=10))
    ours.publish([nc.Message("old", 0, 0, "ramen", ts=0), nc.Message("new", 6, 8, "ramen", ts=20_000)])
    told = ours.subscribe("ann", nc.TopK(0, 0, "ramen", k=1), replace=True)
    assert heard(told) == [("-", "new", 0.5), ("+", "old", 1.0)]


def test_who_would_hear_a_message() -> None:
    ours = broker()
    ours.subscribe("plain", nc.TopK(0, 0, "ramen", k=1))
    ours.subscribe("fresh", nc.TopK(0, 0, "ramen", k=1, decay=10))
    ours.publish(nc.Message("m1", 0, 0, "ramen", ts=0))
    assert ours.match(nc.Message("m2", 6, 8, "ramen", ts=9_000)) == []
    assert ours.match(nc.Message("m2", 6, 8, "ramen", ts=10_000)) == ["fresh"]
    assert ours.match(nc.Message("m2", 0, 0, "ramen", ts=10_000)) == ["plain", "fresh"]


def test_forms_of_a_half_life() -> None:
    query = nc.TopK(1, 2, "ramen", decay=90.5)
    form = subscription_to_json(nc.Subscription("ann", query))
    assert form["decay"] == 90.5
    assert subscription_from_json(form).query == query
    assert "decay" not in subscription_to_json(nc.Subscription("ann", nc.TopK(1, 2, "ramen")))
    ours = broker()
    rows = {"id": [1, 2, 3, 4], "kind": ["topk"] * 4, "lon": [1.0] * 4, "lat": [2.0] * 4, "keywords": ["ramen"] * 4}
    told = ours.subscribe_many(pa.table({**rows, "decay": [None, 90.5, 0.0, 0.0001]}))
    assert [(reject.row, reject.field) for reject in told.rejects] == [(2, "decay"), (3, "decay")]
    for column in (pa.array([90, None, None, 5], pa.int32()), pa.array([90_000, None, None, 5_000], pa.duration("ms"))):
        other = broker()
        other.subscribe_many(pa.table({**rows, "decay": column}))
        assert [other.subscription(id).query.decay for id in (1, 2, 3, 4)] == [90.0, None, None, 5.0]  # type: ignore[union-attr]
    assert ours.subscriptions()["decay"].to_pylist() == [None, 90.5]
    assert ours.subscription(2).query == query
    again = broker()
    again.subscribe_many(ours.subscriptions())
    assert again.subscriptions().equals(ours.subscriptions())
    adopted = broker()
    adopted.adopt(ours.export_subscriptions([1, 2]))
    assert adopted.subscriptions()["decay"].to_pylist() == [None, 90.5]


def stream(seed: int, n: int) -> list[nc.Message]:
    """Messages whose times jump, stand still and go back, with ties of all sorts."""
    rng, clock, messages = random.Random(seed), rng_clock(seed), []
    for i in range(n):
        clock += rng.choice((0, 0, 1, 7, 20, 1000))
        words = rng.choices(("w0", "w1", "w2", "w3"), (8, 4, 2, 1), k=rng.randint(1, 3))
        life = rng.choice((None, None, None, 40, 5_000))
        place = rng.choice((0, 2, 4, 8)), rng.choice((0, 4, 8))
        ts = clock - rng.choice((0, 0, 0, 20, 3_000))
        fields = {"price": rng.randrange(4)}
        messages.append(
            nc.Message(i, *place, " ".join(words), ts=ts, expires=None if life is None else ts + life, fields=fields)
        )
    return messages


def rng_clock(seed: int) -> int:
    return (0, 1_700_000_000_000, -5_000)[seed % 3]


def queries(rng: random.Random) -> nc.TopK:
    words = " ".join(rng.choices(("w0", "w1", "w2", "w3"), k=rng.randint(1, 3)))
    return nc.TopK(
        rng.choice((0, 3, 8)), rng.choice((0, 4)), words, rng.choice((1, 2, 5, 30)), rng.choice((0.0, 0.5, 0.9, 1.0)),
        rng.random() < 0.8, rng.choice((None, None, "price < 3")), rng.choice((None, 0.001, 0.01, 0.02, 1, 60)),
    )  # fmt: skip


@pytest.mark.parametrize("seed", range(4))
def test_random_streams_are_judged(seed: int, tmp_path: Path) -> None:
    """One by one against the definitions; a batch, a broker restored in between and a small index say the same."""
    rng = random.Random(seed)
    window = ({"count": 60}, {"age": 6}, {"count": 40, "age": 3}, {"count": 100})[seed]
    ours, twin = broker(**window), broker(**window)
    judge = Definitions(Ground(BOUNDS, "euclidean", 10.0), Lifetime(**window))
    follower = Follower(judge)
    for i, message in enumerate(stream(seed, 260)):
        if i % 4 == 0:
            query = queries(rng)
            told = ours.subscribe(f"s{i}", query)
            identical(told, twin.subscribe(f"s{i}", query))
            judge.subscribe(f"s{i}", query)
            follower.follow(told)
        act = rng.random()
        if act < 0.1 and judge.live:
            chosen = rng.choice([arrival.message.id for arrival in judge.live.values()])
            told, others = ours.retract(chosen), twin.retract(chosen)
            judge.retract(chosen)
            identical(told, others)
            follower.follow(told)
        if act > 0.9:
            moved, place = rng.choice(list(judge.standing)), (rng.choice((1, 8)), 2)
            told = ours.move(moved, *place)
            identical(told, twin.move(moved, *place))
            judge.move(moved, lon=place[0], lat=place[1])
            follower.follow(told)
        told = ours.publish(message)
        identical(told, twin.publish([message]))
        judge.publish(message)
        follower.follow(told)
        if i % 40 == 20:
            ours.check()
            follower.check_all(ours)
            twin.snapshot(tmp_path / "twin")
            twin = nc.Broker.restore(tmp_path / "twin")
