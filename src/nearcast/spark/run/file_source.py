"""The pieces of `intake` as a stream: two sources, one for each frame, that go forward together.

An offset is the number of pieces that were taken. Both frames must take the same piece in the same micro-batch. What is
there from the start is known before the first batch. When folders are followed, whichever of the two sources Spark asks
first looks for new files, in this and in all later batches, and the other takes what that one has found.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from nearcast.spark.run.file_rows import SIDES, IdTypes, SourceFile, columns_of, read_file
from nearcast.spark.run.files import Frames, Input, find_files, id_types
from nearcast.spark.run.intake import BATCH_ROWS, Intakes, Part, files_of, parts_of, read_part, take
from nearcast.spark.shards.store import Store

_TASKS = 8  # that read one piece, at most


class PieceSource(DataSource):
    """The pieces of a store, of one side."""

    @classmethod
    def name(cls) -> str:
        """What `format` calls it."""
        return "nearcast-files"

    def schema(self) -> Any:
        """The columns of the side."""
        ids = IdTypes(self.options["messages"], self.options["subscriptions"])
        return from_arrow_schema(columns_of(self.options["side"], ids))

    def streamReader(self, schema: Any) -> PieceReader:
        """Pieces, one after another."""
        return PieceReader(dict(self.options))


class PiecePartition(InputPartition):
    """What one task reads."""

    def __init__(self, parts: list[Part], files: list[SourceFile]) -> None:
        self.parts = parts
        self.files = files


class PieceReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads one piece a batch."""

    def __init__(self, options: dict[str, str]) -> None:
        self._uri = options["store"]
        self._side = options["side"]
        self._ids = IdTypes(options["messages"], options["subscriptions"])
        self._inputs = [Input(*given) for given in json.loads(options["follow"])]
        self._without = json.loads(options["without"])
        self._turn = Path(options["turn"])
        self._intakes: Intakes | None = None
        self._end: int | None = None

    def _known(self) -> Intakes:
        if self._intakes is None:
            self._intakes = Intakes(Store(self._uri))
        else:
            self._intakes.refresh()
        return self._intakes

    def initialOffset(self) -> dict[str, int]:
        """Before the first piece."""
        return {"piece": 0}

    def getDefaultReadLimit(self) -> ReadLimit:
        """One piece at a time."""
        return ReadMaxRows(BATCH_ROWS)

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:
        """One piece more, if there is one."""
        known = self._known()
        if self._end is None and self._inputs and known.end <= start["piece"] and self._is_first():
            new = known.new(find_files(self._inputs, self._without))
            if new:
                known.add_direct(new)
        end = known.end if self._end is None else self._end
        if isinstance(limit, ReadAllAvailable):
            return {"piece": max(start["piece"], end)}
        return {"piece": min(start["piece"] + 1, max(start["piece"], end))}

    def _is_first(self) -> bool:
        """Is this the source that Spark asks first? Both are asked on one host, one after the other."""
        try:
            with open(self._turn, "x") as turn:
                turn.write(self._side)
            return True
        except FileExistsError:
            return self._turn.read_text() == self._side

    def prepareForTriggerAvailableNow(self) -> None:
        """Take what there is now to be all."""
        self._end = self._known().end

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[InputPartition]:
        """The parts of pieces, for a few tasks."""
        known = self._known()
        parts: list[Part] = []
        files: list[SourceFile] = []
        for piece in range(start["piece"], end["piece"]):
            taken = known.at(piece)
            parts += parts_of(taken, piece, self._side)
            files += files_of(taken, self._side)
        n = min(_TASKS, len(parts) + len(files))
        return [PiecePartition(parts[i::n], files[i::n]) for i in range(n)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of some parts."""
        assert isinstance(partition, PiecePartition)
        for part in partition.parts:
            yield from read_part(part, self._uri)
        for file in partition.files:
            for _, table in read_file(file, (self._side,), self._ids):
                yield from table.to_batches()


def stream_frames(
    spark: SparkSession,
    inputs: list[Input],
    *,
    store: str,
    follow: bool = False,
    without: tuple[str, ...] = (),
    batch_rows: int = BATCH_ROWS,
    turn: Path | None = None,
) -> Frames:
    """The rows of files as streaming frames that go forward together, piece by piece.

    Parameters
    ----------
    inputs, without
        As `find_files` takes them. With `follow`, files that are put into the folders later are taken too.
    store
        Where pieces are written: the store of `answers`. A run that goes on names the same.
    batch_rows
        What a piece holds, more or less; rows of one `ts` stay together.
    turn
        A file of the driver's host, new for every start, by which the two sources agree who looks for files.
    """
    spark.dataSource.register(PieceSource)
    intakes = Intakes(Store(store))
    files = find_files(inputs, without)
    if intakes.ids is None:
        intakes.fix_ids(id_types(spark, files))
    ids = intakes.ids or IdTypes()
    take(spark, intakes, files, store, batch_rows)
    if turn is None:
        import tempfile

        turn = Path(tempfile.mkdtemp(prefix="nearcast-")) / "turn"
    options = {
        "store": store, "messages": ids.messages, "subscriptions": ids.subscriptions, "turn": os.fspath(turn),
        "follow": json.dumps(inputs if follow else []), "without": json.dumps(list(without)),
    }  # fmt: skip
    made = (spark.readStream.format(PieceSource.name()).options(**options, side=side).load() for side in SIDES)
    return Frames(*made)
