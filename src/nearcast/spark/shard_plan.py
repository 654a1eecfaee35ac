"""`plan`: which subscription belongs to which shard, by a Spark job over a sample of messages; `assign` rows come out.

A task fits the partition, so the driver holds neither messages nor subscriptions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DoubleType, IntegralType, LongType, StringType, StructField, StructType

import nearcast as nc
from nearcast.columns.arena import Ints
from nearcast.errors import InvalidInput
from nearcast.model.analyzer import as_analyzer
from nearcast.model.checks import is_a, whole
from nearcast.partition.balance import imbalance, moves_for
from nearcast.partition.partition import Partition, SplitSettings, fit
from nearcast.partition.sample import SAMPLE_ROWS
from nearcast.spark.frames import BESIDE, control_frame, message_frame
from nearcast.spark.shards.blocks import rows_with_lists
from nearcast.spark.shards.places import shards_of
from nearcast.text.weights import check_analyzer

METHODS = {"dkm": "dkm", "kop": "keyword", "sop": "space", "hash": "hash"}  # by the paper's names, and by ours
BOUND = 0.2  # the imbalance of work, (max - min) / mean, up to which nothing is to be moved


def plan(
    messages: DataFrame,
    subscriptions: DataFrame,
    *,
    space: nc.Space,
    shards: int,
    method: str = "dkm",
    window: nc.Window | None = None,
    weights: nc.Weights | None = None,
    analyzer: nc.Analyzer | None = None,
    work: Sequence[float] | None = None,
) -> DataFrame:
    """Where subscriptions should be: rows of `assign` events, to be put into the frame of subscriptions.

    Parameters
    ----------
    messages
        A batch frame of messages like those to come; 100,000 of them are looked at.
    subscriptions
        A batch frame; rows whose `event` is not a subscribe are passed over. With `work`, a column `shard` tells where
        each is now; without one, it is where its id puts it.
    space, window, weights, analyzer, shards
        Those of `answers`.
    method
        ``"dkm"`` (by words and places), ``"kop"`` (by words), ``"sop"`` (by places) or ``"hash"`` (by id).
    work
        What each shard had to do, in seconds or any other unit. Only the subscriptions that should move to make it
        even are then in the plan: none if it is even enough.

    Returns
    -------
    DataFrame
        `event`, ``"assign"``; `id`; `shard`; `cost`, nanoseconds of CPU that it is expected to take for each message.

    Raises
    ------
    InvalidInput
        Something that can be seen to be wrong before anything runs.
    """
    if method not in METHODS:
        raise InvalidInput("method", method, f"must be one of {', '.join(METHODS)}")
    if not is_a(space, nc.Space):
        raise InvalidInput("space", space, "must be a Space")
    shards = whole("shards", shards, 1, 4096)
    for name, frame in (("messages", messages), ("subscriptions", subscriptions)):
        if frame.isStreaming:
            raise InvalidInput(name, "a streaming frame", "must be a batch frame: what was stored of it")
    if work is not None and (len(work) != shards or not all(one >= 0.0 for one in work)):
        raise InvalidInput("work", work, f"must be a number >= 0 for each of {shards} shards")
    told, asked = message_frame(messages), control_frame(subscriptions)
    rows = asked.rows.where(F.col("id").isNotNull())
    if "refused" in rows.columns:
        rows = rows.where(F.col("refused").isNull())
    if "event" in rows.columns:
        rows = rows.where(F.coalesce("event", F.lit("subscribe")) == "subscribe")
    rows = rows.drop(*BESIDE, "tie", "ts")
    live = live_messages(told.rows, window)
    columns = [name for name in ("lon", "lat", "text", "keywords") if name in told.rows.columns]
    sample = told.rows.orderBy(F.xxhash64("id"), "id").limit(SAMPLE_ROWS).select(*columns)
    settings = SplitSettings(window=window is not None)
    rule = as_analyzer(analyzer)
    if weights is not None:
        check_analyzer(weights, rule)
    fitting = partial(fit, METHODS[method], weights=weights, analyzer=rule, settings=settings, live=live)
    task = _task(fitting, space, shards, None if work is None else list(work), method == "hash")
    whole_ids = isinstance(asked.id_type, IntegralType)
    id_type = LongType() if whole_ids else StringType()
    fields = [("event", StringType()), ("id", id_type), ("shard", LongType()), ("cost", DoubleType())]
    schema = StructType([StructField(name, kind) for name, kind in fields])
    one = F.lit(0).alias("one")
    pair = sample.select(one, *columns).groupBy("one").cogroup(rows.select(one, *rows.columns).groupBy("one"))
    return pair.applyInArrow(task, schema)


def live_messages(messages: DataFrame, window: nc.Window | None) -> float | None:
    """How many messages a window is expected to hold; None if there is no window, or nothing to tell it by."""
    if window is None:
        return None
    bounds = [] if window.count is None else [float(window.count)]
    if window.age is not None:
        found = messages.agg(F.count("ts").alias("n"), F.min("ts").alias("first"), F.max("ts").alias("last")).first()
        if found is not None and found["n"] and found["last"] > found["first"]:
            bounds.append(max(1.0, found["n"] * window.age_ms / (found["last"] - found["first"])))
    return min(bounds, default=None)


def _task(
    fitting: Callable[..., tuple[Partition, Ints]],
    space: nc.Space,
    n_shards: int,
    work: list[float] | None,
    by_id: bool,
) -> Callable[[pa.Table, pa.Table], pa.Table]:
    def task(sample: pa.Table, given: pa.Table) -> pa.Table:
        given = given.drop_columns(["one"])
        now = given.column("shard") if "shard" in given.column_names else None
        names = [name for name in given.column_names if name != "shard" and _has(given, name)]
        table = given.select(dict.fromkeys(["id", *names]))
        asked = rows_with_lists(table)
        partition, shards = fitting(asked, sample.drop_columns(["one"]), n_shards, space)
        costs, ids = partition.costs(asked), table.column("id")
        if work is not None:
            at = shards_of(ids.combine_chunks(), n_shards)
            if now is not None:
                at = np.where(now.is_valid().to_numpy(), now.fill_null(0).to_numpy(), at)
            spent = np.array(work, np.float64)
            if imbalance(spent) <= BOUND:
                return _assigned(ids.slice(0, 0), np.zeros(0, np.int64), np.zeros(0))
            moves = moves_for(spent, at.astype(np.int32), costs)
            return _assigned(ids.take(pa.array(moves.rows)), moves.takers, costs[moves.rows])
        if by_id:
            shards = shards_of(ids.combine_chunks(), n_shards).astype(np.int32)
        return _assigned(ids, shards, costs)

    return task


def _has(table: pa.Table, name: str) -> bool:
    return bool(table.column(name).null_count < table.num_rows)


def _assigned(ids: Any, shards: Any, costs: Any) -> pa.Table:
    events = pa.array(["assign"]).take(pa.array(np.zeros(len(ids), np.int32)))
    return pa.table({"event": events, "id": ids, "shard": pa.array(shards, pa.int64()), "cost": pa.array(costs)})
