"""Large inputs are read and put in order by Spark: one task for each file and stream, then one sort over all of them.

The answer is the same as that of `intake.in_memory`, which small inputs are read with while Spark is still starting.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from nearcast.cluster.intake import ORDER, Stage, Staged, Unread
from nearcast.cluster.schema import EVENTS, PUBLISH
from nearcast.cluster.sources import SourceFile, read_file
from nearcast.cluster.streams import Offset

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

LARGE_BYTES, LARGE_ENTRIES = 64 << 20, 100_000  # files, and streams, of this size are worth Spark's detour

_FILE = "path string, role string, format string, size long, changed_ns long, number int"


def is_large(files: list[SourceFile], unread: list[Unread]) -> bool:
    """Should Spark read these files and streams?"""
    n_bytes, n_entries = sum(file.size for file in files), sum(one.n_entries for one in unread)
    return n_bytes >= LARGE_BYTES or n_entries >= LARGE_ENTRIES


def on_spark(spark: SparkSession, folder: Path) -> Stage:
    """A stage that reads and sorts on Spark, by way of files in `folder`, which all machines must see."""

    def stage(files: list[SourceFile], unread: list[Unread]) -> Staged:
        from pyspark.sql import functions as F

        shutil.rmtree(folder, ignore_errors=True)
        offsets: dict[str, Offset] = {}
        parts = [_of_files(spark, files)] if files else []
        if unread:
            entries, offsets = _of_streams(spark, unread, len(files), folder / "entries")
            parts.append(entries)
        events = reduce(lambda some, more: some.unionAll(more), parts)
        keys = [F.col("event") == PUBLISH if name == "late" else F.col(name) for name in ORDER]
        events.orderBy(*(key.asc_nulls_first() for key in keys)).write.parquet(str(folder / "sorted"))
        return Staged(_emptied(folder), offsets)

    return stage


def _of_files(spark: SparkSession, files: list[SourceFile]) -> DataFrame:
    """The events of files."""
    from pyspark.sql.pandas.types import from_arrow_schema

    rows = [(*file, number) for number, file in enumerate(files)]
    named = spark.createDataFrame(rows, _FILE).repartition(len(rows))
    return named.mapInArrow(read_listed, from_arrow_schema(EVENTS))


def _of_streams(
    spark: SparkSession, unread: list[Unread], first: int, folder: Path
) -> tuple[DataFrame, dict[str, Offset]]:
    """The events of streams, numbered from `first` on, and how far these were read.

    They are written down before they are sorted: a task that is repeated might find more in a stream than it did
    before, and parts of a sort would not fit together.
    """
    from pyspark.sql import functions as F

    from nearcast.cluster.stream_source import entries

    for number, one in enumerate(unread, first):
        entries(spark, one, number).write.mode("append").parquet(str(folder))
    found = spark.read.parquet(str(folder))
    ends = found.groupBy("source").agg(F.max_by("offset", "row").alias("entry"), F.max("row").alias("n_read"))
    return found.drop("offset"), {row.source: Offset(row.entry, row.n_read) for row in ends.collect()}


def _emptied(folder: Path) -> Iterator[pa.Table]:
    """The events of sorted files in their order; then the folder is gone."""
    for part in sorted((folder / "sorted").glob("part-*.parquet")):
        with pq.ParquetFile(part) as sorted_file:
            for batch in sorted_file.iter_batches():
                yield pa.Table.from_batches([batch]).cast(EVENTS)
    shutil.rmtree(folder)


def read_listed(listed: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The events of the files that the rows name."""
    for batch in listed:
        for row in batch.to_pylist():
            number = row.pop("number")
            for piece in read_file(SourceFile(**row), number):
                yield from piece.to_batches()
