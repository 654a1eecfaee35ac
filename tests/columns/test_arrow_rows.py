"""Batches as callers give them."""

from __future__ import annotations

from typing import Any

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
