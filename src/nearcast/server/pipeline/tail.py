"""What a run on Spark has told: its committed batches, as events."""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from nearcast.server.durable.operations import Json
from nearcast.server.durable.updates import PastUpdates, Told

_COLUMNS = ("subscription", "message", "sign", "score", "ts", "seq")
_NEWEST = 64  # batches that are kept in memory
NOTHING = pa.table({name: pa.array([], pa.string()) for name in _COLUMNS[:5]})


class Found(NamedTuple):
    """One committed batch: what it told, and which rows it refused."""

    told: Told
    rejects: list[Json]


class Tail(PastUpdates):
    """The output of a run. Event n is batch n - 1."""

    def __init__(self, out: Path) -> None:
        self._out = out
        self._files: dict[int, list[Path]] = {}  # of the batches that were looked at and told something
        self._newest: dict[int, Told] = {}

    def epoch(self) -> str:
        """The name of the history; whoever comes first makes it."""
        self._out.mkdir(parents=True, exist_ok=True)
        path, beside = self._out / "epoch", self._out / f"_epoch-{secrets.token_hex(5)}"
        if not path.exists():
            beside.write_text(secrets.token_hex(5))
            with contextlib.suppress(FileExistsError):
                os.link(beside, path)
            beside.unlink()
        return path.read_text()

    def is_same(self, epoch: str) -> bool:
        """Whether the folder is still that of this history."""
        try:
            return (self._out / "epoch").read_text() == epoch
        except OSError:
            return False

    def asked(self) -> Json | None:
        """What the run was started with; None before it was."""
        try:
            return dict(msgspec.json.decode((self._out / "_checkpoint" / "run.json").read_bytes())["asked"])
        except (FileNotFoundError, msgspec.DecodeError, KeyError):
            return None

    def committed(self) -> int:
        """The event of the last batch that counts."""
        try:
            names = os.listdir(self._out / "_checkpoint" / "spark" / "commits")
        except FileNotFoundError:
            return 0
        return max((int(name) + 1 for name in names if name.isdigit()), default=0)

    def look(self, after: int, until: int) -> Iterator[Found]:
        """What batches told, one after another; they are found again by `read`."""
        updates, rejects = self._listed("updates", after, until), self._listed("rejects", after, until)
        for event in range(after + 1, until + 1):
            if event in updates:
                self._files[event] = updates[event]
            told = Told(event, _table(updates.get(event, [])), [])
            if event in updates:
                self._newest[event] = told
                if len(self._newest) > _NEWEST:
                    del self._newest[next(iter(self._newest))]
            yield Found(told, [row for path in rejects.get(event, []) for row in _rows(path)])

    def _listed(self, name: str, after: int, until: int) -> dict[int, list[Path]]:
        files: dict[int, list[Path]] = {}
        folder = self._out / name
        if not folder.is_dir():
            return files
        with os.scandir(folder) as entries:
            for entry in entries:
                words = entry.name.split("-")
                if words[0] == "part" and after < int(words[1]) + 1 <= until:
                    files.setdefault(int(words[1]) + 1, []).append(Path(entry.path))
        return {event: sorted(paths) for event, paths in files.items()}

    def append(self, told: Told) -> None:
        """The run has filed it."""

    def close(self) -> None:
        """Nothing is open between two reads."""

    def _read(self, after: int, until: int) -> Iterator[Told]:
        for event in range(after + 1, until + 1):
            if event in self._files:
                yield self._newest.get(event) or Told(event, _table(self._files[event]), [])


def _table(paths: list[Path]) -> pa.Table:
    """The updates of a batch, in one order for whoever reads them."""
    tables = [_file(path) for path in paths]
    if not tables:
        return NOTHING
    whole = pa.concat_tables(
        [table.append_column("shard", pa.array([n] * table.num_rows, pa.int32())) for n, table in enumerate(tables)]
    )
    return whole.sort_by([("seq", "ascending"), ("shard", "ascending")]).select(_COLUMNS[:5])


def _file(path: Path) -> pa.Table:
    if path.suffix == ".parquet":
        return pq.read_table(path, columns=list(_COLUMNS))
    rows = _rows(path)
    columns: dict[str, Any] = {name: [row.get(name) for row in rows] for name in _COLUMNS}
    columns |= {"score": pa.array(columns["score"], pa.float64()), "ts": pa.array(columns["ts"], pa.int64())}
    return pa.table(columns)


def _rows(path: Path) -> list[Json]:
    return msgspec.json.Decoder(dict[str, Any]).decode_lines(path.read_bytes())
