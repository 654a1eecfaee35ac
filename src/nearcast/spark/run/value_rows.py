"""Values of a stream, each a row in the JSON form, become rows of the two frames, as lines of files do."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from nearcast.errors import InvalidInput
from nearcast.spark.run.file_rows import EVENTS, PIECE_ROWS, IdTypes, Rows, columns_of, json_row, side_of


def value_frame(values: DataFrame, side: str, role: str, ids: IdTypes | None = None) -> DataFrame:
    """The rows of one frame that a frame with a column `value` holds.

    Parameters
    ----------
    values
        As the formats ``nearcast-redis``, ``nearcast-kafka`` and Spark's own ``kafka`` give it.
    side
        Which frame: ``"messages"`` or ``"subscriptions"``.
    role
        What a row without `event` is: ``"messages"``, ``"subscriptions"`` or ``"events"``, both.
    ids
        The types of ids; by default strings. An id of another type is refused.
    """
    if role not in (side, EVENTS):
        raise InvalidInput("role", role, f"must be {side} or {EVENTS}")
    known = ids or IdTypes()

    def decode(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for start in range(0, batch.num_rows, PIECE_ROWS):
                yield from _decoded(batch.slice(start, PIECE_ROWS), side, role, known).to_batches()

    given = values.select(F.col("value").cast("binary").alias("value"), *_places(values))
    return given.mapInArrow(decode, from_arrow_schema(columns_of(side, known)))


def _places(values: DataFrame) -> list[Column]:
    """Where a value is from, and its number there."""
    names = set(values.columns)
    if {"topic", "partition", "offset"} <= names:
        return [F.concat_ws("/", "topic", "partition").alias("source"), F.col("offset").alias("position")]
    if {"stream", "id"} <= names:  # an id is a time and a number
        parts = F.split("id", "-")
        time, number = parts.getItem(0).cast("bigint"), parts.getItem(1).cast("bigint")
        return [F.col("stream").alias("source"), (F.shiftleft(time, 20) + number).alias("position")]
    return [F.lit(None).cast("string").alias("source"), F.lit(None).cast("bigint").alias("position")]


def _decoded(batch: pa.RecordBatch, side: str, role: str, ids: IdTypes) -> pa.Table:
    sources, positions = (batch.column(name).to_pylist() for name in ("source", "position"))
    rows = Rows("", side, ids)
    for source, position, value in zip(sources, positions, batch.column("value").to_pylist(), strict=True):
        rows.source = source
        _, raw, found, problem = json_row(0, value or b"")
        if side_of(found, role) != side:
            continue
        if value is None:
            rows.refuse(position, "", "value", "value is required: the row as JSON")
        elif problem is not None:
            rows.refuse(position, raw or "", "row", problem)
        elif not isinstance(found, dict):
            rows.refuse(position, raw or "", "row", str(InvalidInput("row", found, "must be a JSON object")))
        else:
            rows.add(position, raw, found)
    return rows.table()
