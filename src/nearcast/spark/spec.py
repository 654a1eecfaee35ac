"""What every task must know to do its part: the broker's settings, the number of shards, the store."""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.types import ByteType, DataType, IntegerType, ShortType, StringType

import nearcast as nc
from nearcast.engines.parted import MOST_THREADS
from nearcast.errors import InvalidInput
from nearcast.model.analyzer import PLAIN_RULE, as_analyzer
from nearcast.model.checks import is_a, whole
from nearcast.spark.shards.blocks import to_bytes
from nearcast.text.weights import check_analyzer

_MOST_SHARDS = 4096


@dataclass(frozen=True)
class Spec:
    """The settings of one pipeline, as they travel to executors."""

    space: nc.Space
    window: nc.Window | None
    weights: nc.Weights | None
    shards: int
    subscription_type: pa.DataType  # of ids, as answers have them
    message_type: pa.DataType
    store: str | None = None  # a URI
    placed: bool = False  # may control events assign subscriptions to shards?
    analyzer: nc.Analyzer = PLAIN_RULE
    settings: str = ""  # what must not change while a checkpoint lasts
    snapshot_every: int = 10  # batches
    threads: int = 1  # of each shard

    def broker(self) -> nc.Broker:
        """A broker without subscriptions and messages."""
        return nc.Broker(self.space, self.window, self.weights, analyzer=self.analyzer, threads=self.threads)


def spec_of(
    space: nc.Space,
    window: nc.Window | None,
    weights: nc.Weights | None,
    shards: int,
    store: str | None,
    subscription_ids: DataType,
    message_ids: DataType,
    *,
    analyzer: nc.Analyzer | None = None,
    placed: bool = False,
    threads: int = 1,
) -> Spec:
    """Settings as callers give them, checked."""
    if not is_a(space, nc.Space):
        raise InvalidInput("space", space, "must be a Space")
    if window is not None and not is_a(window, nc.Window):
        raise InvalidInput("window", window, "must be a Window or None")
    if weights is not None and not is_a(weights, nc.Weights):
        raise InvalidInput("weights", weights, "must be Weights or None")
    rule = as_analyzer(analyzer)
    if weights is not None:
        check_analyzer(weights, rule)
    n_shards = whole("shards", shards, 1, _MOST_SHARDS)
    settings = ", ".join([str(space), str(window), _named(weights), *([] if rule.is_plain else [str(rule)])])
    settings += ", with assigns" if placed else ""
    ids = _arrow(subscription_ids), _arrow(message_ids)
    n_threads = whole("threads", threads, 1, MOST_THREADS)
    return Spec(space, window, weights, n_shards, *ids, store, placed, rule, settings, threads=n_threads)


def task_cpus(spark: SparkSession) -> int:
    """How many cores Spark gives to each task of a session, and so how many threads a shard may use."""
    return int(str(spark.conf.get("spark.task.cpus", "1")))


def _named(weights: nc.Weights | None) -> str:
    """What tells weights from others: a checkpoint is begun and resumed with the same."""
    if weights is None or not weights.n_texts:
        return "no weights"
    words, counts = weights.counts()
    table = pa.table({"word": words, "n": counts}).sort_by("word")
    return f"weights {zlib.crc32(to_bytes(table)):08x} of {weights.n_texts} texts"


def _arrow(kind: DataType) -> Any:
    if isinstance(kind, StringType):
        return pa.string()
    for small, arrow in ((ByteType, pa.int8()), (ShortType, pa.int16()), (IntegerType, pa.int32())):
        if isinstance(kind, small):
            return arrow
    return pa.int64()
