"""Fields and `where` through the broker: every kind, every form, and what becomes of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

import nearcast as nc
from nearcast.broker.snapshots import snapshot
from nearcast.errors import InvalidInput, SnapshotError

PLANE = nc.Space((0, 0, 8, 8), metric="euclidean")
CHEAP = "price < 10 AND kind IN ('food', 'drink')"


def all_kinds(where: str | None) -> dict[str, Any]:
    return {
        "within": nc.Within((0, 0, 8, 8), "ramen", where=where),
        "similar": nc.Similar(1, 1, "ramen", 0.5, 0.2, where=where),
        "topk": nc.TopK(1, 1, "ramen", k=2, where=where),
        "nearest": nc.Nearest(1, 1, "ramen", k=2, where=where),
    }


def message(id: int, price: Any, kind: Any, **more: Any) -> nc.Message:
    return nc.Message(id, id % 7, id % 5, "ramen", ts=id, fields={"price": price, "kind": kind}, **more)


def heard(updates: Any) -> list[tuple[Any, Any, str]]:
    return sorted((u.subscription, u.message, u.sign) for u in updates)


def test_only_messages_that_satisfy_it_count() -> None:
    broker = nc.Broker(PLANE, nc.Window(count=9))
    for id, query in all_kinds(CHEAP).items():
        broker.subscribe(id, query)
    updates = broker.publish(
        [message(1, 5, "food"), message(2, 50, "food"), message(3, 5, "car"), message(4, 1, "drink")]
    )
    assert heard(updates) == sorted((id, m, "+") for id in all_kinds(None) for m in (1, 4))
    late = broker.subscribe("late", nc.TopK(1, 1, "ramen", where="kind = 'car'"))
    assert heard(late) == [("late", 3, "+")]


def test_a_refill_finds_only_those() -> None:
    broker = nc.Broker(PLANE, nc.Window(count=3))
    for id, query in all_kinds("kind = 'food'").items():
        if id in ("topk", "nearest"):
            broker.subscribe(id, query)
    broker.publish([message(n, n, "food" if n % 2 else "car") for n in range(1, 40)])
    assert [id for id, _ in broker.results("nearest")] in ([37, 39], [39, 37])
    assert sorted(id for id, _ in broker.results("topk")) == [37, 39]


def test_moving_asks_again() -> None:
    broker = nc.Broker(PLANE, nc.Window(count=9))
    broker.subscribe("w", nc.Within((7, 7, 8, 8), "ramen", where=CHEAP))
    broker.publish([message(1, 5, "food"), message(2, 50, "food")])
    assert heard(broker.move("w", region=(0, 0, 8, 8))) == [("w", 1, "+")]


def test_replacing_changes_the_condition() -> None:
    broker = nc.Broker(PLANE, nc.Window(count=9))
    broker.publish([message(1, 5, "food"), message(2, 50, "food")])
    broker.subscribe("n", nc.Nearest(1, 1, "ramen", where="price < 10"))
    changed = broker.subscribe("n", nc.Nearest(1, 1, "ramen", where="price > 10"), replace=True)
    assert heard(changed) == [("n", 1, "-"), ("n", 2, "+")]


def test_without_a_window() -> None:
    broker = nc.Broker(PLANE)
    for id, query in all_kinds(CHEAP).items():
        if id != "topk":
            broker.subscribe(id, query)
    assert heard(broker.publish([message(1, 5, "food"), message(2, 5, "car")])) == [
        ("nearest", 1, "+"), ("similar", 1, "+"), ("within", 1, "+"),
    ]  # fmt: skip


def test_subscriptions_are_written_again() -> None:
    broker = nc.Broker(PLANE, nc.Window(count=9))
    for id, query in all_kinds(CHEAP).items():
        broker.subscribe(id, query)
    broker.subscribe("plain", nc.Nearest(1, 1, "ramen"))
    table = broker.subscriptions()
    assert table.column("where").to_pylist() == [CHEAP] * 4 + [None]
    assert broker.subscription("topk").query.where == CHEAP
    again = nc.Broker(PLANE, nc.Window(count=9))
    again.subscribe_many(table)
    assert again.subscriptions() == table


def test_tables_of_subscriptions_and_messages() -> None:
    broker = nc.Broker(PLANE, nc.Window(count=9))
    rows = pa.table(
        {
            "id": ["a", "b", "c", "d"],
            "kind": ["nearest"] * 4,
            "lon": [1.0] * 4,
            "lat": [1.0] * 4,
            "keywords": ["ramen"] * 4,
            "where": ["price < 10", None, "price <", "price < 10"],
        }
    )
    updates = broker.subscribe_many(rows)
    assert [(r.row, r.field) for r in updates.rejects] == [(2, "where")]
    assert "position 8" in updates.rejects[0].reason
    frame = pd.DataFrame(
        {
            "id": [1, 2],
            "lon": [1.0, 2.0],
            "lat": [1.0, 2.0],
            "text": ["ramen"] * 2,
            "fields": [{"price": 5}, {"price": 50}],
        }
    )
    assert heard(broker.publish(frame)) == [("a", 1, "+"), ("b", 1, "+"), ("b", 2, "+"), ("d", 1, "+")]


def test_explain_names_the_comparison() -> None:
    broker = nc.Broker(PLANE, nc.Window(count=9))
    for id, query in all_kinds("price < 10 AND (kind = 'food' OR HAS tags)").items():
        broker.subscribe(id, query)
    broker.publish(
        [message(1, 50, "food"), message(2, 5, "car"), message(3, 5, "food"), nc.Message(4, 1, 1, "ramen", ts=9)]
    )
    for id in all_kinds(None):
        dear = broker.explain(id, 1)
        assert dear.reason == "not in the result: its fields do not satisfy where: price < 10 is false"
        assert dear.parts["fields"] == {"price": 50, "kind": "food"}
        assert dear.parts["where holds"] is False
        assert not dear.in_result
        assert broker.explain(id, 2).reason.endswith("where: HAS tags is false")
        assert broker.explain(id, 2).parts["comparisons"] == {
            "price < 10": True, "kind = 'food'": False, "HAS tags": False,
        }  # fmt: skip
        assert broker.explain(id, 3).in_result
        assert broker.explain(id, 3).parts["where holds"] is True
        assert broker.explain(id, 4).parts["fields"] == {}


def test_fields_that_nobody_asks_for_are_not_taken_over() -> None:
    """Where messages are not kept. The next `where` asks for the fields of all later ones."""
    broker = nc.Broker(PLANE)
    broker.subscribe("all", nc.Within((0, 0, 8, 8), "ramen"))
    sent = [message(n, n, "food") for n in range(1, 9)]
    assert len(broker.publish(sent[:2])) == 2
    assert len(broker.publish(sent[2])) == 1
    assert broker.stats()["fields"]["names and values"] == 0
    broker.subscribe("some", nc.Within((0, 0, 8, 8), "ramen", where="price >= 5"))
    assert heard(broker.publish(sent[3:5])) == [("all", 4, "+"), ("all", 5, "+"), ("some", 5, "+")]
    assert heard(broker.publish(sent[5])) == [("all", 6, "+"), ("some", 6, "+")]
    broker.unsubscribe("some")
    assert heard(broker.publish(sent[6])) == [("all", 7, "+")]
    broker.subscribe("near", nc.Nearest(1, 1, "ramen", k=1, where="price > 0"))
    broker.publish([sent[7]])
    assert broker.explain("near", 8).parts["fields"] == {"price": 8, "kind": "food"}


def test_words_of_a_message_are_not_its_fields() -> None:
    """What fields add to the vocabulary disturbs no score, no count of words, and no other message."""
    plain, asked = (nc.Broker(PLANE, nc.Window(count=9), nc.Weights.fit(["ramen food", "food"])) for _ in range(2))
    asked.subscribe("w", nc.Within((0, 0, 8, 8), "ramen", where="kind = 'food'"))
    for broker in (plain, asked):
        for id, query in all_kinds(None).items():
            broker.subscribe(id, query)
    bare = [nc.Message(n, n % 7, n % 5, "ramen food", ts=n) for n in range(1, 9)]
    rich = [nc.Message(n, n % 7, n % 5, "ramen food", ts=n, fields={"kind": "food", "ramen": n}) for n in range(1, 9)]
    assert list(plain.publish(bare)) == [u for u in asked.publish(rich) if u.subscription != "w"]
    assert plain.stats()["words"] == asked.stats()["words"] == 2
    assert asked.stats()["fields"]["conditions"]["within"] == 1
    assert plain.stats()["fields"]["names and values"] == 0


def test_snapshots_hold_fields_and_conditions(tmp_path: Path) -> None:
    broker = nc.Broker(PLANE, nc.Window(count=9))
    for id, query in all_kinds(CHEAP).items():
        broker.subscribe(id, query)
    broker.publish([message(1, 5, "food"), message(2, 5, "car")])
    broker.snapshot(tmp_path / "s")
    twin = nc.Broker.restore(tmp_path / "s")
    twin.check()
    for one in (broker, twin):
        one.move("within", region=(0, 0, 1, 1))
    more = [message(3, 1, ["drink"]), message(4, 1, "car"), message(5, 2, "food")]
    assert list(broker.publish(more)) == list(twin.publish(more))
    assert twin.explain("topk", 3).parts["fields"] == {"price": 1, "kind": ["drink"]}


@pytest.mark.parametrize(
    ("path", "field", "value"),
    [
        ("live/table/fields/spans", "start", 10**6),
        ("live/table/fields/spans", "n", 10**6),
        ("live/table/fields/values/values", "name", 10**6),
        ("live/table/fields/values/values", "key", 0),
        ("live/table/fields/values/values", "type", 9),
        ("tables/within/rows", "condition", 7),
        ("tables/within/rows", "filed_size", 3),
        ("tables/topk/conditions/rows", "start", -1),
        ("tables/topk/conditions/rows", "n", 10**6),
        ("tables/topk/conditions/rows", "uses", 5),
        ("tables/topk/conditions/rows", "n_keys", 10**6),
        ("tables/topk/conditions/comparisons/comparisons", "if_true", 0),
        ("tables/topk/conditions/comparisons/comparisons", "if_false", 99),
        ("tables/topk/conditions/comparisons/comparisons", "operator", 9),
        ("tables/topk/conditions/comparisons/comparisons", "key", -5),
        ("tables/topk/conditions/keys/keys", None, -1),
    ],
)
def test_a_file_that_points_outside_is_refused(tmp_path: Path, path: str, field: str | None, value: int) -> None:
    broker = nc.Broker(PLANE, nc.Window(count=9))
    for id, query in all_kinds("price < 10 AND kind = 'food'").items():
        broker.subscribe(id, query)
    broker.publish([message(1, 5, "food"), message(2, 5, "car")])
    broker.snapshot(tmp_path / "s")
    state = snapshot.read(tmp_path / "s")
    part = state
    for name in path.split("/"):
        part = part[name]
    (part if field is None else part[field])[:] = value
    snapshot.write(tmp_path / "s", state)
    with pytest.raises(SnapshotError):
        nc.Broker.restore(tmp_path / "s")


def test_churn_of_fields_settles() -> None:
    broker = nc.Broker(PLANE, nc.Window(count=50))
    broker.subscribe("w", nc.Within((0, 0, 8, 8), "ramen", where="kind = 'k1'"))
    for n in range(30):
        broker.publish([nc.Message(n * 400 + i, 1, 1, "ramen", fields={"kind": f"k{n * 400 + i}"}) for i in range(400)])
    assert broker.stats()["fields"]["names and values"] < 10_000
    broker.check()


def test_bad_fields_and_conditions_raise() -> None:
    broker = nc.Broker(PLANE, nc.Window(count=9))
    with pytest.raises(InvalidInput, match=r"fields\.price must not be NaN"):
        broker.publish({"id": 1, "lon": 1, "lat": 1, "text": "a", "fields": {"price": float("nan")}})
    with pytest.raises(InvalidInput, match="where is malformed at position 9"):
        broker.subscribe("n", nc.Nearest(1, 1, "a", where="price < AND"))
    assert broker.stats()["subscriptions"]["all"] == broker.stats()["messages"]["live"] == 0


def test_estimates_count_those_that_satisfy_it() -> None:
    broker = nc.Broker(PLANE, nc.Window(count=9))
    broker.publish([message(1, 5, "food"), message(2, 50, "food"), message(3, 5, "car"), message(4, 1, "drink")])
    before = broker.stats()["fields"]
    for query in all_kinds(CHEAP).values():
        assert broker.estimate(query).matches == 2
    for query in all_kinds("HAS nothing").values():
        assert broker.estimate(query).matches == 0
    assert broker.stats()["fields"] == before
