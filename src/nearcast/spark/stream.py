"""Answers over streaming frames: every shard is a key of Spark's state, which holds the names of what it is made of."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle
from pyspark.sql.types import StructType

from nearcast.errors import InvalidInput, SetupError
from nearcast.partition.partition import shard_key
from nearcast.spark.shards.blocks import from_bytes, to_bytes
from nearcast.spark.shards.fanout import NOTHING, Batches, packed_controls, packed_messages, place
from nearcast.spark.shards.steps import Block, ShardState, Step
from nearcast.spark.spec import Spec

COUNTS = ("rows", "messages", "events", "late", "rejects", "added", "removed", "assigned")  # of a batch, by shard
_MEASURED = (*COUNTS, "restored", "milliseconds")
_OUT = "payload binary, shard int, subscriptions string, " + ", ".join(f"{name} bigint" for name in _MEASURED)
_HELD_ANSWERS = 50_000  # put together before they leave
_ROCKS = "RocksDBStateStoreProvider"
_PROVIDER = "spark.sql.streaming.stateStore.providerClass"


def stream_answers(messages: DataFrame, controls: DataFrame, spec: Spec, schema: StructType) -> DataFrame:
    """The answers over a streaming frame of messages, and one of control events that streams or is loaded once."""
    packed, initial = packed_messages(messages, spec), None
    if controls.isStreaming:
        packed = packed.unionByName(packed_controls(controls, spec))
    else:
        initial = packed_controls(controls, spec)
    said = packed_answers(packed, spec, initial)
    sums = [F.sum(name).alias(name) for name in (*COUNTS, "restored")]
    observed = said.observe("nearcast", *sums, F.max("milliseconds").alias("milliseconds"))
    return observed.where("payload is not null").mapInArrow(_unpack, schema)


def packed_answers(packed: DataFrame, spec: Spec, loaded: DataFrame | None = None) -> DataFrame:
    """The same of packed rows, many answers a row, and from every shard a row that counts what a batch did.

    `loaded` are packed rows of subscriptions that are there before the stream.

    Raises
    ------
    SetupError
        The session has a state store that cannot do it.
    InvalidInput
        More shards than partitions.
    """
    spark = packed.sparkSession
    if not str(spark.conf.get(_PROVIDER, "")).endswith(_ROCKS):
        raise SetupError(
            f"streams need the state store RocksDB: set {_PROVIDER} to "
            f"org.apache.spark.sql.execution.streaming.state.{_ROCKS}"
        )
    n_partitions = int(str(spark.conf.get("spark.sql.shuffle.partitions", "200")))
    if spec.shards > n_partitions:
        raise InvalidInput(
            "shards",
            spec.shards,
            f"must be <= spark.sql.shuffle.partitions ({n_partitions}): set that for a new checkpoint; for one that is "
            "there call ns.repartition first",
        )
    keys = F.array(*[F.lit(shard_key(shard, n_partitions)) for shard in range(spec.shards)])
    key = F.element_at(keys, F.col("shard") + 1).alias("key")
    initial = None
    if loaded is not None:
        whole = loaded.select(key, "shard", F.struct("kind", "rows", "name").alias("block"))
        initial = whole.groupBy("key", "shard").agg(F.to_json(F.collect_list("block")).alias("blocks")).groupBy("key")
    return (
        packed.select(key, "shard", "kind", "rows", "name")
        .groupBy("key")
        .transformWithState(
            statefulProcessor=Shards(spec),
            outputStructType=_OUT,
            outputMode="Append",
            timeMode="None",
            initialState=initial,
        )
    )


class Shards(StatefulProcessor):
    """What Spark calls for every shard that has rows in a batch."""

    def __init__(self, spec: Spec) -> None:
        self._spec = spec

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._state = handle.getValueState("shard", "state string")
        self._initial = handle.getValueState("initial", "blocks string")

    def handleInitialState(self, key: Any, initialState: Any, timerValues: Any) -> None:
        blocks = [
            Block(block["kind"], block["rows"], block.get("name", "")) for block in json.loads(initialState.blocks)
        ]
        blocks = [block for block in blocks if block.kind != NOTHING]
        state = ShardState(initialState.shard, self._spec.shards, self._spec.settings, log=[blocks])
        self._initial.update((state.to_json(),))

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:
        began = time.perf_counter()
        given = [(row.shard, Block(row.kind, row.rows, row.name or "")) for row in rows]
        (index,) = {shard for shard, _ in given}
        known = self._state.get()
        before = None if known is None else ShardState.from_json(known[0])
        loaded = self._initial.get() if before is None else None
        initial = [] if loaded is None else ShardState.from_json(loaded[0]).log[0]
        at = place()
        step = Step(self._spec, at.query, at.batch, index, before)
        held: list[pa.Table] = []
        for table in step.run(initial, sorted(block for _, block in given)):
            held.append(table)
            if sum(part.num_rows for part in held) >= _HELD_ANSWERS:
                yield _row(index, held)
                held = []
        assert step.state is not None, "a step leaves a state"
        self._state.update((step.state.to_json(),))
        if held:
            yield _row(index, held)
        yield _row(index, [], step, began)

    def close(self) -> None:
        pass


def _row(shard: int, held: list[pa.Table], step: Step | None = None, began: float = 0.0) -> Row:
    counts, subscriptions = dict.fromkeys(_MEASURED, 0), None
    if step is not None:
        counts |= step.counts
        counts |= {"restored": int(step.restored), "milliseconds": int(1000 * (time.perf_counter() - began))}
        subscriptions = json.dumps(step.subscriptions)
    payload = to_bytes(pa.concat_tables(held)) if held else None
    return Row(payload=payload, shard=shard, subscriptions=subscriptions, **counts)


def _unpack(batches: Batches) -> Batches:
    for batch in batches:
        for payload in batch.column("payload"):
            yield from from_bytes(payload.as_buffer()).to_batches()
