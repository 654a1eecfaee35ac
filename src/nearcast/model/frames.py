"""Frames of other libraries become Arrow: pandas, GeoPandas, and all that hand out an Arrow stream.

None of these libraries is imported. A frame of pandas can only be here if its caller has imported pandas; everything
else (polars, DuckDB, record batch readers) speaks the protocol of Arrow streams, and comes batch by batch.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from nearcast.errors import InvalidInput
from nearcast.model.checks import is_a, refusal


class ArrowStream(Protocol):
    """Whatever hands out an Arrow stream: frames of polars and pandas, relations of DuckDB."""

    def __arrow_c_stream__(self, requested_schema: Any = None) -> object:
        """A capsule that holds the stream."""


Rows = list[dict[str, Any]]
Batch = Any  # a table, a record batch, a chunked array, or Rows

_ARROW = (pa.Table, pa.RecordBatch, pa.Array, pa.ChunkedArray)
_WHOLE = ("id", "k", "ts", "expires")  # columns of whole numbers, which pandas makes floats where some are missing
_LARGEST_WHOLE = 2.0**53  # beyond, a float may stand for several of them
_POINT = ("lon", "lat")


def batches_of(field: str, source: Any, on_earth: bool = False) -> Iterator[Batch] | None:
    """What a frame or a stream holds, batch by batch: tables, rows, or columns if it is a series; else None.

    Raises
    ------
    InvalidInput
        For a frame that cannot be read; and where places are `on_earth`, for one of GeoPandas in a projected CRS.
    """
    if type(source) in (list, tuple) or is_a(source, _ARROW):
        return None
    try:
        return _batches(field, source, on_earth)
    except Exception as error:
        raise refusal(field, source, error, lambda: _batches(field, source, on_earth)) from error


def _batches(field: str, source: Any, on_earth: bool) -> Iterator[Batch] | None:
    if _is_pandas(source, "DataFrame"):
        return iter([_from_pandas(field, source, on_earth)])
    if _is_pandas(source, "Series") or _is_pandas(source, "Index"):
        try:
            return iter([_series(source)])
        except pa.ArrowException:  # objects of any kind: an iterable like others
            return None
    if is_a(source, pa.RecordBatchReader):
        return map(plain, source)
    if callable(getattr(type(source), "__arrow_c_stream__", None)):
        return _from_stream(source)
    return None


def size_of(source: Any) -> int | None:
    """How many rows there are, if that is known before they are read."""
    known = type(source) in (list, tuple) or is_a(source, _ARROW)
    known = known or any(_is_of(library, source, "DataFrame") for library in ("pandas", "polars"))
    return len(source) if known else None


def _is_pandas(source: Any, name: str) -> bool:
    return _is_of("pandas", source, name)


def _is_of(library: str, source: Any, name: str) -> bool:
    kind = getattr(sys.modules.get(library), name, None)  # None while the library is being imported
    return kind is not None and is_a(source, kind)


def _from_stream(source: Any) -> Iterator[Batch]:
    try:
        return map(plain, pa.RecordBatchReader.from_stream(source))
    except pa.ArrowInvalid:  # a stream of something else than rows: a series
        return iter([_plain_column(pa.chunked_array(source))])


# pandas


def _from_pandas(field: str, frame: Any, on_earth: bool) -> pa.Table | Rows:
    """The columns of a frame without its index; rows where a column holds what Arrow cannot."""
    columns: list[tuple[str, pa.ChunkedArray | list[Any]]] = []
    geometry = _active_geometry(frame)
    for at, name in enumerate(frame.columns):
        if geometry is None or name != geometry.name:
            columns.append((str(name), _column(str(name), frame.iloc[:, at])))
    names = [name for name, _ in columns]
    if geometry is not None and not {"lon", "lat"} <= set(names):
        if on_earth and field != "ids":
            _check_degrees(geometry)
        if field == "messages" and not _all_points(geometry):
            return _features(columns, geometry)
        columns += [(name, column) for name, column in _places(geometry) if name not in names]
    if all(isinstance(column, pa.ChunkedArray) for _, column in columns):
        if not columns:
            return [{} for _ in range(len(frame))]
        return pa.Table.from_arrays([column for _, column in columns], names=[name for name, _ in columns])
    return _rows(columns)


def _rows(columns: list[tuple[str, pa.ChunkedArray | list[Any]]]) -> Rows:
    names = [name for name, _ in columns]
    if len(set(names)) < len(names):
        raise InvalidInput("columns", names, "must have each column once")
    held = [column.to_pylist() if isinstance(column, pa.ChunkedArray) else column for _, column in columns]
    return [dict(zip(names, row, strict=True)) for row in zip(*held, strict=True)]


def _column(name: str, series: Any) -> pa.ChunkedArray | list[Any]:
    """A column as Arrow, missing values as nulls; as a list if Arrow does not know what it holds."""
    try:
        column = _series(series)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        return [None if missing else value for value, missing in zip(series, series.isna(), strict=True)]
    if name in _WHOLE and pa.types.is_floating(column.type) and column.null_count:
        return _whole(column)
    return column


def _series(series: Any) -> pa.ChunkedArray:
    column = pa.array(series, from_pandas=True)
    return _plain_column(column if isinstance(column, pa.ChunkedArray) else pa.chunked_array([column]))


def _whole(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Floats as the whole numbers that they were before pandas met a missing one; unless they were none."""
    held = column.drop_null()
    sure = pc.and_(pc.equal(pc.floor(held), held), pc.less_equal(pc.abs(held), _LARGEST_WHOLE))
    return column.cast(pa.int64()) if pc.all(sure, min_count=0).as_py() else column


# GeoPandas


def _active_geometry(frame: Any) -> Any:
    """The series of the geometries of a GeoPandas frame, or None."""
    if getattr(frame, "active_geometry_name", None) is None:
        return None
    return frame.geometry


def _check_degrees(geometry: Any) -> None:
    """Refuse coordinates that their frame says are no degrees."""
    crs = geometry.crs
    if crs is not None and not crs.is_geographic:
        rule = "must be in degrees, as frame.to_crs(4326) gives it, or in a euclidean Space"
        raise InvalidInput("crs", crs.to_string(), rule)


def _all_points(geometry: Any) -> bool:
    """Is everything that is there a point?"""
    return bool((geometry.isna() | (geometry.geom_type == "Point")).all())


def _places(geometry: Any) -> list[tuple[str, pa.ChunkedArray]]:
    """Columns `lon` and `lat` of points, and `region` of all else as text of GeoJSON."""
    if _all_points(geometry):
        return [(name, _series(values)) for name, values in zip(_POINT, (geometry.x, geometry.y), strict=True)]
    lon, lat, region = [], [], []
    for shape in geometry:
        one = None if shape is None else shape.__geo_interface__
        point = one["coordinates"] if one and one["type"] == "Point" else ()
        lon.append(point[0] if point else None)
        lat.append(point[1] if point else None)
        region.append(json.dumps(one) if one and one["type"] != "Point" else None)
    floats = [pa.chunked_array([pa.array(values, pa.float64())]) for values in (lon, lat)]
    return [*zip(_POINT, floats, strict=True), ("region", pa.chunked_array([pa.array(region, pa.string())]))]


def _features(columns: list[tuple[str, pa.ChunkedArray | list[Any]]], geometry: Any) -> Rows:
    """Rows as GeoJSON Features, whose own checks say what is wrong with a geometry that is not a point."""
    shapes = [None if shape is None else dict(shape.__geo_interface__) for shape in geometry]
    rows = _rows(columns) if columns else [{} for _ in shapes]
    return [{"type": "Feature", "geometry": shape, "properties": row} for shape, row in zip(shapes, rows, strict=True)]


# Encodings


def plain(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The same batch with strings in their plain encoding: as views and dictionaries they would be read row by row."""
    if not any(_odd(kind) for kind in batch.schema.types):
        return batch
    columns = [_one_chunk(_plain_column(pa.chunked_array([column]))) for column in batch.columns]
    fields = [batch.schema.field(at).with_type(column.type) for at, column in enumerate(columns)]
    return pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields))


def _one_chunk(column: pa.ChunkedArray) -> pa.Array:
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)


def _plain_column(column: pa.ChunkedArray) -> pa.ChunkedArray:
    kind = _odd(column.type)
    if kind is None:
        return column
    try:
        column.validate(full=True)
        return column.cast(kind)
    except pa.ArrowException:  # damaged, or more than fits: the checks of every row say what is wrong
        return column


def _odd(kind: pa.DataType) -> pa.DataType | None:
    """The plain type of strings, or of lists of them, that have another encoding; else None."""
    types = pa.types
    inner = kind
    if types.is_list(kind) or types.is_large_list(kind):
        inner = kind.value_type
    while types.is_dictionary(inner):
        inner = inner.value_type
    if not (types.is_string(inner) or types.is_large_string(inner) or types.is_string_view(inner)):
        return None
    if types.is_list(kind) or types.is_large_list(kind):
        plain_kind = pa.list_(pa.string())
        is_plain = types.is_list(kind) and types.is_string(kind.value_type)
    else:
        plain_kind = pa.string()
        is_plain = types.is_string(kind)
    return None if is_plain else plain_kind
