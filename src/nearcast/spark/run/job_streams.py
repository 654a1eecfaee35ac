"""Redis streams and Kafka topics join the frames of files."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nearcast.spark.run.file_rows import EVENTS, SIDES, IdTypes, json_row, side_of
from nearcast.spark.run.files import Frames, Input
from nearcast.spark.run.intake import Intakes
from nearcast.spark.run.value_rows import value_frame
from nearcast.spark.shards.store import Store
from nearcast.spark.sources import options_of, register

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


_LOOKED_AT = 100  # values of a stream, for the type of their ids


def with_streams(spark: SparkSession, frames: Frames, streams: list[Input], store: str) -> Frames:
    """The frames with the rows of streams; ids are of the type that the store has."""
    register(spark)
    ids = Intakes(Store(store)).ids or IdTypes()
    made = dict(zip(SIDES, frames, strict=True))
    for given in streams:
        kind, options = options_of(given.path)
        values = spark.readStream.format(kind).options(**options).load()
        for side in SIDES:
            if given.role in (side, EVENTS):
                made[side] = made[side].unionByName(value_frame(values, side, given.role, ids))
    return Frames(*(made[side] for side in SIDES))


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
