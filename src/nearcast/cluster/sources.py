"""Files and folders become tables of events: JSON lines, CSV and Parquet, the first two also packed with gzip.

A file is read whole and in the order of its rows. A row that cannot be read is a refused row of the table, and so is
the rest of a file that breaks off, so that what goes in can always be counted again in what comes out.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from nearcast.cluster.csv_rows import fill_csv, records
from nearcast.cluster.decode import Decoder
from nearcast.cluster.parquet_rows import read_parquet
from nearcast.cluster.text_files import TEXT_ERRORS, open_bytes
from nearcast.errors import InvalidInput

FORMATS = ("jsonl", "csv", "parquet")
PIECE_ROWS = 20_000  # rows decoded at a time

_EXTENSIONS = {
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",
    ".geojsonl": "jsonl",
    ".csv": "csv",
    ".parquet": "parquet",
}


class Input(NamedTuple):
    """A file or folder, and what its rows are: "messages", "subscriptions" or "events"."""

    path: str
    role: str
    format: str | None = None  # by extension when None


class SourceFile(NamedTuple):
    """A file to read, as it was when it was found."""

    path: str
    role: str
    format: str
    size: int
    changed_ns: int


def find_files(inputs: Iterable[Input], without: Iterable[Path] = ()) -> list[SourceFile]:
    """All files behind `inputs`: those named, and those in folders, by path; hidden and unfinished ones left out.

    What lies below the folders `without` is not found in a folder: a run must not read what it wrote.

    Raises
    ------
    InvalidInput
        A path that does not exist, or a named file of unknown format.
    """
    found: dict[str, SourceFile] = {}
    own = [folder.absolute() for folder in without]
    for given in inputs:
        path = Path(given.path)
        if path.is_dir():
            for name in sorted(_below(path)):
                format_ = given.format or format_of(name)
                if format_ is not None and not any(Path(name).absolute().is_relative_to(folder) for folder in own):
                    _note(found, name, given.role, format_)
        elif path.exists():
            format_ = given.format or format_of(path.name)
            if format_ is None:
                rule = f"must end in one of {', '.join(_EXTENSIONS)} (or be named with --format)"
                raise InvalidInput(given.role, given.path, rule)
            _note(found, str(path), given.role, format_)
        else:
            raise InvalidInput(given.role, given.path, "must be a file or folder that exists")
    return list(found.values())


def format_of(name: str) -> str | None:
    """The format that a file's name tells: ``"jsonl"``, ``"csv"``, ``"parquet"``, or None."""
    lower = name.lower()
    if lower.endswith(".gz"):
        inner = _EXTENSIONS.get(os.path.splitext(lower[:-3])[1])
        return None if inner == "parquet" else inner
    return _EXTENSIONS.get(os.path.splitext(lower)[1])


def read_file(file: SourceFile, number: int) -> Iterator[pa.Table]:
    """The events of a file in its own order, in tables of some `PIECE_ROWS` rows.

    Parameters
    ----------
    file
        What to read.
    number
        Its place among the files that are read together: the column ``file``.
    """
    decoder = Decoder(file.path, number, file.role)
    if file.format == "parquet":
        yield from read_parquet(file.path, number, file.role, decoder)
    else:
        filling = fill_csv(file.path, file.role, decoder) if file.format == "csv" else _fill_lines(file.path, decoder)
        for _ in filling:
            if len(decoder) >= PIECE_ROWS:
                yield decoder.table()
    if len(decoder):
        yield decoder.table()


def read_texts(file: SourceFile) -> Iterator[pa.Array]:
    """The texts of a corpus file: its field or column ``text``; rows without one are passed over."""
    if file.format == "parquet":
        with pq.ParquetFile(file.path) as parquet:
            if "text" in parquet.schema_arrow.names:
                for batch in parquet.iter_batches(columns=["text"]):
                    yield batch.column(0).cast(pa.string()).drop_null()
        return
    texts: list[str] = []
    for value in _objects(file):
        if isinstance(value.get("text"), str):
            texts.append(value["text"].encode("utf-8", "replace").decode())
        if len(texts) == PIECE_ROWS:
            yield pa.array(texts, pa.string())
            texts = []
    yield pa.array(texts, pa.string())


def _objects(file: SourceFile) -> Iterator[dict[str, Any]]:
    """The rows of a text file that can be read at all."""
    if file.format == "csv":
        header: list[str] | None = None
        for _, _, values, problem in records(file.path):
            if header is None:
                header = [name.strip() for name in values or ()]
            elif problem is None:
                yield dict(zip(header, values or (), strict=False))
        return
    with open_bytes(file.path) as lines:
        for line in lines:
            try:
                value = json.loads(line)
            except (ValueError, RecursionError):
                continue
            if isinstance(value, dict):
                inner = value.get("properties")  # of a GeoJSON Feature
                yield inner if value.get("type") == "Feature" and isinstance(inner, dict) else value


def _below(folder: Path) -> Iterator[str]:
    for where, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith((".", "_")))
        for name in names:
            if not name.startswith((".", "_")) and not name.endswith((".tmp", ".part", "~")):
                yield os.path.join(where, name)


def _note(found: dict[str, SourceFile], path: str, role: str, format_: str) -> None:
    absolute = os.path.abspath(path)
    try:
        status = os.stat(absolute)
    except FileNotFoundError:  # gone since the folder was listed
        return
    found.setdefault(absolute, SourceFile(absolute, role, format_, status.st_size, status.st_mtime_ns))


def _fill_lines(path: str, decoder: Decoder) -> Iterator[None]:
    """Decode a file of JSON lines; yields after every row."""
    row = 0
    try:
        with open_bytes(path) as lines:
            for row, line in enumerate(lines, 1):
                if row == 1:
                    line = line.removeprefix(b"\xef\xbb\xbf")
                line = line.rstrip(b"\r\n")
                if not line.strip():
                    continue
                try:
                    raw = line.decode()
                except UnicodeDecodeError as error:
                    raw = line.decode("utf-8", "backslashreplace")
                    decoder.refuse(row, raw, "row", f"row must be UTF-8: {error.reason} at byte {error.start + 1}")
                else:
                    decoder.add_text(row, raw)
                yield
    except TEXT_ERRORS as error:
        decoder.refuse(row + 1, "", "file", f"file must be readable to its end: {error}")
        yield
