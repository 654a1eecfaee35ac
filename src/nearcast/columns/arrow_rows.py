"""Batches as callers give them, iterables, frames or Arrow of any type, become rows.

Arrow hands over memory that nobody has checked. Before a column is read its offsets are verified; strings that are not
UTF-8, times out of range and values that Python cannot hold become something that the checks of every row refuse.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from nearcast.errors import InvalidInput
from nearcast.model.checks import is_a, raises_again, refusal
from nearcast.model.frames import batches_of


class Unreadable:
    """A value of an Arrow column that Python cannot hold: a time past its calendar, two fields of one name."""

    def __init__(self, shown: str) -> None:
        self._shown = shown

    def __repr__(self) -> str:
        return self._shown


def parts_of(field: str, source: Any, on_earth: bool = False) -> Iterator[tuple[int, Any]]:
    """A batch in parts that are taken in one after another, each with the number of its first row.

    Frames become Arrow, and streams are read as they come; everything else is one part, as it is. Where places are
    `on_earth`, a frame that has a projected CRS is refused.
    """
    batches = batches_of(field, source, on_earth)
    if batches is None:
        yield 0, source
        return
    first = 0
    for batch in batches:
        yield first, batch
        first += len(batch) if isinstance(batch, list | pa.ChunkedArray) else batch.num_rows


def refuse_strangers(field: str, strangers: Sequence[Any], n_items: int, rows: str) -> None:
    """Refuse a batch of which no item is a row, such as the names of columns; a stray one among rows is a reject.

    Raises
    ------
    InvalidInput
        If everything is a stranger; `rows` says what rows are.
    """
    if strangers and len(strangers) == n_items:
        raise InvalidInput(field, strangers[0], f"must be rows, each {rows}; or an Arrow table or a data frame")


def rows_of(field: str, source: Any) -> Iterable[Any]:
    """Rows of an Arrow table as mappings, of an Arrow array as values; of any other iterable its items.

    Raises
    ------
    InvalidInput
        For what is one thing and not many: a string, a mapping, a number, None; and for Arrow that cannot be read.
    """
    if type(source) is list:
        return source
    if is_a(source, pa.Table | pa.RecordBatch):
        return mappings(field, source)
    if is_a(source, pa.Array | pa.ChunkedArray):
        return values(source)
    if not is_a(source, str | bytes | Mapping) and is_a(source, Iterable):
        try:
            return iter(source)  # type: ignore[no-any-return]
        except TypeError:  # an array without dimensions calls itself iterable
            pass
        except Exception as error:
            raise refusal(field, source, error, lambda: iter(source)) from error
    raise InvalidInput(field, source, "must be many: an iterable of rows, an Arrow table or a data frame")


def as_table(field: str, source: Any, names: Sequence[str] | None = None) -> pa.Table | None:
    """An Arrow table or batch as a table that can be read column by column, with these columns only; else None.

    Raises
    ------
    InvalidInput
        For a table that has a column twice, or one whose name is not UTF-8.
    """
    if is_a(source, pa.RecordBatch):
        source = pa.Table.from_batches([source])
    if not is_a(source, pa.Table):
        return None
    if names is None:
        names = _names(field, source)
    found: list[int] = []
    for name in names:
        at = source.schema.get_all_field_indices(name)
        if len(at) > 1:
            raise InvalidInput(field, name, "must have each column once")
        found += at
    return source if len(found) == source.num_columns else source.select(found)


def _names(field: str, table: pa.Table | pa.RecordBatch) -> list[str]:
    try:
        return table.schema.names  # type: ignore[no-any-return]
    except UnicodeDecodeError as error:
        raise InvalidInput(field, error.object, "must have column names in UTF-8") from None


def is_sound(given: pa.Table | pa.Array | pa.ChunkedArray) -> bool:
    """Is all of a table or column as its type says, and every string UTF-8? Arrow does not ask on its own.

    Extensions are never sound: where one is over another, Arrow ends the process when it validates them (26.0).
    """
    if any(_has_extension(kind) for kind in (given.schema.types if isinstance(given, pa.Table) else (given.type,))):
        return False
    try:
        given.validate()
        for column in given.columns if isinstance(given, pa.Table) else (given,):
            for chunk in column.chunks if isinstance(column, pa.ChunkedArray) else (column,):
                _validate(chunk)
    except pa.ArrowException:
        return False
    return True


def _validate(array: pa.Array) -> None:
    """Raise unless all of an array is as its type says.

    Arrow looks at all values under a list or a struct even if the array is a slice of one row: 1.3 ms for a column of
    200,000. So these are looked at by themselves, then the values that are theirs.
    """
    if pa.types.is_struct(array.type):
        alone = pa.Array.from_buffers(
            pa.struct([]), len(array), array.buffers()[:1], array.null_count, array.offset, children=[]
        )
        alone.validate(full=True)
        for i in range(array.type.num_fields):
            _validate(array.field(i))
        return
    if not (pa.types.is_list(array.type) or pa.types.is_large_list(array.type)):
        array.validate(full=True)
        return
    make = pa.list_ if pa.types.is_list(array.type) else pa.large_list
    nothing, values = pa.nulls(len(array.values)), array.values
    alone = pa.Array.from_buffers(
        make(pa.null()), len(array), array.buffers()[:2], array.null_count, array.offset, children=[nothing]
    )
    alone.validate(full=True)
    offsets = alone.offsets
    first, end = (offsets[0].as_py(), offsets[-1].as_py()) if len(array) else (0, 0)
    _validate(values.slice(first, end - first))


def mappings(field: str, table: pa.Table | pa.RecordBatch) -> list[dict[str, Any]]:
    """Rows of a table as mappings, whatever its columns hold."""
    names = _names(field, table)
    columns = [values(table.column(i)) for i in range(len(names))]
    if not columns:
        return [{} for _ in range(table.num_rows)]
    return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]


def values(column: pa.Array | pa.ChunkedArray) -> list[Any]:
    """Values of a column; what Python cannot hold becomes something that the checks refuse and can show.

    That holds for every row of a column whose memory may not be what its type says: reading it could end the process.
    """
    raw = column
    if not is_sound(column):
        raw = _raw(column)
        if raw is None or not is_sound(raw):
            return [Unreadable(f"a value of a {column.type} that is not valid Arrow")] * len(column)
    try:
        return column.to_pylist()  # type: ignore[no-any-return]
    except (
        Exception
    ) as error:  # whatever the type raises: Arrow's own errors, those of Python's calendar, of time zones
        if not raises_again(error, column.to_pylist):
            raise
        return [_one(value, raw) for value, raw in zip(column, raw, strict=True)]


def _one(value: pa.Scalar, raw: pa.Scalar) -> Any:
    """A single value; `raw` is the same in the raw type."""
    try:
        return value.as_py()
    except Exception as error:
        if not raises_again(error, value.as_py):
            raise
        if isinstance(error, UnicodeDecodeError):
            return _bytes_as_text(raw)
        inside = value.value if pa.types.is_temporal(value.type) else None
        return Unreadable(str(value.type) if inside is None else f"{value.type} {inside}")


def _bytes_as_text(raw: pa.Scalar) -> Any:
    try:
        return _readable(raw.as_py())
    except Exception as error:
        if not raises_again(error, raw.as_py):
            raise
        return Unreadable(str(raw.type))


def _raw(column: pa.Array | pa.ChunkedArray) -> pa.ChunkedArray | None:
    """The same memory as values of which nothing is promised; None if Arrow cannot."""
    kind = _raw_type(column.type)
    chunks = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
    try:
        return pa.chunked_array([_raw_chunk(chunk, kind) for chunk in chunks], kind)
    except (pa.ArrowException, TypeError):
        return None


def _raw_chunk(chunk: pa.Array, kind: pa.DataType) -> pa.Array:
    while isinstance(chunk, pa.ExtensionArray):
        chunk = chunk.storage
    if not pa.types.is_run_end_encoded(kind):
        return chunk.view(kind)
    children = [chunk.run_ends, _raw_chunk(chunk.values, kind.value_type)]
    return pa.Array.from_buffers(kind, len(chunk), [None], offset=chunk.offset, children=children)


def _has_extension(kind: pa.DataType) -> bool:
    if isinstance(kind, pa.BaseExtensionType):
        return True
    if pa.types.is_dictionary(kind) or pa.types.is_run_end_encoded(kind):
        return _has_extension(kind.value_type)
    return any(_has_extension(kind.field(i).type) for i in range(kind.num_fields))


def _raw_type(kind: pa.DataType) -> pa.DataType:
    """A type of the same memory, at whatever depth, that promises nothing about a value: bytes for strings."""
    types = pa.types
    for is_such, raw in (
        (types.is_string, pa.binary()),
        (types.is_large_string, pa.large_binary()),
        (types.is_string_view, pa.binary_view()),
        (types.is_time32, pa.int32()),
        (types.is_time64, pa.int64()),
        (types.is_date64, pa.int64()),
    ):
        if is_such(kind):
            return raw
    if types.is_decimal(kind):
        return pa.binary(kind.bit_width // 8)
    for is_list, make in (
        (types.is_list, pa.list_),
        (types.is_large_list, pa.large_list),
        (types.is_list_view, pa.list_view),
        (types.is_large_list_view, pa.large_list_view),
    ):
        if is_list(kind):
            return make(_raw_type(kind.value_type))
    if types.is_fixed_size_list(kind):
        return pa.list_(_raw_type(kind.value_type), kind.list_size)
    if types.is_map(kind):
        return pa.map_(_raw_type(kind.key_type), _raw_type(kind.item_type))
    if types.is_struct(kind) or types.is_union(kind):
        fields = [kind.field(i).with_type(_raw_type(kind.field(i).type)) for i in range(kind.num_fields)]
        return pa.struct(fields) if types.is_struct(kind) else pa.union(fields, kind.mode, kind.type_codes)
    if types.is_dictionary(kind):
        return pa.dictionary(kind.index_type, _raw_type(kind.value_type), kind.ordered)
    if types.is_run_end_encoded(kind):
        return pa.run_end_encoded(kind.run_end_type, _raw_type(kind.value_type))
    return _raw_type(kind.storage_type) if isinstance(kind, pa.BaseExtensionType) else kind


def _readable(value: Any) -> Any:
    """Bytes as a string that holds what is not UTF-8 as lone surrogates, which every check of strings refuses."""
    if isinstance(value, list):
        return [_readable(inner) for inner in value]
    if isinstance(value, tuple):
        return tuple(_readable(inner) for inner in value)
    if isinstance(value, dict):
        return {_readable(name): _readable(inner) for name, inner in value.items()}
    return value.decode("utf-8", "surrogateescape") if isinstance(value, bytes) else value
