"""The fields of messages, as mappings, JSON texts or an Arrow struct, become one run of values in columns.

A value is a row of `FieldColumns`. A list of strings is several: one for the list, and one for each of its items. Names
and values become keys of the vocabulary, in a part of it that no word can reach: the first byte is in no UTF-8. The key
of a value holds its name, so that one number stands for both: indexes use it like a word. The key of a number stands
for all numbers that share its first sixteen bits.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nearcast.columns.arena import Array, Floats, Ints, Longs, ranges
from nearcast.errors import InvalidInput
from nearcast.model.fields import FieldValue, fields_of
from nearcast.text.strings import Bytes, Starts, arrow_bytes

NUMBER, TEXT, FLAG, LIST, ITEM = range(5)  # types of values

_EXACT = 2**53  # whole numbers up to this one are exact as floats
FIELD_KEY = 0xFF  # the first byte of every key
_NAME, _VALUE = b"\xffn", b"\xffv"
_KEYS = pa.large_binary()


class FieldColumns(NamedTuple):
    """The fields of some messages, one message after another: `n` values, few of which differ."""

    lengths: Longs  # int64[n_messages]: how many values are its own
    names: pa.Array  # large_binary[]: keys of names
    name_at: Longs  # int64[n]: which of the names
    keys: pa.Array  # large_binary[]: keys of values; of a list that of its name
    key_at: Longs  # int64[n]: which of the keys
    types: Ints  # int32[n]
    numbers: Floats  # float64[n]: of numbers, else 0
    rests: Ints  # int32[n]: what a whole number is larger than its float

    def take(self, rows: Longs) -> FieldColumns:
        """Only these messages."""
        where = ranges(np.cumsum(self.lengths)[rows] - self.lengths[rows], self.lengths[rows])
        used, key_at = np.unique(self.key_at[where], return_inverse=True)
        return FieldColumns(
            self.lengths[rows], self.names, self.name_at[where], self.keys.take(pa.array(used)), key_at,
            self.types[where], self.numbers[where], self.rests[where],
        )  # fmt: skip


def key_bytes(keys: pa.Array) -> tuple[Bytes, Starts]:
    """Keys as the vocabulary takes them."""
    return arrow_bytes(keys.view(pa.large_string()))


def name_key(name: str) -> bytes:
    """The key of a field's name."""
    return _NAME + name.encode()


def name_of(key: bytes) -> str:
    """The field's name that a key was made of."""
    return key[len(_NAME) :].decode()


def value_key(name: str, value: float | int | str | bool) -> bytes:
    """The key of a value of a field."""
    return _prefix(name) + _suffix(value)


def _prefix(name: str) -> bytes:
    return _VALUE + name.encode() + b"\xff"


def _suffix(value: float | int | str | bool) -> bytes:
    if isinstance(value, str):
        return b"s" + value.encode()
    if isinstance(value, bool):
        return b"b1" if value else b"b0"
    return b"n" + int(bucket(np.array([value], dtype=np.float64))[0]).to_bytes(2, "big")


def bucket(numbers: Floats) -> Array:
    """The first sixteen bits of numbers: sign, exponent, and four bits more."""
    return ((numbers + 0.0).view(np.uint64) >> np.uint64(48)).astype(np.uint16)


def number_of(value: float | int) -> tuple[float, int]:
    """A number as its nearest float, and what it is larger than that."""
    plain = float(value)
    return plain, int(value) - int(plain) if isinstance(value, int) and abs(value) > _EXACT else 0


def is_asked(name: str, asked: Collection[str] | None) -> bool:
    """Does anybody want the fields of this name? All are wanted without a collection of names."""
    return asked is None or name in asked


def from_mappings(
    given: Sequence[Mapping[str, FieldValue] | None], asked: Collection[str] | None = None
) -> FieldColumns | None:
    """Fields that are checked already, those `asked` for; None if nobody has any."""
    if not any(given):
        return None
    lengths = np.zeros(len(given), dtype=np.int64)
    rows: list[tuple[bytes, bytes, int, float, int]] = []
    for at, fields in enumerate(given):
        before = len(rows)
        for name, value in (fields or {}).items():
            if not is_asked(name, asked):
                continue
            key = name_key(name)
            if isinstance(value, tuple):
                rows.append((key, key, LIST, 0.0, 0))
                rows += [(key, value_key(name, item), ITEM, 0.0, 0) for item in dict.fromkeys(value)]
            elif isinstance(value, str | bool):
                rows.append((key, value_key(name, value), TEXT if isinstance(value, str) else FLAG, 0.0, 0))
            else:
                rows.append((key, value_key(name, value), NUMBER, *number_of(value)))
        lengths[at] = len(rows) - before
    if not rows and asked is not None:
        return None
    names, keys, types, numbers, rests = zip(*rows, strict=True) if rows else ((), (), (), (), ())
    return FieldColumns(
        lengths,
        *_distinct(pa.array(names, _KEYS)),
        *_distinct(pa.array(keys, _KEYS)),
        np.array(types, dtype=np.int32),
        np.array(numbers, dtype=np.float64),
        np.array(rests, dtype=np.int32),
    )


def _distinct(values: pa.Array) -> tuple[pa.Array, Longs]:
    """The values that differ, in the order in which they come, and which of them each is."""
    encoded = pc.dictionary_encode(values)
    at: Longs = encoded.indices.to_numpy().astype(np.int64)
    return encoded.dictionary, at


# Bulk: columns of an Arrow table.


def is_plain_type(kind: pa.DataType) -> bool:
    """Is it a type of fields that is read in bulk: JSON texts, or a struct of plain values with different names?"""
    types = pa.types
    if types.is_null(kind) or types.is_string(kind) or types.is_large_string(kind):
        return True
    if not types.is_struct(kind):
        return False
    children = [kind.field(i) for i in range(kind.num_fields)]
    return len({child.name for child in children}) == len(children) and all(
        types.is_integer(child.type)
        or types.is_floating(child.type)
        or types.is_boolean(child.type)
        or types.is_null(child.type)
        or _is_text(child.type)
        or (types.is_list(child.type) and _is_text(child.type.value_type))
        for child in children
    )


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def from_arrow(column: pa.Array, asked: Collection[str] | None = None) -> tuple[FieldColumns | None, Array]:
    """Fields of a column of a plain type, and which rows of it are as they should be; the others have no fields.

    Of names that are not `asked` for, values are checked and no more.
    """
    good = np.ones(len(column), dtype=bool)
    if column.null_count == len(column):
        return None, good
    if pa.types.is_struct(column.type):
        return _from_struct(column, good, asked)
    parsed: list[Mapping[str, FieldValue] | None] = []
    for row, text in enumerate(column.to_pylist()):
        try:
            parsed.append(None if text is None else fields_of(text))
        except InvalidInput:
            parsed.append(None)
            good[row] = False
    return from_mappings(parsed, asked), good


class _Run(NamedTuple):
    """Values of one field."""

    rows: Longs
    keys: pa.Array  # those that differ
    key_at: Longs
    types: Ints
    numbers: Floats
    rests: Ints


def _from_struct(
    column: pa.StructArray, good: Array, asked: Collection[str] | None
) -> tuple[FieldColumns | None, Array]:
    names: list[bytes] = []
    runs: list[_Run] = []
    for i, child in enumerate(column.flatten()):
        if child.null_count == len(child):
            continue
        name = column.type.field(i).name
        good[_refused(child)] = False
        if not is_asked(name, asked):
            continue
        rows = np.flatnonzero(child.is_valid().to_numpy(zero_copy_only=False))
        for run in _runs(name, rows, child.take(pa.array(rows)) if child.null_count else child):
            names.append(name_key(name))
            runs.append(run)
    if not runs:
        return None, good
    return _in_turn(names, runs, good), good


def _in_turn(names: list[bytes], runs: list[_Run], good: Array) -> FieldColumns:
    """The values of runs, whose names these are, message by message; those of good rows."""
    rows, types, numbers, rests = (np.concatenate([run[at] for run in runs]) for at in (0, 3, 4, 5))
    first = np.cumsum([0, *(len(run.keys) for run in runs[:-1])])
    key_at = np.concatenate([run.key_at + start for run, start in zip(runs, first.tolist(), strict=True)])
    name_at = np.repeat(np.arange(len(runs)), [run.rows.size for run in runs])
    keys = runs[0].keys if len(runs) == 1 else pa.concat_arrays([run.keys for run in runs])
    if len(runs) > 1 or not good.all():
        order = np.argsort(rows, kind="stable")
        order = order[good[rows[order]]]
        rows, name_at, key_at, types = rows[order], name_at[order], key_at[order], types[order]
        numbers, rests = numbers[order], rests[order]
    lengths = np.bincount(rows, minlength=good.size)
    return FieldColumns(lengths, pa.array(names, _KEYS), name_at, keys, key_at, types, numbers, rests)


def _refused(values: pa.Array) -> Longs:
    """The rows of a field whose value is not a number, or a list with a null."""
    if pa.types.is_list(values.type):
        lengths = pc.fill_null(pc.list_value_length(values), 0).to_numpy(zero_copy_only=False)
        missing = values.flatten().is_null().to_numpy(zero_copy_only=False)
        rows: Longs = np.repeat(np.arange(len(values)), lengths)[missing]
        return rows
    if not pa.types.is_floating(values.type):
        return np.zeros(0, dtype=np.int64)
    known = pc.fill_null(values, 0.0) if values.null_count else values
    return np.flatnonzero(np.isnan(known.to_numpy(zero_copy_only=False)))


def _runs(name: str, rows: Longs, values: pa.Array) -> list[_Run]:
    """The values of a field that are there."""
    kind = values.type
    if pa.types.is_list(kind):
        return _list_runs(name, rows, values)
    n, prefix = rows.size, _prefix(name)
    zeros, none = np.zeros(n), np.zeros(n, dtype=np.int32)
    if pa.types.is_boolean(kind):
        codes = values.to_numpy(zero_copy_only=False).astype(np.int64)
        return [_Run(rows, pa.array([prefix + b"b0", prefix + b"b1"], _KEYS), codes, none + FLAG, zeros, none)]
    if _is_text(kind):
        return [_Run(rows, *_text_keys(prefix, values), none + TEXT, zeros, none)]
    numbers = values.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False) + 0.0
    rests = none.copy()
    if pa.types.is_integer(kind):
        for i in np.flatnonzero(np.abs(numbers) >= _EXACT).tolist():
            rests[i] = number_of(values[i].as_py())[1]
    codes, at = np.unique(bucket(numbers), return_inverse=True)
    return [_Run(rows, _number_keys(prefix, codes), at, none + NUMBER, numbers, rests)]


def _list_runs(name: str, rows: Longs, values: pa.ListArray) -> list[_Run]:
    items = values.flatten()
    parents = rows[np.repeat(np.arange(rows.size), pc.list_value_length(values).to_numpy(zero_copy_only=False))]
    key, n = name_key(name), rows.size
    lists = _Run(
        rows, pa.array([key], _KEYS), np.zeros(n, np.int64), np.full(n, LIST, np.int32), np.zeros(n),
        np.zeros(n, np.int32),
    )  # fmt: skip
    if not len(items):
        return [lists]
    codes = pc.dictionary_encode(pc.fill_null(items, "")).indices.to_numpy().astype(np.int64)
    _, first = np.unique(parents * (int(codes.max()) + 1) + codes, return_index=True)
    first.sort()
    n = first.size
    keys = _text_keys(_prefix(name), items.take(pa.array(first)))
    return [lists, _Run(parents[first], *keys, np.full(n, ITEM, np.int32), np.zeros(n), np.zeros(n, np.int32))]


def _text_keys(prefix: bytes, values: pa.Array) -> tuple[pa.Array, Longs]:
    """The keys of strings, nulls as empty ones: those that differ, and which of them each is."""
    texts, at = _distinct(pc.fill_null(values, "") if values.null_count else values)
    start, empty = pa.scalar(prefix + b"s", _KEYS), pa.scalar(b"", _KEYS)
    return pc.binary_join_element_wise(start, texts.cast(pa.large_string()).cast(_KEYS), empty), at


def _number_keys(prefix: bytes, codes: Array) -> pa.Array:
    """The keys of numbers with these first sixteen bits."""
    start, n = np.frombuffer(prefix + b"n", np.uint8), codes.size
    data = np.zeros((n, start.size + 2), np.uint8)
    data[:, : start.size] = start
    data[:, start.size], data[:, start.size + 1] = codes >> 8, codes & 255
    starts = np.arange(0, data.size + 1, data.shape[1], dtype=np.int64)
    return pa.Array.from_buffers(_KEYS, n, [None, pa.py_buffer(starts), pa.py_buffer(data)])
