"""Times as people have them: the same milliseconds from every form, floored, and an error for what is none."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone, tzinfo
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nearcast.errors import InvalidInput
from nearcast.model.instant import LAST_INSTANT, instant, optional_expiry, optional_instant, seconds_in

pandas = pytest.importorskip("pandas")

NOON = 1_715_947_200_000  # 2024-05-17, 12:00 UTC
TOKYO = timezone(timedelta(hours=9))
SAME = [
    NOON,
    np.int64(NOON),
    datetime(2024, 5, 17, 12),
    datetime(2024, 5, 17, 12, tzinfo=UTC),
    datetime(2024, 5, 17, 21, tzinfo=TOKYO),
    datetime(2024, 5, 17, 12, 0, 0, 999),
    pandas.Timestamp("2024-05-17 12:00"),
    pandas.Timestamp("2024-05-17 12:00:00.000999999"),
    pandas.Timestamp("2024-05-17 21:00", tz="Asia/Tokyo"),
    pandas.Timestamp("2024-05-17 12:00").as_unit("s"),
    np.datetime64("2024-05-17T12"),
    np.datetime64("2024-05-17T12:00:00.000999999"),
    np.datetime64("2024-05-17T12:00", "20m"),
    "2024-05-17T12:00:00Z",
    "2024-05-17t12:00:00z",
    "2024-05-17 12:00",
    "2024-05-17T21:00:00+09:00",
    "2024-05-17T12:00:00.000999999Z",
    "20240517T120000Z",
    "2024-W20-5T12:00Z",
    np.str_(" 2024-05-17T12:00:00,0009Z "),
]


@pytest.mark.parametrize("value", SAME, ids=repr)
def test_every_form_gives_the_same_milliseconds(value: Any) -> None:
    for convert in (instant, optional_instant, optional_expiry):
        found = convert("ts", value)
        assert type(found) is int
        assert found == NOON


@pytest.mark.parametrize(
    "value", [date(2024, 5, 17), "2024-05-17", np.datetime64("2024-05-17"), datetime(2024, 5, 17)], ids=repr
)
def test_a_date_is_its_midnight_in_utc(value: Any) -> None:
    assert instant("ts", value) == NOON - 12 * 3_600_000


@given(st.datetimes(timezones=st.sampled_from([None, UTC, TOKYO, timezone(-timedelta(hours=3, microseconds=7))])))
def test_datetimes_are_floored_by_integers(value: datetime) -> None:
    aware = value if value.tzinfo else value.replace(tzinfo=UTC)
    assert instant("ts", value) == (aware - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)
    assert instant("ts", value.isoformat()) == instant("ts", value)


@given(st.integers(-(2**62), 2**62), st.sampled_from(["us", "ns", "ps", "fs", "as"]))
def test_numpy_times_are_floored_before_1970_too(count: int, unit: str) -> None:
    parts = {"us": 10**3, "ns": 10**6, "ps": 10**9, "fs": 10**12, "as": 10**15}[unit]
    assert instant("ts", np.datetime64(count, unit)) == count // parts


def test_years_and_months_of_numpy() -> None:
    assert instant("ts", np.datetime64("1969")) == -365 * 86_400_000
    assert instant("ts", np.datetime64("1970-02")) == 31 * 86_400_000
    assert instant("ts", np.datetime64(-1, "ns")) == -1
    assert instant("ts", np.datetime64(2, "W")) == 14 * 86_400_000


@pytest.mark.parametrize("value", [None, pandas.NaT, np.datetime64("NaT", "D"), np.datetime64("NaT", "ns")], ids=repr)
def test_no_time_is_none(value: Any) -> None:
    assert optional_instant("ts", value) is None
    assert optional_expiry("expires", value) is None
    with pytest.raises(InvalidInput, match=r"^ts must be "):
        instant("ts", value)


@pytest.mark.parametrize(
    "value",
    ["", "noon", "2024", "05/17/2024", "2024-05-17x12:00", "12:00", "1715947200000", "20240517", "2024-02-30",
     "24-05-17",      "2024-05-17T25:00", "2024-05-17T12:00+99:99",
     "\u0661\u0669\u0667\u0660-\u0660\u0661-\u0660\u0661",
     5.0, float("nan"), True, timedelta(1), b"2024-05-17",
     np.timedelta64(1, "s"), [1], {}],
    ids=repr,
)  # fmt: skip
def test_what_is_no_time_is_refused(value: Any) -> None:
    with pytest.raises(InvalidInput, match=r"^ts must ") as caught:
        instant("ts", value)
    assert caught.value.field == "ts"


@pytest.mark.parametrize(
    "value",
    [2**62 + 1, -(2**62) - 1, 2**70, np.datetime64(2**62, "s"), np.datetime64(2**62, "Y"), np.datetime64(-(2**62), "M"),
     np.datetime64(2**61, "D")],
    ids=repr,
)  # fmt: skip
def test_times_out_of_range_are_refused(value: Any) -> None:
    with pytest.raises(InvalidInput, match=r"^ts must be "):
        instant("ts", value)


def test_the_last_instants_can_be_given() -> None:
    assert instant("ts", np.datetime64(LAST_INSTANT, "ms")) == LAST_INSTANT
    assert optional_expiry("expires", 2**63 - 1) == 2**63 - 1


class NoZone(tzinfo):
    def utcoffset(self, moment: datetime | None) -> timedelta:
        raise ZeroDivisionError


def test_a_zone_that_raises_is_named() -> None:
    with pytest.raises(InvalidInput, match=r"^ts must be readable"):
        instant("ts", datetime(2024, 5, 17, tzinfo=NoZone()))


def test_durations_in_seconds() -> None:
    assert seconds_in(timedelta(days=2)) == 172_800
    assert type(seconds_in(timedelta(days=2))) is int
    assert seconds_in(timedelta(microseconds=-1)) == pytest.approx(-1e-6)
    assert seconds_in(pandas.Timedelta("90s")) == 90
