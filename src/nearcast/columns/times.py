"""How columns write times that were not given, and Arrow's timestamps, dates and ISO strings as epoch milliseconds.

A timestamp with a zone counts from 1970 in UTC, whatever the zone; one without is taken to do so as well.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nearcast.columns.arrow_rows import is_sound, mappings
from nearcast.columns.iso_times import is_text, milliseconds_of_texts

FOREVER = 2**63 - 1  # expiry of what never expires
MISSING = -(2**63)  # a `ts` that was not given

TIMES = ("ts", "expires")

_PER_UNIT = {"s": (1000, 1), "ms": (1, 1), "us": (1, 1000), "ns": (1, 1_000_000)}  # milliseconds, as a fraction


def whole_times(table: pa.Table) -> pa.Table:
    """The table with timestamps, dates and ISO strings in `ts` and `expires` as int64, floored to milliseconds.

    A column with a time past int64, or a string that is no time, stays as it is; `rows_with_times` reads it.
    """
    for name in TIMES:
        at = table.schema.get_field_index(name)
        kind = table.schema.field(at).type if at >= 0 else pa.null()
        if _is_time(kind) or is_text(kind):
            column = table.column(at)
            found = _milliseconds(column) if _is_time(kind) else milliseconds_of_texts(column)
            table = table if found is None else table.set_column(at, name, found)
    return table


def rows_with_times(field: str, table: pa.Table) -> list[dict[str, Any]]:
    """Rows as mappings; timestamps and dates in `ts` and `expires` are epoch milliseconds, however large."""
    rows = mappings(field, table)
    for name in TIMES:
        at = table.schema.get_field_index(name)
        if at >= 0 and _is_time(table.schema.field(at).type):
            times, parts = _milliseconds_per(table.schema.field(at).type)
            counts = _counts(table.column(at))
            for row, count in zip(rows, () if counts is None else counts.to_pylist(), strict=counts is not None):
                row[name] = None if count is None else count * times // parts
    return rows


def _is_time(kind: pa.DataType) -> bool:
    return bool(pa.types.is_timestamp(kind) or pa.types.is_date(kind))


def _milliseconds_per(kind: pa.DataType) -> tuple[int, int]:
    if pa.types.is_timestamp(kind):
        return _PER_UNIT[kind.unit]
    return (86_400_000, 1) if pa.types.is_date32(kind) else (1, 1)


def _counts(column: pa.ChunkedArray) -> pa.ChunkedArray | None:
    """The whole numbers that a column of times is made of, as int64; None if its memory is not what its type says."""
    raw = pa.int32() if pa.types.is_date32(column.type) else pa.int64()
    counts = pa.chunked_array([chunk.view(raw) for chunk in column.chunks], raw)
    return counts.cast(pa.int64()) if is_sound(counts) else None


def _milliseconds(column: pa.ChunkedArray) -> pa.ChunkedArray | None:
    times, parts = _milliseconds_per(column.type)
    counts = _counts(column)
    if counts is None:
        return None
    if times > 1:
        try:
            return pc.multiply_checked(counts, pa.scalar(times, pa.int64()))
        except pa.ArrowInvalid:  # past int64
            return None
    if parts == 1:
        return counts
    chunks = []
    for chunk in counts.chunks:
        floored = np.floor_divide(pc.fill_null(chunk, 0).to_numpy(zero_copy_only=False), parts)
        chunks.append(pa.array(floored, mask=chunk.is_null().to_numpy(zero_copy_only=False)))
    return pa.chunked_array(chunks, pa.int64())
