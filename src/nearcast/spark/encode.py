"""Rows of frames become blocks: checked, their texts split into words, cut by shard; what is refused is an answer.

This is the work of a task that reads, so it is done once for all shards and grows with the number of tasks.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

import nearcast as nc
from nearcast.columns.arena import Array, Longs
from nearcast.columns.arrow_rows import Unreadable, is_sound, mappings
from nearcast.columns.decode_messages import decode_messages
from nearcast.columns.tokens import Spelled, spell
from nearcast.errors import InvalidInput
from nearcast.model.checks import is_a
from nearcast.model.instant import instant
from nearcast.spark.events import (
    ADVANCE,
    ASSIGN,
    CONTROL_EVENTS,
    MESSAGE_EVENTS,
    PUBLISH,
    UPDATE,
    codes_of,
)
from nearcast.spark.shards.blocks import are_lists, keyword_list, message_columns
from nearcast.spark.shards.places import shards_of
from nearcast.spark.spec import Spec
from nearcast.text.analysis import Analysis

BLOCK_ROWS = 65_536
EVERYBODY = -1  # the shard of what all shards take

_OWN = ("event", "ts", "position", "tie", "source", "raw", "refused")  # of a frame, not of a message or a subscription
_WORDED = (PUBLISH, UPDATE)  # events that bring a message along

_REFUSED = pa.schema(
    [
        ("event", pa.string()),
        ("id", pa.string()),
        ("ts", pa.int64()),
        ("position", pa.int64()),
        ("source", pa.string()),
        ("row", pa.string()),
        ("field", pa.string()),
        ("reason", pa.string()),
    ]
)


class Encoded(NamedTuple):
    """What some rows of a frame became."""

    blocks: list[tuple[int, pa.Table]]  # of which shard, or EVERYBODY, and its rows
    refused: pa.Table  # _REFUSED


def gathered(batches: Iterable[pa.RecordBatch], rows: int = BLOCK_ROWS) -> Iterator[pa.Table]:
    """The same rows in tables of at least `rows` rows, but for the last."""
    held: list[pa.RecordBatch] = []
    n_held = 0
    for batch in batches:
        held.append(batch)
        n_held += batch.num_rows
        if n_held >= rows:
            yield pa.Table.from_batches(held)
            held, n_held = [], 0
    if n_held:
        yield pa.Table.from_batches(held)


def encode_messages(given: pa.Table, spec: Spec, allowed: tuple[str, ...] = MESSAGE_EVENTS) -> Encoded:
    """Rows of a frame of messages; events other than those that are allowed are refused."""
    refused = _Refused(given, allowed)
    columns = given.drop_columns([name for name in _OWN if name in given.column_names and name != "ts"])
    worded = np.flatnonzero(np.isin(refused.codes, _WORDED))
    batch = decode_messages(columns.take(pa.array(worded)), spec.space, None)
    refused.add((int(worded[reject.row]), reject.field, reject.reason) for reject in batch.rejects)
    others = _bare(refused, columns, np.flatnonzero(np.isin(refused.codes, (*_WORDED, -1), invert=True)))
    rows = np.concatenate([worded[batch.rows], others])
    n_bare = others.size
    texts = pa.concat_arrays([batch.texts.cast(pa.string()), pa.nulls(n_bare, pa.string())])
    listed = pa.list_(pa.string())
    lists = pa.nulls(batch.rows.size, listed) if batch.keywords is None else batch.keywords.cast(listed)
    lists = pa.concat_arrays([lists, pa.array([[]] * n_bare, listed)])
    spelled = spell(texts, lists, _analysis(spec.analyzer))
    taken = given.take(pa.array(rows)).combine_chunks()
    blank = np.full(n_bare, np.nan)
    made = {
        "event": pa.array(refused.codes[rows], pa.int8()),
        "lon": pa.array(np.concatenate([batch.x, blank])),
        "lat": pa.array(np.concatenate([batch.y, blank])),
        "fields": _fields(taken, n_bare),
        "source": _optional(taken, "source"),
    } | dict(zip(Spelled._fields, spelled, strict=True))
    schema = message_columns(_id_column(taken).type, made["fields"].type)
    made |= {name: taken.column(name).combine_chunks() for name in schema.names if name not in made}
    made["id"] = _id_column(taken)
    block = pa.table(
        [made[name].cast(kind) for name, kind in zip(schema.names, schema.types, strict=True)], schema=schema
    )
    return _complete(Encoded([(EVERYBODY, block)] if rows.size else [], refused.table()), given)


@cache
def _analysis(analyzer: nc.Analyzer) -> Analysis:
    """The words that this process has seen, and what became of them."""
    return Analysis(analyzer)


def encode_controls(given: pa.Table, spec: Spec) -> Encoded:
    """Rows of a frame of subscriptions and their events, cut by shard."""
    refused = _Refused(given, CONTROL_EVENTS)
    ids = _id_column(given)
    bare = _bare(refused, given, np.flatnonzero(refused.codes >= 0))
    bare = _with_lists(refused, given, _assignable(refused, given, bare, spec))
    taken = given.take(pa.array(bare))
    names = [name for name in given.column_names if name not in ("event", "raw", "refused")]
    block = taken.select(names).append_column("event", pa.array(refused.codes[bare], pa.int8()))
    shards = np.full(bare.size, EVERYBODY)
    named = (refused.codes[bare] != ADVANCE) & (not spec.placed)
    shards[named] = shards_of(ids.take(pa.array(bare[named])), spec.shards)
    blocks = []
    for shard in np.unique(shards).tolist():
        mine = block if (shards == shard).all() else block.filter(pa.array(shards == shard))
        blocks.append((shard, mine.combine_chunks()))
    return _complete(Encoded(blocks, refused.table()), given)


def _complete(made: Encoded, given: pa.Table) -> Encoded:
    """What became of rows, if none was lost."""
    n = sum(block.num_rows for _, block in made.blocks) + made.refused.num_rows
    assert n == given.num_rows, f"{given.num_rows} rows came in, {n} were taken or refused"
    return made


class _Refused:
    """Rows that cannot be honoured: their numbers, the field and the reason."""

    def __init__(self, given: pa.Table, allowed: tuple[str, ...]) -> None:
        self._given = given
        names = pa.nulls(given.num_rows, pa.string())
        if "event" in given.column_names:
            names = given.column("event").combine_chunks()
        self._told: list[tuple[int, str, str]] = []
        sound = is_sound(names)
        self.codes: Array = codes_of(names if sound else _readable(names), allowed)
        if "refused" in given.column_names:
            told = given.column("refused").combine_chunks()
            rows = np.flatnonzero(told.is_valid())
            self.add((row, str(told[row]["field"]), str(told[row]["reason"])) for row in rows.tolist())
            self.codes[rows] = -2
        for row in np.flatnonzero(self.codes == -1).tolist():
            value = names[row].as_py() if sound else "(not UTF-8)"
            self.add([(row, "event", str(InvalidInput("event", value, f"must be one of {', '.join(allowed)}")))])
        self.codes[self.codes < 0] = -1

    def add(self, told: Iterable[tuple[int, str, str]]) -> None:
        self._told += told

    def table(self) -> pa.Table:
        if not self._told:
            return _REFUSED.empty_table()
        self._told.sort()
        rows = pa.array([row for row, _, _ in self._told])
        shown = []
        for values, (_, field, reason) in zip(mappings("rows", self._given.take(rows)), self._told, strict=True):
            own = {name: values.get(name) for name in ("event", "ts", "position", "source")}
            whole = {name: value for name, value in values.items() if name not in _OWN or name in ("event", "ts")}
            raw = values.get("raw")
            shown.append(
                {
                    "event": _text(own["event"]),
                    "id": _text(values.get("id")),
                    "ts": own["ts"],
                    "position": own["position"],
                    "source": _text(own["source"]),
                    "row": _json(whole) if raw is None else _text(raw),
                    "field": _text(field),
                    "reason": _text(reason),
                }
            )
        return pa.Table.from_pylist(shown, schema=_REFUSED)


def _bare(refused: _Refused, given: pa.Table, rows: Longs) -> Longs:
    """Those of `rows` that hold what Arrow promises, and what each needs whatever its event is: an id, or a time."""
    taken = given.take(pa.array(rows))
    good = np.ones(rows.size, dtype=bool)
    times = refused.codes[rows] == ADVANCE
    valid = {name: taken.column(name).is_valid().to_numpy() for name in ("id", "ts")}
    for row in np.flatnonzero(np.where(times, ~valid["ts"], ~valid["id"])).tolist():
        good[row] = False
        field = "ts" if times[row] else "id"
        refused.add([(int(rows[row]), field, f"{field} is required, got None")])
    for row in np.flatnonzero(times & good).tolist():
        try:
            instant("ts", taken.column("ts")[row].as_py())
        except InvalidInput as error:
            good[row] = False
            refused.add([(int(rows[row]), error.field, str(error))])
    if not is_sound(taken):
        for row, values in enumerate(mappings("rows", taken)):
            odd = next((name for name, value in values.items() if not _is_whole(value)), None)
            if odd is not None and good[row]:
                good[row] = False
                refused.add([(int(rows[row]), odd, f"{odd} must be UTF-8, got {_text(repr(values[odd]))}")])
    return rows[good]


def _assignable(refused: _Refused, given: pa.Table, rows: Longs, spec: Spec) -> Longs:
    """Those of `rows` that are no assign, or one to a shard that there is."""
    assigns = rows[refused.codes[rows] == ASSIGN]
    bad = []
    for row in assigns.tolist():
        shard = given.column("shard")[row].as_py() if spec.placed else None
        if shard is None or not 0 <= shard < spec.shards:
            bad.append(row)
            error = InvalidInput("shard", shard, f"must be a column of the frame, from 0 to {spec.shards - 1}")
            refused.add([(row, error.field, str(error))])
    return rows[~np.isin(rows, bad)]


def _with_lists(refused: _Refused, given: pa.Table, rows: Longs) -> Longs:
    """Those of `rows` whose keywords are no JSON text of a list, or one that can be read."""
    bad = []
    for row in rows[are_lists(given.take(pa.array(rows)))].tolist():
        try:
            keyword_list(given.column("keywords")[row].as_py())
        except InvalidInput as error:
            bad.append(row)
            refused.add([(row, error.field, str(error))])
    return rows[~np.isin(rows, bad)]


def _fields(taken: pa.Table, n_bare: int) -> pa.Array:
    """The fields of messages; the last `n_bare` rows are none."""
    if "fields" not in taken.column_names:
        return pa.nulls(taken.num_rows, pa.string())
    column = taken.column("fields").combine_chunks()
    return pa.concat_arrays([column.slice(0, len(column) - n_bare), pa.nulls(n_bare, column.type)])


def _is_whole(value: Any) -> bool:
    """Can this value be written as UTF-8, at whatever depth?"""
    if is_a(value, Unreadable):
        return False
    if isinstance(value, str):
        return value.isascii() or _text(value) == value
    if isinstance(value, list | tuple):
        return all(_is_whole(inner) for inner in value)
    return True


def _readable(names: pa.Array) -> pa.Array:
    """Strings with marks in place of what is not UTF-8."""
    raw = names.view(pa.binary())
    return pa.array([_decoded(value) for value in raw.to_pylist()], pa.string())


def _decoded(value: bytes | None) -> str | None:
    return None if value is None else value.decode("utf-8", "replace")


def _id_column(table: pa.Table) -> pa.Array:
    column = table.column("id").combine_chunks()
    return column.cast(pa.int64()) if pa.types.is_integer(column.type) else column


def _optional(table: pa.Table, name: str) -> pa.Array:
    if name in table.column_names:
        column = table.column(name).combine_chunks()
        return column if is_sound(column) else _readable(column)
    return pa.nulls(table.num_rows, pa.string())


def _json(values: dict[str, Any]) -> Any:
    return _text(json.dumps({name: v for name, v in values.items() if v is not None}, ensure_ascii=False, default=str))


def _text(value: Any) -> Any:
    """A string that any sink can write: bytes that are not UTF-8 are shown as escapes."""
    return None if value is None else str(value).encode("utf-8", "backslashreplace").decode()
