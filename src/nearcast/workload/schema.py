"""The columns of generated tables, and the seed of every block of rows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from nearcast.errors import InvalidInput

Bounds: TypeAlias = tuple[float, float, float, float]  # min_lon, min_lat, max_lon, max_lat
Ints: TypeAlias = np.ndarray[tuple[Any, ...], np.dtype[np.int64]]
Floats: TypeAlias = np.ndarray[tuple[Any, ...], np.dtype[np.float64]]
Bools: TypeAlias = np.ndarray[tuple[Any, ...], np.dtype[np.bool_]]

BLOCK = 65_536  # rows made at once
BOX = ("min_lon", "min_lat", "max_lon", "max_lat")

WORDS = pa.list_(pa.string())
MESSAGES_TEXT = pa.schema(
    [("id", pa.int64()), ("lon", pa.float64()), ("lat", pa.float64()), ("text", pa.string()), ("ts", pa.int64())]
)
MESSAGES_KEYWORDS = pa.schema(
    [("id", pa.int64()), ("lon", pa.float64()), ("lat", pa.float64()), ("keywords", WORDS), ("ts", pa.int64())]
)
SUBSCRIPTIONS = pa.schema(
    [
        ("id", pa.int64()),
        ("kind", pa.string()),
        ("lon", pa.float64()),
        ("lat", pa.float64()),
        ("keywords", WORDS),
        ("k", pa.int64()),
        ("alpha", pa.float64()),
        ("delta", pa.float64()),
        ("tau", pa.float64()),
        ("measure", pa.string()),
        ("match", pa.string()),
        *((name, pa.float64()) for name in BOX),
        ("backfill", pa.bool_()),
        ("expires", pa.int64()),
    ]
)
MOVES_POINT = pa.schema([("id", pa.int64()), ("lon", pa.float64()), ("lat", pa.float64()), ("ts", pa.int64())])
MOVES_BOX = pa.schema([("id", pa.int64()), *((name, pa.float64()) for name in BOX), ("ts", pa.int64())])


def generator(*seed: int) -> np.random.Generator:
    """A random generator for these numbers, the same on every machine."""
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence(seed)))


def blocks(n: int) -> Iterator[tuple[int, int, int]]:
    """(number, first row, rows) of each block of a workload of `n` rows."""
    if n < 0:
        raise InvalidInput("n", n, "must be >= 0")
    for number, first in enumerate(range(0, n, BLOCK)):
        yield number, first, min(BLOCK, n - first)


def table(schema: pa.Schema, n: int, columns: dict[str, Any]) -> pa.Table:
    """A table of `schema` from the given columns; a column not given is null, a scalar is repeated."""
    arrays = []
    for field in schema:
        value = columns.get(field.name)
        if value is None:
            arrays.append(pa.nulls(n, field.type))
        elif isinstance(value, (str, int, float, bool)):
            arrays.append(pa.repeat(pa.scalar(value, field.type), n))
        elif isinstance(value, pa.Array):
            arrays.append(value)
        else:
            arrays.append(pa.array(value, field.type))
    return pa.Table.from_arrays(arrays, schema=schema)


def lists(words: pa.Array, numbers: Ints, row_start: Ints) -> pa.Array:
    """A list<string> column: row i holds words[numbers[row_start[i]:row_start[i + 1]]]."""
    return pa.ListArray.from_arrays(pa.array(row_start, pa.int32()), words.take(pa.array(numbers)))


def starts(counts: Ints) -> Ints:
    """Offsets of rows that hold `counts` entries, with one extra entry at the end."""
    offsets = np.zeros(counts.size + 1, np.int64)
    np.cumsum(counts, out=offsets[1:])
    return offsets
