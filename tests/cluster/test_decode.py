"""JSON objects become events, or refused rows that say why."""

from __future__ import annotations

from typing import Any

import pytest

from nearcast.cluster.decode import Decoder
from nearcast.cluster.schema import EVENTS, MOVE, PUBLISH, REFUSED, SUBSCRIBE, UNSUBSCRIBE

SUBSCRIPTION = {"id": "bob", "kind": "within", "region": [0, 0, 1, 1], "keywords": "fire"}
MESSAGE = {"id": 7, "lon": 1, "lat": 2.5, "text": "Fire!", "ts": 5}


def decoded(value: Any, role: str = "events", raw: str | None = None) -> dict[str, Any]:
    decoder = Decoder("file.jsonl", 3, role)
    decoder.add(9, raw, value)
    table = decoder.table()
    assert table.schema == EVENTS
    row: dict[str, Any] = table.to_pylist()[0]
    return row


def test_a_message() -> None:
    row = decoded({**MESSAGE, "likes": 3})
    assert row["event"] == PUBLISH
    assert (row["number"], row["name"], row["lon"], row["lat"], row["text"], row["ts"]) == (
        7,
        None,
        1.0,
        2.5,
        "Fire!",
        5,
    )
    assert (row["source"], row["file"], row["row"]) == ("file.jsonl", 3, 9)


def test_a_message_with_keywords_and_a_feature() -> None:
    assert decoded({"id": "a", "lon": 1, "lat": 2, "keywords": ["x y"]})["keywords"] == ["x y"]
    feature = {"type": "Feature", "id": "f", "geometry": {"type": "Point", "coordinates": [3, 4]}}
    row = decoded({**feature, "properties": {"text": "hi", "ts": 1}}, "messages")
    assert (row["name"], row["lon"], row["lat"], row["text"]) == ("f", 3.0, 4.0, "hi")


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        ({**SUBSCRIPTION, "ts": 4}, SUBSCRIBE),
        ({**SUBSCRIPTION, "event": "subscribe", "ts": 4}, SUBSCRIBE),
        ({"event": "move", "id": "bob", "region": [0, 0, 1, 1], "ts": 4}, MOVE),
        ({"event": "unsubscribe", "id": "bob", "ts": 4}, UNSUBSCRIBE),
    ],
)
def test_subscription_events(value: dict[str, Any], kind: int) -> None:
    row = decoded(value)
    assert (row["event"], row["name"], row["ts"]) == (kind, "bob", 4)
    assert (row["spec"] is None) == (kind == UNSUBSCRIBE)


def test_the_role_of_a_file_decides_where_a_row_does_not_say() -> None:
    assert decoded({**MESSAGE, "kind": "photo"}, "messages")["event"] == PUBLISH
    assert decoded({**MESSAGE, "event": "concert"}, "messages")["event"] == PUBLISH
    assert decoded({"event": "unsubscribe", "id": "bob"}, "messages")["event"] == UNSUBSCRIBE
    row = decoded({"id": "bob", "region": [0, 0, 1, 1], "keywords": "fire"}, "subscriptions")
    assert (row["event"], row["field"], row["reason"]) == (REFUSED, "kind", "kind is required, got None")


@pytest.mark.parametrize(
    ("value", "field"),
    [
        ([1, 2], "row"),
        ("text", "row"),
        (None, "row"),
        ({**MESSAGE, "lon": "east"}, "lon"),
        ({**MESSAGE, "lon": True}, "lon"),
        ({**MESSAGE, "lat": float("nan")}, "lat"),
        ({**MESSAGE, "ts": 5.5}, "ts"),
        ({**MESSAGE, "id": 2**63}, "id"),
        ({**MESSAGE, "id": None}, "id"),
        ({**MESSAGE, "text": None}, "text"),
        ({**MESSAGE, "text": "\ud800"}, "text"),
        ({**MESSAGE, "keywords": ["x"]}, "keywords"),
        ({**SUBSCRIPTION, "keywords": "fire AND"}, "keywords"),
        ({**SUBSCRIPTION, "kind": "near"}, "kind"),
        ({**SUBSCRIPTION, "radius": 5}, "radius"),
        ({**SUBSCRIPTION, "event": "destroy"}, "event"),
        ({"event": "move", "id": "bob"}, "lon"),
    ],
)
def test_what_cannot_be_read_is_refused_with_its_field(value: Any, field: str) -> None:
    row = decoded(value)
    assert (row["event"], row["field"], row["ts"]) == (REFUSED, field, None)
    assert row["reason"].startswith(field)
    assert row["raw"] is not None
    assert decoded(value, raw="as it stood")["raw"] == "as it stood"


def test_text_that_is_no_json() -> None:
    decoder = Decoder("f", 0, "events")
    for number, line in enumerate(("{broken", '{"id": 1', "[" * 100_000, "nul", '{"a": "\\ud800"}')):
        decoder.add_text(number, line)
    rows = decoder.table().to_pylist()
    assert [row["event"] for row in rows] == [REFUSED] * 5
    assert rows[0]["reason"].startswith("row must be JSON: ")
    assert len(decoder) == 0
    assert decoder.table().num_rows == 0


def test_a_field_that_utf8_cannot_hold_is_refused_like_any_other() -> None:
    decoder = Decoder("file", 0, "events")
    decoder.add(1, None, {"id": "s", "kind": "nearest", "lon": 0, "lat": 0, "keywords": "x", "\ud800": 1})
    assert decoder.table().column("field").to_pylist() == ["\\ud800"]
