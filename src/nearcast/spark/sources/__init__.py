"""Redis streams and Kafka topics as sources and sinks of Spark, where Spark has no connector of its own for them.

After `register(spark)`, ``read``, ``readStream``, ``write`` and ``writeStream`` know the formats ``nearcast-redis`` and
``nearcast-kafka``. Executors read and write, each its own part; offsets are in Spark's checkpoint.

- `options` reads what is given by ``option(...)``: what begins with ``redis.`` or ``kafka.`` is the client's.
- `redis_source` and `kafka_source` read: offsets, bounded by Spark's read limits, and parts between two of them.
- `redis_sink` and `kafka_sink` write: the rows of a task and the number of its batch in one transaction, so that
  writing a batch again changes nothing.
- `values` is what both have in common: rows as bytes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlsplit, urlunsplit

from nearcast.errors import InvalidInput

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

REDIS, KAFKA = "nearcast-redis", "nearcast-kafka"


def register(spark: SparkSession) -> None:
    """Make the formats known to a session; doing so again does no harm."""
    from nearcast.spark.sources.kafka_source import KafkaSource
    from nearcast.spark.sources.redis_source import RedisSource

    for source in (RedisSource, KafkaSource):
        spark.dataSource.register(source)


def is_stream(address: str) -> bool:
    """Does this name a stream, and not a file?"""
    return address.startswith(("redis://", "rediss://", "kafka://"))


def options_of(address: str) -> tuple[str, dict[str, str]]:
    """The format and the options that an address stands for.

    Parameters
    ----------
    address
        ``redis://HOST[:PORT]/NAME``, ``rediss://...`` with TLS, or ``kafka://HOST[:PORT]/TOPIC``.

    Raises
    ------
    InvalidInput
        For an address without a name.

    Examples
    --------
    >>> options_of("kafka://localhost/posts")
    ('nearcast-kafka', {'kafka.bootstrap.servers': 'localhost:9092', 'subscribe': 'posts', 'topic': 'posts'})
    """
    parts = urlsplit(address)
    name = parts.path.strip("/")
    if not name or "/" in name:
        form = "kafka://HOST:PORT/TOPIC" if parts.scheme == "kafka" else f"{parts.scheme}://HOST:PORT/NAME"
        raise InvalidInput("stream", address, f"must be {form}")
    if parts.scheme == "kafka":
        servers = f"{parts.hostname or 'localhost'}:{parts.port or 9092}"
        return KAFKA, {"kafka.bootstrap.servers": servers, "subscribe": name, "topic": name}
    url = urlunsplit((parts.scheme, parts.netloc or "localhost", "", parts.query, ""))
    return REDIS, {"url": url, "stream": name}
