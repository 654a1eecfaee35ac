"""Large inputs are read and put in order by Spark: one task for each file, then one sort over all of them.

The answer is the same as that of `intake.in_memory`, which small inputs are read with while Spark is still starting.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from nearcast.cluster.intake import ORDER, Stage
from nearcast.cluster.schema import EVENTS, PUBLISH
from nearcast.cluster.sources import SourceFile, read_file

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LARGE_BYTES = 64 << 20  # inputs of this size are worth Spark's detour

_FILE = "path string, role string, format string, size long, changed_ns long, number int"


def is_large(files: list[SourceFile]) -> bool:
    """Should Spark read these files?"""
    return sum(file.size for file in files) >= LARGE_BYTES


def on_spark(spark: SparkSession, folder: Path) -> Stage:
    """A stage that reads and sorts on Spark, by way of sorted files in `folder`, which all machines must see."""

    def stage(files: list[SourceFile]) -> Iterator[pa.Table]:
        from pyspark.sql import functions as F
        from pyspark.sql.pandas.types import from_arrow_schema

        rows = [(*file, number) for number, file in enumerate(files)]
        named = spark.createDataFrame(rows, _FILE).repartition(len(rows))
        events = named.mapInArrow(read_listed, from_arrow_schema(EVENTS))
        keys = [F.col("event") == PUBLISH if name == "late" else F.col(name) for name in ORDER]
        shutil.rmtree(folder, ignore_errors=True)
        events.orderBy(*(key.asc_nulls_first() for key in keys)).write.parquet(str(folder))
        for part in sorted(folder.glob("part-*.parquet")):
            with pq.ParquetFile(part) as sorted_file:
                for batch in sorted_file.iter_batches():
                    yield pa.Table.from_batches([batch]).cast(EVENTS)
        shutil.rmtree(folder)

    return stage


def read_listed(listed: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The events of the files that the rows name."""
    for batch in listed:
        for row in batch.to_pylist():
            number = row.pop("number")
            for piece in read_file(SourceFile(**row), number):
                yield from piece.to_batches()
