"""`subscribe(..., replace=True)`: one event, whose updates are the net change of the result."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from strategies import Seeded, make_message, make_query, make_setting

import nearcast as nc
from nearcast.model.query import Query

PLANE = nc.Space((0, 0, 10, 10), "euclidean")


def town(window: nc.Window | None = nc.Window(count=50)) -> nc.Broker:  # noqa: B008
    broker = nc.Broker(PLANE, window)
    broker.subscribe("other", nc.Within(nc.Box(0, 0, 10, 10), "fire"))
    return broker


def fill(broker: nc.Broker) -> None:
    words = ("fire", "smoke", "fire smoke")
    broker.publish([nc.Message(f"m{n}", n % 10, n % 7, words[n % 3], ts=n) for n in range(20)])


def said(updates: nc.Updates) -> list[tuple[str, Any]]:
    return [(update.sign, update.message) for update in updates]


def test_what_leaves_and_what_enters() -> None:
    broker = town()
    broker.subscribe("ann", nc.Nearest(0, 0, "fire", k=3))
    fill(broker)
    before = dict(broker.results("ann"))
    updates = broker.subscribe("ann", nc.Nearest(9, 6, "fire", k=4), replace=True)
    after = dict(broker.results("ann"))
    assert [(u.message, u.score) for u in updates if u.sign == "-"] == [
        (id, score) for id, score in before.items() if id not in after
    ]
    assert [(u.message, u.score) for u in updates if u.sign == "+"] == [
        (id, score) for id, score in after.items() if id not in before
    ]
    signs = [update.sign for update in updates]
    assert signs == sorted(signs, reverse=True), "- before +"
    assert {update.subscription for update in updates} == {"ann"}
    assert updates.event.tolist() == [0] * len(updates)
    assert (updates.sequence > 0).all()
    assert broker.subscribe("ann", nc.Nearest(9, 6, "fire", k=4), replace=True).to_arrow().num_rows == 0
    broker.check()


def test_another_kind_and_no_backfill() -> None:
    broker = town()
    broker.subscribe("ann", nc.Nearest(0, 0, "fire", k=2))
    fill(broker)
    held = [id for id, _ in broker.results("ann")]
    updates = broker.subscribe("ann", nc.Within(nc.Box(0, 0, 10, 10), "smoke NOT fire"), replace=True)
    assert said(updates)[:2] == [("-", id) for id in held]
    assert said(updates)[2:] == [("+", id) for id, _ in broker.results("ann")]
    updates = broker.subscribe("ann", nc.TopK(0, 0, "fire", backfill=False), replace=True)
    assert {sign for sign, _ in said(updates)} == {"-"}
    assert broker.results("ann") == []
    assert len(broker.subscription_ids) == 2


def test_an_unknown_id_is_a_plain_subscribe() -> None:
    ours, theirs = town(), town()
    for broker in (ours, theirs):
        fill(broker)
    query = nc.TopK(1, 1, "fire smoke", k=3)
    assert list(ours.subscribe("new", query, replace=True)) == list(theirs.subscribe("new", query))
    with pytest.raises(nc.DuplicateId):
        ours.subscribe("new", query)
    with pytest.raises(nc.DuplicateId):
        ours.subscribe("new", query, replace=False)


@pytest.mark.parametrize(
    ("call", "field"),
    [
        (lambda broker: broker.subscribe("ann", nc.Nearest(0, 0, "a"), replace="yes"), "replace"),
        (lambda broker: broker.subscribe("ann", "fire", replace=True), "query"),
        (lambda broker: broker.subscribe("ann", nc.Within(nc.Box(5, 0, 1, 1), "a"), replace=True), "region"),
        (lambda broker: broker.subscribe(7, nc.Nearest(0, 0, "a"), replace=True), "id"),
    ],
)
def test_what_is_refused_changes_nothing(call: Callable[[nc.Broker], Any], field: str) -> None:
    broker = town()
    broker.subscribe("ann", nc.Nearest(0, 0, "fire", k=3))
    fill(broker)
    before = broker.subscriptions(), broker.results("ann")
    with pytest.raises(nc.InvalidInput) as refused:
        call(broker)
    assert refused.value.field == field
    assert broker.subscriptions().equals(before[0])
    assert broker.results("ann") == before[1]


def test_one_that_has_ended_already_ends_the_other() -> None:
    broker = town()
    broker.subscribe("ann", nc.Nearest(0, 0, "fire", k=3))
    fill(broker)
    updates = broker.subscribe("ann", nc.Nearest(0, 0, "smoke"), expires=3, replace=True)
    assert (len(updates), updates.ended) == (0, ["ann"])
    with pytest.raises(nc.UnknownId):
        broker.results("ann")
    broker.subscribe("ann", nc.Nearest(0, 0, "fire"))


def test_the_end_is_that_of_the_new_one() -> None:
    broker = town()
    broker.subscribe("ann", nc.Nearest(0, 0, "fire"), expires=100)
    broker.subscribe("ann", nc.Nearest(0, 0, "fire"), expires=200, replace=True)
    assert broker.advance(100).ended == []
    assert broker.subscription("ann").expires == 200
    assert broker.advance(200).ended == ["ann"]


def test_without_a_window() -> None:
    broker = town(None)
    broker.subscribe("ann", nc.Nearest(0, 0, "fire", k=2))
    fill(broker)
    held = broker.results("ann")
    updates = broker.subscribe("ann", nc.Nearest(0, 0, "smoke", k=2), replace=True)
    assert [(u.sign, u.message, u.score) for u in updates] == [("-", *pair) for pair in held]
    assert said(broker.subscribe("other", nc.Within(nc.Box(0, 0, 5, 5), "smoke"), replace=True)) == []
    broker.publish(nc.Message("x", 1, 1, "smoke"))
    assert [id for id, _ in broker.results("ann")] == ["x"]


@pytest.mark.parametrize("seed", range(8))
def test_replacing_is_what_unsubscribing_and_subscribing_leave(seed: int) -> None:
    source = Seeded(seed)
    ground = make_setting(source).ground
    space = nc.Space(ground.bounds, ground.metric, ground.max_distance)
    ours, theirs = (nc.Broker(space, nc.Window(count=20)) for _ in range(2))
    for n in range(60):
        message = make_message(source, ground, n, 1000 + n)
        for broker in (ours, theirs):
            broker.publish([message])
        before = dict(ours.results("ann")) if n else {}
        query: Query = nc.Nearest(0, 0, "fire")
        try:
            query = make_query(source, ground)
            updates = ours.subscribe("ann", query, replace=True)
        except nc.InvalidInput:
            updates = ours.subscribe("ann", query := nc.Nearest(0, 0, "fire"), replace=True)
        if n:
            theirs.unsubscribe("ann")
        theirs.subscribe("ann", query)
        after = dict(ours.results("ann"))
        assert ours.results("ann") == theirs.results("ann")
        leaves = [("-", id, score) for id, score in before.items() if id not in after]
        enters = [("+", id, score) for id, score in after.items() if id not in before]
        assert [(update.sign, update.message, update.score) for update in updates] == leaves + enters
    ours.check()
