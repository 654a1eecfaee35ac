"""The pieces of `intake` as frames: of their rows, or of blocks that the tasks which read them have made."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from nearcast.spark.encode import encode_controls, encode_messages, gathered
from nearcast.spark.run.file_rows import SIDES, IdTypes, SourceFile, columns_of, read_file
from nearcast.spark.run.files import Frames, Input, find_files, id_types
from nearcast.spark.run.intake import BATCH_ROWS, Intakes, Part, read_part, take
from nearcast.spark.run.piece_source import BOTH, PieceSource
from nearcast.spark.shards.fanout import CONTROLS as CONTROL_ROWS
from nearcast.spark.shards.fanout import MESSAGES as MESSAGE_ROWS
from nearcast.spark.shards.fanout import PACKED_DDL, Batches, Packer, place, to_shards
from nearcast.spark.shards.store import Store
from nearcast.spark.spec import Spec


def rows_of(part: str, side: str, ids: IdTypes, store: str) -> Iterator[pa.Table]:
    """The rows of a part, or of a file that is read where it is."""
    given = json.loads(part)
    if len(given) == len(Part._fields) and isinstance(given[1], int):
        yield from (pa.Table.from_batches([batch]) for batch in read_part(Part(*given), store))
    else:
        yield from (table for _, table in read_file(SourceFile(*given), (side,), ids))


class Pieces(NamedTuple):
    """What there is to read, and what is needed to read it."""

    names: Callable[[str], DataFrame]  # the names of the parts of a side
    ids: IdTypes
    store: str
    taking: Future[None]  # what is there is sorted meanwhile; a query that has started waits for it

    def frames(self) -> Frames:
        """The rows."""
        self.taking.result()
        return Frames(*(self._frame(side) for side in SIDES))

    def _frame(self, side: str) -> DataFrame:
        ids, store = self.ids, self.store

        def read(batches: Batches) -> Batches:
            for _, part in _parts(batches):
                for table in rows_of(part, side, ids, store):
                    yield from table.to_batches()

        return self.names(side).mapInArrow(read, from_arrow_schema(columns_of(side, ids)))

    def packed(self, spec: Spec) -> DataFrame:
        """The rows in blocks, by the tasks that read them: what `frames` has, `fanout` packed, on a shorter way."""
        ids, store = self.ids, self.store

        def pack(batches: Batches) -> Batches:
            packer, parts = Packer(spec, place()), list(_parts(batches))
            for side, kind, encode in (
                (SIDES[0], MESSAGE_ROWS, encode_messages),
                (SIDES[1], CONTROL_ROWS, encode_controls),
            ):
                tables = (table for own, part in parts if own == side for table in rows_of(part, side, ids, store))
                for table in gathered(batch for one in tables for batch in _with_ties(one).to_batches()):
                    yield from packer.rows(kind, encode(table, spec))

        return to_shards(self.names(BOTH).mapInArrow(pack, PACKED_DDL), spec)


def _parts(batches: Batches) -> Iterator[tuple[str, str]]:
    """The sides and names of parts."""
    for batch in batches:
        yield from zip(*(batch.column(name).to_pylist() for name in ("side", "part")), strict=True)


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

    What is there is sorted into pieces beside whatever the caller does next. A query over them that is started before
    waits, and fails if `Pieces.taking` does, which tells why.

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
    awaited = len(intakes) + bool(intakes.new(files))
    pool = ThreadPoolExecutor(1, "nearcast-take")
    if turn is None:
        turn = Path(tempfile.mkdtemp(prefix="nearcast-")) / "turn"
    given_up = turn.with_name("given-up")

    def taken() -> None:
        try:
            take(spark, intakes, files, store, batch_rows)
        except BaseException:
            given_up.touch()
            raise

    taking = pool.submit(taken)
    pool.shutdown(wait=False)
    options = {
        "store": store, "turn": os.fspath(turn), "follow": json.dumps(inputs if follow else []),
        "without": json.dumps(list(without)), "tasks": str(spark.sparkContext.defaultParallelism),
        "awaited": str(awaited),
    }  # fmt: skip
    names = spark.readStream.format(PieceSource.name()).options(**options)
    return Pieces(lambda side: names.option("side", side).load(), ids, store, taking)


def stream_frames(spark: SparkSession, inputs: list[Input], **options: Any) -> Frames:
    """The rows of files as streaming frames that go forward together; the options are those of `stream_pieces`."""
    return stream_pieces(spark, inputs, **options).frames()
