"""One file becomes rows of the two frames: those of messages, and those of subscriptions and their events.

Whatever is wrong with a row is told in its column `refused`, so that what goes in can be counted again in what comes
out. A file that cannot be opened is an error of the task, and never a row; one that breaks off gives the rows before
that, and one more that says so.
"""

from __future__ import annotations

import gzip
import io
import json
import re
import socket
import unicodedata
import zlib
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import IO, Any, NamedTuple, cast
from urllib.parse import urlsplit

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs

from nearcast.columns.times import rows_with_times, whole_times
from nearcast.errors import InvalidInput, SetupError
from nearcast.model.codec import event_from_json, message_from_json
from nearcast.model.event import Move, Subscribe
from nearcast.model.instant import optional_instant
from nearcast.spark.run.csv_rows import csv_rows

MESSAGES, SUBSCRIPTIONS, EVENTS = "messages", "subscriptions", "events"  # what a file is given as: its role
SIDES = (MESSAGES, SUBSCRIPTIONS)  # the frames
PIECE_ROWS = 20_000  # rows decoded at a time

_PUBLISHED = ("publish", "update")
_MESSAGE_EVENTS = (*_PUBLISHED, "retract", "advance")
_CONTROL_EVENTS = ("subscribe", "unsubscribe", "move", "assign")
_BROKEN = (EOFError, zlib.error, gzip.BadGzipFile, pa.ArrowException)  # what content that is damaged raises
_REFUSED = pa.struct([("field", pa.string()), ("reason", pa.string())])
_BESIDE = [("position", pa.int64()), ("source", pa.string()), ("raw", pa.string()), ("refused", _REFUSED)]
_NUMBERS = ("lon", "lat", "alpha", "decay", "delta", "tau", "min_lon", "min_lat", "max_lon", "max_lat")
_SIMPLE = re.compile(r"[^\W_]+")


class SourceFile(NamedTuple):
    """A file to read, as it was when it was found."""

    path: str  # or a URI
    role: str
    format: str
    size: int = 0
    changed_ns: int = 0


class IdTypes(NamedTuple):
    """The types of the two frames' ids: ``"string"`` or ``"bigint"``."""

    messages: str = "string"
    subscriptions: str = "string"

    def arrow(self, side: str) -> pa.DataType:
        """The type in Arrow."""
        return pa.int64() if getattr(self, side) == "bigint" else pa.string()


def columns_of(side: str, ids: IdTypes) -> pa.Schema:
    """The columns of a frame of rows of files."""
    id_ = ids.arrow(side)
    if side == MESSAGES:
        own = [("id", id_), ("lon", pa.float64()), ("lat", pa.float64()), ("text", pa.string())]
        own += [("keywords", pa.list_(pa.string())), ("ts", pa.int64()), ("expires", pa.int64())]
        own += [("fields", pa.string())]
        return pa.schema([("event", pa.string()), *own, *_BESIDE])
    from nearcast.spark.frames import SUBSCRIPTIONS as FORM

    kinds = {"bigint": pa.int64(), "double": pa.float64(), "boolean": pa.bool_(), "string": pa.string()}
    own = [(field.name, kinds[field.dataType.simpleString()]) for field in FORM.fields if field.name != "id"]
    return pa.schema([("id", id_), *own, ("shard", pa.int64()), *_BESIDE])


class Rows:
    """Collects rows of one side of one file, and gives them as tables."""

    def __init__(self, source: str, side: str, ids: IdTypes) -> None:
        self.side = side
        self.schema = columns_of(side, ids)
        self.source = source
        self._names = set(self.schema.names)
        self._whole_ids = pa.types.is_integer(ids.arrow(side))
        self._rows: list[dict[str, Any]] = []

    def __len__(self) -> int:
        return len(self._rows)

    def add(self, position: int, raw: str | None, value: dict[str, Any]) -> None:
        """Take a row in the JSON form; `raw` is how the file has it."""
        try:
            made = _message(value) if self.side == MESSAGES else _control(value)
            id_ = made.get("id")
            if id_ is not None and isinstance(id_, int) != self._whole_ids:
                wanted = "an integer" if self._whole_ids else "a string"
                raise InvalidInput("id", id_, f"must be {wanted}, as the first ids of {self.side} are")
            for name in made.keys() - self._names:
                raise InvalidInput(name, made[name], "cannot be given in a file")
            _check_text(made)
        except InvalidInput as error:
            if raw is None:
                raw = json.dumps(value, ensure_ascii=False, default=str)
            self.refuse(position, raw, error.field, str(error))
            self._rows[-1] |= self._shown(value)
        else:
            self._rows.append({**made, "position": position, "source": self.source})

    def _shown(self, value: dict[str, Any]) -> dict[str, Any]:
        """Who a row that was refused is about, if that can be told."""
        id_, event = value.get("id"), value.get("event")
        fits = (
            type(id_) is int and -(2**63) <= id_ < 2**63 if self._whole_ids else type(id_) is str and _is_unicode(id_)
        )
        known = isinstance(event, str) and event in (*_MESSAGE_EVENTS, *_CONTROL_EVENTS)
        return {"id": id_ if fits else None, "event": event if known else None}

    def refuse(self, position: int, raw: str, field: str, reason: str) -> None:
        """Take a row that cannot be honoured."""
        raw, field, reason = (text.encode("utf-8", "backslashreplace").decode() for text in (raw, field, reason))
        told = {"field": field, "reason": reason}
        self._rows.append({"position": position, "source": self.source, "raw": raw, "refused": told})

    def table(self) -> pa.Table:
        """All rows since the last call."""
        rows, self._rows = self._rows, []
        arrays = [pa.array([row.get(field.name) for row in rows], field.type) for field in self.schema]
        return pa.Table.from_arrays(arrays, schema=self.schema)


def _message(value: Mapping[str, Any]) -> dict[str, Any]:
    event = value.get("event")
    if event is not None and event not in _MESSAGE_EVENTS:
        raise InvalidInput("event", event, f"must be one of {', '.join(_MESSAGE_EVENTS)}")
    if event in ("retract", "advance"):
        return {"event": event, "id": value.get("id"), "ts": optional_instant("ts", value.get("ts"))}
    told = message_from_json(value)
    keywords = None if told.keywords is None else list(told.keywords)
    return {
        "event": event, "id": told.id, "lon": told.lon, "lat": told.lat, "text": told.text, "keywords": keywords,
        "ts": told.ts, "expires": told.expires, "fields": None if told.fields is None else json.dumps(told.fields),
    }  # fmt: skip


def _control(value: dict[str, Any]) -> dict[str, Any]:
    named = value.get("event")
    if named is None and value.get("kind") is None and "text" in value:
        raise InvalidInput("kind", None, "is required: this is a message, not a subscription")
    if named in ("advance", "assign"):
        own = {name: value.get(name) for name in ("id", "shard") if value.get(name) is not None}
        return {"event": named, **own, "ts": optional_instant("ts", value.get("ts"))}
    if named is None:
        value = {**value, "event": "subscribe"}
    elif named not in _CONTROL_EVENTS:
        raise InvalidInput("event", named, f"must be one of {', '.join(_CONTROL_EVENTS)}")
    event = event_from_json(value)
    made = {name: _plain(name, given) for name, given in value.items() if given is not None}
    made |= {"event": value["event"], "ts": event.ts}
    if isinstance(event, Subscribe):
        made |= {"id": event.subscription.id, "expires": event.subscription.expires}
    elif isinstance(event, Move):
        made |= {name: given for name, given in (("lon", event.lon), ("lat", event.lat)) if given is not None}
    return made


def _plain(name: str, given: Any) -> Any:
    if name == "keywords":
        return keywords_text(given)
    if name in _NUMBERS:
        return float(given)
    return json.dumps(given) if isinstance(given, dict | list | tuple) else given


def keywords_text(given: Any) -> str:
    """Keywords as one string: an expression as it is, a list of words with blanks, any other list as JSON."""
    if isinstance(given, str):
        return given
    folded = [unicodedata.normalize("NFKC", str(word)).casefold() for word in given]
    if all(_SIMPLE.fullmatch(word) and all(unicodedata.category(c) in _WORDLY for c in word) for word in folded):
        return " ".join(folded)
    return json.dumps(list(given), ensure_ascii=False)


_WORDLY = ("Lu", "Ll", "Lt", "Lm", "Lo", "Nd")


def _check_text(made: dict[str, Any]) -> None:
    """Text that came of bytes which are no UTF-8 cannot go to Spark."""
    for name, given in made.items():
        for part in given if isinstance(given, list) else [given]:
            if isinstance(part, str) and not _is_unicode(part):
                shown = part.encode("utf-8", "backslashreplace").decode()
                raise InvalidInput(name, shown, "must be UTF-8")


def _is_unicode(text: str) -> bool:
    return text.isascii() or not any("\ud800" <= c <= "\udfff" for c in text)


def side_of(value: Any, role: str) -> str:
    """The frame that a row of a file belongs to."""
    if role != EVENTS:
        return role
    event = value.get("event") if isinstance(value, dict) else None
    if event in _CONTROL_EVENTS or (event is None and isinstance(value, dict) and value.get("kind") is not None):
        return SUBSCRIPTIONS
    return MESSAGES


def read_file(file: SourceFile, sides: tuple[str, ...], ids: IdTypes) -> Iterator[tuple[str, pa.Table]]:
    """The rows of a file in its own order, as (side, table), of the sides that are asked for.

    Raises
    ------
    SetupError
        The file cannot be opened or read on this host.
    """
    sides = tuple(side for side in sides if file.role in (side, EVENTS))
    if not sides:
        return
    rows = {side: Rows(shown_path(file.path), side, ids) for side in sides}
    reading = _parquet(file, rows) if file.format == "parquet" else _text(file, rows, ids)
    for side, table in reading:
        yield side, table
    for side in sides:
        if len(rows[side]):
            yield side, rows[side].table()


def _text(file: SourceFile, rows: dict[str, Rows], ids: IdTypes) -> Iterator[tuple[str, pa.Table]]:
    last = 0
    try:
        for position, raw, value, problem in _values(file, ids):
            last = position
            side = side_of(value, file.role)
            if side not in rows:
                continue
            if problem is not None:
                rows[side].refuse(position, raw or "", "row", problem)
            elif not isinstance(value, dict):
                rows[side].refuse(position, raw or "", "row", str(InvalidInput("row", value, "must be a JSON object")))
            else:
                rows[side].add(position, raw, value)
            if len(rows[side]) >= PIECE_ROWS:
                yield side, rows[side].table()
    except _BROKEN as error:
        _break_off(file, rows, last + 1, error)


def _break_off(file: SourceFile, rows: dict[str, Rows], position: int, error: BaseException) -> None:
    side = MESSAGES if file.role == EVENTS else file.role
    if side in rows:
        first = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        reason = f"file must be readable to its end ({first}): what follows is lost. Write it again by another name"
        rows[side].refuse(position, "", "file", reason)


def _values(file: SourceFile, ids: IdTypes) -> Iterator[tuple[int, str | None, Any, str | None]]:
    """The rows of a text file: number, text, JSON value, and what is wrong."""
    with opened(file) as stream:
        lines = _lines(stream)
        if file.format == "csv":
            yield from csv_rows(lines, pa.types.is_integer(ids.arrow(side_of({}, file.role))))
        elif file.format == "geojson":
            yield from _features(b"".join(lines))
        else:
            for row, line in enumerate(lines, 1):
                line = line.rstrip(b"\r\n")
                if line.strip():
                    yield json_row(row, line)


def _lines(stream: IO[bytes]) -> Iterator[bytes]:
    for number, line in enumerate(stream):
        yield line.removeprefix(b"\xef\xbb\xbf") if number == 0 else line


def json_row(row: int, line: bytes) -> tuple[int, str | None, Any, str | None]:
    """A line of JSON: its number, text, value, and what is wrong."""
    try:
        return row, (raw := line.decode()), json.loads(raw), None
    except UnicodeDecodeError as error:
        shown = line.decode("utf-8", "backslashreplace")
        return row, shown, None, f"row must be UTF-8: {error.reason} at byte {error.start + 1}"
    except RecursionError:
        return row, line.decode(), None, "row must not be nested so deeply"
    except ValueError as error:
        return row, line.decode(), None, f"row must be JSON: {error}"


def _features(data: bytes) -> Iterator[tuple[int, str | None, Any, str | None]]:
    """The features of a GeoJSON file, numbered from 1."""
    row, raw, whole, problem = json_row(1, data)
    features = whole.get("features") if isinstance(whole, dict) else None
    if problem is not None:
        yield row, (raw or "")[:1_000], None, problem
    elif isinstance(features, list):
        yield from ((number, None, feature, None) for number, feature in enumerate(features, 1))
    else:
        yield row, None, whole, None


def opened(file: SourceFile) -> IO[bytes]:
    """The bytes of a file, unpacked where its name ends in .gz."""
    stream = io.BufferedReader(handle(file.path), 1 << 20)
    return cast("IO[bytes]", gzip.open(stream, "rb")) if shown_path(file.path).lower().endswith(".gz") else stream


def handle(path: str) -> Any:
    """A file, opened on this host.

    Raises
    ------
    SetupError
        It cannot be opened.
    """
    try:
        system, inner = system_of(path)
        return system.open_input_file(inner)
    except (OSError, pa.ArrowException, ValueError) as error:
        first = str(error).strip().splitlines()[0]
        way = "Every host must be able to read it: put it where all of them can, or name it by a URI such as s3://..."
        raise SetupError(
            f"{shown_path(path)} cannot be opened on host {socket.gethostname()}: {first}. {way}"
        ) from error


def shown_path(path: str) -> str:
    """A path, or a URI without what may be secret in it: user, password, options."""
    if "://" not in path:
        return path
    parts = urlsplit(path)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


def below(uri: str, rest: str) -> str:
    """The URI of something in a folder; what follows a question mark stays at the end."""
    folder, mark, query = uri.partition("?")
    return f"{folder.rstrip('/')}/{rest.lstrip('/')}{mark}{query}"


def system_of(path: str) -> tuple[fs.FileSystem, str]:
    """The file system of a path or URI, and the path in it."""
    if "://" in path:
        return fs.FileSystem.from_uri(path)  # type: ignore[no-any-return]
    return fs.LocalFileSystem(), path


def _parquet(file: SourceFile, rows: dict[str, Rows]) -> Iterator[tuple[str, pa.Table]]:
    position = 0
    stream = handle(file.path)
    try:
        with pq.ParquetFile(stream) as parquet:
            for batch in parquet.iter_batches(batch_size=PIECE_ROWS):
                table = whole_times(pa.Table.from_batches([batch]))
                columnar = _columnar(table, rows, file, position)
                if columnar is not None:
                    yield MESSAGES, columnar
                else:
                    twice = next((name for name in table.column_names if table.column_names.count(name) > 1), None)
                    for number, value in enumerate(rows_with_times("file", table), position + 1):
                        side = side_of(value, file.role)
                        if side in rows and twice is None:
                            rows[side].add(number, None, dict(value))
                        elif side in rows:
                            shown = json.dumps(value, ensure_ascii=False, default=str)
                            rows[side].refuse(number, shown, twice or "", f"{twice} must be one column, not several")
                    yield from ((side, held.table()) for side, held in rows.items() if len(held))
                position += table.num_rows
    except (*_BROKEN, OSError) as error:
        _require_readable(file)
        _break_off(file, rows, position + 1, error)
    finally:
        stream.close()


def _require_readable(file: SourceFile) -> None:
    """Arrow gives damaged content and broken connections the same name: read the bytes, and see.

    Raises
    ------
    SetupError
        The file cannot be read.
    """
    try:
        with handle(file.path) as stream:
            while stream.read(1 << 24):
                pass
    except OSError as error:
        raise SetupError(f"{shown_path(file.path)} cannot be read on host {socket.gethostname()}: {error}") from error


def _columnar(table: pa.Table, rows: dict[str, Rows], file: SourceFile, before: int) -> pa.Table | None:
    """Messages whose columns have the right types, without a look at each row; None if they have not."""
    have = {field.name: field.type for field in table.schema}
    if file.role != MESSAGES or len(have) < table.num_columns or "event" in have:
        return None
    schema = rows[MESSAGES].schema
    if not {"id", "lon", "lat"} <= have.keys() or not have.keys() & {"text", "keywords"}:
        return None
    wanted = {"lon": _is_number, "lat": _is_number, "text": _is_text, "keywords": _is_words, "fields": _is_text}
    wanted |= {"ts": pa.types.is_signed_integer, "expires": pa.types.is_signed_integer}
    wanted["id"] = _is_int if pa.types.is_integer(schema.field("id").type) else _is_text
    if not all(fits(have[name]) for name, fits in wanted.items() if name in have):
        return None
    n = table.num_rows
    columns = {field.name: pa.nulls(n, field.type) for field in schema}
    columns |= {name: table.column(name).cast(schema.field(name).type) for name in wanted if name in have}
    columns["source"] = pa.repeat(shown_path(file.path), n)
    columns["position"] = pa.array(np.arange(before + 1, before + 1 + n))
    made = pa.Table.from_arrays([columns[field.name] for field in schema], schema=schema)
    try:
        made.validate(full=True)  # strings that are no UTF-8 are refused row by row
    except pa.ArrowInvalid:
        return None
    return made


def _is_int(type_: pa.DataType) -> bool:
    return bool(pa.types.is_signed_integer(type_) or type_ in (pa.uint8(), pa.uint16(), pa.uint32()))


def _is_number(type_: pa.DataType) -> bool:
    return bool(pa.types.is_floating(type_) or pa.types.is_signed_integer(type_))


def _is_text(type_: pa.DataType) -> bool:
    return bool(pa.types.is_string(type_) or pa.types.is_large_string(type_))


def _is_words(type_: pa.DataType) -> bool:
    return bool(pa.types.is_list(type_) or pa.types.is_large_list(type_)) and _is_text(type_.value_type)


def first_ids(file: SourceFile, rows: int = 100) -> dict[str, str]:
    """The type of the ids of the first rows of a file, for each side that has any."""
    found: dict[str, str] = {}
    values = _first_of_parquet(file, rows) if file.format == "parquet" else _first_of_text(file, rows)
    for value in values:
        inner = value.get("properties") if value.get("type") == "Feature" else None
        id_ = value.get("id", inner.get("id") if isinstance(inner, dict) else None)
        side = side_of(value, file.role)
        if isinstance(id_, str) and (side not in found or file.format == "csv"):
            found[side] = "string"  # in CSV one id that is no number makes all of them text
        elif isinstance(id_, int) and not isinstance(id_, bool):
            found.setdefault(side, "bigint")
    return found


def refuse_messages(files: list[SourceFile], rows: int = 100) -> None:
    """Refuse a file that was given as subscriptions and whose first rows are all messages: a name in the wrong place.

    Raises
    ------
    InvalidInput
        The first such file.
    """
    for file in files:
        if file.role == SUBSCRIPTIONS and "://" not in file.path:
            values = _first_of_parquet(file, rows) if file.format == "parquet" else _first_of_text(file, rows)
            found = [v.get("kind") is None and v.get("event") is None and v.get("text") is not None for v in values]
            if found and all(found):
                rule = "must hold subscriptions, each with a kind; it holds messages, which --messages takes"
                raise InvalidInput(file.role, file.path, rule)


def _first_of_parquet(file: SourceFile, rows: int) -> list[dict[str, Any]]:
    with handle(file.path) as stream:
        try:
            batch = next(pq.ParquetFile(stream).iter_batches(batch_size=rows), None)
        except (*_BROKEN, OSError):
            return []
    return [] if batch is None else rows_with_times("file", pa.Table.from_batches([batch]))


def _first_of_text(file: SourceFile, rows: int) -> Iterator[dict[str, Any]]:
    try:
        for _, _, value, _ in islice(_values(file, IdTypes("bigint", "bigint")), rows):
            if isinstance(value, dict):
                yield value
    except _BROKEN:
        return
