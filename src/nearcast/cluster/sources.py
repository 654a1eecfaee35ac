"""Files and folders become tables of events: JSON lines, CSV and Parquet, the first two also packed with gzip.

A file is read whole and in the order of its rows. A row that cannot be read is a refused row of the table, and so is
the rest of a file that breaks off, so that what goes in can always be counted again in what comes out.
"""

from __future__ import annotations

import csv
import gzip
import json
import os
import re
import zlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import IO, Any, NamedTuple, cast

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from nearcast.cluster.decode import MESSAGES, SUBSCRIPTIONS, Decoder
from nearcast.cluster.schema import EVENT_NAMES, EVENTS, PUBLISH
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
_FLOATS = ("lon", "lat", "delta", "tau", "alpha", "min_lon", "min_lat", "max_lon", "max_lat")
_INTS = ("ts", "expires", "k")
_WHOLE = re.compile(r"-?(0|[1-9][0-9]{0,18})")
_RECORD_LINES = 1_000  # a quoted CSV field that spans more lines than this was never closed
_TEXT_ERRORS = (EOFError, OSError, zlib.error)


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


def find_files(inputs: Iterable[Input]) -> list[SourceFile]:
    """All files behind `inputs`: those named, and those in folders, by path; hidden and unfinished ones left out.

    Raises
    ------
    InvalidInput
        A path that does not exist, or a named file of unknown format.
    """
    found: dict[str, SourceFile] = {}
    for given in inputs:
        path = Path(given.path)
        if path.is_dir():
            for name in sorted(_below(path)):
                format_ = given.format or format_of(name)
                if format_ is not None:
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
        yield from _read_parquet(file, number, decoder)
    else:
        fill = _fill_lines if file.format == "jsonl" else _fill_csv
        for _ in fill(file, decoder):
            if len(decoder) >= PIECE_ROWS:
                yield decoder.table()
    if len(decoder):
        yield decoder.table()


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


def _open(path: str) -> IO[bytes]:
    return cast("IO[bytes]", gzip.open(path, "rb") if path.lower().endswith(".gz") else open(path, "rb"))


def _fill_lines(file: SourceFile, decoder: Decoder) -> Iterator[None]:
    """Decode a file of JSON lines; yields after every row."""
    row = 0
    try:
        with _open(file.path) as lines:
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
    except _TEXT_ERRORS as error:
        decoder.refuse(row + 1, "", "file", f"file must be readable to its end: {error}")
        yield


def _fill_csv(file: SourceFile, decoder: Decoder) -> Iterator[None]:
    """Decode a CSV file with a header; yields after every row."""
    whole_ids = _csv_id_types(file)
    header: list[str] | None = None
    for row, raw, values, problem in _records(file.path):
        if problem is not None:
            decoder.refuse(row, raw, "file" if values is None else "row", problem)
        elif header is None:
            header = [name.strip() for name in values or ()]
            continue
        elif len(values or ()) != len(header):
            reason = f"row must have {len(header)} values, as the header has, got {len(values or ())}"
            decoder.refuse(row, raw, "row", reason)
        else:
            fields = dict(zip(header, values or (), strict=True))
            decoder.add(row, raw, _typed(fields, file.role, whole_ids[_is_message(fields, file.role)]))
        yield


def _records(path: str) -> Iterator[tuple[int, str, list[str] | None, str | None]]:
    """The records of a CSV file: (line number, text, values, problem); on a problem with the file, values are None."""
    pending: list[tuple[int, str]] = []  # the lines of a record whose quote is still open, and lines to look at again
    lines = _numbered_lines(path)
    try:
        while True:
            text, n_lines = "", 0
            while True:
                if n_lines == len(pending):
                    line = next(lines, None)
                    if line is None:
                        break
                    pending.append(line)
                text += pending[n_lines][1]
                n_lines += 1
                values, problem = _parsed(text)
                if problem != _OPEN_QUOTE or n_lines >= _RECORD_LINES:
                    break
            if n_lines == 0:
                return
            if problem == _OPEN_QUOTE:  # never closed: refuse the first line alone, and go on behind it
                text, n_lines = pending[0][1], 1
            row = pending[0][0]
            del pending[:n_lines]
            if text.strip():
                yield row, text.rstrip("\r\n"), values if problem is None else [], problem
    except _TEXT_ERRORS as error:
        yield (pending[0][0] if pending else 0), "", None, f"file must be readable to its end: {error}"


_OPEN_QUOTE = "row must close its quotes"


def _parsed(text: str) -> tuple[list[str], str | None]:
    if '"' not in text and "\r" not in text.rstrip("\r\n"):
        return text.rstrip("\r\n").split(","), None
    try:
        return next(csv.reader([text], strict=True)), None
    except csv.Error as error:
        open_quote = "unexpected end of data" in str(error)
        return [], _OPEN_QUOTE if open_quote else f"row must be CSV: {error}"


def _numbered_lines(path: str) -> Iterator[tuple[int, str]]:
    with _open(path) as lines:
        for row, line in enumerate(lines, 1):
            if row == 1:
                line = line.removeprefix(b"\xef\xbb\xbf")
            yield row, line.decode("utf-8", "backslashreplace")


def _csv_id_types(file: SourceFile) -> dict[bool, bool]:
    """Whether all ids of the file's messages (True) and subscriptions (False) are whole numbers.

    CSV has no types. Ids are read as integers only if every one of the file is written as one, without leading zeros.
    """
    whole = {True: True, False: True}
    header: list[str] | None = None
    for _, _, values, problem in _records(file.path):
        if problem is not None:
            continue
        if header is None:
            header = [name.strip() for name in values or ()]
        elif len(values or ()) == len(header):
            fields = dict(zip(header, values or (), strict=True))
            if fields.get("id") and not _is_whole(fields["id"]):
                whole[_is_message(fields, file.role)] = False
    return whole


def _is_whole(text: str) -> bool:
    return _WHOLE.fullmatch(text) is not None and -(2**63) <= int(text) < 2**63


def _is_message(fields: dict[str, str], role: str) -> bool:
    named = fields.get("event", "")
    if named in EVENT_NAMES:
        return named == "publish"
    return role == MESSAGES or (role != SUBSCRIPTIONS and not fields.get("kind"))


def _typed(fields: dict[str, str], role: str, whole_id: bool) -> dict[str, Any]:
    """The JSON form of a CSV row; a value that is not what its column should hold stays text, for the decoder to name."""
    value: dict[str, Any] = {}
    for name, text in fields.items():
        if text == "":
            continue
        if name in _FLOATS:
            value[name] = _converted(float, text)
        elif name in _INTS:
            value[name] = _converted(int, text)
        elif name == "id":
            value[name] = int(text) if whole_id else text
        elif name == "backfill" and text.lower() in ("true", "false"):
            value[name] = text.lower() == "true"
        elif name == "keywords" and text.startswith("["):
            value[name] = _converted(json.loads, text)
        else:
            value[name] = text
    if "text" in fields and "text" not in value and "keywords" not in value and _is_message(fields, role):
        value["text"] = ""
    return value


def _converted(convert: Callable[[str], Any], text: str) -> Any:
    try:
        return convert(text)
    except (ValueError, RecursionError):
        return text


def _read_parquet(file: SourceFile, number: int, decoder: Decoder) -> Iterator[pa.Table]:
    row = 0
    try:
        with pq.ParquetFile(file.path) as parquet:
            for batch in parquet.iter_batches(batch_size=PIECE_ROWS):
                table = _whole_times(pa.Table.from_batches([batch]))
                columnar = _message_table(table, file, number, row) if file.role == MESSAGES else None
                if columnar is None:
                    for value in table.to_pylist():
                        row += 1
                        decoder.add(row, None, value)
                    columnar = decoder.table()
                else:
                    row += table.num_rows
                yield columnar
    except (pa.ArrowException, OSError) as error:
        reason = str(error).splitlines()[0]
        decoder.refuse(row + 1, "", "file", f"file must be readable to its end: {reason}")


def _whole_times(table: pa.Table) -> pa.Table:
    """Times as epoch milliseconds."""
    for i, field in enumerate(table.schema):
        if pa.types.is_timestamp(field.type):
            since = table.column(i).cast(pa.timestamp("ms", field.type.tz), safe=False).cast(pa.int64())
            table = table.set_column(i, field.name, since)
    return table


def _message_table(table: pa.Table, file: SourceFile, number: int, rows_before: int) -> pa.Table | None:
    """Messages whose columns have the right types, without a look at each row; None if they have not.

    Values are for the broker to judge; only types are settled here.
    """
    have = {field.name: field.type for field in table.schema}
    is_text = _any_of(pa.types.is_string, pa.types.is_large_string)
    is_float = _any_of(pa.types.is_floating, pa.types.is_signed_integer)
    wanted = {"lon": is_float, "lat": is_float, "text": is_text, "ts": pa.types.is_signed_integer}
    wanted |= {"expires": pa.types.is_signed_integer, "keywords": _is_words, "id": _any_of(is_text, _is_int)}
    if not {"id", "lon", "lat"} <= have.keys() or not have.keys() & {"text", "keywords"} or "event" in have:
        return None
    if not all(fits(have[name]) for name, fits in wanted.items() if name in have):
        return None
    n = table.num_rows
    columns = {field.name: pa.nulls(n, field.type) for field in EVENTS}
    for name in wanted:
        if name in have and name != "id":
            columns[name] = table.column(name).cast(columns[name].type)
    ids = table.column("id")
    columns["number" if _is_int(ids.type) else "name"] = ids.cast(pa.int64() if _is_int(ids.type) else pa.string())
    columns["event"] = pa.array([PUBLISH], pa.int8()).take(pa.array([0] * n, pa.int32()))
    columns["source"] = pa.array([file.path] * n, pa.string())
    columns["file"] = pa.array([number] * n, pa.int32())
    columns["row"] = pc.add(pa.array(range(n), pa.int64()), rows_before + 1)
    return pa.Table.from_arrays([columns[field.name] for field in EVENTS], schema=EVENTS)


def _is_int(type_: pa.DataType) -> bool:
    return bool(pa.types.is_signed_integer(type_) or type_ in (pa.uint8(), pa.uint16(), pa.uint32()))


def _is_words(type_: pa.DataType) -> bool:
    inner = type_.value_type if pa.types.is_list(type_) or pa.types.is_large_list(type_) else None
    return inner is not None and bool(pa.types.is_string(inner) or pa.types.is_large_string(inner))


def _any_of(*tests: Any) -> Any:
    return lambda type_: any(test(type_) for test in tests)
