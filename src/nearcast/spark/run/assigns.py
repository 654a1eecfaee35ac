"""Rows of `assign` events that `nearcast run` writes by itself: where subscriptions begin, and who moves.

They are Parquet files in a folder of the checkpoint that the run reads as a stream beside its input.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from nearcast.spark.run.file_rows import IdTypes, SourceFile
from nearcast.spark.run.files import batch_frames
from nearcast.spark.shard_plan import METHODS, plan

_METHODS = {name: paper for paper, name in METHODS.items()}  # by the names of the command line


class Assigns:
    """The assigns of a run.

    Parameters
    ----------
    folder
        Where they are.
    ids
        The types of ids.
    """

    def __init__(self, spark: SparkSession, folder: Path, ids: IdTypes) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._spark = spark
        self._folder = str(folder)
        self._ids = ids
        self._schema = f"event string, id {ids.subscriptions}, shard bigint, n bigint"

    def stream(self) -> DataFrame:
        """The rows, as they are written."""
        rows = self._spark.readStream.schema(self._schema).option("recursiveFileLookup", True).parquet(self._folder)
        return rows.drop("n")

    def propose(
        self,
        n: int,
        files: list[SourceFile],
        method: str,
        work: Sequence[float] | None = None,
        **those: Any,
    ) -> None:
        """Write proposal `n`, fitted to what files hold; with the `work` of shards, who moves. It is written once.

        What else a plan is made for, such as the space, is in `those`.
        """
        place = Path(self._folder) / f"n={n:08d}"
        if (place / "_SUCCESS").exists():
            return
        told, asked = batch_frames(self._spark, files, self._ids)
        if work is not None:
            asked = asked.drop("shard").join(self._latest(), "id", "left")
        found = plan(told, asked, method=_METHODS[method], work=work, **those)
        found.select("event", "id", "shard").write.mode("overwrite").parquet(str(place))

    def _latest(self) -> DataFrame:
        """Where ids were assigned to last."""
        rows = self._spark.read.schema(self._schema).parquet(self._folder)
        return rows.groupBy("id").agg(F.max_by("shard", "n").alias("shard"))
