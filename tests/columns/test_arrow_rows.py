"""Batches as callers give them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from nearcast.columns.arrow_rows import as_table, is_sound, rows_of, values
from nearcast.errors import InvalidInput


def test_rows_of_arrow_and_of_anything_else() -> None:
    assert rows_of("ids", pa.table({"id": [1, 2]})) == [{"id": 1}, {"id": 2}]
    assert rows_of("ids", pa.array(["a"])) == ["a"]
    assert rows_of("ids", pa.chunked_array([["a"], ["b"]])) == ["a", "b"]
    assert list(rows_of("ids", [1, 2])) == [1, 2]


@pytest.mark.parametrize("one", ["ann", b"ann", {"id": 1}, 5, None])
def test_one_thing_is_not_many(one: Any) -> None:
    with pytest.raises(InvalidInput, match="ids must be many"):
        rows_of("ids", one)


def test_a_column_that_stands_twice_is_refused() -> None:
    twice = pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["id", "id"])
    with pytest.raises(InvalidInput, match="messages must have each column once, got 'id'"):
        as_table("messages", twice)


def test_what_python_cannot_hold_is_shown() -> None:
    broken = pa.Array.from_buffers(pa.string(), 2, pa.array([b"\xff", b"a"]).buffers())
    assert values(broken) == ["\udcff", "a"]
    assert not is_sound(pa.table({"id": broken}))
    assert is_sound(pa.table({"id": ["é", None]}))
    lists = pa.ListArray.from_arrays(pa.array([0, 2], pa.int32()), broken)
    assert values(lists) == [["\udcff", "a"]]
    assert repr(values(pa.array([2**62, None], pa.timestamp("s")))) == f"[timestamp[s] {2**62}, None]"


def test_a_slice_is_as_sound_as_its_own_rows() -> None:
    """Whatever the other rows of the array that it is cut from hold; and they are not looked at."""
    words = pa.Array.from_buffers(
        pa.string(), 3, [None, pa.py_buffer(np.array([0, 2, 3, 5], np.int32)), pa.py_buffer(b"ab\xffcd")]
    )
    lists = pa.ListArray.from_arrays(pa.array([0, 1, 2, 3], pa.int32()), words)
    large = pa.LargeListArray.from_arrays(pa.array([0, 1, 2, 3], pa.int64()), words)
    nested = pa.ListArray.from_arrays(pa.array([0, 1, 2, 3], pa.int32()), lists)
    for column in (lists, large, nested, pa.chunked_array([lists]), pa.table({"keywords": lists})):
        assert [is_sound(column.slice(row, 1)) for row in range(3)] == [True, False, True]
        assert not is_sound(column)
        assert is_sound(column.slice(1, 0))
    broken = pa.Array.from_buffers(
        pa.list_(pa.string()), 2, [None, pa.py_buffer(np.array([0, 9, 2], np.int32))], children=[words]
    )
    assert not is_sound(broken)
    assert not is_sound(broken.slice(0, 1))
