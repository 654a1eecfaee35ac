"""The pieces of `intake` as a stream: two sources, one for each frame, that go forward together.

An offset is the number of pieces that were taken. Both frames must take the same piece in the same micro-batch. What is
there from the start is known before the first batch. When folders are followed, whichever of the two sources Spark asks
first looks for new files, in this and in all later batches, and the other takes what that one has found.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from nearcast.spark.run.file_rows import MESSAGES, SIDES, IdTypes, SourceFile, columns_of, read_file
from nearcast.spark.run.files import Frames, Input, find_files, id_types
from nearcast.spark.run.intake import BATCH_ROWS, Intakes, Part, dealt, files_of, parts_of, read_part, take
from nearcast.spark.shards.fanout import CONTROLS as CONTROL_ROWS
from nearcast.spark.shards.fanout import MESSAGES as MESSAGE_ROWS
from nearcast.spark.shards.fanout import Batches, packed_rows
from nearcast.spark.shards.store import Store
from nearcast.spark.spec import Spec


class PieceSource(DataSource):
    """The pieces of a store, of one side: where their rows are, so that no row passes through Java."""

    @classmethod
    def name(cls) -> str:
        """What `format` calls it."""
        return "nearcast-files"

    def schema(self) -> str:
        """A part of a run, or a file, as JSON."""
        return "part string"

    def streamReader(self, schema: Any) -> PieceReader:
        """Pieces, one after another."""
        return PieceReader(dict(self.options))


class PiecePartition(InputPartition):
    """What one task reads: parts of runs and files, as JSON."""

    def __init__(self, parts: list[str]) -> None:
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
        self._intakes: Intakes | None = None
        self._end: int | None = None

    def _known(self) -> Intakes:
        if self._intakes is None:
            self._intakes = Intakes(Store(self.uri))
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
        parts: list[Part] = []
        files: list[SourceFile] = []
        for piece in range(start["piece"], end["piece"]):
            taken = known.at(piece)
            parts += parts_of(taken, piece, self.side)
            files += files_of(taken, self.side)
        n_files = min(self._tasks, len(files))
        given: list[Sequence[Part | SourceFile]] = [*dealt(parts, self._tasks)]
        given += [files[i::n_files] for i in range(n_files)]
        return [PiecePartition([json.dumps(one) for one in task]) for task in given]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The names of some parts."""
        assert isinstance(partition, PiecePartition)
        yield pa.record_batch([pa.array(partition.parts, pa.string())], names=["part"])


def rows_of(part: str, side: str, ids: IdTypes, store: str) -> Iterator[pa.Table]:
    """The rows of a part, or of a file that is read where it is."""
    given = json.loads(part)
    if len(given) == len(Part._fields) and isinstance(given[1], int):
        yield from (pa.Table.from_batches([batch]) for batch in read_part(Part(*given), store))
    else:
        yield from (table for _, table in read_file(SourceFile(*given), (side,), ids))


class Pieces(NamedTuple):
    """Frames of the names of parts, and what is needed to read them."""

    names: Frames
    ids: IdTypes
    store: str
    taking: Future[None]  # under way while the query is put together; it must be done before the query starts

    def frames(self) -> Frames:
        """The rows."""
        self.taking.result()
        return Frames(*(self._frame(side) for side in SIDES))

    def _frame(self, side: str) -> DataFrame:
        ids, store = self.ids, self.store

        def read(batches: Batches) -> Batches:
            for part in _parts(batches):
                for table in rows_of(part, side, ids, store):
                    yield from table.to_batches()

        return getattr(self.names, side).mapInArrow(read, from_arrow_schema(columns_of(side, ids)))  # type: ignore[no-any-return]

    def packed(self, spec: Spec) -> DataFrame:
        """The rows in blocks, by the tasks that read them: what `frames` has, `fanout` packed, on a shorter way."""
        messages, controls = (self._packed(side, spec) for side in SIDES)
        return messages.unionByName(controls)

    def _packed(self, side: str, spec: Spec) -> DataFrame:
        ids, store = self.ids, self.store

        def tables(batches: Batches) -> Iterator[pa.RecordBatch]:
            for part in _parts(batches):
                for table in rows_of(part, side, ids, store):
                    yield from _with_ties(table).to_batches()

        return packed_rows(getattr(self.names, side), spec, MESSAGE_ROWS if side == MESSAGES else CONTROL_ROWS, tables)


def _parts(batches: Batches) -> Iterator[str]:
    return (part for batch in batches for part in batch.column(0).to_pylist())


def _with_ties(table: pa.Table) -> pa.Table:
    """Rows of one file are told apart by their positions; of equal rows of two files the file decides."""
    sources = table.column("source").combine_chunks().dictionary_encode()
    ties = [
        int.from_bytes(blake2b((name or "").encode(), digest_size=8).digest(), "little", signed=True)
        for name in sources.dictionary.to_pylist()
    ]
    return table.append_column("tie", pa.array(ties, pa.int64()).take(sources.indices))


def stream_pieces(
    spark: SparkSession,
    inputs: list[Input],
    *,
    store: str,
    follow: bool = False,
    without: tuple[str, ...] = (),
    batch_rows: int = BATCH_ROWS,
    turn: Path | None = None,
) -> Pieces:
    """The rows of files as streams that go forward together, piece by piece.

    What is there is sorted into pieces beside whatever the caller does next; wait for `Pieces.taking`.

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
        intakes.fix_ids(id_types(files))
    ids = intakes.ids or IdTypes()
    pool = ThreadPoolExecutor(1, "nearcast-take")
    taking = pool.submit(take, spark, intakes, files, store, batch_rows)
    pool.shutdown(wait=False)
    if turn is None:
        turn = Path(tempfile.mkdtemp(prefix="nearcast-")) / "turn"
    options = {
        "store": store, "turn": os.fspath(turn), "follow": json.dumps(inputs if follow else []),
        "without": json.dumps(list(without)), "tasks": str(spark.sparkContext.defaultParallelism),
    }  # fmt: skip
    made = (spark.readStream.format(PieceSource.name()).options(**options, side=side).load() for side in SIDES)
    return Pieces(Frames(*made), ids, store, taking)


def stream_frames(spark: SparkSession, inputs: list[Input], **options: Any) -> Frames:
    """The rows of files as streaming frames that go forward together; the options are those of `stream_pieces`."""
    return stream_pieces(spark, inputs, **options).frames()
