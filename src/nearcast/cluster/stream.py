"""The part that Spark runs: numbers of batches go in, every shard takes its turn at each, and reports come out.

Events themselves do not pass through Spark: a shard maps the batch file, of which it reads only what it needs. What is
left for the stream is one small row per shard and batch, so a micro-batch costs little more than Spark's bookkeeping.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from nearcast.cluster.partition import shard_key
from nearcast.cluster.schema import REPORT, STATE, TURN
from nearcast.cluster.store import Store
from nearcast.cluster.turn import take_turn


class Turns(StatefulProcessor):
    """Gives a shard its turn and keeps its state."""

    def __init__(self, checkpoint: str, run: str) -> None:
        self._checkpoint = checkpoint
        self._run = run

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Name the one value that is kept per shard."""
        self._state = handle.getValueState("shard", STATE)

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:
        """Take the rows that a micro-batch has for one shard: the numbers of its batches."""
        taken = list(rows)
        batches = sorted(row.batch for row in taken)
        before = self._state.get()
        state = before[0] if before else None
        after, report = take_turn(self._checkpoint, self._run, taken[0].shard, state, batches[0], batches[-1] + 1)
        self._state.update((after,))
        yield Row(shard=taken[0].shard, report=report)

    def close(self) -> None:
        """Nothing is held open."""


def reports(spark: SparkSession, store: Store, run: str, n_shards: int) -> DataFrame:
    """The stream of reports, one row per shard and micro-batch; a micro-batch takes one batch."""
    turns = spark.readStream.schema(TURN).option("maxFilesPerTrigger", 1).option("maxFileAge", "36500d")
    keys = [F.struct(F.lit(shard_key(i, n_shards)).alias("key"), F.lit(i).alias("shard")) for i in range(n_shards)]
    store.turns.mkdir(parents=True, exist_ok=True)
    numbers = turns.csv(re.sub(r"([\[\]{}*?\\])", r"\\\1", str(store.turns)))  # Spark reads a path as a pattern
    spread = numbers.select("batch", F.explode(F.array(*keys)).alias("to")).select("to.key", "to.shard", "batch")
    return spread.groupBy("key").transformWithState(
        statefulProcessor=Turns(str(store.checkpoint), run),
        outputStructType=REPORT,
        outputMode="Update",
        timeMode="None",
    )
