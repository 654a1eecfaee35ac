"""The two ends that Spark calls: a source that counts batches, and a stateful processor that gives each shard its turn."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxFiles, SupportsTriggerAvailableNow
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle
from pyspark.sql.types import StructType

from nearcast.cluster.intake import read_head
from nearcast.cluster.partition import shard_key
from nearcast.cluster.schema import REPORT, STATE, TURN
from nearcast.cluster.store import Store
from nearcast.cluster.turn import take_turn


class Batches(DataSource):
    """Which batches are ready: one row per shard and micro-batch, no events; shards read those from the batch files."""

    @classmethod
    def name(cls) -> str:
        return "nearcast-batches"

    def schema(self) -> str:
        return TURN

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        return BatchesReader(str(self.options["checkpoint"]), int(self.options["shards"]))


class BatchesReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Offsets are batch numbers; a micro-batch takes one batch."""

    def __init__(self, checkpoint: str, n_shards: int) -> None:
        self._store = Store(Path(checkpoint))
        self._n_shards = n_shards
        self._last: int | None = None

    def initialOffset(self) -> dict[str, int]:
        return {"batch": 0}

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadMaxFiles(1)

    def prepareForTriggerAvailableNow(self) -> None:
        self._last = read_head(self._store).batches

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:
        ready = read_head(self._store).batches if self._last is None else self._last
        if isinstance(limit, ReadMaxFiles):
            ready = min(ready, start["batch"] + limit.max_files)
        return {"batch": max(start["batch"], ready)}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        return [InputPartition((start["batch"], end["batch"]))] if end["batch"] > start["batch"] else []

    def read(self, partition: InputPartition) -> Iterator[tuple[int, int, int, int]]:
        first, stop = partition.value
        for shard in range(self._n_shards):
            yield shard_key(shard, self._n_shards), shard, first, stop


class Turns(StatefulProcessor):
    """Gives a shard its turn and keeps its state."""

    def __init__(self, checkpoint: str, run: str) -> None:
        self._checkpoint = checkpoint
        self._run = run

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._state = handle.getValueState("shard", STATE)

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:
        """Take the one row that a micro-batch has for a shard."""
        for row in rows:
            state = self._state.get()
            after, report = take_turn(
                self._checkpoint, self._run, row.shard, state[0] if state else None, row.first, row.stop
            )
            self._state.update((after,))
            yield Row(shard=row.shard, report=report)

    def close(self) -> None:
        """Nothing is held open."""


def reports(spark: SparkSession, checkpoint: str, run: str, n_shards: int) -> DataFrame:
    """The stream of reports of all shards, one row per shard and micro-batch."""
    spark.dataSource.register(Batches)
    source = spark.readStream.format(Batches.name()).option("checkpoint", checkpoint).option("shards", n_shards).load()
    return source.groupBy("key").transformWithState(
        statefulProcessor=Turns(checkpoint, run), outputStructType=REPORT, outputMode="Update", timeMode="None"
    )
