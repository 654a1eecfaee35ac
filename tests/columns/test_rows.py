"""Batches as callers give them."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from nearcast.columns.rows import rows_of
from nearcast.errors import InvalidInput


def test_rows_of_arrow_and_of_anything_else() -> None:
    assert rows_of("ids", pa.table({"id": [1, 2]})) == [{"id": 1}, {"id": 2}]
    assert rows_of("ids", pa.array(["a"])) == ["a"]
    assert rows_of("ids", pa.chunked_array([["a"], ["b"]])) == ["a", "b"]
    given = [1, 2]
    assert rows_of("ids", given) is given


@pytest.mark.parametrize("one", ["ann", b"ann", {"id": 1}, 5, None])
def test_one_thing_is_not_many(one: Any) -> None:
    with pytest.raises(InvalidInput, match="ids must be many"):
        rows_of("ids", one)
