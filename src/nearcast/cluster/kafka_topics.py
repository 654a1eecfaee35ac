"""Kafka topics in: records become events with the offsets they end at, each once.

A record's value is one row in the JSON form. As with Redis streams, what was read counts from the moment that the
intake's head, which holds the offsets of all partitions, is replaced; nothing is committed to Kafka. Records of
transactions that were not committed are passed over.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import pyarrow as pa

from nearcast.cluster.decode import Decoder
from nearcast.cluster.streams import AT_ONCE, Offset, name_in
from nearcast.errors import SetupError

_WAIT_S = 30.0  # for an answer
_GATHER_S = 0.1  # for more records, so that one look takes as many as there are


class KafkaTopic:
    """A topic with all its partitions.

    Parameters
    ----------
    address
        kafka://HOST[:PORT]/TOPIC

    Raises
    ------
    InvalidInput
        For an address without a topic.
    SetupError
        If the client is not installed, or no broker answers.
    """

    def __init__(self, address: str) -> None:
        try:
            import confluent_kafka
        except ImportError:
            raise SetupError("confluent-kafka is not installed. Run: pip install 'nearcast[kafka]'") from None
        parts = urlsplit(address)
        self.address = address
        self._topic = name_in(parts.path, address, "kafka://HOST:PORT/TOPIC")
        self._kafka = confluent_kafka
        self._client: Any = confluent_kafka.Consumer(
            {
                "bootstrap.servers": f"{parts.hostname or 'localhost'}:{parts.port or 9092}",
                "group.id": "nearcast",  # asked for by the client; nothing is committed
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "isolation.level": "read_committed",
                "auto.offset.reset": "error",
                "log_level": 2,
            }
        )
        self._partitions()

    def n_behind(self, offset: Offset) -> int:
        """How many records stand behind an offset, at most; 0 if there are none."""
        ends = self._ends()
        places = _places(offset, ends)
        return sum(max(0, high - places[partition]) for partition, (_, high) in ends.items())

    def read(self, role: str, number: int, offset: Offset) -> Iterator[tuple[pa.Table, Offset]]:
        """What stands behind an offset, in pieces, and where each ends; `number` is the column ``file``."""
        ends = self._ends()
        places = _places(offset, ends)
        for partition, (low, _) in ends.items():
            if places[partition] < low:
                lost = f"partition {partition} begins at {low}, but {places[partition]} was to be read next"
                raise SetupError(f"Kafka at {self.address}: {lost}: records were deleted too early")
        behind = {partition for partition, (_, high) in ends.items() if places[partition] < high}
        self._client.assign([self._place(partition, places[partition]) for partition in sorted(behind)])
        while behind:
            decoder, n_read = Decoder(self.address, number, role), offset.n_read
            for record in self._next():
                partition = record.partition()
                if record.error() is None:
                    n_read += 1
                    self._decode(decoder, n_read, record.value())
                    places[partition] = record.offset() + 1
                else:  # the end, which transactions may have put behind the last record
                    places[partition] = max(places[partition], record.offset())
                if places[partition] >= ends[partition][1] or record.error() is not None:
                    behind.discard(partition)
            offset = Offset(json.dumps(places), n_read)
            yield decoder.table(), offset
        self._client.unassign()

    @staticmethod
    def _decode(decoder: Decoder, row: int, value: bytes | None) -> None:
        if value is None:
            decoder.refuse(row, "", "value", "value is required: the row as JSON")
        else:
            decoder.add_text(row, value.decode(errors="backslashreplace"))

    def _next(self) -> list[Any]:
        """The next records, and ends of partitions."""
        records: list[Any] = []
        deadline = time.monotonic() + _WAIT_S
        while not records and time.monotonic() < deadline:
            records = self._client.consume(AT_ONCE, timeout=_GATHER_S)
        failed = [r.error() for r in records if r.error() and r.error().code() != self._kafka.KafkaError._PARTITION_EOF]
        if failed or not records:
            raise SetupError(f"Kafka at {self.address}: {failed[0].str() if failed else 'no answer'}")
        return records

    def _place(self, partition: int, offset: int = 0) -> Any:
        return self._kafka.TopicPartition(self._topic, partition, offset)

    def _ask(self, what: str, *given: Any) -> Any:
        try:
            return getattr(self._client, what)(*given, timeout=_WAIT_S)
        except self._kafka.KafkaException as error:
            raise SetupError(f"Kafka at {self.address}: {error.args[0].str()}") from error

    def _partitions(self) -> list[int]:
        topic = self._ask("list_topics", self._topic).topics[self._topic]
        if topic.error is not None:
            raise SetupError(f"Kafka at {self.address}: {topic.error.str()}")
        return sorted(topic.partitions)

    def _ends(self) -> dict[int, tuple[int, int]]:
        """For each partition its first offset and the one behind its last."""
        return {number: self._ask("get_watermark_offsets", self._place(number)) for number in self._partitions()}


def _places(offset: Offset, ends: dict[int, tuple[int, int]]) -> dict[int, int]:
    """Where to go on in each partition; in one that was not seen before, with its first record."""
    known = json.loads(offset.entry or "{}")
    return {partition: known.get(str(partition), low) for partition, (low, _) in ends.items()}
