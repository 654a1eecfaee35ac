"""New files and entries of streams go in; numbered batches of events in one order come out, written down before
anything looks at them.

All that one intake takes is put in order together: by `ts` (none first), subscription events before messages, then by
id, then as rows stand in files and streams. The order is over the whole intake, so how it is then cut into batches does
not show in any answer. In a run over what is there already, everything is one intake: the order is that of all the
input. In a run that follows folders and streams, each look that finds something new is an intake; files that
arrive in the order of their `ts` therefore give the same answers as when all of them are there from the start.

Here is also where the text of messages is split into words, once for all shards. A batch is part of the log that a
shard replays after a loss, so it is written once, not once per shard. An intake counts from the moment `head.json`
says so; whatever a killed intake left behind is overwritten by the next.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from nearcast.cluster.schema import BATCH, PUBLISH
from nearcast.cluster.sources import Input, SourceFile, read_file
from nearcast.cluster.store import Store, names_in, read_json, read_table, write_json, write_table
from nearcast.cluster.streams import Offset, Stream
from nearcast.columns.tokens import spell

_MANIFESTS = 64  # intakes whose lists of files stand alone, before they become one list
BATCH_ROWS = 20_000  # what a batch holds unless told otherwise

# The keys of the order; nulls first. `late` is 0 for subscription events and 1 for messages.
ORDER = ("ts", "late", "number", "name", "file", "row")


class Unread(NamedTuple):
    """A stream, what of it was read before, and how many entries it has behind that, at most."""

    stream: Stream
    given: Input
    offset: Offset
    n_entries: int


class Staged(NamedTuple):
    """What was read: events in order, in pieces of any size, and how far streams were read, by their addresses."""

    tables: Iterable[pa.Table]
    offsets: Mapping[str, Offset]


Stage = Callable[[list[SourceFile], list[Unread]], Staged]


class Head(NamedTuple):
    """How far the intake has come."""

    runs: int = 0  # intakes so far
    batches: int = 0  # batches ready
    rows: int = 0  # rows in them
    files: int = 0
    seen: int = 0  # intakes whose files are in one list
    offsets: Mapping[str, tuple[str, int]] = MappingProxyType({})  # how far each stream was read


def read_head(store: Store) -> Head:
    """How far the intake of this checkpoint has come."""
    known = read_json(store.head)
    if not known:
        return Head()
    return Head(**{**known, "offsets": {name: tuple(offset) for name, offset in known["offsets"].items()}})


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
        if self.head.seen:
            for row in read_table(store.seen(self.head.seen)).to_pylist():
                self._seen[row["path"]] = (row["size"], row["changed_ns"])
        for run in range(self.head.seen, self.head.runs):
            for path, size, changed_ns in read_json(store.manifest(run))["files"]:
                self._seen[path] = (size, changed_ns)

    def new_files(self, files: Iterable[SourceFile]) -> list[SourceFile]:
        """Those of `files` that were not taken yet."""
        return [file for file in files if file.path not in self._seen]

    def changed_files(self, files: Iterable[SourceFile]) -> list[SourceFile]:
        """Those of `files` that are not as they were when they were taken. Their changes are not read."""
        now = {file: (file.size, file.changed_ns) for file in files}
        return [file for file, state in now.items() if self._seen.get(file.path, state) != state]

    def unread(self, streams: Mapping[Input, Stream]) -> list[Unread]:
        """Those of `streams` that have more than was taken."""
        found = []
        for given, stream in streams.items():
            offset = Offset(*self.head.offsets.get(given.path, Offset()))
            n_entries = stream.n_behind(offset)
            if n_entries:
                found.append(Unread(stream, given, offset, n_entries))
        return found

    def take(self, files: list[SourceFile], unread: list[Unread] | None = None, stage: Stage | None = None) -> Head:
        """Read files and streams, write their batches, and make them known; return how far the intake has come.

        `stage` reads them and puts their events in order; `in_memory` unless told otherwise.
        """
        staged = (stage or in_memory)(files, unread or [])
        taken = [(file.path, file.size, file.changed_ns) for file in files]
        return self._write(staged.tables, taken, {**self.head.offsets, **staged.offsets})

    def _write(
        self, tables: Iterable[pa.Table], taken: list[tuple[str, int, int]], offsets: Mapping[str, tuple[str, int]]
    ) -> Head:
        """Write batches and make them known."""
        number, rows = self.head.batches, 0
        for table in resized(tables, self._batch_rows):
            write_table(self._store.batch(number), with_words(table))
            number += 1
            rows += table.num_rows
        head = self.head._replace(batches=number, rows=self.head.rows + rows, offsets=offsets)
        if taken:
            write_json(self._store.manifest(self.head.runs), {"files": taken})
            self._seen.update((path, (size, changed_ns)) for path, size, changed_ns in taken)
            head = head._replace(runs=head.runs + 1, files=head.files + len(taken))
        if head.runs - head.seen >= _MANIFESTS:
            head = self._in_one_list(head)
        self._commit(head)
        return self.head

    def tick(self) -> Head:
        """Make an empty batch known, to keep an idle stream's workers alive."""
        write_table(self._store.batch(self.head.batches), BATCH.empty_table())
        self._commit(self.head._replace(batches=self.head.batches + 1))
        return self.head

    def _in_one_list(self, head: Head) -> Head:
        """Write all files that were read as one list, so that a start does not have to open one for every intake."""
        rows = [(path, *state) for path, state in self._seen.items()]
        columns = zip(("path", "size", "changed_ns"), zip(*rows, strict=True), strict=True)
        write_table(self._store.seen(head.runs), pa.table({name: list(values) for name, values in columns}))
        return head._replace(seen=head.runs)

    def _commit(self, head: Head) -> None:
        before, self.head = self.head, head
        write_json(self._store.head, {**head._asdict(), "offsets": dict(head.offsets)})
        if head.seen != before.seen:
            for name in names_in(self._store.intake):
                if name.startswith(("run-", "seen-")) and int(name[4:].lstrip("-")[:8]) < head.seen:
                    (self._store.intake / name).unlink()


def with_words(table: pa.Table) -> pa.Table:
    """The events of a batch with the words of its messages."""
    table = table.combine_chunks()
    texts, keywords = (table.column(name).combine_chunks() for name in ("text", "keywords"))
    columns = dict(zip(("words", "counts"), spell(texts, keywords), strict=True))
    for name, values in columns.items():
        table = table.append_column(name, values)
    return table


def in_memory(files: list[SourceFile], unread: list[Unread]) -> Staged:
    """All events of `files` and streams in order, read and sorted in this process."""
    pieces = [piece for number, file in enumerate(files) for piece in read_file(file, number)]
    offsets = {}
    for number, (stream, given, before, _) in enumerate(unread, len(files)):
        for piece, offset in stream.read(given.role, number, before):
            pieces.append(piece)
            offsets[given.path] = offset
    return Staged(in_order(pieces), offsets)


def in_order(pieces: list[pa.Table]) -> Iterator[pa.Table]:
    """All events of some tables in order."""
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
