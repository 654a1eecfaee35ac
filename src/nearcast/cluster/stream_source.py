"""Redis streams and Kafka topics as a source of Spark's: a task reads what stands behind an offset.

Spark reads what waits when a run begins if that is more than one process should hold and sort. What is less, and what
comes in later, the driver reads by itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from nearcast.cluster.intake import Unread
from nearcast.cluster.schema import EVENTS
from nearcast.cluster.streams import Offset, stream_at

ENTRIES = pa.schema([*EVENTS, ("offset", pa.string())])  # offset: where the piece of the stream that a row is in ends


class StreamSource(DataSource):
    """What stands behind an offset of a stream, up to its end."""

    @classmethod
    def name(cls) -> str:
        """What `read.format` calls it."""
        return "nearcast_stream"

    def schema(self) -> StructType:
        """The columns of events, and the offset."""
        return from_arrow_schema(ENTRIES)

    def reader(self, schema: StructType) -> StreamReader:
        """The reader of the stream that the options name."""
        return StreamReader(dict(self.options))


class StreamReader(DataSourceReader):
    """Reads a stream in one task: entries are numbered one after another."""

    def __init__(self, options: dict[str, str]) -> None:
        self._options = options

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The entries as events."""
        asked = self._options
        before = Offset(asked["entry"], int(asked["n_read"]))
        for piece, offset in stream_at(asked["address"]).read(asked["role"], int(asked["number"]), before):
            ends = pa.array([offset.entry] * piece.num_rows, pa.string())
            yield from piece.append_column(ENTRIES.field("offset"), ends).to_batches()


def entries(spark: SparkSession, unread: Unread, number: int) -> DataFrame:
    """What a stream has behind an offset; `number` is the column ``file``."""
    spark.dataSource.register(StreamSource)
    options: dict[str, Any] = {
        "address": unread.given.path, "role": unread.given.role, "number": number,
        "entry": unread.offset.entry, "n_read": unread.offset.n_read,
    }  # fmt: skip
    return spark.read.format(StreamSource.name()).options(**options).load()
