"""Arrow's timestamps and dates at every door: the same milliseconds as whole numbers, floored."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import nearcast as nc
from nearcast.columns.decode_messages import decode_messages
from nearcast.columns.times import FOREVER, MISSING, rows_with_times, whole_times
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
