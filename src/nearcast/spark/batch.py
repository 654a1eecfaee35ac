"""Answers over batch frames: everything is there, so Spark sorts the messages, and every shard reads through them."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from nearcast.spark.shards.blocks import Controls, Messages, from_bytes
from nearcast.spark.shards.fanout import (
    CONTROLS,
    MESSAGES,
    NOTHING,
    REFUSED_MESSAGES,
    Batches,
    packed_controls,
    packed_messages,
)
from nearcast.spark.shards.shard import Shard, check_counts
from nearcast.spark.shards.store import fetched
from nearcast.spark.spec import Spec


def batch_answers(messages: DataFrame, controls: DataFrame, spec: Spec, schema: StructType) -> DataFrame:
    """The answers over two batch frames of known columns."""
    order = [
        F.col(name).asc_nulls_first() for name in ("ts", "id", "position", "event", "tie") if name in messages.columns
    ]
    packed = packed_messages(messages.orderBy(*order), spec).unionByName(packed_controls(controls, spec))
    apart = packed.repartitionById(spec.shards, F.col("shard")).sortWithinPartitions("kind", "part", "n")
    return apart.mapInArrow(_runner(spec), schema)


def _runner(spec: Spec) -> Callable[[Batches], Batches]:
    def run(batches: Batches) -> Batches:
        for table in _answers(batches, spec):
            yield from table.to_batches()

    return run


def _answers(batches: Batches, spec: Spec) -> Iterator[pa.Table]:
    """What one shard says to its packed rows: control events, which come first, wait for their messages."""
    shard: Shard | None = None
    waiting: list[pa.Table] = []
    controls: _Waiting | None = None
    for batch in batches:
        for row in batch.to_pylist():
            if shard is None:
                shard = Shard(row["shard"], spec)
                shard.begin(0)
            if row["kind"] == NOTHING:
                continue
            block = from_bytes(fetched(spec.store, row["name"], row["payload"]))
            assert block.num_rows == row["rows"], f"{row['name']} holds {block.num_rows} rows, not {row['rows']}"
            if row["kind"] == CONTROLS:
                waiting.append(block)
                continue
            if row["kind"] != MESSAGES:
                yield shard.refuse(block, "message" if row["kind"] == REFUSED_MESSAGES else "subscription")
                continue
            if controls is None:
                controls, waiting = _Waiting(_placed(shard, waiting)), []
            messages = Messages([block])
            yield from shard.apply(messages, controls.until(int(messages.ts[-1])))
    if shard is not None:
        if controls is None:
            controls = _Waiting(_placed(shard, waiting))
        yield from shard.apply(None, controls.until(None))
        check_counts(shard.counts)


def _placed(shard: Shard, blocks: list[pa.Table]) -> Controls | None:
    """The shard's own control events. Assigns hold from the start: where a subscription is does not show in answers."""
    for block in blocks if shard.spec.placed else ():
        shard.places.assign(*shard.places.assigned(block))
    return shard.own(blocks)


class _Waiting:
    """Control events in order, of which the first are taken."""

    def __init__(self, controls: Controls | None) -> None:
        self._all = controls
        self._at = 0

    def until(self, ts: int | None) -> Controls | None:
        """Those up to this ts, or all, that were not taken before."""
        if self._all is None:
            return None
        end = len(self._all) if ts is None else int(np.searchsorted(self._all.ts, ts, side="right"))
        taken = self._all.slice(self._at, end)
        self._at = max(end, self._at)
        return taken if len(taken) else None
