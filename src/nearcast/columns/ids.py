"""Ids as callers give them, strings or 64-bit integers, become slots and come back as they were."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from nearcast.columns.arena import Array, Ints, Longs, State, with_room
from nearcast.columns.arrow_rows import is_sound
from nearcast.errors import InvalidInput
from nearcast.model.checks import identity, is_a
from nearcast.text.key_kernels import BLOCK
from nearcast.text.key_table import Keys
from nearcast.text.strings import arrow_bytes, strings_to_arrow

IdBytes = tuple[Array, Longs]  # uint8 data and int64 starts: row i is data[starts[i]:starts[i + 1]]

_INTEGER_BYTES = 8
_MOST_BYTES = 256  # of an id that is spelled alone


def id_type(value: str | int) -> str:
    """The type that a table of such ids has: "string" or "integer"."""
    return "string" if isinstance(value, str) else "integer"


def same_type(value: str | int, expected: str | None) -> str:
    """Type of an id, which must be the expected one if there were ids before it."""
    given = id_type(value)
    if expected is not None and given != expected:
        article = "a string" if expected == "string" else "an integer"
        raise InvalidInput("id", value, f"must be {article} like the ids before it")
    return given


def id_bytes(ids: Sequence[str] | Sequence[int] | pa.Array) -> IdBytes:
    """Ids of one type as byte rows: UTF-8 for strings, eight bytes for integers."""
    column = ids if isinstance(ids, pa.Array) else pa.array(ids)
    if len(column) == 0:
        return np.empty(0, dtype=np.uint8), np.zeros(1, dtype=np.int64)
    if pa.types.is_integer(column.type):
        values = column.cast(pa.int64()).to_numpy()
        data = values.astype("<i8").view(np.uint8)
        return data, np.arange(len(column) + 1, dtype=np.int64) * _INTEGER_BYTES
    return arrow_bytes(column)


def bulk_ids(source: Any) -> pa.Array | None:
    """Ids given as Arrow, in a column `id` or alone, or as a list of one type: int64 or strings; else None."""
    if is_a(source, pa.Table | pa.RecordBatch):
        at = source.schema.get_all_field_indices("id")
        if len(at) != 1:
            return None
        source = source.column(at[0])
    if type(source) is list and len({type(value) for value in source}) == 1 and type(source[0]) in (int, str):
        try:
            return pa.array(source, type=pa.int64() if type(source[0]) is int else pa.string())
        except (OverflowError, UnicodeEncodeError, pa.ArrowInvalid):
            return None
    if not is_a(source, pa.Array | pa.ChunkedArray) or bulk_id_type(source.type) is None or not is_sound(source):
        return None
    if isinstance(source, pa.ChunkedArray):
        try:
            source = source.combine_chunks()
        except pa.ArrowException:  # more than fits into one array
            return None
    return source.cast(pa.int64()) if pa.types.is_integer(source.type) else source


def bulk_id_type(column: pa.DataType) -> str | None:
    """Whether ids of an Arrow type are integers or strings that can be read in bulk, or None."""
    if pa.types.is_int64(column) or pa.types.is_int32(column):
        return "integer"
    return "string" if pa.types.is_string(column) else None


def group_ids(ids: IdBytes) -> Ints:
    """A number per row; rows of equal ids share it."""
    if ids[1].size <= 2:
        return np.zeros(ids[1].size - 1, dtype=np.int32)
    return Keys(ids[1].size, ids[0].size).add_many(*ids)


class OneKey(NamedTuple):
    """The bytes of one id, and scratch to file it."""

    data: Array  # uint8[]
    starts: Longs  # int64[2]
    near: Longs  # int64[BLOCK + 1]
    number: Ints  # int32[1]: out


class IdColumn(NamedTuple):
    """Ids of some rows, as plain memory until somebody asks for more."""

    data: Array  # int64[n]; or uint8[], the bytes of strings
    starts: Longs | None  # of strings: int64[n + 1]

    def to_arrow(self) -> pa.Array:
        return pa.array(self.data) if self.starts is None else strings_to_arrow(self.data, self.starts)

    def to_list(self) -> list[Any]:
        if self.starts is None:
            return self.data.tolist()  # type: ignore[no-any-return]
        raw = self.data.tobytes()
        return [raw[lo:hi].decode() for lo, hi in pairwise(self.starts.tolist())]


class Ids:
    """The ids of one table: id <-> slot, over flat arrays."""

    def __init__(self) -> None:
        self.keys = Keys()
        self.type: str | None = None  # fixed by the first id that is accepted
        self._bytes = bytearray(_MOST_BYTES)
        self.one = OneKey(  # the id that was spelled last
            np.frombuffer(self._bytes, np.uint8), np.zeros(2, np.int64), np.zeros(BLOCK + 1, np.int64),
            np.zeros(1, np.int32),
        )  # fmt: skip
        self._integers = np.zeros(0, dtype=np.int64)  # by slot: read at once what lies two steps away in the keys

    def add_many(self, ids: IdBytes) -> Ints:
        """Slots of ids that can be found from now on, where they are new; the type must be fixed."""
        return self._remember(self.keys.add_many(*ids), ids)

    def replace_many(self, ids: IdBytes) -> Ints:
        """New slots of ids that are found from now on, instead of equal ones; the type must be fixed."""
        return self._remember(self.keys.replace_many(*ids), ids)

    def store_many(self, ids: IdBytes) -> Ints:
        """New slots of ids that are never found; the type must be fixed."""
        return self._remember(self.keys.store_many(*ids), ids)

    def _remember(self, slots: Ints, ids: IdBytes) -> Ints:
        if self.type == "integer":
            self._integers = with_room(self._integers, self.keys.capacity)
            self._integers[slots] = ids[0].view("<i8")
        return slots

    def spell(self, value: str | int) -> bool:
        """Write an id of the type that is here to `one`; False if it is too long for that."""
        raw = value.to_bytes(_INTEGER_BYTES, "little", signed=True) if isinstance(value, int) else value.encode()
        n = len(raw)
        if n > _MOST_BYTES:
            return False
        self._bytes[:n] = raw
        self.one.starts[1] = n
        return True

    def find_spelled(self) -> int:
        """Slot of the id that was spelled last, or -1."""
        return self.keys.find_one(self.one.data, int(self.one.starts[1]))

    def remember_one(self, slot: int) -> None:
        """The id that was spelled last has this slot."""
        if self.type == "integer":
            self._integers = with_room(self._integers, self.keys.capacity)
            self._integers[slot] = int.from_bytes(self._bytes[:_INTEGER_BYTES], "little", signed=True)

    def find(self, value: Any) -> int:
        """Slot of an id, or -1."""
        plain = self._plain(value)
        if plain is None:
            return -1
        return self.find_spelled() if self.spell(plain) else int(self.keys.find_many(*id_bytes([plain]))[0])

    def is_called(self, slot: int, value: Any) -> bool:
        """Is this the id of the slot?"""
        plain = self._plain(value)
        return plain is not None and self.value(slot) == plain

    def _plain(self, value: Any) -> str | int | None:
        """A value as an id of the type that is here, or None."""
        try:
            plain = identity("id", value)
        except InvalidInput:
            return None
        return plain if id_type(plain) == self.type else None

    @property
    def arrow_type(self) -> pa.DataType:
        """The type of the ids as `to_arrow` gives them."""
        return pa.int64() if self.type == "integer" else pa.string()

    def column(self, slots: Ints) -> IdColumn:
        """The ids of these slots."""
        if self.type == "integer":
            return IdColumn(self._integers.take(slots), None)
        return IdColumn(*self.keys.take(slots))

    def to_arrow(self, slots: Ints) -> pa.Array:
        """The ids of these slots, as they were given."""
        return self.column(slots).to_arrow()

    def value(self, slot: int) -> str | int:
        """The id of one slot."""
        return self.to_arrow(np.array([slot], dtype=np.int32))[0].as_py()  # type: ignore[no-any-return]

    @property
    def nbytes(self) -> int:
        return self.keys.nbytes + self._integers.nbytes

    def state(self) -> State:
        return {"type": self.type, "keys": self.keys.state(), "integers": self._integers}

    def load(self, state: State) -> None:
        self.type = state["type"]
        self.keys.load(state["keys"])
        self._integers = state["integers"]
