"""The pieces of `intake` as a stream of names: what Spark asks on the driver's host, in small processes of its own.

An offset is the number of pieces that were taken. One source gives the names of all parts, or two give those of one
frame each, and go forward together: both must take the same piece in the same micro-batch. What is there from the start
is known before the first batch. When folders are followed, whichever source Spark asks first looks for new files, in
this and in all later batches, and the other takes what that one has found.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from nearcast.errors import SetupError
from nearcast.spark.run.file_rows import SIDES, SourceFile
from nearcast.spark.run.files import Input, find_files
from nearcast.spark.run.intake import BATCH_ROWS, Intakes, Part, dealt, files_of, parts_of
from nearcast.spark.shards.store import Store

BOTH = "both"  # the side of a source that gives the parts of both frames
_LOOK_S = 0.02  # how often a source looks for an intake that is under way


class PieceSource(DataSource):
    """The pieces of a store: where their rows are, so that no row passes through Java."""

    @classmethod
    def name(cls) -> str:
        """What `format` calls it."""
        return "nearcast-files"

    def schema(self) -> str:
        """The frame, and a part of a run or a file as JSON."""
        return "side string, part string"

    def streamReader(self, schema: Any) -> PieceReader:
        """Pieces, one after another."""
        return PieceReader(dict(self.options))


class PiecePartition(InputPartition):
    """What one task reads: parts of runs and files of one side, as JSON."""

    def __init__(self, side: str, parts: list[str]) -> None:
        self.side = side
        self.parts = parts


class PieceReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads one piece a batch."""

    def __init__(self, options: dict[str, str]) -> None:
        self.uri = options["store"]
        self.side = options["side"]
        self._inputs = [Input(*given) for given in json.loads(options["follow"])]
        self._without = json.loads(options["without"])
        self._turn = Path(options["turn"])
        self._tasks = int(options["tasks"])
        self._awaited = int(options["awaited"])  # intakes; the last of them may be under way
        self._intakes: Intakes | None = None
        self._end: int | None = None

    def _known(self) -> Intakes:
        if self._intakes is None:
            self._intakes = Intakes(Store(self.uri))
        else:
            self._intakes.refresh()
        while len(self._intakes) < self._awaited:
            if self._turn.with_name("given-up").exists():
                raise SetupError("what there is to read could not be sorted")
            time.sleep(_LOOK_S)
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
                turn.write(self.side)
            return True
        except FileExistsError:
            return self._turn.read_text() == self.side

    def prepareForTriggerAvailableNow(self) -> None:
        """Take what there is now to be all."""
        self._end = self._known().end

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[InputPartition]:
        """The parts of pieces, for a few tasks."""
        known = self._known()
        tasks: list[InputPartition] = []
        for side in SIDES if self.side == BOTH else (self.side,):
            parts: list[Part] = []
            files: list[SourceFile] = []
            for piece in range(start["piece"], end["piece"]):
                taken = known.at(piece)
                parts += parts_of(taken, piece, side)
                files += files_of(taken, side)
            n_files = min(self._tasks, len(files))
            given: list[Sequence[Part | SourceFile]] = [*dealt(parts, self._tasks)]
            given += [files[i::n_files] for i in range(n_files)]
            tasks += [PiecePartition(side, [json.dumps(one) for one in task]) for task in given]
        return tasks

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The names of some parts."""
        assert isinstance(partition, PiecePartition)
        sides = [partition.side] * len(partition.parts)
        columns = [pa.array(sides, pa.string()), pa.array(partition.parts, pa.string())]
        yield pa.record_batch(columns, names=["side", "part"])
