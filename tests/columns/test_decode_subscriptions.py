from __future__ import annotations

import json
import os
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nearcast.columns.clauses import pack_clauses, split_clauses
from nearcast.columns.decode_subscriptions import (
    Part,
    Rules,
    SubscriptionBatch,
    as_subscription,
    decode_subscriptions,
)
from nearcast.columns.subscription_tables import WithinRows
from nearcast.errors import InvalidInput
from nearcast.model.codec import subscription_to_json
from nearcast.model.kinds import LABELS
from nearcast.model.query import Nearest, Similar, Subscription, TopK, Within
from nearcast.model.region import Box, Circle, Polygon
from nearcast.space.space import Space
from nearcast.text.vocabulary import Vocabulary
from nearcast.text.words import from_lists

COMPILED = os.environ.get("NUMBA_DISABLE_JIT", "0") == "0"
POLES = 'under haversine (plain coordinates: metric="euclidean")'
PLANE = Rules(Space((0, 0, 8, 8), metric="euclidean"), True, None)
GLOBE = Rules(Space((-180, -90, 180, 90), "haversine"), False, None)

SCHEMA = {
    "id": pa.string(),
    "kind": pa.string(),
    "keywords": pa.string(),
    "region": pa.string(),
    "min_lon": pa.float64(),
    "min_lat": pa.float64(),
    "max_lon": pa.float64(),
    "max_lat": pa.float64(),
    "lon": pa.float64(),
    "lat": pa.float64(),
    "delta": pa.float64(),
    "tau": pa.float64(),
    "measure": pa.string(),
    "k": pa.int64(),
    "alpha": pa.float64(),
    "match": pa.string(),
    "backfill": pa.bool_(),
    "expires": pa.int64(),
}


def table(rows: list[dict[str, Any]], **types: pa.DataType) -> pa.Table:
    return pa.Table.from_pylist(rows, schema=pa.schema({**SCHEMA, **types}))


def said(part: Part) -> dict[int, Any]:
    """All that a part says, by row."""
    vocabulary = Vocabulary()
    terms = vocabulary.encode(from_lists(part.words))
    names = [vocabulary.word(term) for term in terms.terms.tolist()]
    starts = terms.row_start.tolist()
    given = part.given
    found: dict[int, Any] = {}
    if isinstance(given, WithinRows):
        packed, sizes = pack_clauses(terms, part.n_clauses)
        ends = np.cumsum(sizes).tolist()
        for i, row in enumerate(given.rows.tolist()):
            clauses = [
                (sorted(map(vocabulary.word, yes.tolist())), sorted(map(vocabulary.word, no.tolist())))
                for yes, no in split_clauses(packed[ends[i] - int(sizes[i]) : ends[i]])
            ]
            region = given.regions.take(np.array([i]))
            found[row] = (part.ids[i].as_py(), [a.tolist() for a in region], sorted(clauses))
    else:
        for i, row in enumerate(given.rows.tolist()):
            counts = terms.counts[starts[i] : starts[i + 1]].tolist()
            words = dict(zip(names[starts[i] : starts[i + 1]], counts, strict=True))
            numbers = [getattr(given, name)[i].item() for name in ("x", "y", "delta", "tau", "alpha", "k", "mode")]
            found[row] = (part.ids[i].as_py(), numbers, words)
    for i, row in enumerate(given.rows.tolist()):
        found[row] = (part.kind.label, *found[row], int(given.expires[i]), bool(given.backfill[i]))
    return found


def plain(batch: SubscriptionBatch) -> tuple[dict[int, Any], list[tuple[int, str, str]]]:
    rows: dict[int, Any] = {}
    for part in batch.parts:
        new = said(part)
        assert not rows.keys() & new.keys()
        assert new
        rows |= new
    return rows, sorted((reject.row, reject.field, reject.reason) for reject in batch.rejects)


def by_row(rows: list[Any], rules: Rules) -> Any:
    return plain(decode_subscriptions(rows, rules))


SUBSCRIPTIONS = [
    Subscription("bob", Within(Box(1, 2, 3, 4), "fire OR (smoke AND NOT camp)"), expires=5),
    Subscription("bea", Within(Circle(1, 2, 3), ["Road Works", "fire"], backfill=False)),
    Subscription("ben", Within(Polygon([(0, 0), (1, 0), (0, 1)]), "a b")),
    Subscription("sue", Similar(1, 2, "ramen sushi", 0.5, 0.25, "dice")),
    Subscription("tom", TopK(1, 2, ["ramen", "ramen"], 3, 0.75)),
    Subscription("ann", Nearest(1, 2, "ramen ramen", 4, "any"), expires=9),
]


def test_objects_tuples_json_and_arrow_give_the_same_parts() -> None:
    expected, rejects = by_row(SUBSCRIPTIONS, PLANE)
    assert rejects == []
    assert [expected[row][0] for row in range(6)] == ["within"] * 3 + ["similar", "topk", "nearest"]
    forms: list[Any] = [
        [(s.id, s.query, s.expires) for s in SUBSCRIPTIONS],
        [subscription_to_json(s) for s in SUBSCRIPTIONS],
        iter(SUBSCRIPTIONS),
    ]
    for form in forms:
        assert by_row(form, PLANE) == (expected, [])
    rows = [subscription_to_json(s) for s in SUBSCRIPTIONS]
    for row in rows:
        if "region" in row:
            row["region"] = json.dumps(row["region"])
    listed = [i for i, row in enumerate(rows) if isinstance(row["keywords"], list)]
    for chosen, kind in ((listed, pa.list_(pa.string())), (sorted(set(range(6)) - set(listed)), pa.string())):
        some = table([rows[i] for i in chosen], keywords=kind)
        for form in (some, some.combine_chunks().to_batches()[0]):
            assert plain(decode_subscriptions(form, PLANE)) == ({n: expected[i] for n, i in enumerate(chosen)}, [])


GOOD = {
    "within": {"id": "w", "kind": "within", "keywords": "fire", "min_lon": 0.0, "min_lat": 0.0, "max_lon": 1.0,
               "max_lat": 2.0},
    "similar": {"id": "s", "kind": "similar", "keywords": "fire now", "lon": 1.0, "lat": 2.0, "delta": 0.5, "tau": 0.5},
    "topk": {"id": "t", "kind": "topk", "keywords": "fire", "lon": 1.0, "lat": 2.0},
    "nearest": {"id": "n", "kind": "nearest", "keywords": "fire", "lon": 1.0, "lat": 2.0},
}  # fmt: skip
BAD: list[tuple[str, dict[str, Any], str, str]] = [
    ("nearest", {"id": None}, "id", "id is required, got None"),
    ("nearest", {"kind": None}, "kind", "kind is required, got None"),
    ("nearest", {"kind": "far"}, "kind", "kind must be one of within, similar, topk, nearest, got 'far'"),
    ("nearest", {"keywords": None}, "keywords", "keywords is required, got None"),
    ("nearest", {"keywords": " - "}, "keywords", "keywords must hold at least one word, got ' - '"),
    ("nearest", {"lon": None}, "lon", "lon is required, got None"),
    ("nearest", {"lat": float("nan")}, "lat", "lat must be finite, got nan"),
    ("nearest", {"lat": 90.5}, "lat", f"lat must be within [-90, 90] {POLES}, got 90.5"),
    ("nearest", {"k": 0}, "k", "k must be >= 1, got 0"),
    ("nearest", {"k": 2**31}, "k", f"k must be <= {2**31 - 1}, got {2**31}"),
    ("nearest", {"match": "some"}, "match", "match must be one of all, any, got 'some'"),
    ("nearest", {"tau": 0.5}, "tau", "tau is not a field of a nearest subscription ("),
    ("similar", {"delta": 1.5}, "delta", "delta must be in [0, 1], got 1.5"),
    ("similar", {"tau": None}, "tau", "tau is required, got None"),
    ("similar", {"measure": "hamming"}, "measure", "measure must be one of weighted, overlap, jaccard, "),
    ("topk", {}, "kind", "kind needs a broker with a window, got 'topk'"),
    ("topk", {"alpha": -0.1}, "alpha", "alpha must be in [0, 1], got -0.1"),
    ("within", {"max_lat": -1.0}, "min_lat", "min_lat must be <= max_lat (-1.0), got 0.0"),
    ("within", {"max_lat": None}, "max_lat", "max_lat is required, got None"),
    ("within", {"region": "[0,0,1,1]"}, "min_lon", "min_lon must be left out when a region is given, got 0.0"),
    ("within", {"max_lat": 91.0}, "region", f"region must keep latitudes within [-90, 90] {POLES}, got Box("),
]  # fmt: skip


@pytest.mark.parametrize("in_table", [False, True])
def test_bad_rows_are_rejected_with_field_and_reason(in_table: bool) -> None:
    rows = [{**GOOD[kind], **change} for kind, change, _, _ in BAD]
    rows = [GOOD["within"], *rows, GOOD["nearest"]]
    batch = decode_subscriptions(table(rows) if in_table else rows, GLOBE)
    accepted, rejects = plain(batch)
    assert accepted.keys() == {0, len(rows) - 1}
    assert [(row, field) for row, field, _ in rejects] == [(n + 1, field) for n, (_, _, field, _) in enumerate(BAD)]
    for (_, _, reason), (_, _, _, expected) in zip(rejects, BAD, strict=True):
        assert reason.startswith(expected)


@pytest.mark.parametrize(
    ("item", "field"),
    [(None, "subscription"), ("ann", "subscription"), (("ann",), "subscription"), (("a", 1, 2, 3), "subscription"),
     (("ann", None), "query"), (("ann", "ramen"), "query"), ((True, TopK(0, 0, "a")), "id"),
     ((1.5, TopK(0, 0, "a")), "id"),
     (("ann", TopK(0, 0, "a"), 1.0), "expires"), ({"id": "a", "kind": ["topk"]}, "kind"), ([1, 2], "subscription")],
)  # fmt: skip
def test_odd_items(item: Any, field: str) -> None:
    accepted, rejects = by_row([item, ("z", TopK(0, 0, "a"))], PLANE)
    assert accepted.keys() == {1}
    assert [(row, name) for row, name, _ in rejects] == [(0, field)]
    with pytest.raises(InvalidInput) as refused:
        as_subscription(item)
    assert refused.value.field == field


def test_ids_have_the_type_of_those_before_them() -> None:
    rows = [{**GOOD["nearest"], "id": value} for value in (1, "a", 2)]
    accepted, rejects = by_row(rows, PLANE)
    assert accepted.keys() == {0, 2}
    assert rejects == [(1, "id", "id must be an integer like the ids before it, got 'a'")]
    strings = table([{**GOOD["nearest"], "id": value} for value in ("a", "b")])
    accepted, rejects = plain(decode_subscriptions(strings, PLANE._replace(id_type="integer")))
    assert accepted == {}
    assert [reason for _, _, reason in rejects] == [
        f"id must be an integer like the ids before it, got {value!r}" for value in "ab"
    ]


@pytest.mark.parametrize(
    "id_type",
    [pa.int8(), pa.int32(), pa.int64(), pa.uint64(), pa.large_string(), pa.dictionary(pa.int8(), pa.string())],
)
def test_id_columns(id_type: pa.DataType) -> None:
    values = ["a", "b", "c"] if "string" in str(id_type) else [1, 2, 3]
    rows = [{**GOOD[kind], "id": value} for kind, value in zip(("nearest", "within", "topk"), values, strict=True)]
    assert plain(decode_subscriptions(table(rows, id=id_type), PLANE)) == by_row(rows, PLANE)


ODD_TYPES: list[tuple[str, list[Any], pa.DataType]] = [
    ("k", [1.0, None], pa.float64()),
    ("k", [1, None], pa.uint8()),
    ("k", ["1", None], pa.string()),
    ("alpha", [1, None], pa.int32()),
    ("alpha", ["0.5", None], pa.string()),
    ("alpha", [True, None], pa.bool_()),
    ("match", [["all"], None], pa.list_(pa.string())),
    ("match", [5, None], pa.int32()),
    ("match", [{"a": 1}, None], pa.struct({"a": pa.int32()})),
    ("match", ["any", None], pa.dictionary(pa.int8(), pa.string())),
    ("measure", [None, None], pa.null()),
    ("backfill", [1, None], pa.int8()),
    ("backfill", ["true", None], pa.string()),
    ("expires", [5.0, None], pa.float64()),
    ("expires", [2**63, None], pa.uint64()),
    ("lon", ["1", None], pa.string()),
    ("lon", [True, None], pa.bool_()),
    ("lon", [[1.0], None], pa.list_(pa.float64())),
    ("keywords", [5, None], pa.int64()),
    ("keywords", [b"fire", None], pa.binary()),
    ("keywords", [["fire"], []], pa.large_list(pa.string())),
    ("keywords", ["Fire", "fire fire"], pa.large_string()),
    ("kind", ["nearest", "topk"], pa.large_string()),
    ("kind", [["nearest"], None], pa.list_(pa.string())),
    ("region", [[0.0, 0.0, 1.0, 1.0], None], pa.list_(pa.float64())),
]


@pytest.mark.parametrize(("name", "values", "kind"), ODD_TYPES)
def test_columns_of_odd_types(name: str, values: list[Any], kind: pa.DataType) -> None:
    for query in LABELS:
        rows = [{**GOOD[query], "id": str(n), name: value} for n, value in enumerate(values)]
        if name == "region":
            rows = [
                {key: value for key, value in row.items() if key not in ("min_lon", "min_lat", "max_lon", "max_lat")}
                for row in rows
            ]
        assert plain(decode_subscriptions(table(rows, **{name: kind}), PLANE)) == by_row(rows, PLANE)


def test_tables_with_few_columns() -> None:
    for names in ([], ["id"], ["id", "kind"], ["id", "kind", "keywords"], ["kind", "keywords"]):
        rows = table([GOOD["nearest"]]).select(names) if names else pa.table({"x": [1]})
        accepted, rejects = plain(decode_subscriptions(rows, PLANE))
        assert accepted == {}
        assert len(rejects) == 1
    assert plain(decode_subscriptions(table([]), PLANE)) == ({}, [])
    assert plain(decode_subscriptions([], PLANE)) == ({}, [])


def test_a_null_list_may_hide_values() -> None:
    hidden = pa.ListArray.from_arrays(
        pa.array([0, 2, 3, 4], pa.int32()), pa.array(["a", "B", "b", "c"]), mask=pa.array([True, False, False])
    )
    rows = table([{**GOOD["nearest"], "id": name} for name in "pqr"]).drop_columns(["keywords"])
    accepted, rejects = plain(decode_subscriptions(rows.append_column("keywords", hidden), PLANE))
    assert [accepted[row][3] for row in (1, 2)] == [{"b": 1}, {"c": 1}]
    assert rejects == [(0, "keywords", "keywords is required, got None")]


# ------------------------------------------------------------------------------------------------ the two doors agree

SIDE = st.one_of(
    st.sampled_from([0.0, 1.0, 2.0, -1.0]), st.sampled_from([None, float("nan"), 91.0, float("inf"), -1e300])
)
WORDS = [
    "fire",
    "a b",
    "Fire",
    "",
    "a OR b",
    "a AND NOT b",
    "ﬁre",
    "a  b",
    "a ",
    "NOT a",
    "-",
    "a\n",
    "x1",
    "a a",
    None,
]
FIELDS: dict[str, st.SearchStrategy[Any]] = {
    "id": st.sampled_from(["a", "b", "c", "d", "é", None]),
    "kind": st.sampled_from([*LABELS, *LABELS, *LABELS, "topK", None]),
    "keywords": st.sampled_from(WORDS),
    "lon": SIDE,
    "lat": SIDE,
    "delta": st.sampled_from([0.0, 0.5, 1.0, 1.5, None]),
    "tau": st.sampled_from([0.0, 0.5, 1.0, float("nan"), None]),
    "measure": st.sampled_from([None, "weighted", "dice", "cosine", "other"]),
    "k": st.sampled_from([None, 1, 5, 0, -1, 2**31 - 1, 2**31]),
    "alpha": st.sampled_from([None, 0.0, 0.25, 2.0]),
    "match": st.sampled_from([None, "all", "any", "none"]),
    "backfill": st.sampled_from([None, True, False]),
    "expires": st.sampled_from([None, 0, 5, -(2**63), 2**63 - 1]),
    "region": st.sampled_from([None, None, "[0,0,1,1]", "[3]", '{"type":"Circle","coordinates":[1,1],"radius":2}']),
    "min_lon": SIDE,
    "min_lat": SIDE,
    "max_lon": SIDE,
    "max_lat": SIDE,
}
OWN = {
    "within": ("region", "min_lon", "min_lat", "max_lon", "max_lat"),
    "similar": ("lon", "lat", "delta", "tau", "measure"),
    "topk": ("lon", "lat", "k", "alpha"),
    "nearest": ("lon", "lat", "k", "match"),
}


@st.composite
def subscription_rows(draw: Any, lists: bool) -> list[dict[str, Any]]:
    """Good rows, most with one or two fields drawn anew."""
    rows = []
    for n in range(draw(st.integers(0, 8))):
        kind = draw(st.sampled_from(LABELS))
        row = {**GOOD[kind], "id": str(n)}
        for name in draw(st.lists(st.sampled_from(["id", "keywords", "backfill", "expires", *OWN[kind]]), max_size=3)):
            row[name] = draw(FIELDS[name])
        if draw(st.integers(0, 5)) == 0:
            name = draw(st.sampled_from(sorted(FIELDS)))
            row[name] = draw(FIELDS[name])
        if lists and row["keywords"] is not None:
            row["keywords"] = draw(st.lists(st.sampled_from(["fire", "smoke", "a b", "É", "", None]), max_size=3))
        rows.append(row)
    return rows


@settings(max_examples=150 if COMPILED else 60)
@given(st.data())
def test_the_bulk_door_agrees_with_the_row_wise_one(data: Any) -> None:
    lists = data.draw(st.booleans())
    rows = data.draw(subscription_rows(lists))
    rules = data.draw(
        st.sampled_from([PLANE, GLOBE, GLOBE._replace(has_window=True), PLANE._replace(id_type="string")])
    )
    whole = table(rows, keywords=pa.list_(pa.string()) if lists else pa.string())
    expected = by_row(rows, rules)
    assert plain(decode_subscriptions(whole, rules)) == expected
    cut = data.draw(st.integers(0, len(rows)))
    assert plain(decode_subscriptions(pa.concat_tables([whole[:cut], whole[cut:]]), rules)) == expected
    padded = pa.concat_tables([whole[:1], whole, whole[:1]]).combine_chunks()[min(1, len(rows)) :][: len(rows)]
    assert plain(decode_subscriptions(padded, rules)) == expected
    if rows:
        dropped = [name for name in SCHEMA if all(row.get(name) is None for row in rows)]
        assert plain(decode_subscriptions(whole.drop_columns(dropped), rules)) == expected


@settings(max_examples=60 if COMPILED else 15)
@given(st.data())
def test_filtering_a_part_keeps_the_rest_as_it_was(data: Any) -> None:
    chosen = data.draw(st.lists(st.sampled_from(SUBSCRIPTIONS), max_size=8))
    as_table = data.draw(st.booleans())
    rows: Any = [Subscription(f"{n}", s.query, s.expires) for n, s in enumerate(chosen)]
    if as_table:
        rows = table([{**row, "id": str(n)} for n, row in enumerate(GOOD.values())] * 2)
    for part in decode_subscriptions(rows, PLANE).parts:
        keep = np.array([data.draw(st.booleans()) for _ in range(len(part.ids))], dtype=bool)
        numbers = part.given.rows[keep].tolist()
        assert said(part.filter(keep)) == {row: value for row, value in said(part).items() if row in numbers}


def test_clauses_are_packed_one_after_another() -> None:
    vocabulary = Vocabulary()
    words = [["a", "b"], ["c"], ["d"], [], ["e"], ["a", "c"]]
    terms = vocabulary.encode(from_lists(pa.array(words)))
    packed, sizes = pack_clauses(terms, np.array([2, 1], dtype=np.int32))
    assert sizes.tolist() == [8, 5]
    assert [
        [[vocabulary.word(term) for term in side.tolist()] for side in clause] for clause in split_clauses(packed)
    ] == [[["a", "b"], ["c"]], [["d"], []], [["e"], ["a", "c"]]]
    packed, sizes = pack_clauses(
        vocabulary.encode(from_lists(pa.array([], pa.list_(pa.string())))), np.zeros(0, np.int32)
    )
    assert packed.size == sizes.size == 0
