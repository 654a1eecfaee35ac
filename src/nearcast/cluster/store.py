"""The files behind a run: names go in, whole and durable files come out, or none.

    CHECKPOINT/
      run.json                 what was asked for, and which era it is; replacing this file begins an era
      lock                     held while a run uses the checkpoint
      weights                  fitted once, if a corpus was given
      intake/head.json         how many batches of input are ready: replacing this file commits an intake
      intake/run-00000000.json which files one intake read
      intake/seen-00000000.arrow    which files all intakes before that one read
      intake/batch-00000000.arrow   the ordered events of one batch
      staged/                  what Spark reads and sorts for one intake; gone afterwards
      session/                 logs and scratch space of Spark
      era-000/                 all that belongs to one number of shards
        start.json             totals and states of shards at its beginning, if it is not the first
        turns/turn-00000000    what happens in one turn: appears when it may be taken; together they are the log
        routes/route-00000000.arrow   which shard each subscription event of that turn's batch goes to
        orders/order-00000000.arrow   which subscriptions change shards, from that turn to the next
        orders/handed-00000000-GIVER-TAKER   and all that is theirs
        directory/directory-TURN-BATCH       where every subscription is, before that turn
        shards/…               snapshots, each under a name of its own
        steps/step-00000000.json      what one micro-batch did, and the totals so far
        spark/                 Spark's own checkpoint
    OUT/
      updates/part-BATCH-SHARD.parquet (or .jsonl)
      rejects/part-BATCH-SHARD.jsonl
      metrics.jsonl

Every file is written under a name that only this attempt uses, flushed to the disk, and renamed. A name says what the
content is (batch and shard), and a repeated attempt has the same content, so whoever writes last changes nothing.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from nearcast.errors import InvalidInput

_SWEPT = ("batch-", "turn-", "route-", "order-", "handed-")
_LINE_BYTES = 1 << 20  # no line of metrics is longer
DRAFT = ".draft-"  # files that begin so are being written, or were when a process died


@contextlib.contextmanager
def whole(place: Path) -> Iterator[Path]:
    """A draft to write; at the end it appears at `place`, at once and for good, if it was written at all."""
    place.parent.mkdir(parents=True, exist_ok=True)
    draft = place.with_name(f"{DRAFT}{uuid.uuid4().hex}-{place.name}")
    try:
        yield draft
        if not draft.exists():
            return
        with open(draft, "rb") as file:
            os.fsync(file.fileno())
        os.replace(draft, place)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise
    _sync_folder(place.parent)


def write_whole(place: Path, write: Callable[[Path], None]) -> None:
    """Have `write` make a file, then let it appear at `place` at once and for good."""
    with whole(place) as draft:
        write(draft)


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

    def __init__(self, checkpoint: Path, era: int = 0) -> None:
        self.checkpoint = checkpoint
        self.run = checkpoint / "run.json"
        self.weights = checkpoint / "weights"
        self.intake = checkpoint / "intake"
        self.head = self.intake / "head.json"
        self.staged = checkpoint / "staged"
        self.session = checkpoint / "session"
        self.own = checkpoint / f"era-{era:03d}"
        self.start = self.own / "start.json"
        self.turns = self.own / "turns"
        self.routes = self.own / "routes"
        self.orders = self.own / "orders"
        self.directories = self.own / "directory"
        self.shards = self.own / "shards"
        self.steps = self.own / "steps"
        self.spark = self.own / "spark"

    def manifest(self, number: int) -> Path:
        """Which files intake `number` read."""
        return self.intake / f"run-{number:08d}.json"

    def seen(self, number: int) -> Path:
        """Which files all intakes before `number` read."""
        return self.intake / f"seen-{number:08d}.arrow"

    def batch(self, number: int) -> Path:
        """The events of batch `number`."""
        return self.intake / f"batch-{number:08d}.arrow"

    def turn(self, number: int) -> Path:
        """What happens in turn `number`."""
        return self.turns / f"turn-{number:08d}"

    def route(self, turn: int) -> Path:
        """Where the subscription events of a turn go; there is no such file if there are none."""
        return self.routes / f"route-{turn:08d}.arrow"

    def order(self, turn: int) -> Path:
        """Which subscriptions change shards from this turn to the next."""
        return self.orders / f"order-{turn:08d}.arrow"

    def handed(self, turn: int, giver: int, taker: int) -> Path:
        """What one shard hands to another in that turn."""
        return self.orders / f"handed-{turn:08d}-{giver:03d}-{taker:03d}"

    def directory(self, turn: int, batch: int) -> Path:
        """Where every subscription is before a turn, and which batch comes next then."""
        return self.directories / f"directory-{turn:08d}-{batch:08d}"

    def last_directory(self) -> tuple[int, int] | None:
        """Turn and batch of the newest directory, or None."""
        names = [name for name in names_in(self.directories) if name.startswith("directory-")]
        return (int(max(names)[10:18]), int(max(names)[19:27])) if names else None

    def turn_numbers(self) -> list[int]:
        """All turns on record, in order."""
        return sorted(int(name[5:]) for name in names_in(self.turns) if name.startswith("turn-"))

    def step(self, number: int) -> Path:
        """The record of micro-batch `number`."""
        return self.steps / f"step-{number:08d}.json"

    def new_snapshot(self, shard: int, next_turn: int) -> Path:
        """A name for a snapshot that no other attempt uses."""
        self.shards.mkdir(parents=True, exist_ok=True)
        return self.shards / f"shard-{shard:03d}-{next_turn:08d}-{uuid.uuid4().hex}"

    def last_step(self) -> int | None:
        """The number of the newest step on record, or None."""
        names = [name for name in names_in(self.steps) if name.startswith("step-")]
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

    def sweep(self, snapshots: set[str], first_turn: int, first_batch: int) -> int:
        """Remove what nothing can ask for again: other snapshots, earlier turns and batches; return how many.

        Call it between two micro-batches, with what the states of the last two name: only those can be asked for
        again. What a stray process of an earlier attempt still writes is nameless and goes at the next sweep.
        The newest directory is asked for, too, and with it all turns since.
        """
        kept = self.last_directory()
        if kept is not None:
            first_turn, first_batch = min(first_turn, kept[0]), min(first_batch, kept[1])
        doomed = [self.shards / name for name in names_in(self.shards) if name not in snapshots]
        for folder, first in (
            (self.intake, first_batch),
            (self.turns, first_turn),
            (self.routes, first_turn),
            (self.orders, first_turn - 1),  # what is handed over is taken one turn later
        ):
            names = [name for name in names_in(folder) if name.startswith(_SWEPT)]
            doomed += [folder / name for name in names if int(name.split("-")[1][:8]) < first]
        if kept is not None:
            newest = self.directory(*kept).name
            doomed += [self.directories / name for name in names_in(self.directories) if name < newest]
        for path in doomed:
            path.unlink(missing_ok=True)
        return len(doomed)

    def clear(self, out: Path, n_batches: int, n_intakes: int) -> list[Path]:
        """Remove what killed runs left half-made, in the checkpoint and in `out`; returns the files that are gone.

        That is drafts, what Spark was sorting, and batches and lists of files of an intake that never counted: there
        are `n_batches` and `n_intakes` that do. A stray process of a killed run whose draft goes fails, as it should.
        Call it with the checkpoint locked.
        """
        shutil.rmtree(self.staged, ignore_errors=True)
        gone: list[Path] = []
        for top in (self.checkpoint, out / "updates", out / "rejects"):
            for folder, below, names in os.walk(top):
                below[:] = [name for name in below if Path(folder, name) not in (self.spark, self.session)]
                gone += [Path(folder, name) for name in names if name.startswith(DRAFT)]
        for start, n in (("batch-", n_batches), ("run-", n_intakes)):
            names = [name for name in names_in(self.intake) if name.startswith(start)]
            gone += [self.intake / name for name in names if int(name.removeprefix(start)[:8]) >= n]
        for path in gone:
            path.unlink(missing_ok=True)
        return gone

    def forget_other_eras(self) -> None:
        """Remove what belongs to another number of shards."""
        for name in names_in(self.checkpoint):
            if name.startswith("era-") and name != self.own.name:
                shutil.rmtree(self.checkpoint / name, ignore_errors=True)


def end_line(place: Path) -> None:
    """Cut off the last line of a file if whoever wrote it was killed before its end."""
    if place.exists():
        with open(place, "r+b") as file:
            start = file.seek(max(0, place.stat().st_size - _LINE_BYTES))
            file.truncate(start + file.read().rfind(b"\n") + 1)


def names_in(folder: Path) -> list[str]:
    """The names of all files in a folder, none if it does not exist."""
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
