from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nearcast.columns.ids import IdBytes, Ids, group_ids, id_bytes, id_type, same_type
from nearcast.errors import InvalidInput

INTEGERS = st.lists(st.integers(-(2**63), 2**63 - 1), max_size=12)
SOME_IDS = st.one_of(st.lists(st.text("aé\U0001f525", max_size=3), max_size=12), INTEGERS)


def filed(values: list[Any]) -> tuple[Ids, np.ndarray]:
    ids = Ids()
    ids.type = id_type(values[0]) if values else None
    return ids, ids.add_many(id_bytes(values))


def rows(ids: IdBytes) -> list[bytes]:
    data, starts = ids
    return [data[a:b].tobytes() for a, b in pairwise(starts)]


@given(SOME_IDS)
def test_ids_come_back_as_they_were_given(values: list[Any]) -> None:
    ids, slots = filed(values)
    assert ids.to_arrow(slots).to_pylist() == values
    for value, slot in zip(values, slots.tolist(), strict=True):
        assert ids.value(slot) == value
        assert ids.find(value) == slot
    other = Ids()
    other.load(ids.state())
    assert other.to_arrow(slots).to_pylist() == values
    assert other.type == ids.type
    assert ids.nbytes > 0


@given(SOME_IDS)
def test_stored_ids_come_back_and_are_not_found(values: list[Any]) -> None:
    ids, slots = filed(values)
    again = ids.store_many(id_bytes(values))
    assert not set(again.tolist()) & set(slots.tolist())
    assert ids.to_arrow(again).to_pylist() == values
    assert [ids.find(value) for value in values] == slots.tolist()


@given(SOME_IDS)
def test_equal_ids_share_a_group(values: list[Any]) -> None:
    groups = group_ids(id_bytes(values)).tolist()
    assert len(groups) == len(values)
    for i, value in enumerate(values):
        assert [groups[i] == other for other in groups] == [value == other for other in values]


@given(SOME_IDS)
def test_arrow_ids_have_the_bytes_of_plain_ones(values: list[Any]) -> None:
    plain = id_bytes(values)
    column = pa.array([values[0], *values, values[-1]])[1:-1] if values else pa.array([], pa.string())
    for form in (column, column.cast(pa.large_string()) if pa.types.is_string(column.type) else column):
        assert rows(id_bytes(form)) == rows(plain)


@pytest.mark.parametrize(
    "value",
    [True, False, None, 1.0, b"a", ["a"], {"a": 1}, 2**63, -(2**63) - 1, 10**400, "\ud800", float("nan"), "a", np.nan],
)
def test_what_is_no_integer_id_is_not_found(value: Any) -> None:
    ids, _ = filed([1, 0, 7])
    assert ids.find(value) == -1


@pytest.mark.parametrize("value", [1, 0, True, None, "\ud800", "b", "", b"a", 2**80])
def test_what_is_no_string_id_is_not_found(value: Any) -> None:
    ids, _ = filed(["a", "1", "True"])
    assert ids.find(value) == -1


def test_nothing_is_found_among_no_ids() -> None:
    assert Ids().find("a") == -1
    assert Ids().find(1) == -1


def test_numpy_ids_are_the_ids_that_they_equal() -> None:
    ids, slots = filed([5, 6])
    assert ids.find(np.int64(6)) == ids.find(np.uint8(6)) == slots[1]
    names, _ = filed(["ann"])
    assert names.find(np.str_("ann")) == 0


def test_ids_have_one_type() -> None:
    assert same_type("a", None) == "string"
    assert same_type(1, None) == "integer"
    assert same_type("a", "string") == "string"
    with pytest.raises(InvalidInput, match=r"^id must be a string like the ids before it, got 1$"):
        same_type(1, "string")
    with pytest.raises(InvalidInput, match=r"^id must be an integer like the ids before it, got 'a'$"):
        same_type("a", "integer")
