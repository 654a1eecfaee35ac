"""Fields in bulk are the fields of single messages, and odd ones are refused in the same words."""

from __future__ import annotations

import json
import random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from strategies import NAMES, VALUES

import nearcast as nc
from nearcast.columns.decode_messages import decode_messages
from nearcast.columns.fields.decode import FieldColumns, bucket, from_mappings, number_of
from nearcast.columns.fields.values import FieldValues
from nearcast.model.fields import fields_of
from nearcast.space.space import Space
from nearcast.text.vocabulary import Vocabulary

PLANE = Space((0, 0, 8, 8), metric="euclidean")


def stored(columns: FieldColumns | None, n: int) -> list[dict[str, Any]]:
    """Fields as a table gives them back."""
    values = FieldValues(Vocabulary())
    values.store(np.arange(n, dtype=np.int32), columns, n)
    return [values.of(slot) for slot in range(n)]


def plain(fields: Any) -> dict[str, Any]:
    """Fields as they are kept: each item of a list once, 2.0 as 2."""
    kept = {} if fields is None else fields_of(fields)
    return {name: list(dict.fromkeys(value)) if isinstance(value, tuple) else value for name, value in kept.items()}


def table_of(fields: pa.Array) -> pa.Table:
    n = len(fields)
    return pa.table({"id": range(n), "lon": [1.0] * n, "lat": [1.0] * n, "text": ["a"] * n, "fields": fields})


def test_mappings_come_back() -> None:
    pick = random.Random(1)
    given = [{pick.choice(NAMES): pick.choice(VALUES) for _ in range(4)} for _ in range(200)]
    checked = [fields_of(fields) for fields in given]
    assert stored(from_mappings(checked), 200) == [plain(fields) for fields in given]
    some = np.array([3, 7, 8, 199])
    columns = from_mappings(checked)
    assert columns is not None
    assert stored(columns.take(some), 4) == [plain(given[row]) for row in some]
    assert from_mappings([None, {}]) is None


@pytest.mark.parametrize("text", [pa.string(), pa.large_string()])
def test_json_texts_are_read(text: pa.DataType) -> None:
    given = [None, {"a": 1, "b": ["x", "x"]}, {}, {"c": "é", "d": False}]
    texts = pa.array([None if fields is None else json.dumps(fields) for fields in given], text)
    batch = decode_messages(table_of(texts), PLANE, None)
    assert not batch.rejects
    assert stored(batch.fields, 4) == [plain(fields) for fields in given]


def test_structs_are_read_in_bulk() -> None:
    large = pa.large_string()
    struct = pa.array(
        [
            {
                "price": 1,
                "share": 0.5,
                "kind": "food",
                "tags": ["b", "a", "b"],
                "open": True,
                "note": "x",
                "gone": None,
            },
            None,
            {"price": 2**63 - 1, "share": -0.0, "kind": "", "tags": [], "open": False, "note": None, "gone": None},
            {"price": None, "share": None, "kind": None, "tags": None, "open": None, "note": "é", "gone": None},
        ],
        pa.struct(
            [
                ("price", pa.int64()),
                ("share", pa.float64()),
                ("kind", pa.string()),
                ("tags", pa.list_(pa.string())),
                ("open", pa.bool_()),
                ("note", large),
                ("gone", pa.null()),
            ]
        ),
    )
    batch = decode_messages(table_of(struct), PLANE, None)
    assert not batch.rejects
    assert stored(batch.fields, 4) == [plain(fields) for fields in struct.to_pylist()]
    sliced = decode_messages(table_of(struct).slice(2), PLANE, None)
    assert stored(sliced.fields, 2) == [plain(fields) for fields in struct.to_pylist()[2:]]
    assert stored(batch.slice(1, 3).fields, 2) == [plain(fields) for fields in struct.to_pylist()[1:3]]


@pytest.mark.parametrize(
    ("column", "bad"),
    [
        (pa.array([{"a": 1.0}, {"a": float("nan")}]), {1: "fields.a must not be NaN, got nan"}),
        (pa.array([{"a": ["x"]}, {"a": ["x", None]}]), {1: "fields.a must hold strings only, got None"}),
        (pa.array(['{"a": 1}', "{"]), {1: "fields must be valid JSON, got '{'"}),
        (pa.array([{"a": {"b": 1}}, None]), {0: "fields.a must be a number, a string, a boolean or a list of strings"}),
        (pa.array([1, None]), {0: "fields must be an object that maps names to numbers"}),
        (pa.array([[("a", 1)], None], pa.map_(pa.string(), pa.int64())), {0: "fields must be an object"}),
    ],
)
def test_bad_rows_are_rejects(column: pa.Array, bad: dict[int, str]) -> None:
    broker = nc.Broker(PLANE, nc.Window(count=9))
    updates = broker.publish(table_of(column))
    assert {reject.row: reject.reason[: len(bad[reject.row])] for reject in updates.rejects} == bad
    assert broker.stats()["messages"]["live"] == 2 - len(bad)


def test_odd_encodings_are_read_row_by_row() -> None:
    struct = pa.StructArray.from_arrays([pa.array(["food", "food"]).dictionary_encode(), pa.array([1, 2])], ["k", "n"])
    batch = decode_messages(table_of(struct), PLANE, None)
    assert stored(batch.fields, 2) == [{"k": "food", "n": 1}, {"k": "food", "n": 2}]
    twice = pa.StructArray.from_arrays([pa.array([1, 2]), pa.array([3, 4])], ["n", "n"])
    assert len(decode_messages(table_of(twice), PLANE, None).rejects) in (0, 2)  # as Arrow gives such rows to Python


def test_numbers_are_exact_beyond_floats() -> None:
    assert number_of(2**53 + 1) == (2.0**53, 1)
    assert number_of(2**64 - 1) == (2.0**64, -1)
    assert number_of(1.5) == (1.5, 0)
    assert bucket(np.array([0.0]))[0] == bucket(np.array([-0.0]))[0]
    assert len(set(bucket(np.arange(32.0)).tolist())) == 32


def test_only_fields_asked_for_are_taken_over() -> None:
    """Whether in bulk, as texts or as objects; what nobody asks for is checked all the same."""
    given = [{"a": 1.5, "b": ["x"], "c": "y"}, None, {"a": float("nan"), "c": "z"}, {"a": 2.5, "b": [None], "c": "y"}]
    struct = pa.struct([("a", pa.float64()), ("b", pa.list_(pa.string())), ("c", pa.string())])
    for asked, expected in (({"c"}, [{"c": "y"}, {}]), ({"a", "d"}, [{"a": 1.5}, {}]), (None, [given[0], {}])):
        for source in (
            table_of(pa.array(given, struct)),
            [nc.Message(0, 1, 1, "a", fields=given[0]), nc.Message(1, 1, 1, "a")],
            table_of(pa.array([json.dumps(given[0]), None, json.dumps({"a": [[]]}), json.dumps({"b": [None]})])),
        ):
            batch = decode_messages(source, PLANE, None, asked)
            assert stored(batch.fields, 2) == expected
            assert [reject.row for reject in batch.rejects] == ([2, 3] if isinstance(source, pa.Table) else [])
    for nobody in (pa.array(given, struct), pa.array(['{"a": 1}'])):
        assert decode_messages(table_of(nobody), PLANE, None, frozenset()).fields is None


def test_slices_of_a_table_are_read_by_themselves() -> None:
    """A bad value outside of a slice is nobody's concern, and one inside is found."""
    good = pa.array([{"a": str(i)} for i in range(6)])
    data = pa.py_buffer(bytes(good.field(0).buffers()[2]).replace(b"4", b"\xff"))
    child = pa.Array.from_buffers(pa.string(), 6, [None, good.field(0).buffers()[1], data])
    table = table_of(pa.StructArray.from_arrays([child], ["a"]))
    assert not decode_messages(table.slice(0, 4), PLANE, None).rejects
    assert [reject.row for reject in decode_messages(table.slice(3, 3), PLANE, None, frozenset()).rejects] == [1]
