"""The files behind a run: names go in, whole and durable files come out, or none.

    CHECKPOINT/
      run.json                 what was asked for; fixed when the checkpoint is made
      lock                     held while a run uses the checkpoint
      weights                  fitted once, if a corpus was given
      intake/head.json         how many batches of input are ready: replacing this file commits an intake
      intake/run-00000000.json which files one intake read
      intake/batch-00000000.arrow   the ordered events of one batch; also the log that shards replay
      turns/turn-00000000      the number of a batch that is ready, for Spark's file source to find
      shards/…                 snapshots, each under a name of its own
      steps/step-00000000.json what one micro-batch did, and the totals so far
      spark/                   Spark's own checkpoint
    OUT/
      updates/part-BATCH-SHARD.parquet (or .jsonl)
      rejects/part-BATCH-SHARD.jsonl

Every file is written under a name that only this attempt uses, flushed to the disk, and renamed. A name says what the
content is (batch and shard), and a repeated attempt has the same content, so whoever writes last changes nothing.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from nearcast.errors import InvalidInput

DRAFT = ".draft-"  # files that begin so are being written, or were when a process died


def write_whole(place: Path, write: Callable[[Path], None]) -> None:
    """Have `write` make a file, then let it appear at `place` at once and for good."""
    place.parent.mkdir(parents=True, exist_ok=True)
    draft = place.with_name(f"{DRAFT}{uuid.uuid4().hex}-{place.name}")
    try:
        write(draft)
        with open(draft, "rb") as file:
            os.fsync(file.fileno())
        os.replace(draft, place)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise
    _sync_folder(place.parent)


def write_json(place: Path, value: Any) -> None:
    """Write a value as JSON, whole."""
    write_whole(place, lambda draft: _dump(draft, value))


def read_json(place: Path) -> Any:
    """The JSON value in a file, or None if there is no such file."""
    try:
        return json.loads(place.read_text("utf-8"))
    except FileNotFoundError:
        return None


def write_table(place: Path, table: pa.Table) -> None:
    """Write a table as an uncompressed Arrow file, which `read_table` maps instead of reading."""

    def write(draft: Path) -> None:
        with pa.OSFile(str(draft), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
            writer.write_table(table.combine_chunks())

    write_whole(place, write)


def read_table(place: Path) -> pa.Table:
    """The table in an Arrow file; columns that nobody touches are never read from the disk."""
    with pa.memory_map(str(place)) as source:
        return pa.ipc.open_file(source).read_all()


class Store:
    """Names of the files of one run."""

    def __init__(self, checkpoint: Path) -> None:
        self.checkpoint = checkpoint
        self.run = checkpoint / "run.json"
        self.weights = checkpoint / "weights"
        self.head = checkpoint / "intake" / "head.json"
        self.turns = checkpoint / "turns"
        self.shards = checkpoint / "shards"
        self.steps = checkpoint / "steps"
        self.spark = checkpoint / "spark"

    def manifest(self, number: int) -> Path:
        """Which files intake `number` read."""
        return self.checkpoint / "intake" / f"run-{number:08d}.json"

    def batch(self, number: int) -> Path:
        """The events of batch `number`."""
        return self.checkpoint / "intake" / f"batch-{number:08d}.arrow"

    def turn(self, number: int) -> Path:
        """What tells Spark that batch `number` is ready."""
        return self.turns / f"turn-{number:08d}"

    def step(self, number: int) -> Path:
        """The record of micro-batch `number`."""
        return self.steps / f"step-{number:08d}.json"

    def new_snapshot(self, shard: int, next_batch: int) -> Path:
        """A name for a snapshot that no other attempt uses."""
        self.shards.mkdir(parents=True, exist_ok=True)
        return self.shards / f"shard-{shard:03d}-{next_batch:08d}-{uuid.uuid4().hex}"

    def last_step(self) -> int | None:
        """The number of the newest step on record, or None."""
        names = [name for name in _names(self.steps) if name.startswith("step-")]
        return int(max(names)[5:13]) if names else None

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Keep every other run away from this checkpoint; a process that dies lets go by itself."""
        self.checkpoint.mkdir(parents=True, exist_ok=True)
        with open(self.checkpoint / "lock", "w") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                rule = "is in use by another run; wait for it to end or name another one"
                raise InvalidInput("checkpoint", str(self.checkpoint), rule) from None
            yield

    def sweep(self, snapshots: set[str], first_batch: int) -> int:
        """Remove what no committed state needs: other snapshots, batches before `first_batch`; return how many.

        Call it between two micro-batches, with what the states of the last two name: only those can be asked for
        again. What a stray process of an earlier attempt still writes is nameless and goes at the next sweep.
        """
        doomed = [self.shards / name for name in _names(self.shards) if name not in snapshots]
        for folder, prefix in ((self.head.parent, "batch-"), (self.turns, "turn-")):
            names = [name for name in _names(folder) if name.startswith(prefix)]
            doomed += [folder / name for name in names if int(name[len(prefix) :][:8]) < first_batch]
        for path in doomed:
            path.unlink(missing_ok=True)
        return len(doomed)


def _names(folder: Path) -> list[str]:
    try:
        return os.listdir(folder)
    except FileNotFoundError:
        return []


def _dump(place: Path, value: Any) -> None:
    with open(place, "w", encoding="utf-8") as file:
        json.dump(value, file, ensure_ascii=False)


def _sync_folder(folder: Path) -> None:
    """Make a rename durable: a folder is a file too."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
