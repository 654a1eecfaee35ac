from __future__ import annotations

import os
from decimal import Decimal
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nearcast.columns.decode_messages import MessageBatch, as_message, decode_messages, encode_batch
from nearcast.columns.message_table import MessageTable
from nearcast.columns.times import FOREVER, MISSING
from nearcast.errors import InvalidInput
from nearcast.model.codec import message_to_json
from nearcast.model.instant import RULE
from nearcast.model.message import Message
from nearcast.space.space import Space
from nearcast.text.vocabulary import Vocabulary
from nearcast.text.weights import Weights

COMPILED = os.environ.get("NUMBA_DISABLE_JIT", "0") == "0"
PLANE = Space((0, 0, 8, 8), metric="euclidean")
GLOBE = Space((-180, -90, 180, 90), "haversine")
SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("lon", pa.float64()),
        ("lat", pa.float64()),
        ("text", pa.string()),
        ("keywords", pa.list_(pa.string())),
        ("ts", pa.int64()),
        ("expires", pa.int64()),
    ]
)


def table(rows: list[dict[str, Any]], **types: pa.DataType) -> pa.Table:
    schema = pa.schema([pa.field(field.name, types.get(field.name, field.type)) for field in SCHEMA])
    return pa.Table.from_pylist(rows, schema=schema)


def words(batch: MessageBatch) -> list[dict[str, int]]:
    vocabulary = Vocabulary()
    terms, _ = encode_batch(batch, vocabulary)
    names = [vocabulary.word(term) for term in terms.terms.tolist()]
    counts = terms.counts.tolist()
    starts = terms.row_start.tolist()
    rows = [dict(zip(names[a:b], counts[a:b], strict=True)) for a, b in pairwise(starts)]
    assert [list(row) for row in rows] == [sorted(row, key=str.encode) for row in rows]
    return rows


def plain(batch: MessageBatch) -> dict[str, Any]:
    """All that a batch says, in Python's own types."""
    n = batch.x.size
    return {
        "rows": batch.rows.tolist(),
        "ids": [batch.id(row) for row in range(n)],
        "x": batch.x.tolist(),
        "y": batch.y.tolist(),
        "ts": batch.ts.tolist(),
        "expires": batch.expires.tolist(),
        "words": words(batch),
        "rejects": batch.rejects,
        "type": batch.id_type if n else None,
    }


GOOD = [
    {"id": "a", "lon": 1.5, "lat": 2, "text": "Fire, fire! Smoke", "ts": 5},
    {"id": "b", "lon": -1, "lat": 2.25, "keywords": ["Road Works", "fire", "fire"], "ts": 7, "expires": 9},
    {"id": "é", "lon": 0, "lat": 0, "text": ""},
    {"id": "", "lon": 0, "lat": 0, "keywords": []},
]
BAD: list[tuple[dict[str, Any], str, str]] = [
    ({"id": None}, "id", "id is required, got None"),
    ({"lon": None}, "lon", "lon is required, got None"),
    ({"lat": float("nan")}, "lat", "lat must be finite, got nan"),
    ({"lon": float("inf")}, "lon", "lon must be finite, got inf"),
    (
        {"lat": 91.0},
        "lat",
        'lat must be within [-90, 90] under haversine (plain coordinates: metric="euclidean"), got 91.0',
    ),
    ({"text": None}, "text", "text is required when there are no keywords, got None"),
    ({"keywords": ["a"]}, "keywords", "keywords must be left out when text is given, got ['a']"),
    ({"text": None, "keywords": ["a", None]}, "keywords", "keywords must hold strings only, got None"),
]


def bad_rows() -> list[dict[str, Any]]:
    return [{"id": f"x{n}", "lon": 1.0, "lat": 1.0, "text": "fire"} | change for n, (change, _, _) in enumerate(BAD)]


def test_objects_json_and_arrow_give_the_same_batch() -> None:
    objects = [Message(**row) for row in GOOD]
    expected = plain(decode_messages(objects, PLANE, None))
    assert expected["ids"] == ["a", "b", "é", ""]
    assert expected["ts"] == [5, 7, MISSING, MISSING]
    assert expected["expires"] == [FOREVER, 9, FOREVER, FOREVER]
    assert expected["words"] == [{"fire": 2, "smoke": 1}, {"fire": 2, "road works": 1}, {}, {}]
    assert expected["rejects"] == []
    rows = table(GOOD)
    forms = [
        [message_to_json(message) for message in objects],
        iter(objects),
        rows,
        rows.to_batches()[0],
        pa.concat_tables([rows[:1], rows[1:3], rows[3:]]),
        pa.concat_tables([rows, rows])[2:6].take([2, 3, 0, 1]),
        table(GOOD, id=pa.large_string(), lon=pa.float32(), text=pa.large_string(), ts=pa.int32()),
        table(GOOD, id=pa.large_string(), keywords=pa.large_list(pa.string()), ts=pa.int16()),
        table(GOOD, id=pa.dictionary(pa.int8(), pa.string())),
        rows.append_column("likes", pa.array([1, 2, 3, None])),
    ]
    for form in forms:
        assert plain(decode_messages(form, PLANE, None)) == expected, form


@pytest.mark.parametrize("in_table", [False, True])
def test_bad_rows_are_rejected_with_field_and_reason(in_table: bool) -> None:
    rows = [GOOD[0], *bad_rows(), GOOD[1]]
    batch = decode_messages(table(rows) if in_table else rows, GLOBE, None)
    assert batch.rows.tolist() == [0, len(rows) - 1]
    assert [(r.row, r.field, r.reason) for r in batch.rejects] == [
        (n + 1, field, reason) for n, (_, field, reason) in enumerate(BAD)
    ]
    assert plain(batch)["ids"] == ["a", "b"]
    assert words(batch) == [{"fire": 2, "smoke": 1}, {"fire": 2, "road works": 1}]


@pytest.mark.parametrize("in_table", [False, True])
def test_only_bad_rows(in_table: bool) -> None:
    rows = bad_rows()
    batch = decode_messages(table(rows) if in_table else rows, GLOBE, None)
    assert batch.x.size == 0
    assert len(batch.rejects) == len(rows)
    assert batch.id_type is None
    assert words(batch) == []


@pytest.mark.parametrize(
    ("item", "field", "reason"),
    [
        (None, "message", "message must be a Message, a mapping or a row of an Arrow table, got None"),
        ("fire", "message", "message must be a Message, a mapping or a row of an Arrow table, got 'fire'"),
        ({}, "id", "id is required, got None"),
        ({"id": True, "lon": 1, "lat": 1, "text": ""}, "id", "id must be a string or a whole number, got True"),
        ({"id": 2**63, "lon": 1, "lat": 1, "text": ""}, "id", f"id must be <= {2**63 - 1}, got {2**63}"),
        (
            {"id": "\ud800", "lon": 1, "lat": 1, "text": ""},
            "id",
            "id must be valid Unicode (lone surrogate at position 1), got '\\ud800'",
        ),
        ({"id": [1], "lon": 1, "lat": 1, "text": ""}, "id", "id must be a string or a whole number, got [1]"),
        ({"id": 1, "lon": False, "lat": 1, "text": ""}, "lon", "lon must be a number, got False"),
        ({"id": 1, "lon": 10**400, "lat": 1, "text": ""}, "lon", "lon must be finite, got 1" + "0" * 78 + "…"),
        ({"id": 1, "lon": 1, "lat": [1.0], "text": ""}, "lat", "lat must be a number, got [1.0]"),
        ({"id": 1, "lon": 1, "lat": 1, "text": 5}, "text", "text must be a string, got 5"),
        (
            {"id": 1, "lon": 1, "lat": 1, "text": "\udfff"},
            "text",
            "text must be valid Unicode (lone surrogate at position 1), got '\\udfff'",
        ),
        ({"id": 1, "lon": 1, "lat": 1, "keywords": 5}, "keywords", "keywords must be a list of strings, got 5"),
        (
            {"id": 1, "lon": 1, "lat": 1, "text": "", "ts": 1.0},
            "ts",
            "ts must be whole epoch milliseconds, a datetime or an ISO 8601 string, got 1.0",
        ),
        ({"id": 1, "lon": 1, "lat": 1, "text": "", "ts": 2**63}, "ts", f"ts must be <= {2**62}, got {2**63}"),
        (
            {"id": 1, "lon": 1, "lat": 1, "text": "", "expires": "5"},
            "expires",
            "expires must be whole epoch milliseconds, a datetime or an ISO 8601 string, got '5'",
        ),
    ],
)
def test_odd_items(item: Any, field: str, reason: str) -> None:
    good = {"id": 7, "lon": 1, "lat": 1, "text": "a"}
    batch = decode_messages([item, good], PLANE, None)
    assert [(r.row, r.field, r.reason) for r in batch.rejects] == [(0, field, reason)]
    assert plain(batch)["ids"] == [7]
    if not isinstance(item, dict):
        with pytest.raises(InvalidInput, match=r"^message must be"):
            as_message(item)


@pytest.mark.parametrize("id_type", [pa.int8(), pa.int32(), pa.int64(), pa.uint32(), pa.uint64()])
def test_integer_ids(id_type: pa.DataType) -> None:
    rows = [{"id": n, "lon": 1, "lat": 1, "text": "a"} for n in (3, 0, 100)]
    batch = decode_messages(table(rows, id=id_type), PLANE, None)
    assert plain(batch)["ids"] == [3, 0, 100]
    assert plain(batch) == plain(decode_messages(rows, PLANE, None))
    assert batch.id_type == "integer"


def test_unsigned_ids_past_63_bits_are_rejected() -> None:
    rows = [{"id": n, "lon": 1, "lat": 1, "text": "a"} for n in (2**63, 5, 2**64 - 1, None)]
    batch = decode_messages(table(rows, id=pa.uint64()), PLANE, None)
    assert plain(batch)["ids"] == [5]
    assert [(r.row, r.field) for r in batch.rejects] == [(0, "id"), (2, "id"), (3, "id")]
    assert batch.rejects[0].reason == f"id must be <= {2**63 - 1}, got {2**63}"


def test_ids_have_the_type_of_those_before_them() -> None:
    rows = [{"id": n, "lon": 1, "lat": 1, "text": "a"} for n in (1, "a", 2)]
    batch = decode_messages(rows, PLANE, None)
    assert plain(batch)["ids"] == [1, 2]
    assert batch.rejects[0].reason == "id must be an integer like the ids before it, got 'a'"
    for form in (GOOD, table(GOOD)):
        refused = decode_messages(form, PLANE, "integer")
        assert [r.reason for r in refused.rejects] == [
            f"id must be an integer like the ids before it, got {row['id']!r}" for row in GOOD
        ]
        assert refused.x.size == 0
        assert refused.id_type == "integer"
        assert decode_messages(form, PLANE, "string").rejects == []


@pytest.mark.parametrize(
    ("name", "column", "reason"),
    [
        ("id", pa.array([1.0]), "id must be a string or a whole number, got 1.0"),
        ("id", pa.array([True]), "id must be a string or a whole number, got True"),
        ("id", pa.array([b"a"]), "id must be a string or a whole number, got b'a'"),
        ("id", pa.nulls(1), "id is required, got None"),
        ("lon", pa.array(["1"]), "lon must be a number, got '1'"),
        ("lon", pa.array([True]), "lon must be a number, got True"),
        ("lon", pa.nulls(1), "lon is required, got None"),
        ("lat", pa.array([Decimal("1")]), "lat must be a number, got Decimal('1')"),
        ("text", pa.array([5]), "text must be a string, got 5"),
        ("text", pa.array([["a"]]), "text must be a string, got ['a']"),
        ("ts", pa.array([1.0]), "ts must be whole epoch milliseconds, a datetime or an ISO 8601 string, got 1.0"),
        ("ts", pa.array([5], pa.time64("us")), f"ts {RULE}, got datetime.time(0, 0, 0, 5)"),
        ("ts", pa.array([2**63], pa.uint64()), f"ts must be <= {2**62}, got {2**63}"),
        ("expires", pa.array(["1"]), f"expires {RULE}, got '1'"),
    ],
)  # fmt: skip
def test_columns_of_odd_types(name: str, column: pa.Array, reason: str) -> None:
    rows = table([{"id": "a", "lon": 1, "lat": 1, "text": "a"}])
    batch = decode_messages(rows.set_column(rows.column_names.index(name), name, column), PLANE, None)
    assert [(r.field, r.reason) for r in batch.rejects] == [(name, reason)]


def test_columns_that_are_all_null_or_missing() -> None:
    rows = pa.table({"id": ["a", "b"], "lon": [1, 2], "lat": [1.0, 2.0], "text": ["x", "y"]})
    expected = plain(decode_messages(rows, PLANE, None))
    assert expected["words"] == [{"x": 1}, {"y": 1}]
    for name in ("keywords", "ts", "expires"):
        rows = rows.append_column(name, pa.nulls(2))
    assert plain(decode_messages(rows, PLANE, None)) == expected
    listed = pa.table({"id": ["a"], "lon": [1], "lat": [1], "text": pa.nulls(1), "keywords": [["x y"]]})
    assert words(decode_messages(listed, PLANE, None)) == [{"x y": 1}]
    without = decode_messages(pa.table({"lon": [1.0], "lat": [1.0], "text": ["a"]}), PLANE, None)
    assert [r.field for r in without.rejects] == ["id"]


def test_a_null_list_may_hide_values() -> None:
    """Arrow lets a null list own values; nobody may read them."""
    hidden = pa.ListArray.from_arrays(
        pa.array([0, 2, 3, 4], pa.int32()), pa.array(["a", None, "b", None]), mask=pa.array([True, False, False])
    )
    rows = pa.table(
        {"id": ["p", "q", "r"], "lon": [1] * 3, "lat": [1] * 3, "text": ["t", None, None], "keywords": hidden}
    )
    batch = decode_messages(rows, PLANE, None)
    assert plain(batch)["ids"] == ["p", "q"]
    assert words(batch) == [{"t": 1}, {"b": 1}]
    assert [(r.row, r.reason) for r in batch.rejects] == [(2, "keywords must hold strings only, got None")]


def test_keywords_may_be_a_string_column() -> None:
    rows = pa.table(
        {"id": ["a", "b"], "lon": [1, 2], "lat": [1, 2], "keywords": ["Fire #now", None], "text": [None, "x"]}
    )
    assert words(decode_messages(rows, PLANE, None)) == [{"fire": 1, "now": 1}, {"x": 1}]


def test_empty_batches() -> None:
    for nothing in ([], table([]), table([])[:0], pa.table({"id": [], "lon": [], "lat": []}), iter(())):
        batch = decode_messages(nothing, PLANE, None)
        assert (batch.x.size, batch.rejects, words(batch)) == (0, [], [])


@st.composite
def message_rows(draw: Any) -> list[dict[str, Any]]:
    odd = st.sampled_from([None, float("nan"), float("inf"), 90.0, -90.5, 1e300])
    row = st.fixed_dictionaries(
        {
            "id": st.one_of(st.none(), st.text("abé", max_size=2)),
            "lon": st.one_of(st.integers(-3, 3).map(float), odd),
            "lat": st.one_of(st.integers(-3, 3).map(float), odd),
            "text": st.one_of(st.none(), st.text("aB ß-", max_size=6)),
            "keywords": st.one_of(st.none(), st.none(), st.lists(st.sampled_from(["a", "B c", "", None]), max_size=3)),
            "ts": st.one_of(st.none(), st.integers(-5, 5)),
            "expires": st.one_of(st.none(), st.integers(-5, 5)),
        }
    )
    return draw(st.lists(row, max_size=12))


@settings(max_examples=150 if COMPILED else 30)
@given(message_rows(), st.sampled_from([PLANE, GLOBE]), st.sampled_from([None, "string", "integer"]), st.data())
def test_the_two_doors_agree(rows: list[dict[str, Any]], space: Space, expected: str | None, data: Any) -> None:
    whole = table(rows)
    cut = data.draw(st.integers(0, len(rows)))
    chunked = pa.concat_tables([whole[:cut], whole[cut:]])
    by_row = plain(decode_messages(rows, space, expected))
    assert plain(decode_messages(whole, space, expected)) == by_row
    assert plain(decode_messages(chunked, space, expected)) == by_row


def test_slices_of_a_batch() -> None:
    batch = decode_messages(table(GOOD), PLANE, None)
    for lo in range(len(GOOD) + 1):
        for hi in range(lo, len(GOOD) + 1):
            part = plain(batch.slice(lo, hi))
            for name, values in plain(batch).items():
                if name not in ("rejects", "type"):
                    assert part[name] == values[lo:hi]


# ----------------------------------------------------------------------------------------------------- stored messages


def stored(texts: list[str], weights: Weights | None = None) -> tuple[MessageTable, np.ndarray]:
    messages = MessageTable(Vocabulary(weights), unique_ids=True)
    return messages, store(messages, texts, 1)


def store(messages: MessageTable, texts: list[str], sequence: int) -> np.ndarray:
    batch = decode_messages([Message(sequence + n, n, -n, text) for n, text in enumerate(texts)], PLANE, None)
    n = len(texts)
    sequences = np.arange(sequence, sequence + n)
    return messages.store(
        batch, encode_batch(batch, messages.vocabulary), np.arange(n), sequences, sequences * 10, np.full(n, FOREVER)
    )


def content(messages: MessageTable) -> dict[Any, Any]:
    layout = messages.layout
    found = {}
    for slot in messages.live_slots.tolist():
        row = layout.rows[slot]
        where = slice(row["term_start"], row["term_start"] + row["n_terms"])
        names = [messages.vocabulary.word(term) for term in layout.terms[where].tolist()]
        words = dict(zip(names, layout.counts[where].tolist(), strict=True))
        found[messages.ids.value(slot)] = (row["sequence"], row["x"], row["y"], row["ts"], words)
    return found


def test_messages_are_stored_and_measured() -> None:
    weights = Weights.fit(["fire", "fire smoke"])
    messages, slots = stored(["fire fire smoke", "", "road"], weights)
    assert content(messages) == {
        1: (1, 0, 0, 10, {"fire": 2, "smoke": 1}),
        2: (2, 1, -1, 20, {}),
        3: (3, 2, -2, 30, {"road": 1}),
    }
    fire, smoke, road = map(weights.weight, ("fire", "smoke", "road"))
    rows = messages.layout.rows[slots]
    assert rows["weight"].tolist() == pytest.approx([fire + smoke, 0, road])
    assert rows["norm"].tolist() == pytest.approx([((2 * fire) ** 2 + smoke**2) ** 0.5, 0, road])
    messages.vocabulary.set_weights(Weights())
    messages.measure(slots)
    assert messages.layout.rows[slots]["weight"].tolist() == [2.0, 0.0, 1.0]
    assert len(messages) == 3


def test_only_chosen_rows_are_stored() -> None:
    messages = MessageTable(Vocabulary(), unique_ids=False)
    batch = decode_messages([Message(name, 1, 1, name) for name in ("a", "a", "b")], PLANE, None)
    chosen = np.array([1, 2])
    messages.store(batch, encode_batch(batch, messages.vocabulary), chosen, chosen + 4, chosen, chosen + 100)
    assert content(messages) == {"a": (5, 1, 1, 1, {"a": 1}), "b": (6, 1, 1, 2, {"b": 1})}
    assert messages.layout.rows["expires_at"][messages.live_slots].tolist() == [101, 102]


def test_memory_settles_under_churn_and_words_stay() -> None:
    messages, _ = stored(["first message"])
    sizes = []
    held: list[int] = []
    rounds = 60 if COMPILED else 30
    for n in range(rounds):
        new = store(messages, [f"a b c d e f g h i j k l m n o p {n % 7}"] * 20, 2 + 20 * n).tolist()
        messages.free(np.array(held, dtype=np.int32))
        held = new
        sizes.append(messages.nbytes)
        if n % 10 == 0:
            for sequence, *_, words in content(messages).values():
                assert len(words) == (17 if sequence > 1 else 2)
    assert max(sizes[rounds // 2 :]) <= 1.5 * max(sizes[: rounds // 2])
    messages.free(np.array(held, dtype=np.int32))
    messages.free(np.zeros(0, dtype=np.int32))
    assert content(messages) == {1: (1, 0, 0, 10, {"first": 1, "message": 1})}
    used = np.zeros(messages.vocabulary.capacity, dtype=bool)
    messages.mark_terms(used)
    assert [messages.vocabulary.word(term) for term in np.flatnonzero(used)] == ["first", "message"]
    other = MessageTable(messages.vocabulary, unique_ids=True)
    other.load(messages.state())
    assert content(other) == content(messages)


def test_strings_that_are_not_utf8_are_refused_row_by_row() -> None:
    broken = pa.Array.from_buffers(pa.string(), 2, pa.array([b"\xff\xfe", b"a"]).buffers())
    for name, other in (("id", "text"), ("text", "id")):
        table = pa.table({name: broken, other: ["b", "c"], "lon": [0.0, 0.0], "lat": [0.0, 0.0]})
        batch = decode_messages(table, PLANE, None)
        assert [(r.row, r.field) for r in batch.rejects] == [(0, name)]
        assert batch.rows.tolist() == [1]
