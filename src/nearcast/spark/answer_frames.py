"""`answers`: frames of messages and subscriptions in, a frame of answers out."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

import nearcast as nc
from nearcast.errors import InvalidInput
from nearcast.spark.batch import batch_answers
from nearcast.spark.frames import answers_schema, control_frame, message_frame
from nearcast.spark.shards.store import Store
from nearcast.spark.spec import spec_of, task_cpus
from nearcast.spark.stream import stream_answers

_UPDATES = ("subscription", "message", "sign", "score", "ts", "batch", "shard", "seq")
_REJECTS = (
    "outcome",
    "event",
    "subscription",
    "message",
    "ts",
    "field",
    "reason",
    "row",
    "source",
    "position",
    "batch",
)


def answers(
    messages: DataFrame,
    subscriptions: DataFrame,
    *,
    space: nc.Space,
    window: nc.Window | None = None,
    weights: nc.Weights | None = None,
    analyzer: nc.Analyzer | None = None,
    shards: int = 1,
    threads: int | None = None,
    store: str | None = None,
) -> DataFrame:
    """What changes for every subscription, and which rows were refused or late: a frame with the columns of `ANSWERS`.

    Parameters
    ----------
    messages
        `MESSAGES`, batch or streaming; ids may be whole numbers, `keywords` lists, times timestamps.
    subscriptions
        `SUBSCRIPTIONS`: rows subscribe, or do what their `event` says. Batch, or streaming beside streaming messages.
    space, window, weights, analyzer
        As `Broker` has them. Weights are fitted with the same analyzer; a checkpoint is resumed with the same.
    shards
        Parts that subscriptions are dealt to; each is a broker in a task of its own, and sees every message.
    threads
        How many cores each shard uses; as many as Spark gives to a task (``spark.task.cpus``) when None.
    store
        A URI at which every host reads and writes: needed by streams, whose log and snapshots are there.

    Raises
    ------
    InvalidInput
        Something that can be seen to be wrong before anything runs.
    """
    told, asked = message_frame(messages), control_frame(subscriptions)
    if store is not None:
        Store(store).check()
    spec = spec_of(
        space, window, weights, shards, store, asked.id_type, told.id_type,
        analyzer=analyzer, placed="shard" in asked.rows.columns,
        threads=task_cpus(messages.sparkSession) if threads is None else threads,
    )  # fmt: skip
    schema = answers_schema(asked.id_type, told.id_type)
    if not messages.isStreaming and not subscriptions.isStreaming:
        return batch_answers(told.rows, asked.rows, spec, schema)
    if not messages.isStreaming:
        raise InvalidInput("messages", "a batch frame", "must be a streaming frame, as subscriptions are")
    if store is None:
        raise InvalidInput(
            "store", None, "must be a URI that every host reads and writes: streams keep their log there"
        )
    return stream_answers(told.rows, asked.rows, spec, schema)


def updates(answers: DataFrame) -> DataFrame:
    """The updates among answers; those of one subscription are ordered by `(batch, seq)`."""
    return answers.where(F.col("outcome") == "update").select(*_UPDATES)


def rejects(answers: DataFrame) -> DataFrame:
    """The rows that were refused or came late, with the field, the reason and the row."""
    return answers.where(F.col("outcome") != "update").select(*_REJECTS)
