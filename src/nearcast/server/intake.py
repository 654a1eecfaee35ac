"""Bodies of requests become parts of a submission: one message, JSON lines, Arrow; and event lines of all sorts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import msgspec
import pyarrow as pa

from nearcast.errors import InvalidInput
from nearcast.model.checks import INT64_MAX, INT64_MIN
from nearcast.model.codec import event_from_json, message_from_json, message_to_json, subscription_to_json
from nearcast.model.event import Move, Publish, Retract, Subscribe, Unsubscribe, UpdateMessage
from nearcast.model.geojson import region_to_json
from nearcast.model.instant import instant
from nearcast.server.durable.operations import MESSAGE_COLUMNS, Forms, Json, Part, line_parts
from nearcast.server.problems import Problem

ARROW = "application/vnd.apache.arrow.stream"
LINES = ("application/x-ndjson", "application/jsonl", "application/ndjson")
JSON = "application/json"

Rejects = list[tuple[int, str, str]]


class MessageForm(msgspec.Struct):
    """The flat JSON form of a message, for the quick way in; all that does not fit takes the slow one."""

    id: str | int
    lon: float
    lat: float
    text: str | None = None
    keywords: list[str] | None = None
    ts: int | None = None
    expires: int | None = None
    fields: dict[str, float | int | str | bool | list[str]] | None = None


class Taken(msgspec.Struct):
    """What a body holds: parts to submit, rows that are refused at once, and how many rows in all."""

    parts: list[Part]
    rejects: Rejects
    n_rows: int
    single: bool = False  # one thing, whose refusal is an error


_ONE = msgspec.json.Decoder(MessageForm)
_LIST = msgspec.json.Decoder(list[MessageForm])


def messages(body: bytes, kind: str, most: int) -> Taken:
    """The messages of a body of this media type.

    Raises
    ------
    InvalidInput
        If the body is a single message that cannot be honoured.
    Problem
        For a body that cannot be read, and for too many rows.
    """
    if kind == ARROW:
        return _arrow(body, most)
    if kind in LINES:
        try:
            return Taken(_tables(_ONE.decode_lines(body), most), [], _n_lines(body))
        except (msgspec.DecodeError, ValueError, OverflowError, pa.ArrowException):
            return _one_by_one(_lines(body, most), _message)
    _require_json(kind)
    try:
        form = _ONE.decode(body) if body.lstrip()[:1] == b"{" else _LIST.decode(body)
        single = isinstance(form, MessageForm)
        forms = [form] if isinstance(form, MessageForm) else form
        return Taken(_tables(forms, most), [], len(forms), single)
    except (msgspec.DecodeError, ValueError, OverflowError, pa.ArrowException):
        decoded = msgspec.json.decode(body)
    if isinstance(decoded, list):
        return _one_by_one(_limited(((row, _as_is(item)) for row, item in enumerate(decoded)), most), _message)
    taken = _one_by_one([(0, _as_is(message_to_json(message_from_json(decoded))))], _message)
    taken.single = True
    return taken


def events(body: bytes, kind: str, most: int) -> Taken:
    """The events of a body: JSON lines, or one in JSON."""
    if kind not in LINES:
        _require_json(kind)
        decoded = msgspec.json.decode(body)
        items = decoded if isinstance(decoded, list) else [decoded]
        return _one_by_one(_limited(((row, _as_is(item)) for row, item in enumerate(items)), most), _event)
    return _one_by_one(_lines(body, most), _event)


def subscriptions(body: bytes, kind: str, most: int, own: Callable[[Any], None]) -> Taken:
    """New subscriptions in bulk; `own` refuses ids that the caller may not use."""
    taken = events(body, kind, most)
    for part in taken.parts:
        if part.is_messages or any(line["event"] != "subscribe" for line in part.content):
            raise Problem(422, "invalid-input", "every row must be a subscription, with its kind", field="kind")
        for line in part.content:
            own(line["id"])
    return taken


def media_type(header: str | None) -> str:
    """The media type of a body without its parameters; JSON if none is given."""
    return (header or JSON).partition(";")[0].strip().lower()


def _require_json(kind: str) -> None:
    if kind != JSON and not kind.endswith("+json"):
        raise Problem(415, "media-type", f"the body must be {JSON}, {LINES[0]} or {ARROW}", value=kind)


def _n_lines(body: bytes) -> int:
    return sum(1 for line in body.splitlines() if line.strip())


def _limited(rows: Iterable[tuple[int, Any]], most: int) -> Iterator[tuple[int, Any]]:
    for number, row in enumerate(rows):
        if number >= most:
            raise too_many(most)
        yield row


def too_many(most: int) -> Problem:
    """The answer to too many rows."""
    return Problem(413, "too-large", f"a request has at most {most} rows", field="rows", value=most)


def _lines(body: bytes, most: int) -> Iterator[tuple[int, Callable[[], Any]]]:
    lines = [line for line in body.splitlines() if line.strip()]
    return _limited(((row, lambda line=line: _decoded(line)) for row, line in enumerate(lines)), most)


def _as_is(item: Any) -> Callable[[], Any]:
    return lambda: item


def _decoded(line: bytes) -> Any:
    try:
        return msgspec.json.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InvalidInput("row", line.decode(errors="replace"), f"must be JSON ({error})") from None


def _tables(forms: Sequence[MessageForm], most: int) -> list[Part]:
    """Forms as one table; raises ValueError for what must go the slow way."""
    if len(forms) > most:
        raise too_many(most)
    if not forms:
        return []
    if any((form.text is None) == (form.keywords is None) for form in forms):
        raise ValueError("exactly one of text and keywords")
    sort = type(forms[0].id)
    for form in forms:
        if type(form.id) is not sort or not all(type(each) is not int or _fits(each) for each in _numbers(form)):
            raise ValueError("ids of one type, numbers of 64 bits")
    return [Part(Forms(forms), len(forms))]


def _numbers(form: MessageForm) -> tuple[Any, ...]:
    return form.id, form.ts, form.expires


def _fits(number: int) -> bool:
    return INT64_MIN <= number <= INT64_MAX


def _one_by_one(rows: Iterable[tuple[int, Callable[[], Any]]], event: Callable[[Any], tuple[bool, Any]]) -> Taken:
    """The careful way: each row is checked, those that cannot be honoured are told."""
    rejects: Rejects = []
    runs: list[tuple[bool, list[Any], list[int]]] = []  # of messages or of lines, with their rows
    n_rows = 0
    for row, read in rows:
        n_rows += 1
        try:
            is_message, item = event(read())
        except InvalidInput as error:
            rejects.append((row, error.field, str(error)))
            continue
        if runs and runs[-1][0] == is_message and (not is_message or type(runs[-1][1][0].id) is type(item.id)):
            runs[-1][1].append(item)
            runs[-1][2].append(row)
        else:
            runs.append((is_message, [item], [row]))
    parts: list[Part] = []
    for is_message, items, own in runs:
        parts += [Part(Forms(items), len(items), own)] if is_message else line_parts(items, own)
    return Taken(parts, rejects, n_rows)


def _message(obj: Any) -> tuple[bool, Any]:
    return True, message_from_json(obj)


def _event(obj: Any) -> tuple[bool, Any]:
    """A message, or the line of another event as it is logged."""
    if isinstance(obj, dict) and obj.get("event") == "advance":
        return False, {"event": "advance", "ts": instant("ts", obj.get("ts"))}
    event = event_from_json(obj)
    if isinstance(event, Publish):
        return True, event.message
    if isinstance(event, Subscribe):
        return False, {"event": "subscribe", **subscription_to_json(event.subscription)}
    if isinstance(event, Unsubscribe):
        return False, {"event": "unsubscribe", "id": event.id}
    if isinstance(event, UpdateMessage):
        return False, {"event": "update", **message_to_json(event.message)}
    if isinstance(event, Retract):
        return False, {"event": "retract", "id": event.id}
    return False, move_line(event)


def move_line(move: Move) -> Json:
    """A move as it is logged."""
    line: Json = {"event": "move", "id": move.id}
    if move.region is not None:
        return {**line, "region": region_to_json(move.region)}
    return {**line, "lon": move.lon, "lat": move.lat}


def arrow_table(body: bytes) -> pa.Table:
    """The table of a body, checked in full.

    Raises
    ------
    Problem
        If the body is no stream of Arrow.
    """
    try:
        with pa.ipc.open_stream(pa.py_buffer(body)) as reader:
            table = reader.read_all()
        table.validate(full=True)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise Problem(400, "malformed", f"the body is no stream of Arrow: {error}") from None
    return table.replace_schema_metadata(None)


def message_columns(table: pa.Table) -> pa.Table:
    """Only the columns that messages have.

    Raises
    ------
    InvalidInput
        If one is missing that they must have.
    """
    names = table.schema.names
    for name in ("id", "lon", "lat"):
        if names.count(name) != 1:
            raise InvalidInput(name, names, "must be a column, once")
    kept = [name for name in MESSAGE_COLUMNS if names.count(name) == 1]
    return table.select(kept).combine_chunks()


def _arrow(body: bytes, most: int) -> Taken:
    table = message_columns(arrow_table(body))
    if table.num_rows > most:
        raise too_many(most)
    parts = [Part(table, table.num_rows)] if table.num_rows else []
    return Taken(parts, [], table.num_rows)


def whole_number(name: str, text: str | None, default: int, low: int, high: int) -> int:
    """A whole number of an address.

    Raises
    ------
    InvalidInput
        If it is none, or out of range.
    """
    if text is None:
        return default
    if not text.isdecimal() or not INT64_MIN <= int(text[:20]) <= INT64_MAX or not low <= int(text) <= high:
        raise InvalidInput(name, text, f"must be a whole number from {low} to {high}")
    return int(text)
