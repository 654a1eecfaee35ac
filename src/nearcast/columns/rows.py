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
    if isinstance(source, pa.Table | pa.RecordBatch | pa.Array | pa.ChunkedArray):
        rows: Iterable[Any] = source.to_pylist()
        return rows
    if isinstance(source, str | bytes | Mapping) or not isinstance(source, Iterable):
        raise InvalidInput(field, source, "must be many: an iterable or an Arrow table")
    return source
