"""The rows of a Parquet file become events: messages a column at a time, whatever else one JSON object at a time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from nearcast.cluster.decode import MESSAGES, Decoder
from nearcast.cluster.schema import EVENTS, PUBLISH
from nearcast.columns.times import rows_with_times, whole_times

_PIECE_ROWS = 20_000  # rows decoded at a time


def read_parquet(path: str, number: int, role: str, decoder: Decoder) -> Iterator[pa.Table]:
    row = 0
    try:
        with pq.ParquetFile(path) as parquet:
            for batch in parquet.iter_batches(batch_size=_PIECE_ROWS):
                table = whole_times(pa.Table.from_batches([batch]))
                columnar = _message_table(table, path, number, row) if role == MESSAGES else None
                if columnar is None:
                    for value in rows_with_times("file", table):
                        row += 1
                        decoder.add(row, None, value)
                    columnar = decoder.table()
                else:
                    row += table.num_rows
                yield columnar
    except (pa.ArrowException, OSError) as error:
        reason = str(error).splitlines()[0]
        decoder.refuse(row + 1, "", "file", f"file must be readable to its end: {reason}")


def _message_table(table: pa.Table, path: str, number: int, rows_before: int) -> pa.Table | None:
    """Messages whose columns have the right types, without a look at each row; None if they have not.

    Values are for the broker to judge; only types are settled here.
    """
    have = {field.name: field.type for field in table.schema}
    is_text = _any_of(pa.types.is_string, pa.types.is_large_string)
    is_float = _any_of(pa.types.is_floating, pa.types.is_signed_integer)
    wanted = {"lon": is_float, "lat": is_float, "text": is_text, "ts": pa.types.is_signed_integer}
    wanted |= {"expires": pa.types.is_signed_integer, "keywords": _is_words, "id": _any_of(is_text, _is_int)}
    if not {"id", "lon", "lat"} <= have.keys() or not have.keys() & {"text", "keywords"} or "event" in have:
        return None
    if not all(fits(have[name]) for name, fits in wanted.items() if name in have):
        return None
    n = table.num_rows
    columns = {field.name: pa.nulls(n, field.type) for field in EVENTS}
    for name in wanted:
        if name in have and name != "id":
            columns[name] = table.column(name).cast(columns[name].type)
    ids = table.column("id")
    columns["number" if _is_int(ids.type) else "name"] = ids.cast(pa.int64() if _is_int(ids.type) else pa.string())
    columns["event"] = pa.array([PUBLISH], pa.int8()).take(pa.array([0] * n, pa.int32()))
    columns["source"] = pa.array([path] * n, pa.string())
    columns["file"] = pa.array([number] * n, pa.int32())
    columns["row"] = pc.add(pa.array(range(n), pa.int64()), rows_before + 1)
    return pa.Table.from_arrays([columns[field.name] for field in EVENTS], schema=EVENTS)


def _is_int(type_: pa.DataType) -> bool:
    return bool(pa.types.is_signed_integer(type_) or type_ in (pa.uint8(), pa.uint16(), pa.uint32()))


def _is_words(type_: pa.DataType) -> bool:
    inner = type_.value_type if pa.types.is_list(type_) or pa.types.is_large_list(type_) else None
    return inner is not None and bool(pa.types.is_string(inner) or pa.types.is_large_string(inner))


def _any_of(*tests: Any) -> Any:
    return lambda type_: any(test(type_) for test in tests)
