"""Rows of a frame become records of a Kafka topic, each once for readers that ask for committed records.

A task writes its rows in one transaction, and in the same transaction it commits an offset in a group of its own: the
number of its batch. A batch whose number is committed already is skipped. Whoever writes for the same part of the same
query has the same transactional id, so that Kafka shuts out an earlier attempt that is still alive.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from nearcast.errors import InvalidInput
from nearcast.spark.sources.kafka_topics import WAIT_S, failed, kafka, settings
from nearcast.spark.sources.options import required
from nearcast.spark.sources.values import Place, as_bytes, as_json, place_of


@dataclass
class Entered(WriterCommitMessage):
    """What a task did."""

    n: int


class _Sink:
    """What both sinks do."""

    def __init__(self, options: dict[str, str]) -> None:
        self._options = options
        required(options, "kafka.bootstrap.servers", "HOST:9092")
        self._topic = options.get("topic")
        self._job = uuid.uuid4().hex

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Write the rows of a task."""
        place = place_of(self._job)
        first = next((batch for batch in iterator if batch.num_rows), None)
        if first is None:
            return Entered(0)
        writer = Writer(self._options, place)
        try:
            return Entered(writer.write(self.records_of(first, iterator), place.batch))
        finally:
            writer.close()

    def records_of(self, first: pa.RecordBatch, more: Iterator[pa.RecordBatch]) -> Iterator[dict[str, Any]]:
        """Rows as the client takes them."""
        for batch in chain([first], more):
            whole = "value" not in batch.schema.names
            for row in batch.to_pylist():
                topic = None if whole else row.get("topic")
                record = {"topic": topic or self._topic, "value": as_json(row) if whole else _given(row["value"])}
                if record["topic"] is None:
                    raise InvalidInput("topic", None, 'is required: .option("topic", "updates"), or a column topic')
                if not whole and row.get("key") is not None:
                    record["key"] = as_bytes(row["key"])
                if not whole and row.get("partition") is not None:
                    record["partition"] = int(row["partition"])
                yield record


def _given(value: Any) -> bytes | None:
    return None if value is None else as_bytes(value)


class KafkaBatchSink(_Sink, DataSourceArrowWriter):
    """Writes a batch frame."""


class KafkaStreamSink(_Sink, DataSourceStreamArrowWriter):
    """Writes a streaming frame."""

    def commit(self, messages: list[Any], batchId: int) -> None:
        """Nothing is left to do: tasks have committed their transactions."""

    def abort(self, messages: list[Any], batchId: int) -> None:
        """Nothing is taken back: the batch comes again, and what has been committed is skipped."""


class Writer:
    """A producer for one part of one run, and the group that knows how far it has come."""

    def __init__(self, options: dict[str, str], place: Place) -> None:
        self._kafka = kafka()
        self._servers = options["kafka.bootstrap.servers"]
        self._options = options
        self._name = f"nearcast-{place.run}-{place.part}"
        wanted = settings(options, **{"transactional.id": self._name, "enable.idempotence": True})
        try:
            self._producer: Any = self._kafka.Producer(wanted)
            self._producer.init_transactions(WAIT_S)  # waits for, or ends, what an earlier attempt has begun
        except (self._kafka.KafkaException, ValueError, TypeError) as error:
            raise failed(self._servers, error) from error
        self.marks: Any = self._kafka.Consumer(
            settings(options, **{"group.id": self._name, "enable.auto.commit": False})
        )

    def close(self) -> None:
        """Give connections back."""
        self.marks.close()

    def write(self, records: Iterator[dict[str, Any]], batch: int) -> int:
        """Write records and the batch's number, at once or not at all; returns how many, 0 if it was there already."""
        try:
            first = next(records)
            mark = self._kafka.TopicPartition(first["topic"], 0)
            if self._committed(mark) > batch:
                return 0
            self._producer.begin_transaction()
            try:
                n = sum(self._produce(record) for record in chain([first], records))
                mark.offset = batch + 1
                self.note(mark)
                self._producer.commit_transaction()
            except BaseException:
                self._producer.abort_transaction(WAIT_S)
                raise
        except self._kafka.KafkaException as error:
            raise failed(self._servers, error) from error
        return n

    def note(self, mark: Any) -> None:
        """Have the transaction set a mark."""
        self._producer.send_offsets_to_transaction([mark], self.marks.consumer_group_metadata(), WAIT_S)

    def _committed(self, mark: Any) -> int:
        (known,) = self.marks.committed([mark], timeout=WAIT_S)
        return int(known.offset)

    def _produce(self, record: dict[str, Any]) -> int:
        while True:
            try:
                self._producer.produce(**record)
            except BufferError:  # the client holds as many as it may
                self._producer.poll(0.1)
            else:
                self._producer.poll(0)
                return 1
