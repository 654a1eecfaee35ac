"""Columns of an Arrow table with the checks that bulk decoding needs: rows that are surely right, without objects."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nearcast.columns.arena import Array, Floats, Ints
from nearcast.columns.decode_messages import list_parents
from nearcast.errors import InvalidInput
from nearcast.model.condition import parse_condition
from nearcast.model.instant import LONGEST_MS
from nearcast.model.malformed import LOWER_CASE, hint_at_operators, wants_hint
from nearcast.space.space import Space

SIDES = ("min_lon", "min_lat", "max_lon", "max_lat")
WORDS = pa.list_(pa.string())
LARGEST = 1.7e308  # of the numbers that are surely finite

_NUMBER = r"-?(?:0|[1-9][0-9]{0,14})(?:\.[0-9]{1,20})?"
_BBOX = r"^\[" + ", ?".join(f"(?P<{side}>{_NUMBER})" for side in SIDES) + r"\]$"  # numbers that JSON has, without e
_PLAIN = (
    r"^[0-9a-z]+( [0-9a-z]+)*$"  # what the expression language and the text rules surely read as words, all of them
)


def is_simple(table: pa.Table) -> bool:
    """Can all columns be taken from and asked for nulls? Those of odd encodings are left to the row-wise door."""
    return all(_is_simple(kind) for kind in table.schema.types)


def _is_simple(kind: pa.DataType) -> bool:
    types = pa.types
    if types.is_list(kind) or types.is_large_list(kind):
        return _is_simple(kind.value_type)
    if types.is_struct(kind):
        return all(_is_simple(kind.field(i).type) for i in range(kind.num_fields))
    texts = types.is_string(kind) or types.is_large_string(kind) or types.is_binary(kind) or types.is_large_binary(kind)
    return bool(texts or types.is_primitive(kind) or types.is_null(kind) or types.is_decimal(kind))


class Columns:
    """Columns of a table with the checks that bulk decoding needs; `good` says which rows are still sure."""

    def __init__(self, table: pa.Table, fields: Collection[str]) -> None:
        self.table = table
        self.n = table.num_rows
        self.good = np.ones(self.n, dtype=bool)
        for name in table.column_names:
            if name not in fields:
                self.good &= self.table.column(name).is_null().to_numpy()

    def get(self, name: str) -> pa.Array:
        if name not in self.table.column_names:
            return pa.nulls(self.n)
        return self.table.column(name).combine_chunks()

    def numbers(self, name: str, lowest: float, highest: float, default: float | None = None) -> Array:
        column = self.get(name)
        if not (pa.types.is_floating(column.type) or pa.types.is_integer(column.type) or pa.types.is_null(column.type)):
            self.good[:] = False
            return np.zeros(self.n)
        fill = float("nan") if default is None else default
        values = pc.fill_null(column.cast(pa.float64(), safe=False), fill).to_numpy(zero_copy_only=False)
        self.good &= (values >= lowest) & (values <= highest)
        return values  # type: ignore[no-any-return]

    def half_lives(self, name: str) -> Array:
        """Half-lives given in seconds as milliseconds, 0 where there is none."""
        column = self.get(name)
        given = column.is_valid().to_numpy(zero_copy_only=False)
        seconds = self.numbers(name, 0.0, LONGEST_MS / 1000, 0.0)
        milliseconds = np.where(self.good, np.rint(seconds * 1000.0), 0.0)
        self.good &= ~given | ((milliseconds >= 1.0) & (milliseconds / 1000.0 == seconds))
        return milliseconds.astype(np.int64)

    def whole(self, name: str, lowest: int, highest: int, default: int | None) -> Array:
        column = self.get(name)
        if not (pa.types.is_signed_integer(column.type) or pa.types.is_null(column.type)):
            self.good[:] = False
            return np.zeros(self.n, dtype=np.int64)
        values = column.cast(pa.int64())
        if default is None:
            self.good &= values.is_valid().to_numpy(zero_copy_only=False)
        numbers = pc.fill_null(values, lowest if default is None else default).to_numpy(zero_copy_only=False)
        self.good &= (numbers >= lowest) & (numbers <= highest)
        return numbers  # type: ignore[no-any-return]

    def choice(self, name: str, options: tuple[str, ...]) -> Ints:
        column = self.get(name)
        if pa.types.is_null(column.type):
            return np.zeros(self.n, dtype=np.int32)
        if not pa.types.is_string(column.type):
            self.good[:] = False
            return np.zeros(self.n, dtype=np.int32)
        found = pc.index_in(pc.fill_null(column, options[0]), value_set=pa.array(options))
        self.good &= found.is_valid().to_numpy(zero_copy_only=False)
        return pc.fill_null(found, 0).to_numpy(zero_copy_only=False).astype(np.int32)  # type: ignore[no-any-return]

    def flags(self, name: str) -> Array:
        column = self.get(name)
        if not (pa.types.is_boolean(column.type) or pa.types.is_null(column.type)):
            self.good[:] = False
            return np.ones(self.n, dtype=bool)
        return pc.fill_null(column.cast(pa.bool_()), True).to_numpy(zero_copy_only=False)  # type: ignore[no-any-return]

    def words(self) -> pa.Array:
        """Words of rows whose keywords are ASCII words in lower case, as list or string."""
        column = self.get("keywords")
        if pa.types.is_list(column.type) and pa.types.is_string(column.type.value_type):
            flat = column.flatten()
            sure = pc.fill_null(pc.match_substring_regex(flat, "^[0-9a-z]+$"), False)
            self.good &= pc.fill_null(pc.greater(pc.list_value_length(column), 0), False).to_numpy(zero_copy_only=False)
            self.good[list_parents(column)[~sure.to_numpy(zero_copy_only=False)]] = False
            return column
        if not pa.types.is_string(column.type):
            self.good[:] = False
            return pa.nulls(self.n, type=WORDS)
        self.good &= pc.fill_null(pc.match_substring_regex(column, _PLAIN), False).to_numpy(zero_copy_only=False)
        return pc.split_pattern(column, " ")

    def hint_at_operators(self) -> None:
        """Of the expressions that are good, hint at the first whose operators are in lower case."""
        column = self.get("keywords")
        if wants_hint() and pa.types.is_string(column.type):
            first = pc.index(pc.and_(pc.match_substring_regex(column, LOWER_CASE), pa.array(self.good)), True).as_py()
            if first >= 0:
                hint_at_operators(column[first].as_py())

    def conditions(self) -> pa.Array:
        """The texts of `where`, each of which is read once."""
        column = self.get("where")
        if not (pa.types.is_string(column.type) or pa.types.is_null(column.type)):
            self.good[:] = False
            return pa.nulls(self.n, pa.string())
        given = pc.dictionary_encode(column.cast(pa.string()))
        wrong = np.array([not _is_condition(text) for text in given.dictionary.to_pylist()], dtype=bool)
        if wrong.any():
            codes = pc.fill_null(given.indices, 0).to_numpy(zero_copy_only=False)
            self.good &= ~(wrong[codes] & given.indices.is_valid().to_numpy(zero_copy_only=False))
        return column.cast(pa.string())

    def latitudes(self, name: str, space: Space) -> Array:
        return self.numbers(name, *((-90.0, 90.0) if space.metric == "haversine" else (-LARGEST, LARGEST)))

    def boxes(self, space: Space) -> Floats:
        """Boxes, float64[n, 4], from four sides or a bbox in `region`; those across the date line are not sure."""
        given = self.good
        self.good = np.ones(self.n, dtype=bool)
        x0, x1 = (self.numbers(name, -LARGEST, LARGEST) for name in ("min_lon", "max_lon"))
        y0, y1 = (self.latitudes(name, space) for name in ("min_lat", "max_lat"))
        by_sides = np.stack([x0, y0, x1, y1], axis=1)
        region = self.get("region")
        self.good &= region.is_null().to_numpy(zero_copy_only=False)
        if pa.types.is_string(region.type) and region.null_count < self.n:
            found = pc.extract_regex(region, _BBOX)
            boxed = found.is_valid().to_numpy(zero_copy_only=False)
            for name in SIDES:
                boxed &= self.get(name).is_null().to_numpy(zero_copy_only=False)
            for i, side in enumerate(found.flatten()):
                by_sides[boxed, i] = side.filter(pa.array(boxed)).cast(pa.float64()).to_numpy()
            if space.metric == "haversine":
                boxed &= (np.abs(by_sides[:, 1]) <= 90.0) & (np.abs(by_sides[:, 3]) <= 90.0)
            self.good |= boxed
        self.good &= given & (by_sides[:, 0] <= by_sides[:, 2]) & (by_sides[:, 1] <= by_sides[:, 3])
        return by_sides

    def ids(self) -> pa.Array:
        """The ids of the rows that are good, int64 or string; a row without one is not. The last column to ask for."""
        column = self.get("id")
        self.good &= column.is_valid().to_numpy(zero_copy_only=False)
        ids = column.filter(pa.array(self.good))
        return ids.cast(pa.int64()) if pa.types.is_integer(ids.type) else ids


def _is_condition(text: str) -> bool:
    try:
        parse_condition(text)
    except InvalidInput:
        return False
    return True
