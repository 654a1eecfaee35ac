"""The format ``nearcast-redis``: entries of Redis streams become rows of a frame, and rows become entries.

An offset is the id of the last entry read of each stream. A stream is cut into parts of `maxRecordsPerPartition`
entries, so that one long stream keeps many tasks busy. A batch that is read again must find what it found before: one
that counts fewer entries than were planned fails.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from nearcast.errors import InvalidInput, SetupError
from nearcast.spark.sources.options import EARLIEST, LATEST, ROWS_PER_PART, flag, names, whole
from nearcast.spark.sources.redis_sink import RedisBatchSink, RedisStreamSink
from nearcast.spark.sources.redis_streams import NOTHING, Server, Span, key

FIELD = "json"  # of an entry: what holds the row
SCHEMA = "value binary, stream string, id string, timestamp timestamp"
_ARROW = pa.schema(
    [("value", pa.binary()), ("stream", pa.string()), ("id", pa.string()), ("timestamp", pa.timestamp("us", "UTC"))]
)


class RedisSource(DataSource):
    """Streams of a Redis server."""

    @classmethod
    def name(cls) -> str:
        """What `format` calls it."""
        return "nearcast-redis"

    def schema(self) -> str:
        """The row as bytes, and which entry it was."""
        return SCHEMA

    def reader(self, schema: Any) -> RedisReader:
        """All entries that there are."""
        return RedisReader(dict(self.options))

    def streamReader(self, schema: Any) -> RedisStreamReader:
        """Entries as they come."""
        return RedisStreamReader(dict(self.options))

    def writer(self, schema: Any, overwrite: bool) -> RedisBatchSink:
        """Rows of a batch frame become entries."""
        if overwrite:
            raise InvalidInput("mode", "overwrite", "must be append: a stream is added to")
        return RedisBatchSink(dict(self.options))

    def streamWriter(self, schema: Any, overwrite: bool) -> RedisStreamSink:
        """Rows of a streaming frame become entries, each once."""
        return RedisStreamSink(dict(self.options))


class SpanPartition(InputPartition):
    """What one task reads."""

    def __init__(self, span: Span) -> None:
        self.span = span


class _Streams:
    """What both readers do."""

    def __init__(self, options: dict[str, str]) -> None:
        self._options = options
        self._names = names(options, "stream", "posts")
        self._starting = options.get("startingoffsets", EARLIEST)
        self._most = whole(options, "maxOffsetsPerTrigger", None)
        self._rows = whole(options, "maxRecordsPerPartition", ROWS_PER_PART) or ROWS_PER_PART
        self._strict = flag(options, "failOnDataLoss", True)
        if self._starting not in (EARLIEST, LATEST):
            key(self._starting)

    def _first(self, server: Server) -> dict[str, str]:
        if self._starting == EARLIEST:
            return {name: server.start(name) for name in self._names}
        if self._starting == LATEST:
            return {name: server.end(name) for name in self._names}
        return dict.fromkeys(self._names, self._starting)

    def _cut(self, server: Server, start: dict[str, str], end: dict[str, str]) -> list[SpanPartition]:
        parts = []
        for name, last in end.items():
            at = start.get(name, NOTHING)
            self._check(server, name, at)
            while key(at) < key(last):
                span = server.step(name, at, last, self._rows)
                if not span.n:
                    break
                parts.append(SpanPartition(span))
                at = span.last
        return parts

    def _check(self, server: Server, name: str, offset: str) -> None:
        lost = server.lost(name, offset) if self._strict else None
        if lost is not None:
            raise SetupError(f"stream {name} at {server.shown}: {lost}. {_WAY_OUT}")

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The entries of a part."""
        assert isinstance(partition, SpanPartition)
        span, n = partition.span, 0
        field = self._options.get("field", FIELD).encode()
        with Server(self._options) as server:
            for page in server.read(span):
                n += len(page)
                ids = [entry.decode() for entry, _ in page]
                times = pa.array([int(entry.partition("-")[0]) * 1000 for entry in ids], pa.int64())
                columns = [
                    pa.array([fields.get(field) for _, fields in page], pa.binary()),
                    pa.array([span.stream] * len(page), pa.string()), pa.array(ids, pa.string()),
                    times.cast(pa.timestamp("us", "UTC")),
                ]  # fmt: skip
                yield pa.RecordBatch.from_arrays(columns, schema=_ARROW)
            if n < span.n and self._strict:
                lost = f"{span.n - n} of the {span.n} entries from {span.after} to {span.last} are gone"
                raise SetupError(f"stream {span.stream} at {server.shown}: {lost}. {_WAY_OUT}")


_WAY_OUT = 'To go on with what is left: .option("failOnDataLoss", "false")'


class RedisReader(_Streams, DataSourceReader):
    """Reads what there is when it is asked."""

    def partitions(self) -> list[InputPartition]:
        """Parts of all streams, from where they are to start to where they end now."""
        with Server(self._options) as server:
            end = {name: server.end(name) for name in self._names}
            return list(self._cut(server, self._first(server), end))


class RedisStreamReader(_Streams, DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads on and on."""

    _target: dict[str, str] | None = None

    def initialOffset(self) -> dict[str, str]:
        """Where a new query starts."""
        with Server(self._options) as server:
            return self._first(server)

    def getDefaultReadLimit(self) -> ReadLimit:
        """As `maxOffsetsPerTrigger` says."""
        return ReadAllAvailable() if self._most is None else ReadMaxRows(self._most)

    def latestOffset(self, start: dict[str, str], limit: ReadLimit) -> dict[str, str]:
        """Where the next batch ends; streams share the limit, and what one does not need is the next one's."""
        left = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        end = {}
        with Server(self._options) as server:
            for number, name in enumerate(self._names):
                at, last = start.get(name, NOTHING), (self._target or {}).get(name) or server.end(name)
                self._check(server, name, at)
                if key(last) <= key(at):
                    end[name] = at
                elif left is None:
                    end[name] = last
                else:
                    span = server.step(name, at, last, -(-left // (len(self._names) - number)))
                    end[name], left = span.last, left - span.n
        return end

    def reportLatestOffset(self) -> dict[str, str]:
        """Where streams end now."""
        with Server(self._options) as server:
            return {name: server.end(name) for name in self._names}

    def prepareForTriggerAvailableNow(self) -> None:
        """Take what there is now to be all."""
        self._target = self.reportLatestOffset()

    def partitions(self, start: dict[str, str], end: dict[str, str]) -> list[InputPartition]:
        """Parts of all streams between two offsets."""
        with Server(self._options) as server:
            return list(self._cut(server, start, end))
