"""Arrow's timestamps and dates at every door: the same milliseconds as whole numbers, floored."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import nearcast as nc
from nearcast.columns import iso_times
from nearcast.columns.decode_messages import decode_messages
from nearcast.columns.times import FOREVER, MISSING, rows_with_times, whole_times
from nearcast.model.instant import instant
from nearcast.space.space import Space

PLANE = Space((0, 0, 8, 8), "euclidean")
PARTS = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
COUNTS = st.lists(st.none() | st.integers(-(2**63), 2**63 - 1), max_size=5)


@given(COUNTS, st.sampled_from(sorted(PARTS)), st.sampled_from([None, "UTC", "Asia/Tokyo", "-07:30", "Nowhere/Land"]))
def test_timestamps_are_floored_whatever_unit_and_zone(counts: list[int | None], unit: str, zone: str | None) -> None:
    table = pa.table({"ts": pa.array(counts, pa.int64()).view(pa.timestamp(unit, zone))})
    expected = [None if count is None else count * 1000 // PARTS[unit] for count in counts]
    assert [row["ts"] for row in rows_with_times("messages", table)] == expected
    whole = whole_times(table)
    if all(value is None or -(2**63) <= value < 2**63 for value in expected):
        assert whole.column("ts").type == pa.int64()
        assert whole.column("ts").to_pylist() == expected
    else:
        assert whole.schema == table.schema


@given(st.lists(st.none() | st.integers(-(2**31), 2**31 - 1), max_size=5))
def test_dates_are_their_midnight(days: list[int | None]) -> None:
    expected = [None if day is None else day * 86_400_000 for day in days]
    short, long = pa.array(days, pa.int32()).view(pa.date32()), pa.array(expected, pa.int64()).view(pa.date64())
    for column in (short, long):
        table = pa.table({"ts": pa.chunked_array([column[:1], column[1:]]), "text": column})
        whole = whole_times(table)
        assert whole.column("ts").to_pylist() == expected
        assert whole.column("text").type == column.type, "only times are times"


def batch(**columns: Any) -> Any:
    n = len(next(iter(columns.values())))
    given = {"id": [f"m{i}" for i in range(n)], "lon": [1.0] * n, "lat": [1.0] * n, "text": ["fire"] * n, **columns}
    return decode_messages(pa.table(given), PLANE, None)


def test_messages_of_every_form_of_time_are_the_same() -> None:
    times = [datetime(2024, 5, 17, 12, 0, 0, 1500, tzinfo=UTC) + timedelta(hours=hour) for hour in range(3)]
    expected = [int(time.timestamp() * 1000) for time in times]
    naive = [time.replace(tzinfo=None) for time in times]
    forms = [
        pa.array(expected),
        pa.array(naive, pa.timestamp("us")),
        pa.array(times, pa.timestamp("ns", "Europe/Paris")),
        pa.array(naive, pa.timestamp("ns")).dictionary_encode(),
        pa.array([time.isoformat() for time in times]),
        pa.array([time.isoformat() for time in times], pa.large_string()),
    ]
    for column in forms:
        found = batch(ts=column, expires=column)
        assert found.rejects == []
        assert found.ts.tolist() == found.expires.tolist() == expected
    rows = [
        {"id": f"m{i}", "lon": 1, "lat": 1, "text": "fire", "ts": time, "expires": time} for i, time in enumerate(times)
    ]
    for given_rows in (rows, [nc.Message(**row) for row in rows]):
        found = decode_messages(given_rows, PLANE, None)
        assert found.ts.tolist() == found.expires.tolist() == expected


def test_nulls_are_times_that_were_not_given() -> None:
    found = batch(ts=pa.array([None, 5], pa.timestamp("s")), expires=pa.array([7, None], pa.date32()))
    assert found.ts.tolist() == [MISSING, 5000]
    assert found.expires.tolist() == [7 * 86_400_000, FOREVER]


def test_times_out_of_range_are_rejected_one_by_one() -> None:
    found = batch(ts=pa.array([5, 2**60, -(2**60), None], pa.timestamp("s")))
    assert found.rows.tolist() == [0, 3]
    assert [reject.reason for reject in found.rejects] == [
        f"ts must be <= {2**62}, got {2**60 * 1000}",
        f"ts must be >= {-(2**62)}, got {-(2**60) * 1000}",
    ]
    found = batch(ts=pa.array([5, 2**62 + 1], pa.timestamp("ms")))
    assert [reject.reason for reject in found.rejects] == [f"ts must be <= {2**62}, got {2**62 + 1}"]
    found = batch(ts=pa.array([5, 5], pa.duration("ms")))
    assert [reject.field for reject in found.rejects] == ["ts", "ts"]


def test_subscriptions_and_moves_take_timestamps() -> None:
    broker = nc.Broker(PLANE, window=nc.Window(count=10))
    ends = pa.array([np.datetime64("2024-05-17T12:00:00.000999"), None])
    subscriptions = {
        "id": ["a", "b"],
        "kind": ["nearest"] * 2,
        "lon": [1.0] * 2,
        "lat": [1.0] * 2,
        "keywords": ["fire"] * 2,
    }
    assert broker.subscribe_many(pa.table({**subscriptions, "expires": ends})).rejects == []
    broker.advance("2024-05-17T11:59:59.999Z")
    assert broker.subscription_ids.to_pylist() == ["a", "b"]
    moves = {"id": ["a", "b"], "lon": [2.0] * 2, "lat": [2.0] * 2}
    assert broker.move_many(pa.table({**moves, "ts": pa.array([1, 2], pa.timestamp("s"))})).rejects == []
    refused = broker.move_many(pa.table({**moves, "ts": pa.array([1, 2**60], pa.timestamp("s"))})).rejects
    assert [(reject.row, reject.field) for reject in refused] == [(1, "ts")]
    broker.advance(datetime(2024, 5, 17, 12))
    assert broker.subscription_ids.to_pylist() == ["b"]


@pytest.mark.parametrize("kind", ["similar", "within"])
def test_expiries_past_int64_are_rejected(kind: str) -> None:
    broker = nc.Broker(PLANE)
    row = {"id": ["a"], "kind": [kind], "keywords": ["fire"], "expires": pa.array([2**60], pa.timestamp("s"))}
    row |= (
        {"lon": [1.0], "lat": [1.0], "delta": [0.5], "tau": [0.5]}
        if kind == "similar"
        else {"region": ["[0, 0, 1, 1]"]}
    )
    assert [reject.field for reject in broker.subscribe_many(pa.table(row)).rejects] == ["expires"]


TEXTS = st.one_of(
    st.datetimes().map(datetime.isoformat),
    st.datetimes(timezones=st.timezones()).map(datetime.isoformat),
    st.datetimes(timezones=st.sampled_from([UTC, timezone(timedelta(hours=-7, minutes=-30))])).map(str),
    st.from_regex(r"\A\d{4}(-\d\d){2}[T ]\d\d:\d\d(:\d\d(\.[0-9]{1,9})?)?([+-][0-9]{2}:[0-9]{2})?\Z"),
    st.from_regex(r"\A(19|20)[0-9]{2}-[01][0-9]-[0-3][0-9][T ][0-2][0-9]:[0-5][0-9]:[0-5][0-9]\.[0-9]{1,9}Z?\Z"),
    st.sampled_from(["2024-02-29T00:00", "2023-02-29T00:00", "0000-01-01T00:00:00", "2024-05-17", "2024-W20-5", "soon",
                     "", " 2024-05-17t12:00z ",
                     "2024-05-17T24:00:00", "2024-05-17T12:00:60", "1969-12-31T23:59:59.9999Z"]),
)  # fmt: skip


@given(st.lists(st.none() | TEXTS, max_size=6), st.sampled_from([pa.string(), pa.large_string()]))
def test_iso_strings_in_bulk_are_what_each_of_them_is(texts: list[str | None], kind: pa.DataType) -> None:
    table = pa.table({"expires": pa.chunked_array([texts[:2], texts[2:]], kind)})
    try:
        expected = [None if text is None else instant("expires", text) for text in texts]
    except nc.InvalidInput:
        assert whole_times(table).schema == table.schema
    else:
        assert whole_times(table).column("expires").to_pylist() == expected
        assert whole_times(table).column("expires").type == pa.int64()


def test_most_iso_strings_are_never_python_objects(monkeypatch: pytest.MonkeyPatch) -> None:
    odd: list[str] = []
    monkeypatch.setattr(iso_times, "instant", lambda field, text: odd.append(text) or instant(field, text))
    texts = ["2024-05-17T12:00:00Z", "2024-05-17 12:00:00.123456789+02:00", "2024-05-17T12:00", "2024-05-17", None]
    found = batch(ts=pa.array(texts))
    assert odd == ["2024-05-17"]
    noon = 1_715_947_200_000
    assert found.ts.tolist() == [noon, noon - 7_200_000 + 123, noon, noon - 43_200_000, MISSING]


def test_texts_that_are_no_times_are_rejects() -> None:
    found = batch(ts=pa.array(["2024-05-17T12:00Z", "2023-02-29T12:00Z", "soon"]))
    assert [(reject.row, reject.field) for reject in found.rejects] == [(1, "ts"), (2, "ts")]
    damaged = pa.Array.from_buffers(pa.string(), 1, pa.array([b"\xff"]).buffers())
    assert [reject.field for reject in batch(ts=damaged).rejects] == ["ts"]
