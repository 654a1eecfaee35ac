"""Blocks: rows of a frame, checked and with their words split, as the bytes that travel to shards and are their log.

A block of messages has the columns of `message_columns`; its words are numbers into a dictionary of its own. A block of
control events has the frame's columns. Rows that cannot be honoured are in neither: they are answers already.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nearcast.columns.arena import Array, Longs, ranges, starts_of
from nearcast.columns.tokens import COUNTS, WORDS, Spelled, SpelledMessages
from nearcast.errors import InvalidInput
from nearcast.spark.events import ordered, times

_PLAIN = ("event", "ts", "id", "position", "tie", "lon", "lat", "expires", "fields", "source")


def message_columns(id_type: pa.DataType, fields_type: pa.DataType) -> pa.Schema:
    """The columns of a block of messages; their fields are JSON texts or a struct."""
    return pa.schema(
        [
            ("event", pa.int8()),
            ("ts", pa.int64()),
            ("id", id_type),
            ("position", pa.int64()),
            ("tie", pa.int64()),  # decides between rows that are equal in everything before it
            ("lon", pa.float64()),
            ("lat", pa.float64()),
            ("expires", pa.int64()),
            ("fields", fields_type),
            ("source", pa.string()),
            ("words", WORDS),
            ("counts", COUNTS),
            ("order", COUNTS),
            ("surfaces", WORDS),
        ]
    )


def to_bytes(table: pa.Table) -> bytes:
    """A table in one piece, as an Arrow stream."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        for batch in table.combine_chunks().to_batches():
            writer.write_batch(batch)
    return sink.getvalue().to_pybytes()  # type: ignore[no-any-return]


def from_bytes(data: bytes | pa.Buffer) -> pa.Table:
    """The table that `to_bytes` was given."""
    return pa.ipc.open_stream(data).read_all()


class _Events:
    """Rows in order, of which stretches are taken."""

    sorts: Array  # of every row: rows of one sort that stand together are given to the broker together

    def stretches(self, first: int, last: int) -> Iterator[tuple[int, int]]:
        """Rows first to last, cut where their sort changes."""
        cuts = (np.flatnonzero(np.diff(self.sorts[first:last])) + 1 + first).tolist()
        return zip([first, *cuts], [*cuts, last], strict=True)


class Messages(_Events):
    """The messages of some blocks in order."""

    def __init__(self, blocks: list[pa.Table]) -> None:
        plain = pa.concat_tables([block.select(_PLAIN) for block in blocks])
        order = ordered(plain)
        is_sorted = bool((order == np.arange(order.size)).all())
        self.rows = plain.combine_chunks() if is_sorted else plain.take(pa.array(order)).combine_chunks()
        self.ts = times(self.rows)
        self.events = self.rows.column("event").to_numpy()
        self.sorts = self.events
        parts = [Spelled(*(block.column(name).combine_chunks() for name in Spelled._fields)) for block in blocks]
        self._spelled = _joined(parts, None if is_sorted else order)

    def __len__(self) -> int:
        return len(self.ts)

    def spelled(self, first: int, last: int) -> SpelledMessages:
        """Rows first to last as the broker takes them."""
        table = self.rows.select(("id", "lon", "lat", "ts", "expires", "fields")).slice(first, last - first)
        return SpelledMessages(table, *(column.slice(first, last - first) for column in self._spelled))


def _joined(parts: list[Spelled], order: Longs | None) -> Spelled:
    """The words of all blocks as one array; a word may be in its dictionary once for each block."""
    if len(parts) == 1 and order is None:
        return parts[0]
    return Spelled(
        _joined_words([part.words for part in parts], order),
        _joined_numbers([part.counts for part in parts], order),
        _joined_numbers([part.order for part in parts], order),
        _joined_words([part.surfaces for part in parts], order),
    )


def _joined_words(parts: list[pa.Array], order: Longs | None) -> pa.Array:
    words = [part.flatten() for part in parts]
    first = starts_of(np.array([len(part.dictionary) for part in words]))
    codes = np.concatenate([part.indices.to_numpy() + start for part, start in zip(words, first, strict=False)])
    dictionary = pa.concat_arrays([part.dictionary for part in words])
    offsets, at = _rows_of(parts, order)
    coded = pa.DictionaryArray.from_arrays(pa.array(codes[at].astype(np.int32)), dictionary)
    return pa.ListArray.from_arrays(offsets, coded)


def _joined_numbers(parts: list[pa.Array], order: Longs | None) -> pa.Array:
    offsets, at = _rows_of(parts, order)
    numbers = np.concatenate([part.flatten().to_numpy() for part in parts])
    return pa.ListArray.from_arrays(offsets, pa.array(numbers[at].astype(np.int32)))


def _rows_of(parts: list[pa.Array], order: Longs | None) -> tuple[pa.Array, Longs]:
    """The offsets of the rows of some lists in this order, and where their values are, one list after another."""
    lengths = np.concatenate([np.diff(part.offsets.to_numpy()) for part in parts])
    starts = starts_of(lengths)[:-1]
    if order is not None:
        lengths, starts = lengths[order], starts[order]
    return pa.array(starts_of(lengths).astype(np.int32)), ranges(starts, lengths)


class Controls(_Events):
    """The control events of some blocks in order."""

    def __init__(self, blocks: list[pa.Table], in_order: bool = False) -> None:
        rows = pa.concat_tables(blocks, promote_options="default")  # sources may lack columns
        self.rows = rows if in_order else rows.take(pa.array(ordered(rows))).combine_chunks()
        self.ts = times(self.rows)
        self.events = self.rows.column("event").to_numpy()
        self.sorts = 2 * self.events + are_lists(self.rows)

    def __len__(self) -> int:
        return len(self.ts)

    def slice(self, first: int, last: int) -> Controls:
        """Only these rows."""
        return Controls([self.rows.slice(first, max(0, last - first))], in_order=True)


def are_lists(rows: pa.Table) -> Array:
    """Which rows have keywords that are the JSON text of a list."""
    if "keywords" not in rows.column_names or not pa.types.is_string(rows.column("keywords").type):
        return np.zeros(rows.num_rows, dtype=bool)
    return pc.fill_null(pc.starts_with(rows.column("keywords"), "["), False).to_numpy()  # type: ignore[no-any-return]


def with_lists(rows: pa.Table) -> pa.Table:
    """Rows of which all or none have keywords that are the JSON text of a list: these become lists."""
    if not are_lists(rows).any():
        return rows
    lists = [keyword_list(text) for text in rows.column("keywords").to_pylist()]
    at = rows.column_names.index("keywords")
    return rows.set_column(at, "keywords", pa.array(lists, pa.list_(pa.string())))


def rows_with_lists(rows: pa.Table) -> pa.Table | list[dict[str, Any]]:
    """Subscriptions of which some have keywords that are the JSON text of a list, in a form that can hold both.

    A text that is no such list stays as it is, for whoever checks subscriptions to refuse.
    """
    lists = are_lists(rows)
    if not lists.any():
        return rows
    made = [{name: value for name, value in row.items() if value is not None} for row in rows.to_pylist()]
    for at in np.flatnonzero(lists).tolist():
        with contextlib.suppress(InvalidInput):
            made[at]["keywords"] = keyword_list(made[at]["keywords"])
    return made


def keyword_list(text: str) -> list[str]:
    """Keywords of a subscription that are given as the JSON text of a list.

    Raises
    ------
    InvalidInput
        It is no list of strings.
    """
    try:
        words = json.loads(text)
    except (ValueError, RecursionError):
        words = None
    if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
        raise InvalidInput("keywords", text, "must be the JSON text of a list of strings if it begins with [")
    return words
