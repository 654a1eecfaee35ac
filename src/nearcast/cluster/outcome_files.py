"""What a shard says to a batch becomes files named by batch and shard: updates as they come, then rejects."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TextIO

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from nearcast.cluster.shard import PIECE, Outcome
from nearcast.cluster.store import names_in, whole


class UpdatesFile:
    """The updates of a batch, given in pieces of any size and written in larger ones, never all of them held at once.

    Each gets the columns ``batch`` and ``seq``, for their order.
    """

    def __init__(self, place: Path, batch: int) -> None:
        self._place = place
        self._batch = batch
        self._held: list[pa.Table] = []
        self._n_held = self._n_written = 0
        self._writer: pq.ParquetWriter | None = None

    def add(self, updates: pa.Table) -> None:
        """Take some."""
        self._held.append(updates)
        self._n_held += updates.num_rows
        if self._n_held >= PIECE:
            self._write()

    def close(self) -> None:
        """There are no more."""
        if self._n_held:
            self._write()
        if self._writer is not None:
            self._writer.close()

    def _write(self) -> None:
        table = pa.concat_tables(self._held)
        table = table.append_column("batch", pa.array(np.full(table.num_rows, self._batch, np.int64)))
        numbers = np.arange(self._n_written, self._n_written + table.num_rows, dtype=np.int64)
        table = table.append_column("seq", pa.array(numbers))
        self._held, self._n_held = [], 0
        self._n_written += table.num_rows
        if self._place.suffix == ".parquet":
            self._writer = self._writer or pq.ParquetWriter(self._place, table.schema)
            self._writer.write_table(table)
        else:
            with open(self._place, "a", encoding="utf-8") as file:
                write_lines(table.to_pylist(), file)


@contextlib.contextmanager
def updates_file(out: Path, batch: int, shard: int, updates_format: str) -> Iterator[UpdatesFile]:
    """A file for the updates of a batch and shard; it appears at the end, if there are any."""
    with whole(out / "updates" / f"part-{batch:08d}-{shard:03d}.{updates_format}") as draft:
        file = UpdatesFile(draft, batch)
        try:
            yield file
        finally:
            file.close()


def write_rejects(out: Path, outcome: Outcome, batch: int, shard: int) -> None:
    """Write the rows of one batch and shard that were refused or late, if there are any."""
    with whole(out / "rejects" / f"part-{batch:08d}-{shard:03d}.jsonl") as draft:
        if outcome.rejects or outcome.late:
            with open(draft, "w", encoding="utf-8") as file:
                write_lines([*outcome.rejects, *outcome.late], file)


def write_lines(rows: list[dict[str, Any]], file: TextIO) -> None:
    """Write rows as JSON lines."""
    for row in rows:
        file.write(json.dumps(row, ensure_ascii=False) + "\n")


def drop_outcomes(out: Path, first_batch: int) -> None:
    """Remove what an era that is over wrote of batches that it did not complete: the next one has other shards."""
    for folder in (out / "updates", out / "rejects"):
        for name in names_in(folder):
            if name.startswith("part-") and int(name[5:13]) >= first_batch:
                (folder / name).unlink()
