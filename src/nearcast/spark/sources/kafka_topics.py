"""Topics of a Kafka cluster, as source and sink need them: where partitions end, what lies between two offsets."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from nearcast.errors import SetupError
from nearcast.spark.sources.options import of_client, required

PAGE = 10_000  # records fetched in one call
WAIT_S = 30.0  # for an answer
_GATHER_S = 0.1  # for more records, so that one call fetches as many as there are

Offsets = dict[str, dict[str, int]]  # topic -> partition, as text -> the next record, as Spark's own source writes it


class Span(NamedTuple):
    """Records of a partition, in a row."""

    topic: str
    partition: int
    first: int
    end: int  # the one after the last


def kafka() -> Any:
    """The client's module.

    Raises
    ------
    SetupError
        It is not installed.
    """
    try:
        import confluent_kafka
    except ImportError:
        raise SetupError("confluent-kafka is not installed. Run: pip install 'nearcast[kafka]'") from None
    return confluent_kafka


def settings(options: Mapping[str, str], **ours: Any) -> dict[str, Any]:
    """What the client is given: options that begin with ``kafka.``, without it, and what we rely on."""
    required(options, "kafka.bootstrap.servers", "HOST:9092")
    return {"log_level": 2, **of_client(options, "kafka."), **ours}


def failed(servers: str, error: Any) -> SetupError:
    """What went wrong, with the servers' names."""
    inner = error.args[0] if getattr(error, "args", None) else error
    return SetupError(f"Kafka at {servers}: {inner.str() if hasattr(inner, 'str') else inner}")


class Topics:
    """A consumer that belongs to no group and commits nothing.

    Parameters
    ----------
    options
        ``kafka.bootstrap.servers`` and whatever else begins with ``kafka.``: settings of the client by its own names,
        such as ``kafka.security.protocol`` or ``kafka.sasl.password``.
    """

    def __init__(self, options: Mapping[str, str]) -> None:
        self._kafka = kafka()
        self.servers = options.get("kafka.bootstrap.servers", "")
        wanted = settings(options, **{
            "group.id": options.get("kafka.group.id", "nearcast"),  # asked for by the client
            "enable.auto.commit": False, "enable.partition.eof": True, "auto.offset.reset": "error",
            "isolation.level": options.get("kafka.isolation.level", "read_committed"),
        })  # fmt: skip
        try:
            self._client: Any = self._kafka.Consumer(wanted)
        except (self._kafka.KafkaException, ValueError, TypeError) as error:
            raise failed(self.servers, error) from None

    def __enter__(self) -> Topics:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()

    def _ask(self, what: str, *given: Any) -> Any:
        try:
            return getattr(self._client, what)(*given, timeout=WAIT_S)
        except self._kafka.KafkaException as error:
            raise failed(self.servers, error) from error

    def bounds(self, topics: list[str]) -> dict[str, dict[str, tuple[int, int]]]:
        """For each partition of each topic its first record and the one after its last."""
        found: dict[str, dict[str, tuple[int, int]]] = {}
        for name in topics:
            topic = self._ask("list_topics", name).topics[name]
            if topic.error is not None:
                raise SetupError(f"Kafka at {self.servers}: topic {name}: {topic.error.str()}")
            places = ((number, self._kafka.TopicPartition(name, number)) for number in sorted(topic.partitions))
            found[name] = {str(number): self._ask("get_watermark_offsets", place) for number, place in places}
        return found

    def read(self, span: Span) -> Iterator[list[Any]]:
        """The records of a span, some at a time; those of transactions that were aborted are passed over."""
        self._client.assign([self._kafka.TopicPartition(span.topic, span.partition, span.first)])
        at = span.first
        while at < span.end:
            page = []
            for record in self._next(span):
                if record.error() is not None:  # the end, which transactions may have put behind the last record
                    at = max(at, record.offset(), span.end)
                elif record.offset() < span.end:
                    page.append(record)
                    at = record.offset() + 1
                else:
                    at = record.offset()
            yield page
        self._client.unassign()

    def _next(self, span: Span) -> list[Any]:
        records: list[Any] = []
        deadline = time.monotonic() + WAIT_S
        while not records and time.monotonic() < deadline:
            records = self._client.consume(PAGE, timeout=_GATHER_S)
        ends = self._kafka.KafkaError._PARTITION_EOF
        wrong = [record.error() for record in records if record.error() and record.error().code() != ends]
        if wrong:
            raise SetupError(f"Kafka at {self.servers}: {span.topic}, partition {span.partition}: {wrong[0].str()}")
        if not records:
            raise SetupError(f"Kafka at {self.servers}: {span.topic}, partition {span.partition}: no answer")
        return records
