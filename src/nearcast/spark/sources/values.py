"""Rows on their way to a sink become bytes: their column `value`, or the whole row as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import pyarrow as pa


class Place(NamedTuple):
    """What a task of a sink writes: its part of one batch of one run. A place is written once."""

    run: str  # the query, or the job if there is no query
    batch: int
    part: int


def place_of(job: str) -> Place:
    """The place of the task that asks; `job` names what is no streaming query."""
    from pyspark import TaskContext

    task = TaskContext.get()
    if task is None:
        raise RuntimeError("rows are written by a task")
    batch = task.getLocalProperty("streaming.sql.batchId")
    run = task.getLocalProperty("sql.streaming.queryId")
    if batch is None or run is None:
        return Place(job, 0, task.partitionId())
    return Place(run, int(batch), task.partitionId())


def values_of(batches: Iterable[pa.RecordBatch]) -> Iterator[bytes]:
    """The value of every row."""
    for batch in batches:
        if "value" in batch.schema.names:
            yield from map(as_bytes, batch.column("value").to_pylist())
        else:
            yield from (as_json(row) for row in batch.to_pylist())


def as_bytes(value: Any) -> bytes:
    """A value of a string or binary column."""
    return value.encode() if isinstance(value, str) else bytes(value or b"")


def as_json(row: dict[str, Any]) -> bytes:
    """A row in the JSON form."""
    return json.dumps(row, ensure_ascii=False, default=_shown).encode()


def _shown(value: Any) -> str:
    return value.decode("utf-8", "backslashreplace") if isinstance(value, bytes) else str(value)
