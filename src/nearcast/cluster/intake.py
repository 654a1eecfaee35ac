"""New files go in; numbered batches of events in one order come out, written down before anything looks at them.

All files that one intake takes are put in order together: by `ts` (none first), subscription events before messages,
then by id, then as they stand in the files. The order is over the whole intake, so how it is then cut into batches does
not show in any answer. In a run over stored files everything is one intake: the order is that of all the
input. In a run that follows folders, each look at the folders that finds new files is an intake; files that
arrive in the order of their `ts` therefore give the same answers as when all of them are there from the start.

A batch is also the log that a shard replays after a loss, so it is written once, not once per shard. An intake
counts from the moment `head.json` says so; whatever a killed intake left behind is overwritten by the next.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from nearcast.cluster.schema import EVENTS, PUBLISH
from nearcast.cluster.sources import SourceFile, read_file
from nearcast.cluster.store import Store, read_json, write_json, write_table, write_whole

_FIRST_TURN_NS = 1_000_000_000 * 1_000_000_000  # the time of change of turn 0: any fixed time will do
BATCH_ROWS = 20_000  # what a batch holds unless told otherwise

# The keys of the order; nulls first. `late` is 0 for subscription events and 1 for messages.
ORDER = ("ts", "late", "number", "name", "file", "row")

Stage = Callable[[list[SourceFile]], Iterator[pa.Table]]  # files -> their events in order, in pieces of any size


class Head(NamedTuple):
    """How far the intake has come."""

    runs: int = 0  # intakes so far
    batches: int = 0  # batches ready
    rows: int = 0  # rows in them
    files: int = 0


def read_head(store: Store) -> Head:
    """How far the intake of this checkpoint has come."""
    known = read_json(store.head)
    return Head(**known) if known else Head()


class Intake:
    """Turns files into batches, each file once.

    Parameters
    ----------
    store
        Where batches are written.
    batch_rows
        How many rows a batch holds at most.
    """

    def __init__(self, store: Store, batch_rows: int = BATCH_ROWS) -> None:
        self._store = store
        self._batch_rows = batch_rows
        self.head = read_head(store)
        self._seen: dict[str, tuple[int, int]] = {}
        for run in range(self.head.runs):
            for path, size, changed_ns in read_json(store.manifest(run))["files"]:
                self._seen[path] = (size, changed_ns)

    def new_files(self, files: Iterable[SourceFile]) -> list[SourceFile]:
        """Those of `files` that were not taken yet."""
        return [file for file in files if file.path not in self._seen]

    def changed_files(self, files: Iterable[SourceFile]) -> list[SourceFile]:
        """Those of `files` that are not as they were when they were taken. Their changes are not read."""
        now = {file: (file.size, file.changed_ns) for file in files}
        return [file for file, state in now.items() if self._seen.get(file.path, state) != state]

    def take(self, files: list[SourceFile], stage: Stage | None = None) -> Head:
        """Read `files`, write their batches, and make them known; return how far the intake has come.

        `stage` reads the files and puts their events in order; `in_memory` unless told otherwise.
        """
        number, rows = self.head.batches, 0
        for table in resized((stage or in_memory)(files), self._batch_rows):
            write_table(self._store.batch(number), table)
            number += 1
            rows += table.num_rows
        taken = [(file.path, file.size, file.changed_ns) for file in files]
        write_json(self._store.manifest(self.head.runs), {"files": taken})
        self._commit(Head(self.head.runs + 1, number, self.head.rows + rows, self.head.files + len(files)))
        self._seen.update((path, (size, changed_ns)) for path, size, changed_ns in taken)
        return self.head

    def tick(self) -> Head:
        """Make an empty batch known, to keep an idle stream's workers alive."""
        write_table(self._store.batch(self.head.batches), EVENTS.empty_table())
        self._commit(self.head._replace(batches=self.head.batches + 1))
        return self.head

    def announce(self, first: int) -> None:
        """Let Spark's file source find the batches from `first` on; those it knows already stay as they are.

        The source takes files in the order of their times of change. These are set to the number of the batch, in
        milliseconds, so the order is certain and the same for a file that has to be made again.
        """
        for number in range(first, self.head.batches):
            place = self._store.turn(number)
            if not place.exists():
                write_whole(place, functools.partial(_write_turn, number))

    def _commit(self, head: Head) -> None:
        before, self.head = self.head, head
        write_json(self._store.head, head._asdict())
        self.announce(before.batches)


def _write_turn(number: int, place: Path) -> None:
    place.write_text(f"{number}\n")
    os.utime(place, ns=(_FIRST_TURN_NS + number * 1_000_000,) * 2)


def in_memory(files: list[SourceFile]) -> Iterator[pa.Table]:
    """All events of `files` in order, read and sorted in this process."""
    pieces = [piece for number, file in enumerate(files) for piece in read_file(file, number)]
    if pieces:
        table = pa.concat_tables(pieces)
        order = ordered(table)
        for start in range(0, len(order), BATCH_ROWS):
            yield table.take(order.slice(start, BATCH_ROWS))


def ordered(table: pa.Table) -> pa.Array:
    """The row numbers of `table` in the order of events."""
    keys = table.select([name for name in ORDER if name != "late"])
    keys = keys.append_column("late", pc.equal(table.column("event"), PUBLISH).cast(pa.int8()))
    return pc.sort_indices(keys, [(name, "ascending", "at_start") for name in ORDER])


def resized(tables: Iterable[pa.Table], rows: int) -> Iterator[pa.Table]:
    """The same rows in tables of exactly `rows` rows, but for the last."""
    held: list[pa.Table] = []
    n_held = 0
    for table in tables:
        held.append(table)
        n_held += table.num_rows
        while n_held >= rows:
            joined = pa.concat_tables(held)
            yield joined.slice(0, rows)
            held, n_held = [joined.slice(rows)], n_held - rows
    if n_held:
        yield pa.concat_tables(held)
