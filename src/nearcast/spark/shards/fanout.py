"""Blocks leave the tasks that read, and come to shards: the rows that cross Spark's shuffle, a few for each task.

A row holds a block, or with a store its name: a block is then written once, by the task that made it, and shards fetch
it. Blocks that all shards take are sent to each.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import NamedTuple

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from nearcast.spark.encode import EVERYBODY, Encoded, encode_controls, encode_messages, gathered
from nearcast.spark.shards.blocks import to_bytes
from nearcast.spark.shards.shard import REPORTING_SHARD
from nearcast.spark.shards.store import Store, checked_name
from nearcast.spark.spec import Spec

# The kinds of packed rows, in the order in which a shard of a batch wants them.
CONTROLS, MESSAGES, REFUSED_MESSAGES, REFUSED_CONTROLS, NOTHING = range(5)

PACKED = pa.schema(
    [
        ("kind", pa.int32()),
        ("shard", pa.int32()),  # or EVERYBODY
        ("part", pa.int64()),  # the task, and the number of the block in it: the order of blocks
        ("n", pa.int64()),
        ("rows", pa.int64()),
        ("name", pa.string()),  # in the store
        ("payload", pa.binary()),  # the block, if it is not there
    ]
)
PACKED_DDL = "kind int, shard int, part bigint, n bigint, rows bigint, name string, payload binary"

Batches = Iterator[pa.RecordBatch]


class Place(NamedTuple):
    """Where in a run a task is."""

    query: str  # the streaming query, or "batch"
    batch: int
    part: int
    attempt: int


def place() -> Place:
    """Where in a run this task is."""
    context = TaskContext.get()
    assert context is not None, "only tasks have a place"
    batch = context.getLocalProperty("streaming.sql.batchId")
    query = context.getLocalProperty("sql.streaming.queryId")
    return Place(query or "batch", int(batch or 0), context.partitionId(), context.taskAttemptId())


def packed_messages(messages: DataFrame, spec: Spec) -> DataFrame:
    """Blocks of a frame that `frames.message_frame` gave."""
    return packed_rows(messages, spec, MESSAGES)


def packed_controls(controls: DataFrame, spec: Spec) -> DataFrame:
    """Blocks of a frame that `frames.control_frame` gave."""
    return packed_rows(controls, spec, CONTROLS)


def packed_rows(frame: DataFrame, spec: Spec, kind: int) -> DataFrame:
    """Blocks of the rows of a frame, for each shard that takes them."""

    def pack(batches: Batches) -> Batches:
        packer, encode = Packer(spec, place()), encode_messages if kind == MESSAGES else encode_controls
        for table in gathered(batches):
            yield from packer.rows(kind, encode(table, spec))

    return to_shards(frame.mapInArrow(pack, PACKED_DDL), spec)


def to_shards(packed: DataFrame, spec: Spec) -> DataFrame:
    """What a `Packer` gave, for each shard that takes it."""
    everybody = F.array(*[F.lit(shard) for shard in range(spec.shards)])
    shards = F.when(F.col("shard") == EVERYBODY, everybody).otherwise(F.array("shard"))
    others = [F.col(name) for name in PACKED.names if name != "shard"]
    return packed.select(*others, F.explode(shards).alias("shard"))


class Packer:
    """Blocks of one task become packed rows."""

    def __init__(self, spec: Spec, at: Place) -> None:
        self._store = None if spec.store is None else Store(spec.store)
        self._place = at
        self._n = 0

    def rows(self, kind: int, encoded: Encoded) -> Batches:
        for shard, table in encoded.blocks:
            yield self._row(kind, shard, table)
        if encoded.refused.num_rows:
            refused = REFUSED_MESSAGES if kind == MESSAGES else REFUSED_CONTROLS
            yield self._row(refused, REPORTING_SHARD, encoded.refused)
        if all(shard != EVERYBODY for shard, _ in encoded.blocks):  # every shard takes part in every batch
            yield self._row(NOTHING, EVERYBODY, encoded.refused.slice(0, 0))

    def _row(self, kind: int, shard: int, table: pa.Table) -> pa.RecordBatch:
        self._n += 1
        name, payload = None, None
        if self._store is not None and kind != NOTHING:
            query, batch, part, attempt = self._place
            data = to_bytes(table)
            name = checked_name(f"{query}/blocks/{batch}-{part}-{self._n}-{attempt}-{uuid.uuid4().hex[:8]}", data)
            self._store.put(name, data)
        elif kind != NOTHING:
            payload = to_bytes(table)
        values = (kind, shard, self._place.part, self._n, table.num_rows, name, payload)
        return pa.record_batch(
            [pa.array([value], field.type) for value, field in zip(values, PACKED, strict=True)], schema=PACKED
        )
