"""Redis streams and Kafka topics join the frames of files."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nearcast.spark.frames import control_frame, message_frame
from nearcast.spark.run.file_rows import EVENTS, MESSAGES, SUBSCRIPTIONS, IdTypes, json_row, side_of
from nearcast.spark.run.files import Input
from nearcast.spark.run.value_rows import value_frame
from nearcast.spark.shards.fanout import packed_controls, packed_messages
from nearcast.spark.sources import options_of, register
from nearcast.spark.spec import Spec

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


_LOOKED_AT = 100  # values of a stream, for the type of their ids


def packed_streams(spark: SparkSession, streams: list[Input], ids: IdTypes, spec: Spec) -> list[DataFrame]:
    """The rows of streams in blocks."""
    register(spark)
    made = []
    for given in streams:
        kind, options = options_of(given.path)
        values = spark.readStream.format(kind).options(**options).load()
        if given.role in (MESSAGES, EVENTS):
            made.append(packed_messages(message_frame(value_frame(values, MESSAGES, given.role, ids)).rows, spec))
        if given.role in (SUBSCRIPTIONS, EVENTS):
            made.append(packed_controls(control_frame(value_frame(values, SUBSCRIPTIONS, given.role, ids)).rows, spec))
    return made


def first_types(spark: SparkSession, streams: list[Input]) -> dict[str, str]:
    """The types of ids by the first values of streams; of streams without values none."""
    register(spark)
    found: dict[str, str] = {}
    for given in streams:
        kind, options = options_of(given.path)
        for row in spark.read.format(kind).options(**options).load().limit(_LOOKED_AT).collect():
            _, _, value, _ = json_row(0, bytes(row.value or b""))
            id_ = value.get("id") if isinstance(value, dict) else None
            if isinstance(id_, int | str):
                found.setdefault(side_of(value, given.role), "bigint" if isinstance(id_, int) else "string")
    return found
