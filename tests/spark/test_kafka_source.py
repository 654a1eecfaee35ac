"""Records of Kafka topics become rows, and rows become records; the broker is the one that the client has for tests.

It keeps no offsets that a transaction commits, so that tests commit them beside it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import functions as F
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

from nearcast.errors import InvalidInput, SetupError
from nearcast.spark import sources
from nearcast.spark.sources.kafka_sink import KafkaStreamSink, Writer
from nearcast.spark.sources.kafka_source import KafkaReader, KafkaStreamReader
from nearcast.spark.sources.kafka_topics import Topics
from nearcast.spark.sources.values import Place
from spark.servers import kafka_server

kafka = pytest.importorskip("confluent_kafka", reason="the client is not installed: pip install 'nearcast[kafka]'")


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with kafka_server() as address:
        yield address


def fill(server: str, topic: str, n: int, first: int = 0, partitions: int = 3) -> None:
    """Numbers one after another to the first of the broker's four partitions."""
    producer = kafka.Producer({"bootstrap.servers": server, "log_level": 2})
    for number in range(first, first + n):
        producer.produce(topic, json.dumps({"n": number}), key=str(number), partition=number % partitions)
    assert producer.flush(30) == 0


def options(server: str, topic: str, **more: str) -> dict[str, str]:
    given = {"kafka.bootstrap.servers": server, "subscribe": topic}
    return given | {name.lower(): value for name, value in more.items()}


def numbers(reader: Any, parts: list[Any]) -> list[int]:
    return [json.loads(v)["n"] for part in parts for b in reader.read(part) for v in b.column("value").to_pylist()]


def test_topics_are_read_in_bounded_steps_and_parts(server: str) -> None:
    fill(server, "steps", 25)
    reader = KafkaStreamReader(options(server, "steps", maxOffsetsPerTrigger="10", maxRecordsPerPartition="2"))
    at, seen, sizes = reader.initialOffset(), [], []
    assert reader.getDefaultReadLimit() == ReadMaxRows(10)
    while (end := reader.latestOffset(at, ReadMaxRows(10))) != at:
        parts = reader.partitions(at, end)
        assert all(part.span.end - part.span.first <= 2 for part in parts)
        found = numbers(reader, parts)
        sizes.append(len(found))
        seen += found
        at = end
    assert sorted(seen) == list(range(25))
    assert sizes == [10, 10, 5]
    reader.prepareForTriggerAvailableNow()
    fill(server, "steps", 5, 25)
    assert reader.latestOffset(at, ReadAllAvailable()) == at
    assert reader.reportLatestOffset() != at


def test_where_to_start(server: str) -> None:
    fill(server, "start", 6)
    batch = KafkaReader(options(server, "start", startingOffsets='{"start": {"0": 1, "1": -2, "2": -1, "3": -1}}'))
    assert numbers(batch, batch.partitions()) == [3, 1, 4]
    latest = KafkaStreamReader(options(server, "start", startingOffsets="latest"))
    assert latest.initialOffset() == {"start": {"0": 2, "1": 2, "2": 2, "3": 0}}
    for odd in ('{"start": {"0": 1}}', "yesterday", "[]"):
        with pytest.raises(InvalidInput, match="startingOffsets must be earliest, latest or JSON with every partition"):
            KafkaStreamReader(options(server, "start", startingOffsets=odd)).initialOffset()


def test_records_that_are_gone_are_an_error(server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(server, "gone", 6)
    reader = KafkaStreamReader(options(server, "gone"))
    loose = KafkaStreamReader(options(server, "gone", failOnDataLoss="false"))
    monkeypatch.setattr(Topics, "bounds", lambda *_: {"gone": {"0": (5, 9)}})
    with pytest.raises(SetupError, match="topic gone, partition 0, has records 5 to 9, but 2 was to be read next"):
        reader.latestOffset({"gone": {"0": 2}}, ReadAllAvailable())
    assert loose.latestOffset({"gone": {"0": 2}}, ReadMaxRows(3)) == {"gone": {"0": 8}}
    with pytest.raises(SetupError, match="has no partition 7 any more"):
        loose.latestOffset({"gone": {"0": 6, "7": 1}}, ReadAllAvailable())


def test_what_cannot_be_honoured_is_named(server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InvalidInput, match=r"kafka\.bootstrap\.servers is required"):
        KafkaReader({"subscribe": "x"})
    with pytest.raises(InvalidInput, match="subscribe is required"):
        KafkaReader({"kafka.bootstrap.servers": server})
    with pytest.raises(SetupError, match=r"topic never: .*[Uu]nknown topic"):
        KafkaReader(options(server, "never")).partitions()
    with pytest.raises(SetupError, match=r"no\.such\.setting"):
        KafkaReader(options(server, "x", **{"kafka.no.such.setting": "1"})).partitions()
    monkeypatch.setattr("nearcast.spark.sources.kafka_topics.WAIT_S", 1.0)
    with pytest.raises(SetupError, match=r"Kafka at 127\.0\.0\.1:1: "):
        KafkaReader(options("127.0.0.1:1", "x")).partitions()
    with pytest.raises(InvalidInput, match="topic is required"):
        list(KafkaStreamSink(options(server, "x")).records_of(_batch([{"value": "a"}]), iter(())))


def _batch(rows: list[dict[str, Any]]) -> Any:
    import pyarrow as pa

    return pa.RecordBatch.from_pylist(rows)


def test_rows_become_records(server: str) -> None:
    sink = KafkaStreamSink({"kafka.bootstrap.servers": server, "topic": "updates"})
    rows = [{"subscription": "ann", "score": None}]
    assert list(sink.records_of(_batch(rows), iter(()))) == [
        {"topic": "updates", "value": b'{"subscription": "ann", "score": null}'}
    ]
    rows = [{"value": "a", "key": "k", "topic": "other", "partition": 2}, {"value": None, "topic": None}]
    assert list(sink.records_of(_batch(rows), iter(()))) == [
        {"topic": "other", "value": b"a", "key": b"k", "partition": 2},
        {"topic": "updates", "value": None},
    ]


def test_a_batch_is_written_once_and_what_fails_is_aborted(server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    noted = Writer.note

    def kept(self: Writer, mark: Any) -> None:
        noted(self, mark)
        self.marks.commit(offsets=[mark], asynchronous=False)

    monkeypatch.setattr(Writer, "note", kept)
    fill(server, "once", 1)

    def write(values: Any, batch: int) -> int:
        writer = Writer({"kafka.bootstrap.servers": server}, Place("run", batch, 0))
        try:
            return writer.write(({"topic": "once", "value": value} for value in values), batch)
        finally:
            writer.close()

    assert [write([b"a", b"b"], 0), write([b"a", b"b"], 0), write([b"c"], 1), write([b"a"], 0)] == [2, 0, 1, 0]

    def broken() -> Iterator[bytes]:
        yield b"d"
        raise ValueError("the rows ran out")

    with pytest.raises(ValueError, match="the rows ran out"):
        write(broken(), 2)
    assert write([b"d"], 2) == 1


def test_from_topic_to_topic_through_spark(spark: Any, server: str, tmp_path: Path) -> None:
    sources.register(spark)
    fill(server, "from", 40)
    fill(server, "to", 1)
    stream = (
        spark.readStream.format("nearcast-kafka").options(**options(server, "from"), maxOffsetsPerTrigger="25").load()
    )
    n = F.get_json_object(F.col("value").cast("string"), "$.n").cast("int").alias("n")
    sink = stream.select(n).writeStream.format("nearcast-kafka").option("kafka.bootstrap.servers", server)
    sink = sink.option("topic", "to").option("checkpointLocation", str(tmp_path / "c"))
    query = sink.trigger(availableNow=True).start()
    query.awaitTermination()
    assert len([p for p in query.recentProgress if p["numInputRows"]]) == 2
    found = spark.read.format("nearcast-kafka").options(**options(server, "to")).load().select(n).collect()
    assert sorted(row.n for row in found) == sorted([0, *range(40)])
    frame = spark.range(3).select(F.col("id").cast("string").alias("key"), F.lit('{"n": 7}').alias("value"))
    frame.write.format("nearcast-kafka").option("kafka.bootstrap.servers", server).option("topic", "to").mode(
        "append"
    ).save()
    keys = spark.read.format("nearcast-kafka").options(**options(server, "to")).load().where("key is not null")
    assert sorted(bytes(row.key) for row in keys.collect()) == [b"0", b"0", b"1", b"2"]
