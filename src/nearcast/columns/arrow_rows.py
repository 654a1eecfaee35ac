"""Batches as callers give them, iterables or Arrow, become rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa

from nearcast.errors import InvalidInput


def rows_of(field: str, source: Any) -> Iterable[Any]:
    """Rows of an Arrow table as mappings, of an Arrow array as values; any other iterable as it is.

    Raises
    ------
    InvalidInput
        For what is one thing and not many: a string, a mapping, a number, None.
    """
    if isinstance(source, pa.Table | pa.RecordBatch):
        return mappings(source)
    if isinstance(source, pa.Array | pa.ChunkedArray):
        return values(source)
    if isinstance(source, str | bytes | Mapping) or not isinstance(source, Iterable):
        raise InvalidInput(field, source, "must be many: an iterable or an Arrow table")
    return source


def as_table(field: str, source: Any) -> pa.Table | None:
    """An Arrow table or batch as a table that can be read column by column; None for anything else.

    Raises
    ------
    InvalidInput
        For a table that has a column twice.
    """
    if isinstance(source, pa.RecordBatch):
        source = pa.Table.from_batches([source])
    if not isinstance(source, pa.Table):
        return None
    for name in source.column_names:
        if source.column_names.count(name) > 1:
            raise InvalidInput(field, name, "must have each column once")
    return source


def is_sound(given: pa.Table | pa.Array) -> bool:
    """Are all strings of a table or column UTF-8? Arrow does not ask on its own."""
    try:
        given.validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def mappings(table: pa.Table | pa.RecordBatch) -> list[dict[str, Any]]:
    """Rows of a table as mappings, whatever its columns hold."""
    columns = {name: values(table.column(name)) for name in table.column_names}
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def values(column: pa.Array | pa.ChunkedArray) -> list[Any]:
    """Values of a column; what Python cannot hold becomes something that the checks refuse and can show."""
    try:
        found: list[Any] = column.to_pylist()
    except UnicodeDecodeError:
        found = [_readable(value) for value in column.cast(_as_bytes(column.type)).to_pylist()]
    except (OverflowError, ValueError):  # a time past Python's calendar
        found = [None if not value.is_valid else f"{column.type} {value.value}" for value in column]
    return found


def _as_bytes(kind: pa.DataType) -> pa.DataType:
    return pa.list_(pa.binary()) if pa.types.is_list(kind) or pa.types.is_large_list(kind) else pa.binary()


def _readable(value: Any) -> Any:
    """Bytes as a string that holds what is not UTF-8 as lone surrogates, which every check of strings refuses."""
    if isinstance(value, list):
        return [_readable(inner) for inner in value]
    return value.decode("utf-8", "surrogateescape") if isinstance(value, bytes) else value
