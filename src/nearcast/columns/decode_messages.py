"""Messages as callers give them, objects, JSON or Arrow, become checked columns: a `MessageBatch`."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nearcast.columns.arena import Array, Floats, Longs
from nearcast.columns.arrow_rows import as_table, is_sound, mappings, refuse_strangers, rows_of
from nearcast.columns.fields.decode import FieldColumns, from_arrow, from_mappings, is_plain_type
from nearcast.columns.ids import IdBytes, id_bytes, same_type
from nearcast.columns.times import FOREVER, MISSING, rows_with_times, whole_times
from nearcast.columns.tokens import Order, Spelled, SpelledMessages, encode, encode_spelled
from nearcast.errors import InvalidInput
from nearcast.model.checks import is_a, plain_copy, refusal
from nearcast.model.codec import message_from_json
from nearcast.model.instant import LAST_INSTANT
from nearcast.model.message import Message
from nearcast.model.update import Reject
from nearcast.space.space import Space
from nearcast.text.vocabulary import Terms, Vocabulary

_FIELDS = ("id", "lon", "lat", "text", "keywords", "ts", "expires", "fields")
_FEATURE = ("type", "id", "geometry", "properties")  # of GeoJSON, in a table without places of its own


class MessageBatch(NamedTuple):
    """Messages that passed all checks which need no broker, in the order given."""

    rows: Longs  # row number in the caller's batch
    ids: IdBytes
    x: Floats
    y: Floats
    ts: Longs  # MISSING where not given
    expires: Longs  # FOREVER where not given
    texts: pa.Array  # string, null where keywords were given
    keywords: pa.Array | None  # list<string>, null where a text was given
    spelled: Spelled | None  # instead of both
    fields: FieldColumns | None
    rejects: list[Reject]
    id_type: str | None  # of all accepted ids, None if there are none

    def id(self, row: int) -> str | int:
        """The id of a row, as it was given."""
        data, starts = self.ids
        raw = data[starts[row] : starts[row + 1]].tobytes()
        return int.from_bytes(raw, "little", signed=True) if self.id_type == "integer" else raw.decode()

    def slice(self, lo: int, hi: int) -> MessageBatch:
        """Rows lo to hi, without the rejects."""
        data, starts = self.ids
        return MessageBatch(
            self.rows[lo:hi], (data[starts[lo] : starts[hi]], starts[lo : hi + 1] - starts[lo]),
            self.x[lo:hi], self.y[lo:hi], self.ts[lo:hi], self.expires[lo:hi], self.texts[lo:hi],
            None if self.keywords is None else self.keywords[lo:hi],
            None if self.spelled is None else Spelled(*(column[lo:hi] for column in self.spelled)),
            None if self.fields is None else self.fields.take(np.arange(lo, min(hi, self.x.size))), [], self.id_type,
        )  # fmt: skip


def decode_messages(
    source: Any, space: Space, expected: str | None, asked: Collection[str] | None = None
) -> MessageBatch:
    """Check a batch row by row; `expected` is the id type of the messages before it, if there were any.

    Fields are taken over if their names are `asked` for, all without such names; all are checked.
    """
    if type(source) is SpelledMessages:
        return _from_table(source.table, space, expected, asked, source.spelled)
    table = _columns_of(source)
    if table is None:
        return _from_objects(rows_of("messages", source), space, expected, asked)
    table = whole_times(table)
    if _is_plain(table) and is_sound(table):
        try:
            return _from_table(table, space, expected, asked)
        except pa.ArrowException:  # more than fits into one array
            pass
    return _from_objects(rows_with_times("messages", table), space, expected, asked)


def _columns_of(source: Any) -> pa.Table | None:
    """The columns of an Arrow table that are a message's; whatever the others hold is nobody's concern."""
    if not is_a(source, pa.Table | pa.RecordBatch):
        return None
    has = source.schema.get_field_index
    features = has("type") >= 0 and has("lon") < 0 and has("lat") < 0
    return as_table("messages", source, _FEATURE if features else _FIELDS)


def as_message(item: Any) -> Message:
    """A Message given as one or as its JSON form."""
    try:
        return _read(item)
    except Exception as error:
        raise refusal("message", item, error, partial(_read, item)) from error


def checked_message(item: Any, space: Space, expected: str | None) -> Message:
    """The same, at a place that there is and with an id of the type expected."""
    try:
        return _checked(item, space, expected)
    except Exception as error:
        raise refusal("message", item, error, partial(_checked, item, space, expected)) from error


def _read(item: Any) -> Message:
    if type(item) is Message:
        return item
    if isinstance(item, Mapping):
        return message_from_json(dict(item))
    message: Message | None = plain_copy("message", item, (Message,))
    if message is None:
        raise InvalidInput("message", item, "must be a Message, a mapping or a row of an Arrow table")
    return message


def _checked(item: Any, space: Space, expected: str | None) -> Message:
    message = _read(item)
    space.check_point(message.lon, message.lat)
    same_type(message.id, expected)
    return message


def _from_objects(
    items: Iterable[Any], space: Space, expected: str | None, asked: Collection[str] | None = None
) -> MessageBatch:
    rejects: list[Reject] = []
    rows: list[int] = []
    good: list[Message] = []
    strangers: list[Any] = []
    for row, item in enumerate(items):
        try:
            message = item if type(item) is Message else _read(item)
            space.check_point(message.lon, message.lat)
            expected = same_type(message.id, expected)
        except Exception as error:
            refused = refusal("message", item, error, partial(_checked, item, space, expected))
            rejects.append(Reject(row, refused.field, str(refused)))
            if not is_a(item, Message | Mapping):
                strangers.append(item)
        else:
            rows.append(row)
            good.append(message)
    refuse_strangers("messages", strangers, len(rejects) + len(rows), "a Message or a mapping")
    keywords = None
    if any(m.keywords is not None for m in good):
        keywords = pa.array([m.keywords for m in good], type=pa.list_(pa.string()))
    return MessageBatch(
        np.array(rows, dtype=np.int64),
        id_bytes([m.id for m in good]),
        np.array([m.lon for m in good], dtype=np.float64),
        np.array([m.lat for m in good], dtype=np.float64),
        np.array([MISSING if m.ts is None else m.ts for m in good], dtype=np.int64),
        np.array([FOREVER if m.expires is None else m.expires for m in good], dtype=np.int64),
        pa.array([m.text for m in good], type=pa.string()),
        keywords,
        None,
        from_mappings([m.fields for m in good], asked),
        rejects,
        expected,
    )


def _is_plain(table: pa.Table) -> bool:
    """Do the columns have the types that the vectorised checks know?"""
    types = {field.name: field.type for field in table.schema}
    known: dict[str, Callable[[pa.DataType], bool]] = {
        "id": lambda t: pa.types.is_integer(t) or pa.types.is_string(t) or pa.types.is_large_string(t),
        "lon": lambda t: pa.types.is_floating(t) or pa.types.is_integer(t),
        "lat": lambda t: pa.types.is_floating(t) or pa.types.is_integer(t),
        "text": lambda t: pa.types.is_string(t) or pa.types.is_large_string(t) or pa.types.is_null(t),
        "keywords": lambda t: pa.types.is_null(t) or (pa.types.is_list(t) and pa.types.is_string(t.value_type)),
        "ts": lambda t: pa.types.is_int64(t) or pa.types.is_int32(t) or pa.types.is_null(t),
        "expires": lambda t: pa.types.is_int64(t) or pa.types.is_int32(t) or pa.types.is_null(t),
        "fields": is_plain_type,
    }
    return {"id", "lon", "lat"} <= types.keys() and all(
        is_known(types[n]) for n, is_known in known.items() if n in types
    )


def _from_table(
    table: pa.Table, space: Space, expected: str | None, asked: Collection[str] | None, spelled: Spelled | None = None
) -> MessageBatch:
    """The vectorised door. A row that fails its checks is rejected in the words of the row-wise door."""
    table = table.combine_chunks()
    n = table.num_rows
    if any(column.num_chunks > 1 for column in table.columns):
        raise pa.ArrowCapacityError("more strings than one array can hold")

    def column(name: str) -> pa.Array:
        if name not in table.column_names:
            return pa.nulls(n)
        chunked = table.column(name)
        return chunked.chunk(0) if chunked.num_chunks else pa.array([], type=chunked.type)

    ids, texts, keywords = column("id"), column("text"), column("keywords")
    x = _floats(column("lon"))
    y = _floats(column("lat"))
    good = np.isfinite(x) & np.isfinite(y) & _valid(ids)
    if space.metric == "haversine":
        good &= np.abs(y) <= 90.0
    good &= _valid(texts) != _valid(keywords) if spelled is None else _valid(spelled.words)
    if pa.types.is_list(keywords.type) and keywords.flatten().null_count:
        good[list_parents(keywords)[keywords.flatten().is_null().to_numpy(zero_copy_only=False)]] = False
    times = column("ts")
    ts = _longs(times, MISSING)
    good &= (ts >= -LAST_INSTANT) & (ts <= LAST_INSTANT) | ~_valid(times)
    given = "integer" if pa.types.is_integer(ids.type) else "string"
    if expected is not None and given != expected:
        good[:] = False
    elif pa.types.is_uint64(ids.type):
        good &= pc.fill_null(pc.less_equal(ids, pa.scalar(FOREVER, pa.uint64())), False).to_numpy(zero_copy_only=False)
    fields = None
    if "fields" in table.column_names:
        fields, sound = from_arrow(column("fields"), asked)
        good &= sound
    rows = np.flatnonzero(good)
    rejects = []
    if rows.size < n:
        rejects = _reasons(table, spelled, np.flatnonzero(~good), space, given if rows.size else expected)
    if rows.size < n:
        ids, texts, keywords = ids.take(rows), texts.take(rows), keywords.take(rows)
        spelled = None if spelled is None else Spelled(*(column.take(rows) for column in spelled))
        fields = None if fields is None else fields.take(rows)
    return MessageBatch(
        rows,
        id_bytes(ids),
        x[rows],
        y[rows],
        ts[rows],
        _longs(column("expires"), FOREVER)[rows],
        texts.cast(pa.string()) if pa.types.is_null(texts.type) else texts,
        None if pa.types.is_null(keywords.type) or keywords.null_count == len(keywords) else keywords,
        spelled,
        fields,
        rejects,
        given if rows.size else expected,
    )


def _reasons(table: pa.Table, spelled: Spelled | None, bad: Longs, space: Space, expected: str | None) -> list[Reject]:
    if spelled is not None:
        table = table.append_column("keywords", spelled.words)
    rejects = []
    for row, values in zip(bad.tolist(), mappings("messages", table.take(bad)), strict=True):
        found = _from_objects([values], space, expected).rejects
        assert found, f"row {row} failed the vectorised checks and passed the others"
        rejects.append(Reject(row, found[0].field, found[0].reason))
    return rejects


def list_parents(column: pa.Array) -> Longs:
    """The row of every value that `flatten` gives; a null list has none, whatever lies beneath it."""
    lengths = pc.fill_null(pc.list_value_length(column), 0).to_numpy(zero_copy_only=False)
    return np.repeat(np.arange(len(column)), lengths)


def _valid(column: pa.Array) -> Array:
    if column.null_count in (0, len(column)):
        return np.full(len(column), column.null_count == 0)
    return column.is_valid().to_numpy(zero_copy_only=False)  # type: ignore[no-any-return]


def _floats(column: pa.Array) -> Floats:
    return _filled(column if pa.types.is_float64(column.type) else column.cast(pa.float64(), safe=False), float("nan"))


def _longs(column: pa.Array, missing: int) -> Longs:
    if pa.types.is_null(column.type):
        return np.full(len(column), missing)
    return _filled(column if pa.types.is_int64(column.type) else column.cast(pa.int64()), missing)


def _filled(column: pa.Array, missing: float) -> Array:
    full = pc.fill_null(column, missing) if column.null_count else column
    return full.to_numpy(zero_copy_only=False)  # type: ignore[no-any-return]


def encode_batch(batch: MessageBatch, vocabulary: Vocabulary, ordered: bool = True) -> tuple[Terms, Order]:
    """The words of a batch as term rows, and in their order if asked; each message has either a text or keywords."""
    if batch.spelled is not None:
        return encode_spelled(batch.spelled, vocabulary, ordered)
    return encode(batch.texts, batch.keywords, vocabulary, ordered)
