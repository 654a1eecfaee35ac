"""The format ``nearcast-kafka``: records of Kafka topics become rows of a frame, and rows become records.

Options, columns and offsets are those of Spark's own Kafka source, so that one can be put in the other's place. Nothing
is committed to Kafka: offsets are in Spark's checkpoint.
"""

from __future__ import annotations

import json
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
from nearcast.spark.sources.kafka_sink import KafkaBatchSink, KafkaStreamSink
from nearcast.spark.sources.kafka_topics import Offsets, Span, Topics
from nearcast.spark.sources.options import EARLIEST, LATEST, ROWS_PER_PART, flag, names, required, whole

SCHEMA = "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp, timestampType int"
_ARROW = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("us", "UTC")),
        ("timestampType", pa.int32()),
    ]
)
_WAY_OUT = 'To go on with what is left: .option("failOnDataLoss", "false")'
_Bounds = dict[str, dict[str, tuple[int, int]]]


class KafkaSource(DataSource):
    """Topics of a Kafka cluster."""

    @classmethod
    def name(cls) -> str:
        """What `format` calls it."""
        return "nearcast-kafka"

    def schema(self) -> str:
        """The columns of Spark's own Kafka source."""
        return SCHEMA

    def reader(self, schema: Any) -> KafkaReader:
        """All records that there are."""
        return KafkaReader(dict(self.options))

    def streamReader(self, schema: Any) -> KafkaStreamReader:
        """Records as they come."""
        return KafkaStreamReader(dict(self.options))

    def writer(self, schema: Any, overwrite: bool) -> KafkaBatchSink:
        """Rows of a batch frame become records."""
        if overwrite:
            raise InvalidInput("mode", "overwrite", "must be append: a topic is added to")
        return KafkaBatchSink(dict(self.options))

    def streamWriter(self, schema: Any, overwrite: bool) -> KafkaStreamSink:
        """Rows of a streaming frame become records, each once."""
        return KafkaStreamSink(dict(self.options))


class SpanPartition(InputPartition):
    """What one task reads."""

    def __init__(self, span: Span) -> None:
        self.span = span


class _Reading:
    """What both readers do."""

    def __init__(self, options: dict[str, str]) -> None:
        self._options = options
        self._names = names(options, "subscribe", "posts")
        required(options, "kafka.bootstrap.servers", "HOST:9092")
        self._starting = options.get("startingoffsets", EARLIEST)
        self._most = whole(options, "maxOffsetsPerTrigger", None)
        self._rows = whole(options, "maxRecordsPerPartition", ROWS_PER_PART) or ROWS_PER_PART
        self._strict = flag(options, "failOnDataLoss", True)

    def _first(self, bounds: _Bounds) -> Offsets:
        """Where to start; in Spark's JSON form -2 is the first record and -1 the end."""
        if self._starting in (EARLIEST, LATEST):
            which = self._starting == LATEST
            return {topic: {n: ends[which] for n, ends in parts.items()} for topic, parts in bounds.items()}
        try:
            asked = json.loads(self._starting)
            return {
                topic: {n: {-2: ends[0], -1: ends[1]}.get(at := int(asked[topic][n]), at) for n, ends in parts.items()}
                for topic, parts in bounds.items()
            }
        except (ValueError, TypeError, KeyError):
            form = f'must be {EARLIEST}, {LATEST} or JSON with every partition, as {{"posts": {{"0": 23, "1": -2}}}}'
            raise InvalidInput("startingOffsets", self._starting, form) from None

    def _checked(self, start: Offsets, bounds: _Bounds) -> Offsets:
        """Where to go on in each partition; in one that was not there before, with its first record."""
        checked: Offsets = {}
        for topic, parts in bounds.items():
            checked[topic] = {}
            for n, (low, high) in parts.items():
                at = start.get(topic, {}).get(n, low)
                if self._strict and not low <= at <= high:
                    lost = f"has records {low} to {high}, but {at} was to be read next"
                    raise SetupError(f"topic {topic}, partition {n}, {lost}. {_WAY_OUT}")
                checked[topic][n] = min(max(at, low), high)
            for n in start.get(topic, {}).keys() - parts.keys():
                raise SetupError(f"topic {topic} has no partition {n} any more: it was deleted and made again")
        return checked

    def _cut(self, start: Offsets, end: Offsets) -> list[SpanPartition]:
        return [
            SpanPartition(Span(topic, int(n), first, min(first + self._rows, last)))
            for topic, parts in end.items()
            for n, last in parts.items()
            for first in range(start.get(topic, {}).get(n, 0), last, self._rows)
        ]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The records of a part."""
        assert isinstance(partition, SpanPartition)
        with Topics(self._options) as topics:
            for page in topics.read(partition.span):
                if page:
                    yield _arrow(page)


def _arrow(records: list[Any]) -> pa.RecordBatch:
    times = [record.timestamp() for record in records]
    columns = [
        [record.key() for record in records],
        [record.value() for record in records],
        [record.topic() for record in records],
        [record.partition() for record in records],
        [record.offset() for record in records],
        [at * 1000 if kind else None for kind, at in times],
        [kind - 1 if kind else None for kind, _ in times],
    ]
    arrays = [
        pa.array(column, pa.int64()).cast(field.type)
        if pa.types.is_timestamp(field.type)
        else pa.array(column, field.type)
        for column, field in zip(columns, _ARROW, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=_ARROW)


class KafkaReader(_Reading, DataSourceReader):
    """Reads what there is when it is asked."""

    def partitions(self) -> list[InputPartition]:
        """Parts of all partitions, from where they are to start to where they end now."""
        with Topics(self._options) as topics:
            bounds = topics.bounds(self._names)
        return list(self._cut(self._checked(self._first(bounds), bounds), _ends(bounds)))


class KafkaStreamReader(_Reading, DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads on and on."""

    _target: Offsets | None = None

    def initialOffset(self) -> Offsets:
        """Where a new query starts."""
        with Topics(self._options) as topics:
            return self._first(topics.bounds(self._names))

    def getDefaultReadLimit(self) -> ReadLimit:
        """As `maxOffsetsPerTrigger` says."""
        return ReadAllAvailable() if self._most is None else ReadMaxRows(self._most)

    def latestOffset(self, start: Offsets, limit: ReadLimit) -> Offsets:
        """Where the next batch ends; partitions share the limit by how much waits in them."""
        with Topics(self._options) as topics:
            bounds = topics.bounds(self._names)
        end = self._target or _ends(bounds)
        at = self._checked(start, bounds)
        waits = {
            (t, n): max(0, last - at.get(t, {}).get(n, 0)) for t, parts in end.items() for n, last in parts.items()
        }
        most = limit.max_rows if isinstance(limit, ReadMaxRows) else sum(waits.values())
        left, rest = most, sum(waits.values())
        taken: Offsets = {topic: {} for topic in end}
        for (topic, n), waiting in waits.items():
            share = min(waiting, -(-left * waiting // rest)) if rest else 0
            taken[topic][n] = at.get(topic, {}).get(n, 0) + share
            left, rest = left - share, rest - waiting
        return taken

    def reportLatestOffset(self) -> Offsets:
        """Where partitions end now."""
        with Topics(self._options) as topics:
            return _ends(topics.bounds(self._names))

    def prepareForTriggerAvailableNow(self) -> None:
        """Take what there is now to be all."""
        self._target = self.reportLatestOffset()

    def partitions(self, start: Offsets, end: Offsets) -> list[InputPartition]:
        """Parts of all partitions between two offsets."""
        with Topics(self._options) as topics:
            bounds = topics.bounds(self._names)
        return list(self._cut(self._checked(start, bounds), end))


def _ends(bounds: _Bounds) -> Offsets:
    return {topic: {n: high for n, (_, high) in parts.items()} for topic, parts in bounds.items()}
