"""A column of ISO 8601 strings as epoch milliseconds: the usual form in bulk, every other one by one."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nearcast.columns.arena import Array, Longs
from nearcast.columns.arrow_rows import is_sound
from nearcast.errors import InvalidInput
from nearcast.model.instant import instant

_USUAL = (
    r"^(?P<year>[0-9]{4})-(?P<month>0[1-9]|1[0-2])-(?P<day>[0-3][0-9])[T ]"
    r"(?P<hour>[01][0-9]|2[0-3]):(?P<minute>[0-5][0-9])"
    r"(?::(?P<second>[0-5][0-9])(?:\.(?P<part>[0-9]{1,9}))?)?(?P<zone>Z|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])?$"
)


def is_text(kind: pa.DataType) -> bool:
    """May a column of this type hold ISO 8601 strings?"""
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def milliseconds_of_texts(column: pa.ChunkedArray) -> pa.ChunkedArray | None:
    """The times as int64, nulls as they are; None if some text is no time, or the column is damaged."""
    if not is_sound(column):
        return None
    try:
        return pa.chunked_array([_milliseconds(chunk) for chunk in column.chunks], pa.int64())
    except InvalidInput:
        return None


def _milliseconds(texts: pa.Array) -> pa.Array:
    found = pc.extract_regex(texts, _USUAL)
    usual = found.is_valid().to_numpy(zero_copy_only=False)
    times = np.zeros(len(texts), dtype=np.int64)
    rows = np.flatnonzero(usual)
    times[rows], exists = _usual(found.filter(pa.array(usual)))
    usual[rows[~exists]] = False
    given = texts.is_valid().to_numpy(zero_copy_only=False)
    for row in np.flatnonzero(given & ~usual).tolist():
        times[row] = instant("ts", texts[row].as_py())
    return pa.array(times, mask=~given)


def _usual(parts: pa.StructArray) -> tuple[Longs, Array]:
    """Milliseconds of texts that look right, and whether there is such a day."""
    fields = {parts.type.field(i).name: part for i, part in enumerate(parts.flatten())}
    year, month, day, hour, minute, second = (
        _whole(fields[name]) for name in ("year", "month", "day", "hour", "minute", "second")
    )
    months = (year - 1970) * 12 + month - 1
    first, next_first = (_days(months + more) for more in (0, 1))
    exists = (year >= 1) & (day >= 1) & (day <= next_first - first)
    thousandths = _whole(pc.utf8_slice_codeunits(pc.utf8_rpad(fields["part"], 3, "0"), 0, 3))
    seconds = (((first + day - 1) * 24 + hour) * 60 + minute) * 60 + second
    return (seconds - 60 * _offsets(fields["zone"])) * 1000 + thousandths, exists


def _days(months: Longs) -> Longs:
    """Days from 1970 to the first of a month, counted from January 1970."""
    return months.astype("datetime64[M]").astype("datetime64[D]").astype(np.int64)


def _offsets(zones: pa.Array) -> Longs:
    """Minutes that a zone is ahead of UTC; none, and Z, are UTC."""
    sign = np.where(pc.fill_null(pc.starts_with(zones, "-"), False).to_numpy(zero_copy_only=False), -1, 1)
    hours, minutes = (_whole(pc.utf8_slice_codeunits(zones, at, at + 2)) for at in (1, 4))
    ahead: Longs = sign * (60 * hours + minutes)
    return ahead


def _whole(texts: pa.Array) -> Longs:
    """Digits as numbers, nothing as 0."""
    digits = pc.if_else(pc.equal(pc.fill_null(pc.binary_length(texts), 0), 0), "0", texts)
    return digits.cast(pa.int64()).to_numpy(zero_copy_only=False)  # type: ignore[no-any-return]
