"""Records of a topic become events once. The broker is the one that the client carries for tests: it speaks Kafka's
protocol over sockets, and keeps records in memory."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cluster.scenes import events
from cluster.taking import read_alike, taken_once
from nearcast.cluster.kafka_topics import KafkaTopic
from nearcast.cluster.sources import Input
from nearcast.cluster.store import Store
from nearcast.cluster.streams import Offset, stream_at
from nearcast.errors import InvalidInput, SetupError

kafka = pytest.importorskip("confluent_kafka", reason="the client is not installed: pip install 'nearcast[kafka]'")


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    host = kafka.Producer({"bootstrap.servers": "replaced", "test.mock.num.brokers": 1, "log_level": 2})
    (broker,) = host.list_topics(timeout=30).brokers.values()
    yield f"{broker.host}:{broker.port}"
    del host


def fill(server: str, topic: str, rows: list[Any], partitions: int = 3) -> None:
    """Row after row to one of the first of the broker's four partitions."""
    producer = kafka.Producer({"bootstrap.servers": server, "log_level": 2})
    for number, row in enumerate(rows):
        value = row if row is None or isinstance(row, str) else json.dumps(row)
        producer.produce(topic, value, partition=number % partitions)
    assert producer.flush(30) == 0


def test_each_record_is_taken_once(server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given = Input(f"kafka://{server}/in", "events")
    stream = events(3, 60)
    fill(server, "in", [*stream[:40], None, "{broken"])
    monkeypatch.setattr("nearcast.cluster.kafka_topics.AT_ONCE", 7)
    streams = {given: stream_at(given.path)}
    rows = taken_once(Store(tmp_path), streams, lambda: fill(server, "in", stream[40:]), monkeypatch)
    refused = sorted(row["reason"] for row in rows if row["reason"])
    assert len(refused) == 2
    assert refused[0].startswith("row must be JSON")
    assert refused[1] == "value is required: the row as JSON"


def test_spark_reads_like_one_process(spark: Any, server: str, tmp_path: Path) -> None:
    fill(server, "spread", events(4, 20), 1)
    given = Input(f"kafka://{server}/spread", "events")
    assert read_alike(spark, tmp_path, [], {given: stream_at(given.path)}).num_rows == 20


def test_what_cannot_be_reached_is_named(server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InvalidInput, match="stream must be kafka://HOST:PORT/TOPIC"):
        KafkaTopic(f"kafka://{server}")
    monkeypatch.setattr("nearcast.cluster.kafka_topics._WAIT_S", 1.0)
    with pytest.raises(SetupError, match=r"Kafka at kafka://127\.0\.0\.1:1/x: "):
        KafkaTopic("kafka://127.0.0.1:1/x")


def test_records_that_are_gone_are_an_error(server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SetupError, match="Unknown topic"):
        KafkaTopic(f"kafka://{server}/gone")
    fill(server, "gone", [None] * 6)
    topic = KafkaTopic(f"kafka://{server}/gone")
    *_, (_, offset) = topic.read("events", 0, Offset())
    assert offset.n_read == 6
    monkeypatch.setattr(KafkaTopic, "_ends", lambda self: {0: (5, 9), 1: (0, 2), 2: (0, 2)})
    with pytest.raises(SetupError, match="partition 0 begins at 5, but 2 was to be read next: records were deleted"):
        list(topic.read("events", 0, offset))
