"""Answers as Arrow tables: updates, and rows that were refused or late."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from nearcast.spark.spec import Spec


def answer_columns(spec: Spec) -> pa.Schema:
    """The columns of answers as shards give them; `frames.answers_schema` is the same for Spark."""
    return pa.schema(
        [
            ("outcome", pa.string()),
            ("subscription", spec.subscription_type),
            ("message", spec.message_type),
            ("sign", pa.string()),
            ("score", pa.float64()),
            ("ts", pa.int64()),
            ("batch", pa.int64()),
            ("shard", pa.int64()),
            ("seq", pa.int64()),
            ("event", pa.string()),
            ("field", pa.string()),
            ("reason", pa.string()),
            ("row", pa.string()),
            ("source", pa.string()),
            ("position", pa.int64()),
        ]
    )


def answer_table(schema: pa.Schema, outcome: str, columns: dict[str, Any], n: int) -> pa.Table:
    """Answers of one outcome; columns that are not given are null."""
    columns["outcome"] = pa.array([outcome]).take(pa.array(np.zeros(n, np.int32)))
    arrays = [
        columns[field.name].cast(field.type) if field.name in columns else pa.nulls(n, field.type) for field in schema
    ]
    return pa.Table.from_arrays(arrays, schema=schema)


def refused_columns(schema: pa.Schema, told: pa.Table, of: str) -> dict[str, Any]:
    """The columns of rows that `encode` refused; `of` says whose ids they have, "message" or "subscription"."""
    columns = {name: told.column(name) for name in told.column_names if name != "id"}
    kind = schema.field(of).type
    as_id = str if pa.types.is_string(kind) else int
    columns[of] = pa.array([None if id is None else as_id(id) for id in told.column("id").to_pylist()], kind)
    return columns
