"""What subscriptions would have heard: the same as a broker tells, counted by day."""

from __future__ import annotations

import datetime
from collections import Counter
from pathlib import Path
from xml.etree import ElementTree

import pyarrow as pa
import pytest
from contract.contenders import Town

import nearcast as nc

DAY = 86_400_000


def test_history_is_heard_in_the_order_of_time_and_counted_by_day() -> None:
    town = Town(4)
    queries = [(n, town.query(kind)) for n, kind in enumerate(["within", "similar", "topk", "nearest"] * 5)]
    window = nc.Window(count=30)
    rows = [
        {"id": n, "lon": m.lon, "lat": m.lat, "text": m.text or " ".join(m.keywords or ()), "ts": n * DAY // 7}
        for n, m in enumerate(town.messages(80))
    ]
    messages = pa.Table.from_pylist(rows)
    heard = nc.backtest(queries, messages.take(pa.array([*range(40, 80), *range(40)])), space=town.space, window=window)
    broker = nc.Broker(town.space, window)
    broker.subscribe_many(queries)
    told = broker.publish(messages)
    assert heard.to_arrow().equals(told.to_arrow())
    counted = Counter((u.subscription, u.ts // DAY) for u in told if u.sign == "+")
    found = {
        (row["subscription"], (row["day"] - datetime.date(1970, 1, 1)).days): row["alerts"]
        for row in heard.per_day.to_pylist()
    }
    assert counted
    assert found == counted
    totals = Counter(u.subscription for u in told if u.sign == "+")
    assert {row["subscription"]: row["alerts"] for row in heard.summary.to_pylist()} == {
        n: totals[n] for n, _ in queries
    }
    assert all(
        row["busiest"] == max((n for (id, _), n in counted.items() if id == row["subscription"]), default=0)
        for row in heard.summary.to_pylist()
    )


def test_the_plot_is_a_picture_of_the_days(tmp_path: Path) -> None:
    past = [nc.Message(n, 5, 5, "ramen", ts=n * DAY // 2) for n in range(5)]
    space = nc.Space((0, 0, 10, 10), metric="euclidean")
    heard = nc.backtest([("ann", nc.Within(nc.Box(0, 0, 9, 9), "ramen"))], past, space=space)
    drawing = heard.plot(tmp_path / "days.svg")
    titles = [
        title.text
        for title in ElementTree.fromstring((tmp_path / "days.svg").read_text()).iter()
        if title.tag.endswith("title")
    ]
    assert titles == [
        "5 alerts to 1 subscriptions, by day",
        "1970-01-01: 2 alerts",
        "1970-01-02: 2 alerts",
        "1970-01-03: 1 alerts",
    ]
    assert drawing.svg == (tmp_path / "days.svg").read_text()


def test_nothing_heard_is_no_error_and_a_bad_subscription_is() -> None:
    space = nc.Space((0, 0, 10, 10), metric="euclidean")
    heard = nc.backtest([("ann", nc.Within(nc.Box(0, 0, 9, 9), "ramen"))], [], space=space)
    assert heard.summary.to_pylist() == [{"subscription": "ann", "alerts": 0, "days": 0, "busiest": 0}]
    assert heard.per_day.num_rows == 0
    assert "0 alerts" in heard.plot().svg
    with pytest.raises(nc.InvalidInput, match="row 1: "):
        nc.backtest([("ann", nc.Nearest(1, 1, "a")), ("bob", nc.TopK(1, 1, "a"))], [], space=space)
