"""JSON objects become rows of `schema.EVENTS`, one by one; what cannot be read becomes a refused row and its reason."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa

from nearcast.cluster.schema import EVENT_NAMES, EVENTS, MOVE, PUBLISH, REFUSED, SUBSCRIBE, UNSUBSCRIBE
from nearcast.errors import InvalidInput
from nearcast.model.codec import event_from_json, message_from_json
from nearcast.model.event import Move, Publish, Subscribe
from nearcast.model.message import Message

# What a file was named for on the command line decides what a row without an "event" is.
MESSAGES, SUBSCRIPTIONS, EVENTS_ROLE = "messages", "subscriptions", "events"

_NAMES = tuple(EVENTS.names)


class Decoder:
    """Collects the rows of one file, column by column.

    Parameters
    ----------
    source
        The file's name, as rejects show it.
    file
        Its place among the files that are read together.
    role
        ``"messages"``: a row is a message unless its ``event`` names another event. ``"subscriptions"``: a row
        without ``event`` is a subscribe. ``"events"``: a row without ``event`` is a subscribe if it has a ``kind``,
        else a message.
    """

    def __init__(self, source: str, file: int, role: str) -> None:
        self._source = source
        self._file = file
        self._role = role
        self._rows: list[tuple[Any, ...]] = []

    def __len__(self) -> int:
        return len(self._rows)

    def add_text(self, row: int, raw: str) -> None:
        """Take a line of JSON."""
        try:
            value = json.loads(raw)
        except RecursionError:
            self.refuse(row, raw, "row", "row must not be nested so deeply")
        except ValueError as error:
            self.refuse(row, raw, "row", f"row must be JSON: {error}")
        else:
            self.add(row, raw, value)

    def add(self, row: int, raw: str | None, value: Any) -> None:
        """Take a JSON value; `raw` is how the file has it, None to write it out only if the row is refused."""
        try:
            if not isinstance(value, dict):
                raise InvalidInput("row", value, "must be a JSON object")
            self._rows.append(self._decoded(row, raw, value))
        except InvalidInput as error:
            if raw is None:
                raw = json.dumps(value, ensure_ascii=False, default=str)
            self.refuse(row, raw, error.field, str(error))

    def refuse(self, row: int, raw: str, field: str, reason: str) -> None:
        """Take a row that cannot be honoured."""
        raw, field, reason = (text.encode("utf-8", "backslashreplace").decode() for text in (raw, field, reason))
        nothing = (None,) * 9
        self._rows.append((REFUSED, *nothing, self._source, self._file, row, raw, field, reason))

    def table(self) -> pa.Table:
        """All rows since the last call, as `schema.EVENTS`."""
        rows, self._rows = self._rows, []
        columns = zip(*rows, strict=True) if rows else ((),) * len(_NAMES)
        arrays = [pa.array(column, type=EVENTS.field(i).type) for i, column in enumerate(columns)]
        return pa.Table.from_arrays(arrays, schema=EVENTS)

    def _decoded(self, row: int, raw: str | None, value: dict[str, Any]) -> tuple[Any, ...]:
        tail = (self._source, self._file, row, raw, None, None)
        named = value.get("event")
        if self._role == MESSAGES and (not isinstance(named, str) or named not in EVENT_NAMES):
            return _message_row(message_from_json(value), tail)
        if self._role == SUBSCRIPTIONS and named is None and value.get("kind") is None and "text" in value:
            raise InvalidInput("kind", None, f"is required in {self._source}: this is a message, not a subscription")
        if self._role == SUBSCRIPTIONS and named is None:
            value = {**value, "event": "subscribe"}
        event = event_from_json(value)
        if isinstance(event, Publish):
            return _message_row(event.message, tail)
        if isinstance(event, Subscribe):
            kind, identity, expires = SUBSCRIBE, event.subscription.id, event.subscription.expires
        else:
            kind, identity, expires = (MOVE if isinstance(event, Move) else UNSUBSCRIBE), event.id, None
        if raw is None:
            tail = (self._source, self._file, row, json.dumps(value, ensure_ascii=False, default=str), None, None)
        spec = None
        if kind != UNSUBSCRIBE:
            spec = json.dumps(_spec(value, expires))
        head = (kind, event.ts, *_id_columns(identity))
        return (*head, None, None, None, None, expires, spec, *tail)


def _spec(value: dict[str, Any], expires: int | None) -> dict[str, Any]:
    """The JSON form of a subscription or move, with its expiry as a number."""
    spec = {key: item for key, item in value.items() if key not in ("event", "ts")}
    return spec if expires is None else {**spec, "expires": expires}


def _message_row(message: Message, tail: tuple[Any, ...]) -> tuple[Any, ...]:
    head = (PUBLISH, message.ts, *_id_columns(message.id))
    return (*head, message.lon, message.lat, message.text, message.keywords, message.expires, None, *tail)


def _id_columns(identity: str | int) -> tuple[int | None, str | None]:
    return (None, identity) if isinstance(identity, str) else (identity, None)
