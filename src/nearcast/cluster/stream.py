"""The part that Spark runs: turns go in, every shard takes each of them, and reports come out.

Events themselves do not pass through Spark: a shard maps the batch file, of which it reads only what it needs. What is
left for the stream is one small row per shard and batch, so a micro-batch costs little more than Spark's bookkeeping.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pyspark.sql import Column, DataFrame, Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from nearcast.cluster.store import Store, read_json
from nearcast.cluster.turn_files import Turn, read_turn

# What flows through Spark itself is small: which turns to take, and what became of them.
TURN = "turn long, kind string, what long"
STATE = "value string"
REPORT = "shard int, rows long, updates long, seconds double, work double, waiting long, report string"


class Turns(StatefulProcessor):
    """Gives a shard its turn and keeps its state."""

    def __init__(self, checkpoint: str, run: str) -> None:
        self._checkpoint = checkpoint
        self._run = run

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Name the one value that is kept per shard."""
        self._state = handle.getValueState("shard", STATE)

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:
        """Take the rows that a micro-batch has for one shard: its turns."""
        from nearcast.cluster.turn import take_turns  # workers have it; for those that only plan it would take a second

        taken = sorted(rows, key=lambda row: row.turn)
        before = self._state.get()
        state = before[0] if before else None
        turns = [Turn(row.turn, row.kind, row.what) for row in taken]
        shard = taken[0].shard
        after, report = take_turns(self._checkpoint, self._run, shard, state, turns)
        self._state.update((after,))
        counts = report.counts
        updates = counts.get("added", 0) + counts.get("removed", 0)
        yield Row(
            shard=shard, rows=counts["rows"], updates=updates, seconds=report.seconds, work=report.work,
            waiting=report.waiting, report=json.dumps(report._asdict()),
        )  # fmt: skip

    def close(self) -> None:
        """Nothing is held open."""


class TurnSource(DataSource):
    """The turns of a log as a source of Spark's; an offset is the number of a turn, and all that a restart needs.

    Spark's own file source would remember the name of every turn there ever was.
    """

    @classmethod
    def name(cls) -> str:
        """What `readStream.format` calls it."""
        return "nearcast_turns"

    def schema(self) -> str:
        """The columns of `Turn`."""
        return TURN

    def streamReader(self, schema: Any) -> TurnReader:
        """The reader of the era that the options name."""
        era, first = int(self.options["era"]), int(self.options["first"])
        return TurnReader(Store(Path(self.options["checkpoint"]), era), first)


class TurnReader(DataSourceStreamReader):
    """Reads one turn for each micro-batch, as soon as it is there."""

    def __init__(self, store: Store, first: int) -> None:
        self._store = store
        self._first = first

    def initialOffset(self) -> dict[str, int]:
        """The first turn of the era."""
        return {"turn": self._first}

    def latestOffset(self, start: dict[str, int], limit: Any) -> dict[str, int]:
        """One turn further, if it is there."""
        return {"turn": start["turn"] + self._store.turn(start["turn"]).exists()}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[InputPartition]:
        """One for every turn: one in all."""
        return [InputPartition(number) for number in range(start["turn"], end["turn"])]

    def read(self, partition: InputPartition) -> Iterator[tuple[Any, ...]]:
        """What happens in the turn."""
        yield tuple(read_turn(self._store, partition.value))


def reports(spark: SparkSession, store: Store, era: int, run: str, keys: list[int]) -> DataFrame:
    """The stream of reports, one row per shard and micro-batch; a micro-batch takes one turn.

    `keys` are those that Spark sends to one shard each (`partition.shard_key`).

    Spark's listeners find what `progress.metrics` tells of a micro-batch as observed metrics.
    """
    spark.dataSource.register(TurnSource)
    start = read_json(store.start)
    turns = spark.readStream.format(TurnSource.name()).option("checkpoint", str(store.checkpoint))
    turns = turns.option("era", era).option("first", start["next_turn"] if start else 0)
    shards = [F.struct(F.lit(key).alias("key"), F.lit(shard).alias("shard")) for shard, key in enumerate(keys)]
    spread = turns.load().select("*", F.explode(F.array(*shards)).alias("to"))
    said = (
        spread.select("to.key", "to.shard", "turn", "kind", "what")
        .groupBy("key")
        .transformWithState(
            statefulProcessor=Turns(str(store.checkpoint), run),
            outputStructType=REPORT,
            outputMode="Update",
            timeMode="None",
        )
    )
    return said.observe("nearcast", *observed(len(keys)))


def observed(n_shards: int) -> list[Column]:
    """What listeners are told of a micro-batch, under the names that `metrics.jsonl` has; null without reports."""
    spread = F.max("work") - F.min("work")
    seconds = [F.max(F.when(F.col("shard") == shard, F.col("seconds"))) for shard in range(n_shards)]
    return [
        F.sum("rows").alias("rows"),
        F.sum("updates").alias("updates"),
        F.max("waiting").alias("lag_rows"),
        F.try_divide(spread, F.avg("work")).alias("imbalance"),
        F.array(*seconds).alias("shard_seconds"),
    ]
