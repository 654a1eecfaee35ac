"""Rows of a frame become entries of a Redis stream, each once.

A task enters its rows and sets a mark, the number of the batch, in one transaction. A batch whose mark stands there
already is skipped: it was entered before a driver was killed, or by another attempt of the same task.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from nearcast.spark.sources.options import required
from nearcast.spark.sources.redis_streams import Server
from nearcast.spark.sources.values import Place, place_of, values_of

JOB_MARK_S = 86_400  # how long a mark of a batch job is kept: longer than its tasks are tried again


@dataclass
class Entered(WriterCommitMessage):
    """What a task did."""

    n: int


class _Sink:
    """What both sinks do."""

    def __init__(self, options: dict[str, str]) -> None:
        self._options = options
        self._stream = required(options, "stream", "updates")
        self._field = options.get("field", "json")
        required(options, "url", "redis://HOST:6379")
        self._job = uuid.uuid4().hex

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Enter the rows of a task."""
        place = place_of(self._job)
        values = list(values_of(iterator))
        if not values:
            return Entered(0)
        keep_s = JOB_MARK_S if place.run == self._job else None
        with Server(self._options) as server:
            mark = mark_of(self._stream, place)
            done = server.enter(self._stream, self._field, values, mark, place.batch, keep_s)
        return Entered(len(values) if done else 0)


class RedisBatchSink(_Sink, DataSourceArrowWriter):
    """Writes a batch frame."""


class RedisStreamSink(_Sink, DataSourceStreamArrowWriter):
    """Writes a streaming frame."""

    def commit(self, messages: list[Any], batchId: int) -> None:
        """Nothing is left to do: tasks have entered their rows for good."""

    def abort(self, messages: list[Any], batchId: int) -> None:
        """Nothing is taken back: the batch comes again, and what has been entered is skipped."""


def mark_of(stream: str, place: Place) -> str:
    """The key that says how far a part of a run has been entered; a cluster keeps it where the stream is."""
    same_slot = stream if "{" in stream else f"{{{stream}}}"
    return f"{same_slot}:nearcast:{place.run}:{place.part}"
