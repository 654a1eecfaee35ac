"""What is logged: messages as columns, other events as lines; and how a request's rows are found again in a frame.

A frame holds one run of equal operations, perhaps of several requests: messages in one Arrow table, or event lines
(subscribe, unsubscribe, move, advance, update, retract) in a table with one column. The metadata of its schema has a
`Share` for every request with an idempotency key, so that a replay gives that request the same answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import pyarrow as pa

from nearcast.model.update import Reject

MESSAGES = pa.schema(
    [
        ("id", pa.string()),
        ("lon", pa.float64()),
        ("lat", pa.float64()),
        ("text", pa.string()),
        ("keywords", pa.list_(pa.string())),
        ("ts", pa.int64()),
        ("expires", pa.int64()),
        ("fields", pa.string()),  # as JSON text
    ]
)
MESSAGE_COLUMNS = tuple(MESSAGES.names)
LINES = pa.schema([("line", pa.string())])
_SHARES = b"nearcast"

Json = dict[str, Any]


class Share(msgspec.Struct, array_like=True):
    """A request's part of a frame."""

    first: int  # row of the frame
    n: int
    key: str  # whose answer is remembered; empty: nobody's
    digest: str = ""  # of the request, to refuse the same key with another one
    at: float = 0.0  # when it came, epoch seconds
    rows: list[int] | None = None  # the rows of the request that these are; None: all, from 0
    rejects: list[tuple[int, str, str]] = []  # rows that were refused before anything was logged
    last: bool = True  # the request has no further part

    def row(self, row: int) -> int:
        """The row of the request that a row of the frame was."""
        return row - self.first if self.rows is None else self.rows[row - self.first]


class Forms(list[Any]):
    """Messages that become a table together with those of other requests: a table for each would cost 30 us."""

    @property
    def nbytes(self) -> int:
        """Characters of their texts and words, about as many bytes."""
        return sum(len(form.text) if form.text is not None else sum(map(len, form.keywords)) for form in self)

    def _column(self, name: str) -> list[Any]:
        values = [getattr(form, name) for form in self]
        if name != "fields":
            return values
        return [None if each is None else msgspec.json.encode(dict(each)).decode() for each in values]

    def to_table(self) -> pa.Table:
        """The table; their ids are of one type."""
        fields = list(MESSAGES)
        if isinstance(self[0].id, int):
            fields[0] = pa.field("id", pa.int64())
        columns = [pa.array(self._column(field.name), field.type) for field in fields]
        return pa.table(columns, pa.schema(fields))


class Part(msgspec.Struct):
    """One run of a request: messages, as a table or as forms, or event lines."""

    content: Any  # pa.Table | Forms | list[Json]
    n: int
    rows: list[int] | None = None

    @property
    def is_messages(self) -> bool:
        """Messages, rather than lines."""
        return isinstance(self.content, pa.Table | Forms)

    @property
    def shape(self) -> Any:
        """What must be equal for two parts to become one run."""
        if isinstance(self.content, Forms):
            return isinstance(self.content[0].id, int)
        return self.content.schema if self.is_messages else None


def plain_row(row: Json) -> Json:
    """A row of a table of messages in the JSON form."""
    plain = {name: value for name, value in row.items() if value is not None}
    if isinstance(plain.get("fields"), str):
        plain["fields"] = msgspec.json.decode(plain["fields"])
    return plain


def line_parts(lines: Sequence[Json], rows: Sequence[int]) -> list[Part]:
    """Event lines cut where an id comes again, so that in one frame no subscription is named twice."""
    parts: list[Part] = []
    named: set[Any] = set()
    for line, row in zip(lines, rows, strict=True):
        if not parts or line.get("id") in named:
            parts.append(Part([], 0, []))
            named = set()
        part = parts[-1]
        named.add(line.get("id"))
        part.content.append(line)
        part.n += 1
        part.rows = [*(part.rows or []), row]
    return parts


class Answer(msgspec.Struct, omit_defaults=False):
    """What a request did: the cursor behind it, how many rows were taken, which were late, which were refused."""

    cursor: str
    accepted: int
    late: list[Json] = []
    rejects: list[Json] = []


class Run(msgspec.Struct):
    """A frame before it is written, or after it was read."""

    content: Any  # pa.Table of messages | list[Json] of event lines
    shares: list[Share]

    @property
    def is_messages(self) -> bool:
        """Messages, rather than lines."""
        return isinstance(self.content, pa.Table)


def encode(run: Run) -> bytes:
    """The payload of a frame."""
    if run.is_messages:
        table = run.content
    else:
        table = pa.table([pa.array([msgspec.json.encode(line).decode() for line in run.content], pa.string())], LINES)
    kept = [share for share in run.shares if share.key]
    table = table.replace_schema_metadata({_SHARES: msgspec.json.encode(kept)} if kept else None)
    return to_ipc(table)


def decode(payload: bytes) -> Run:
    """What `encode` was given; only shares with a key."""
    table = from_ipc(payload)
    shares = msgspec.json.decode((table.schema.metadata or {}).get(_SHARES, b"[]"), type=list[Share])
    if table.schema.names == LINES.names:
        return Run([msgspec.json.decode(line) for line in table.column(0).to_pylist()], shares)
    return Run(table.replace_schema_metadata(None), shares)


def to_ipc(table: pa.Table) -> bytes:
    """A table as a stream of Arrow IPC."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


def from_ipc(payload: bytes | memoryview) -> pa.Table:
    """The table of a stream."""
    with pa.ipc.open_stream(pa.py_buffer(payload)) as reader:
        return reader.read_all()


def told(rejects: Sequence[Reject], share: Share) -> list[Json]:
    """The rejects of a frame that are a request's, by its own rows."""
    end = share.first + share.n
    return [
        {"row": share.row(reject.row), "field": reject.field, "reason": reject.reason}
        for reject in rejects
        if share.first <= reject.row < end
    ]
