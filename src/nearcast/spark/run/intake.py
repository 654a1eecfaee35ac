"""Files become pieces: what one micro-batch of a stream takes in, bounded in size, and cut between different `ts`.

An **intake** is what is taken in together. Of files that are there when it starts, a Spark job makes **runs**: rows of
a file, sorted by `ts`, in an Arrow file of the store. Cuts between different `ts` then divide all runs into pieces of
some `batch_rows` rows, so that pieces come in one order over all files, as if everything were one sorted file. Files
that come later, when folders are followed, are an intake of one piece, read where they are.

Intakes are numbered, each described by a small file in the store that is written once; pieces are numbered through all
of them, and the number of a piece is the offset in Spark's checkpoint. So whoever is killed, at whatever moment, takes
the same pieces again.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import SparkSession

from nearcast.columns.times import MISSING
from nearcast.errors import SetupError
from nearcast.spark.run.file_rows import EVENTS, SIDES, IdTypes, SourceFile, below, handle, read_file, shown_path
from nearcast.spark.run.files import given_files, grouped, tasks
from nearcast.spark.shards.store import Store

TASK_BATCHES = 8  # record batches that are worth a task
BATCH_ROWS = 400_000  # what a piece holds unless told otherwise: some 0.5 s of a micro-batch are the same for any size
_STRIDE = 4_096  # rows of a record batch of a run
RUN_ROWS = 500_000  # rows that are sorted at a time
AT_ONCE = 64 << 20  # bytes of files that one piece of a followed folder takes, or one file

_FOUND = pa.schema(
    [
        ("name", pa.string()),
        ("side", pa.string()),
        ("firsts", pa.list_(pa.int64())),
        ("last", pa.int64()),
        ("n", pa.int64()),
    ]
)
_FOUND_DDL = "name string, side string, firsts array<bigint>, last bigint, n bigint"


class Run(NamedTuple):
    """Rows of one side, sorted by ts, in the store."""

    name: str
    side: str
    firsts: list[int]  # ts of the first row of each of its record batches
    last: int  # ts of its last row
    n: int


class Taken(NamedTuple):
    """An intake."""

    first: int  # its first piece
    cuts: list[int]  # ts of the last rows of its pieces, but for the last piece
    runs: list[Run]
    files: list[SourceFile]
    direct: bool  # files are read where they are

    @property
    def end(self) -> int:
        """The piece after its last."""
        return self.first + len(self.cuts) + 1


class Part(NamedTuple):
    """What of a run is in a piece: rows with `after < ts <= to`."""

    name: str
    first: int  # record batches
    end: int
    after: int | None
    to: int | None


class Intakes:
    """All intakes of a store, and the types of ids that were seen first."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._known: list[Taken] = []
        self.ids: IdTypes | None = None
        self.refresh()

    def refresh(self) -> None:
        """Look for intakes that were made since."""
        if self.ids is None:
            ids = self._read("intake/ids.json")
            self.ids = None if ids is None else IdTypes(*ids)
        while (known := self._read(_name(len(self._known)))) is not None:
            self._known.append(_taken(known))

    def _read(self, name: str) -> Any:
        """The JSON of a file of the store; None if there is none.

        Raises
        ------
        SetupError
            It is damaged.
        """
        found = self._store.get(name)
        try:
            return None if found is None else json.loads(found.to_pybytes())
        except ValueError:
            raise SetupError(
                f"{name} in the store {shown_path(self._store.uri)} is damaged. Put it back from a copy, or begin with "
                "another store and another checkpoint."
            ) from None

    def fix_ids(self, ids: IdTypes) -> IdTypes:
        """The types of ids of this store: these, if there were none before."""
        if self.ids is None:
            self._store.put("intake/ids.json", json.dumps(ids).encode())
            self.ids = ids
        return self.ids

    def __len__(self) -> int:
        return len(self._known)

    @property
    def end(self) -> int:
        """The number of pieces."""
        return self._known[-1].end if self._known else 0

    def at(self, piece: int) -> Taken:
        """The intake that a piece is of."""
        starts = [taken.first for taken in self._known]
        return self._known[int(np.searchsorted(starts, piece, side="right")) - 1]

    @property
    def n_files(self) -> int:
        """Files that were taken."""
        return sum(len(taken.files) for taken in self._known)

    @property
    def n_rows(self) -> int:
        """Rows of the files that were sorted when they were taken."""
        return sum(run.n for taken in self._known for run in taken.runs)

    def changed(self, files: Iterable[SourceFile]) -> tuple[str, ...]:
        """Those files that are not as they were when they were taken. Their changes are not read."""
        seen = {file.path: file for taken in self._known for file in taken.files}
        return tuple(file.path for file in files if seen.get(file.path, file)[-2:] != file[-2:])

    def new(self, files: Iterable[SourceFile]) -> list[SourceFile]:
        """Those files that were not taken yet."""
        seen = {file.path for taken in self._known for file in taken.files}
        return [file for file in files if file.path not in seen]

    def add(self, files: list[SourceFile], runs: list[Run], cuts: list[int], direct: bool = False) -> None:
        """Make an intake known."""
        taken = Taken(self.end, cuts, runs, files, direct)
        self._store.put(_name(len(self._known)), json.dumps(taken).encode())
        self._known.append(taken)

    def add_direct(self, files: list[SourceFile]) -> None:
        """Make an intake of new files known: the oldest of them, as many as one piece takes."""
        held: list[SourceFile] = []
        size = 0
        for file in sorted(files, key=lambda file: (file.changed_ns, file.path)):
            if held and size + file.size > AT_ONCE:
                break
            held.append(file)
            size += file.size
        self.add(held, [], [], direct=True)


def _name(number: int) -> str:
    return f"intake/{number:08d}.json"


def _taken(known: list[Any]) -> Taken:
    first, cuts, runs, files, direct = known
    return Taken(first, cuts, [Run(*run) for run in runs], [SourceFile(*file) for file in files], direct)


def take(
    spark: SparkSession, intakes: Intakes, files: list[SourceFile], store: str, batch_rows: int = BATCH_ROWS
) -> None:
    """Take in files that were not taken yet, in pieces of some `batch_rows` rows; nothing if there are none."""
    new = intakes.new(files)
    if not new:
        return
    ids, token, stride = intakes.ids or IdTypes(), uuid.uuid4().hex, min(_STRIDE, batch_rows)

    def sort(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for number, file in enumerate(given_files(batches)):
            for run in write_runs(file, ids, Store(store), f"intake/{token}/{uuid.uuid4().hex}-{number}", stride):
                yield pa.RecordBatch.from_pylist([run._asdict()], schema=_FOUND)

    told = tasks(spark, grouped(new)).mapInArrow(sort, _FOUND_DDL).collect()
    runs = sorted(Run(row.name, row.side, list(row.firsts), row.last, row.n) for row in told)
    intakes.add(new, runs, cuts_of(runs, batch_rows, stride))


def write_runs(file: SourceFile, ids: IdTypes, store: Store, name: str, stride: int) -> Iterator[Run]:
    """Sort the rows of a file by ts and write them to the store, some `RUN_ROWS` at a time.

    `stride`: rows of a record batch.
    """
    held: dict[str, list[pa.Table]] = {side: [] for side in SIDES}
    rows = dict.fromkeys(SIDES, 0)
    number = 0
    for side, table in read_file(file, SIDES, ids):
        held[side].append(table)
        rows[side] += table.num_rows
        if rows[side] >= RUN_ROWS:
            yield _write_run(pa.concat_tables(held[side]), side, store, f"{name}-{number}.arrow", stride)
            held[side], rows[side], number = [], 0, number + 1
    for side in SIDES:
        if held[side]:
            yield _write_run(pa.concat_tables(held[side]), side, store, f"{name}-{number}-{side}.arrow", stride)


def _write_run(table: pa.Table, side: str, store: Store, name: str, stride: int) -> Run:
    ts = pc.fill_null(table.column("ts"), MISSING).to_numpy()
    if (ts[1:] < ts[:-1]).any():
        order = np.argsort(ts, kind="stable")
        table, ts = table.take(pa.array(order)), ts[order]
    # For 500,000 tweets the name of their file as text takes 0.25 s of CPU to write, and compression 0.19 (2026-11).
    at = table.column_names.index("source")
    table = table.combine_chunks().set_column(at, "source", table.column("source").combine_chunks().dictionary_encode())
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression=None if store.is_local else "lz4")
    with pa.ipc.new_file(sink, table.schema, options=options) as writer:
        for start in range(0, table.num_rows, stride):
            for batch in table.slice(start, stride).to_batches():
                writer.write_batch(batch)
    store.put(name, sink.getvalue())
    return Run(name, side, ts[::stride].tolist(), int(ts[-1]), int(ts.size))


def cuts_of(runs: list[Run], batch_rows: int, stride: int) -> list[int]:
    """The ts behind which pieces end, so that each holds some `batch_rows` rows; rows of one ts stay together."""
    firsts = np.array([first for run in runs for first in run.firsts], np.int64)
    sizes = np.array([min(stride, run.n - stride * i) for run in runs for i in range(len(run.firsts))], np.int64)
    order = np.argsort(firsts, kind="stable")
    last = max((run.last for run in runs), default=MISSING)
    cuts: list[int] = []
    held, begin = 0, MISSING
    for row in order.tolist():
        # A record batch may begin before a cut and end behind it: it counts for the piece in which it begins.
        first = int(firsts[row])
        if held and held + sizes[row] > batch_rows and first > begin:
            cuts.append(first - 1)
            held = 0
        begin = begin if held else first
        held += int(sizes[row])
    return [cut for cut in cuts if cut < last]


def parts_of(taken: Taken, piece: int, side: str) -> list[Part]:
    """What of the runs of an intake is in a piece."""
    number = piece - taken.first
    after = taken.cuts[number - 1] if number else None
    to = taken.cuts[number] if number < len(taken.cuts) else None
    parts = []
    for run in taken.runs:
        if run.side != side or (after is not None and run.last <= after):
            continue
        # Rows with `ts > after` begin in the last record batch whose first row is not behind `after`.
        first = 0 if after is None else max(0, int(np.searchsorted(run.firsts, after, side="right")) - 1)
        end = len(run.firsts) if to is None else int(np.searchsorted(run.firsts, to, side="right"))
        if first < end:
            parts.append(Part(run.name, first, end, after, to))
    return parts


def dealt(parts: list[Part], most: int) -> list[list[Part]]:
    """Parts for at most this number of tasks, which read much the same each; large ones are split."""
    n_batches = sum(part.end - part.first for part in parts)
    n_tasks = min(most, -(-n_batches // TASK_BATCHES))
    tasks: list[list[Part]] = []
    room = 0
    for part in parts:
        first = part.first
        while first < part.end:
            if not room:
                tasks.append([])
                room = -(-n_batches // n_tasks)
            end = min(part.end, first + room)
            tasks[-1].append(part._replace(first=first, end=end))
            room -= end - first
            first = end
    return tasks


def read_part(part: Part, uri: str) -> Iterator[pa.RecordBatch]:
    """The rows of a part."""
    with handle(below(uri, part.name)) as stream:
        for batch in _batches(stream, part, uri):
            ts = pc.fill_null(batch.column("ts"), MISSING).to_numpy(zero_copy_only=False)
            first = 0 if part.after is None else int(np.searchsorted(ts, part.after, side="right"))
            end = ts.size if part.to is None else int(np.searchsorted(ts, part.to, side="right"))
            if first < end:
                yield _with_sources(batch.slice(first, end - first))


def _with_sources(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The rows with the names of their files as text."""
    columns = {name: batch.column(name) for name in batch.schema.names}
    return pa.record_batch(columns | {"source": columns["source"].cast(pa.string())})


def _batches(stream: Any, part: Part, uri: str) -> Iterator[pa.RecordBatch]:
    try:
        with pa.ipc.open_file(stream) as run:
            for number in range(part.first, part.end):
                yield run.get_batch(number)
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        first = str(error).splitlines()[0]
        raise SetupError(
            f"{part.name} in the store {shown_path(uri)} is damaged ({first}). Put it back from a copy, or begin with "
            "another store and another checkpoint."
        ) from error


def files_of(taken: Taken, side: str) -> list[SourceFile]:
    """The files that a piece of an intake reads where they are."""
    return [file for file in taken.files if file.role in (side, EVENTS)] if taken.direct else []
