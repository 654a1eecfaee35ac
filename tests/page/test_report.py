"""`nearcast.report`: a run of one's own, in whatever form it was given, on a map to replay."""

from __future__ import annotations

import datetime
import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import nearcast as nc
from nearcast.page import report as module
from page.browser import dom, embedded

NOON = 1_715_860_800_000
SPACE = nc.Space((13.0, 52.0, 14.0, 53.0))
WINDOW = nc.Window(age=3600)
FENCE = {"type": "Circle", "coordinates": [13.4, 52.5], "radius": 800}
SUBSCRIPTIONS = [
    {"id": "fence", "kind": "within", "region": FENCE, "keywords": "fire OR smoke"},
    {"id": "ann", "kind": "nearest", "lon": 13.41, "lat": 52.5, "keywords": "smoke", "k": 1},
]
MOVE = {"event": "move", "id": "ann", "lon": 13.42, "lat": 52.51, "ts": NOON + 90_000}


def rows() -> list[dict[str, Any]]:
    return [
        {"id": f"m{i}", "lon": 13.4 + i / 1000, "lat": 52.5, "text": f"Smoke {i}", "ts": NOON + i * 60_000}
        for i in range(4)
    ]


def run() -> list[nc.Updates]:
    broker = nc.Broker(SPACE, WINDOW)
    heard = [broker.subscribe_many(SUBSCRIPTIONS)]
    heard += [broker.publish(rows()[:2])]
    heard += [broker.move("ann", lon=13.42, lat=52.51)]
    return [*heard, broker.publish(rows()[2:])]


def drawn(page: nc.Map, folder: Path) -> dict[str, Any]:
    return embedded(page.save(folder / "report.html"))


def test_a_run_is_embedded(tmp_path: Path) -> None:
    updates = run()
    asked = [*SUBSCRIPTIONS, MOVE, {"event": "unsubscribe", "id": "fence", "ts": NOON + 150_000}]
    data = drawn(nc.report(rows(), asked, updates, title="My run", space=SPACE, window=WINDOW), tmp_path)
    assert data["title"] == "My run"
    assert data["messages"]["text"] == [f"Smoke {i}" for i in range(4)]
    assert [person["id"] for person in data["people"]] == ["fence", "ann"]
    assert data["people"][0]["until"] == NOON + 150_000
    assert data["people"][1]["moves"] == [{"ts": NOON + 90_000, "lon": 13.42, "lat": 52.51}]
    assert sum(len(one[0]) for one in data["updates"]) == sum(map(len, updates)) > 5
    assert (data["age"], data["count"], data["still"]) == (3_600_000, None, False)
    assert data["summary"] == [["messages", "4"], ["subscriptions", "2"], ["updates", str(sum(map(len, updates)))]]
    west, south, east, north = data["bounds"]
    assert 13 < west < 13.39 < 13.42 < east < 14
    assert 52 < south < 52.5 < 52.51 < north < 53


def test_all_forms_give_the_same_page(tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    polars = pytest.importorskip("polars")
    updates = run()
    wanted = nc.report(rows(), SUBSCRIPTIONS, updates, space=SPACE).html
    table = pa.Table.from_pylist(rows())
    frame = pandas.DataFrame(rows())
    timed = frame.assign(ts=pandas.to_datetime(frame.ts, unit="ms", utc=True))
    nanoseconds = table.set_column(4, "ts", table["ts"].cast(pa.timestamp("ms")).cast(pa.timestamp("ns", "Asia/Tokyo")))
    objects = [nc.Message(**row) for row in rows()]
    for messages in (table, table.to_reader(2), frame, timed, nanoseconds, polars.from_arrow(table), objects):
        assert nc.report(messages, SUBSCRIPTIONS, updates, space=SPACE).html == wanted
    asked = [
        nc.Subscription("fence", nc.Within(nc.Circle(13.4, 52.5, 800), "fire OR smoke")),
        ("ann", nc.Nearest(13.41, 52.5, "smoke", k=1)),
    ]
    assert (
        nc.report(rows(), asked, updates, space=SPACE).html == nc.report(rows(), asked, iter(updates), space=SPACE).html
    )
    assert embedded(nc.report(rows(), asked, updates[1]).save(tmp_path / "one.html"))["metric"] == "haversine"


def test_rows_that_were_rejected_are_passed_over(tmp_path: Path) -> None:
    messages = [*rows(), {"id": "bad", "lon": None, "lat": 1.0, "text": "x"}, "what?"]
    asked = [*SUBSCRIPTIONS, {"id": "bad", "kind": "what"}, {"event": "move", "id": "nobody", "lon": 1, "lat": 1}]
    assert (
        nc.report(messages, asked, run(), space=SPACE).html == nc.report(rows(), SUBSCRIPTIONS, run(), space=SPACE).html
    )


def test_large_runs_keep_what_was_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_MESSAGES", 2)
    monkeypatch.setattr(module, "MOST_SUBSCRIPTIONS", 1)
    many = [{"id": "first", "lon": 13.4, "lat": 52.5, "text": "quiet", "ts": NOON - 1}, *rows()[:1]]
    many += [{"id": f"q{i}", "lon": 13.4, "lat": 52.5, "text": "quiet", "ts": NOON + i} for i in range(3)]
    data = drawn(nc.report(many, SUBSCRIPTIONS, run(), space=SPACE, window=nc.Window(count=9)), tmp_path)
    assert data["messages"]["ids"] == ["m0", "q2"]
    assert data["summary"][:2] == [["messages", "2 of 5"], ["subscriptions", "1 of 2"]]
    assert data["count"] is None, "sequences are not known where messages were left out"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"updates": 5}, "updates must be Updates, or several of them, got 5"),
        ({"updates": ["x"]}, "updates must be Updates, or several of them, got 'x'"),
        ({"space": 5}, "space must be a Space or None, got 5"),
        ({"window": 5}, "window must be a Window or None, got 5"),
        ({"messages": 5}, "messages must be many"),
        ({"subscriptions": None}, "subscriptions must be many"),
    ],
)
def test_what_is_no_run_is_refused(change: dict[str, Any], said: str) -> None:
    given = {"messages": rows(), "subscriptions": SUBSCRIPTIONS, "updates": run(), **change}
    with pytest.raises(nc.InvalidInput, match=re.escape(said)):
        nc.report(**given)


def test_a_browser_replays_it(tmp_path: Path) -> None:
    day = 86_400_000
    updates = run()
    late = nc.Message("late", 13.41, 52.5, "smoke", ts=datetime.datetime(2024, 5, 20, tzinfo=datetime.UTC))
    made = nc.report([*rows(), late], [*SUBSCRIPTIONS, MOVE], updates, space=SPACE)
    page = dom(made.save(tmp_path / "report.html"), tmp_path, f"id=ann&tab=now&t={NOON + day}")
    assert 'data-ready="yes"' in page
    assert re.search(r'<output id="clock"[^>]*>2024-05-17 12:00<', page), "several days are told by their dates"
    listed = re.search(r'data-id="ann".*?<ol[^>]*>(.*?)</ol>', page, re.DOTALL)
    assert listed is not None
    assert "Smoke 3" in listed.group(1)
