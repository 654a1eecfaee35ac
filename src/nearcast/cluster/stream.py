"""The part that Spark runs: turns go in, every shard takes each of them, and reports come out.

Events themselves do not pass through Spark: a shard maps the batch file, of which it reads only what it needs. What is
left for the stream is one small row per shard and batch, so a micro-batch costs little more than Spark's bookkeeping.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from nearcast.cluster.log import Turn
from nearcast.cluster.partition import shard_key
from nearcast.cluster.schema import REPORT, STATE, TURN
from nearcast.cluster.store import Store
from nearcast.cluster.turn import take_turns


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
        taken = sorted(rows, key=lambda row: row.turn)
        before = self._state.get()
        state = before[0] if before else None
        turns = [Turn(row.turn, row.kind, row.what) for row in taken]
        shard = taken[0].shard
        after, report = take_turns(self._checkpoint, self._run, shard, state, turns)
        self._state.update((after,))
        counts = report.counts
        updates = counts.get("added", 0) + counts.get("removed", 0)
        said = json.dumps(report._asdict())
        yield Row(shard=shard, rows=counts["rows"], updates=updates, seconds=report.seconds, report=said)

    def close(self) -> None:
        """Nothing is held open."""


def reports(spark: SparkSession, store: Store, run: str, n_shards: int) -> DataFrame:
    """The stream of reports, one row per shard and micro-batch; a micro-batch takes one turn.

    Spark's listeners find the sums of rows and updates, and the slowest and fastest shard, as observed metrics.
    """
    turns = spark.readStream.schema(TURN).option("maxFilesPerTrigger", 1).option("maxFileAge", "36500d")
    keys = [F.struct(F.lit(shard_key(i, n_shards)).alias("key"), F.lit(i).alias("shard")) for i in range(n_shards)]
    store.turns.mkdir(parents=True, exist_ok=True)
    numbers = turns.csv(re.sub(r"([\[\]{}*?\\])", r"\\\1", str(store.turns)))  # Spark reads a path as a pattern
    spread = numbers.select("*", F.explode(F.array(*keys)).alias("to")).select(
        "to.key", "to.shard", "turn", "kind", "what"
    )
    said = spread.groupBy("key").transformWithState(
        statefulProcessor=Turns(str(store.checkpoint), run),
        outputStructType=REPORT,
        outputMode="Update",
        timeMode="None",
    )
    slowest, fastest = F.max("seconds").alias("slowest"), F.min("seconds").alias("fastest")
    return said.observe("nearcast", F.sum("rows").alias("rows"), F.sum("updates").alias("updates"), slowest, fastest)
