"""Times as people have them, numbers, datetimes or ISO 8601 strings, become epoch milliseconds.

All of it is integer arithmetic. What is finer than a millisecond is floored, also before 1970. A time without a zone
is in UTC.
"""

from __future__ import annotations

import re
from datetime import date, datetime, timedelta
from typing import Any

import numpy as np

from nearcast.errors import InvalidInput
from nearcast.model.checks import INT64_MAX, INT64_MIN, is_a, number, refusal, whole

TimeValue = int | str | date | np.datetime64  # a datetime is a date, and a pandas.Timestamp a datetime
Duration = float | timedelta

LAST_INSTANT = 2**62  # of a clock, in milliseconds either way from 1970
LONGEST_MS = 2**53  # of a half-life: floats tell all whole numbers below that apart
HALF_LIFE_RULE = "must be seconds or a timedelta, > 0 and in whole milliseconds"
RULE = "must be whole epoch milliseconds, a datetime or an ISO 8601 string"

_EPOCH_DAY = date(1970, 1, 1).toordinal()
_ISO = re.compile(r"\d{4}-?(?:\d\d-?\d\d|W\d\d-?\d)(?:[Tt ]\d\d.*)?", re.ASCII | re.DOTALL)
_UNITS = {  # of NumPy: how many milliseconds one of them is, as a fraction
    "W": (604_800_000, 1),
    "D": (86_400_000, 1),
    "h": (3_600_000, 1),
    "m": (60_000, 1),
    "s": (1_000, 1),
    "ms": (1, 1),
    "us": (1, 10**3),
    "ns": (1, 10**6),
    "ps": (1, 10**9),
    "fs": (1, 10**12),
    "as": (1, 10**15),
}
_MOST_YEARS = 2**28  # past LAST_INSTANT, and few enough for their days to be counted


def instant(field: str, value: Any) -> int:
    """`value` as epoch milliseconds, so far from the ends of int64 that ages can be added.

    Examples
    --------
    >>> instant("ts", "2023-11-14T22:13:20.0009Z"), instant("ts", datetime(1970, 1, 1, 0, 0, 1))
    (1700000000000, 1000)
    """
    found = _milliseconds(field, value, -LAST_INSTANT, LAST_INSTANT)
    if found is None:
        raise InvalidInput(field, value, "must be a time")
    return found


def optional_instant(field: str, value: Any) -> int | None:
    """The same; a time that is none, such as None or `pandas.NaT`, is None."""
    return None if value is None else _milliseconds(field, value, -LAST_INSTANT, LAST_INSTANT)


def optional_expiry(field: str, value: Any) -> int | None:
    """`value` as epoch milliseconds, any of int64; None as in `optional_instant`."""
    return None if value is None else _milliseconds(field, value, INT64_MIN, INT64_MAX)


def seconds_in(value: timedelta) -> float:
    """A duration in seconds: an int if they are whole.

    Examples
    --------
    >>> seconds_in(timedelta(hours=1)), seconds_in(timedelta(milliseconds=250))
    (3600, 0.25)
    """
    seconds = value.days * 86_400 + value.seconds
    return seconds + value.microseconds / 1_000_000 if value.microseconds else seconds


def half_life(field: str, value: Any) -> float:
    """Seconds, or a timedelta, that are whole milliseconds and more than none: as seconds.

    Examples
    --------
    >>> half_life("decay", timedelta(hours=1)), half_life("decay", 0.25)
    (3600.0, 0.25)
    """
    given = value
    try:
        fine = 0
        if is_a(value, timedelta):
            fine = getattr(value, "nanoseconds", 0)  # of a pandas.Timedelta
            value = seconds_in(value)
        seconds = number(field, value)
    except InvalidInput:
        seconds, fine = 0.0, 0
    if fine or not 0.0 < seconds <= LONGEST_MS / 1000 or milliseconds_in(seconds) / 1000 != seconds:
        raise InvalidInput(field, given, HALF_LIFE_RULE)
    return seconds


def milliseconds_in(seconds: float) -> int:
    """Seconds in milliseconds, of which they have a whole number."""
    return round(seconds * 1000)


def _milliseconds(field: str, value: Any, low: int, high: int) -> int | None:
    if type(value) is int and low <= value <= high:
        return value
    if not is_a(value, str | date | np.datetime64):
        try:
            return whole(field, value, low, high)
        except InvalidInput as error:
            if error.rule == "must be a whole number":
                raise InvalidInput(field, value, RULE) from None
            raise
    try:
        found = _converted(field, value)
    except Exception as error:
        raise refusal(field, value, error, lambda: _converted(field, value)) from error
    if found is not None and not low <= found <= high:
        raise InvalidInput(field, value, f"must be within {low} and {high} epoch milliseconds")
    return found


def _converted(field: str, value: Any) -> int | None:
    """Epoch milliseconds; None for NaT, NumPy's or that of pandas, the one date that does not equal itself."""
    if isinstance(value, str):
        return _of_datetime(_parsed(field, str.__str__(value)))
    if value != value:
        return None
    return _of_numpy(field, value) if isinstance(value, np.datetime64) else _of_datetime(value)


def _parsed(field: str, text: str) -> datetime:
    if _ISO.fullmatch(text.strip()) is None:
        raise InvalidInput(field, text, RULE)
    if text.strip().isdigit():
        raise InvalidInput(field, text, "must be a number or, as an ISO 8601 string, have dashes or a time of day")
    try:
        return datetime.fromisoformat(text.strip().upper())
    except ValueError as error:
        raise InvalidInput(field, text, f"must be a time that there is ({error})") from None


def _of_datetime(value: date) -> int:
    """Of a date its midnight. A pandas.Timestamp has nanoseconds besides, which flooring drops anyway."""
    micros = (value.toordinal() - _EPOCH_DAY) * 86_400_000_000
    if isinstance(value, datetime):
        micros += ((value.hour * 60 + value.minute) * 60 + value.second) * 1_000_000 + value.microsecond
        offset = value.utcoffset()
        if offset is not None:
            micros -= (offset.days * 86_400 + offset.seconds) * 1_000_000 + offset.microseconds
    return int(micros // 1000)


def _of_numpy(field: str, value: np.datetime64) -> int:
    unit, step = np.datetime_data(value.dtype)
    count = int(value.astype(np.int64)) * step
    if unit in ("Y", "M"):
        if abs(count) > _MOST_YEARS * (1 if unit == "Y" else 12):
            raise InvalidInput(field, value, "must be within the range of epoch milliseconds")
        unit, count = "D", int(value.astype("datetime64[D]").astype(np.int64))
    times, parts = _UNITS[unit]
    return count * times // parts
