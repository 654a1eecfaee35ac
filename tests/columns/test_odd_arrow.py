"""Odd Arrow at every door: rows become rejects, columns that nobody asked for are ignored, all else goes on."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from fuzz.odd_arrays import Plain, Shout
from fuzz.odd_arrow import odd_arrow_round
from odd_values import BrokenMapping, Classless, OddFloat, OddInt, OddString, Raises, Untouchable, broken_off

import nearcast as nc

COMPILED = os.environ.get("NUMBA_DISABLE_JIT", "0") == "0"
NOT_UTF8 = pa.array([b"\xff", b"\xfe"]).view(pa.string())
BOX = nc.Box(0, 0, 9, 9)


@pytest.mark.parametrize("seed", range(24 if COMPILED else 6))
def test_odd_arrow_and_odd_objects(seed: int) -> None:
    odd_arrow_round(seed)


def new_broker() -> nc.Broker:
    broker = nc.Broker(nc.Space((0, 0, 9, 9), metric="euclidean"), nc.Window(count=100, age=1000))
    broker.subscribe("fires", nc.Within(BOX, "fire"))
    return broker


def messages(**columns: Any) -> pa.Table:
    """Two good messages of which some columns are others."""
    given = {"id": ["a", "b"], "lon": [1.0, 2.0], "lat": [1.0, 2.0], "text": ["fire", "Fire!"], "ts": [10, 20]}
    return pa.table({**given, **columns})


def told(updates: nc.Updates) -> tuple[list[Any], list[tuple[int, str]]]:
    return [update.message for update in updates], [(reject.row, reject.field) for reject in updates.rejects]


IGNORED = {
    "words": pa.array([["x"], ["y"]]),
    "words as they are inside": pa.array([["x"], ["y"]], pa.list_(pa.dictionary(pa.int32(), pa.string()))),
    "counts": pa.array([[1], [1]], pa.list_(pa.int32())),
    "past the calendar": pa.array([2**62, -(2**62)], pa.timestamp("s")),
    "list of times": pa.array([[2**62], None], pa.list_(pa.timestamp("s"))),
    "no such zone": pa.array([1, 2], pa.timestamp("s", "Nowhere/Bad")),
    "not UTF-8": NOT_UTF8,
    "not UTF-8 in a struct": pa.StructArray.from_arrays([NOT_UTF8], ["x"]),
    "not UTF-8 in a map": pa.MapArray.from_arrays(pa.array([0, 1, 2], pa.int32()), NOT_UTF8, pa.array([1, 2])),
    "struct with a name twice": pa.StructArray.from_arrays([pa.array([1, 2])] * 2, ["x", "x"]),
    "runs": pa.RunEndEncodedArray.from_arrays(pa.array([2], pa.int32()), pa.array(["x"])),
    "views": pa.array([["x"], None], pa.list_view(pa.string())),
    "union": pa.UnionArray.from_sparse(pa.array([0, 1], pa.int8()), [pa.array([1, 2]), pa.array(["a", "b"])]),
    "extension": pa.ExtensionArray.from_storage(Shout(), pa.array(["x", "y"])),
    "extension over an extension": pa.ExtensionArray.from_storage(
        Plain(Shout()), pa.ExtensionArray.from_storage(Shout(), pa.array(["x", "y"]))
    ),
    "dictionary of nothing": pa.DictionaryArray.from_arrays(pa.array([0, 0]), pa.nulls(1)),
    "type": pa.array(["Feature", "Feature"]),
    "geometry": pa.array([1, 2]),
    "properties": NOT_UTF8,
    "spelled": pa.array(["Feature", "Feature"]),
}


@pytest.mark.parametrize("name", IGNORED)
def test_columns_of_no_message_are_ignored(name: str) -> None:
    expected = told(new_broker().publish(messages()))
    assert expected == (["a", "b"], [])
    spelled = {"words": IGNORED["words as they are inside"], "counts": IGNORED["counts"]}
    for column in (name, "words", "counts", "keywordss"):
        assert told(new_broker().publish(messages(**{column: IGNORED[name]}))) == expected
        slowly = messages(**{column: IGNORED[name]}, ts=pa.array([10, 20], pa.uint64()))
        assert told(new_broker().publish(slowly)) == expected
    assert told(new_broker().publish(messages(**spelled))) == expected
    broker = new_broker()
    broker.publish(messages(**spelled))
    broker.subscribe("x", nc.Nearest(0, 0, "x"))
    assert broker.results("x") == [], "the words of a message are those of its text"


def test_a_column_that_nobody_asked_for_may_stand_twice_or_have_no_name() -> None:
    table = messages()
    table = table.append_column("x", [[1, 2]]).append_column("x", [["a", "b"]])
    assert told(new_broker().publish(table)) == (["a", "b"], [])
    nameless = pa.Table.from_arrays([*messages().columns, NOT_UTF8], names=[*messages().column_names, b"\xff"])
    assert told(new_broker().publish(nameless)) == (["a", "b"], [])
    with pytest.raises(nc.InvalidInput, match="messages must have each column once, got 'lon'"):
        new_broker().publish(messages().append_column("lon", [[1, 2]]))
    with pytest.raises(nc.InvalidInput, match="subscriptions must have column names in UTF-8"):
        new_broker().subscribe_many(nameless)


WORDS = [["fire", "x"], ["Fire"]]
KEYWORDS = {
    "list": pa.list_(pa.string()),
    "large": pa.large_list(pa.large_string()),
    "view": pa.list_view(pa.string()),
    "large view": pa.large_list_view(pa.string_view()),
    "dictionary": pa.list_(pa.dictionary(pa.int8(), pa.string())),
}


@pytest.mark.parametrize("kind", KEYWORDS.values(), ids=KEYWORDS)
def test_keywords_in_lists_of_every_form(kind: pa.DataType) -> None:
    column = pa.array([["no"], *WORDS, ["no"]], kind)[1:3]
    assert told(new_broker().publish(messages(text=pa.nulls(2), keywords=column))) == (["a", "b"], [])
    within = {"id": ["p", "q"], "kind": ["within"] * 2, "region": ["[0, 0, 9, 9]"] * 2}
    broker = new_broker()
    assert broker.subscribe_many(pa.table({**within, "keywords": column})).rejects == []
    assert {update.subscription for update in broker.publish(messages(text=["fire x", "fire"]))} == {"fires", "p", "q"}


def test_encoded_columns_mean_what_they_hold() -> None:
    fixed = pa.array([["fire"], ["fire"]], pa.list_(pa.string(), 1))
    runs = pa.RunEndEncodedArray.from_arrays(pa.array([2], pa.int32()), pa.array(["fire"]))
    viewed = pa.array(["fire", "fire"], pa.string_view())
    extended = pa.ExtensionArray.from_storage(Plain(pa.string()), pa.array(["fire", "fire"]))
    for texts in (runs, viewed, extended, pa.array(["fire", "fire"]).dictionary_encode()):
        assert told(new_broker().publish(messages(text=texts))) == (["a", "b"], [])
    assert told(new_broker().publish(messages(text=pa.nulls(2), keywords=fixed))) == (["a", "b"], [])
    half = pa.array(np.array([1.0, 2.0], np.float16))
    assert told(new_broker().publish(messages(lon=half, lat=pa.array([1, 2], pa.uint64())))) == (["a", "b"], [])


REFUSED: list[tuple[str, pa.Array]] = [
    ("text", NOT_UTF8),
    ("text", NOT_UTF8.dictionary_encode()),
    ("id", NOT_UTF8),
    ("id", pa.array([2**62, 2**62], pa.timestamp("s"))),
    ("id", IGNORED["extension"]),
    ("lon", pa.array([1, 2], pa.duration("s"))),
    ("lat", pa.array([1, 2], pa.date32())),
    ("lat", pa.array([1, 2], pa.time64("us"))),
    ("lon", pa.array([float("nan"), float("inf")])),
    ("ts", pa.array([-(2**63), -(2**63)])),
    ("ts", pa.array([2**62 + 1, -(2**62) - 1])),
    ("ts", pa.array([2**63, 2**64 - 1], pa.uint64())),
    ("expires", pa.array([2**63, 2**64 - 1], pa.uint64())),
    ("expires", pa.array([1.0, 2.0])),
]


@pytest.mark.parametrize(("name", "column"), REFUSED, ids=lambda value: str(getattr(value, "type", value)))
def test_columns_that_no_row_can_be_read_from(name: str, column: pa.Array) -> None:
    broker = new_broker()
    assert told(broker.publish(messages(**{name: column}))) == ([], [(0, name), (1, name)])
    assert broker.stats()["messages"]["sequence"] == 0
    assert told(broker.publish(messages())) == (["a", "b"], [])


def test_the_first_instants_of_arrow_are_no_missing_times() -> None:
    """-2**63 is what a missing `ts` is inside."""
    broker = new_broker()
    broker.publish({"id": "x", "lon": 1, "lat": 1, "text": "fire", "ts": 500})
    updates = broker.publish(messages(ts=pa.array([-(2**63), None], pa.int64())))
    assert told(updates) == (["b"], [(0, "ts")])
    assert updates.rejects[0].reason == f"ts must be >= {-(2**62)}, got {-(2**63)}"
    ends = nc.Broker(
        nc.Space((0, 0, 9, 9), metric="euclidean"), nc.Window(age=2**62 // 1000 - 1, max_ahead=2**62 // 1000 - 1)
    )
    ends.subscribe("fires", nc.Within(BOX, "fire"))
    assert told(ends.publish(messages(ts=[-(2**62), 2**62], expires=[2**63 - 1, 2**63 - 1]))) == (["a"], [(1, "ts")])
    ends.check()


def test_memory_that_is_not_what_its_type_says_is_not_read() -> None:
    offsets = pa.py_buffer(np.array([0, 2**30, 2], np.int32))
    texts = pa.Array.from_buffers(pa.string(), 2, [None, offsets, pa.py_buffer(b"ab")])
    lists = pa.Array.from_buffers(pa.list_(pa.string()), 2, [None, offsets], children=[pa.array(["a", "b"])])
    codes = pa.DictionaryArray.from_arrays(pa.array([0, 2**30]), pa.array(["fire"]), safe=False)
    for name, column in (("text", texts), ("keywords", lists), ("text", codes), ("id", texts)):
        given = messages(**({"text": pa.nulls(2)} if name == "keywords" else {}) | {name: column})
        assert told(new_broker().publish(given)) == ([], [(0, name), (1, name)])
        assert told(new_broker().publish(messages(other=column))) == (["a", "b"], [])
    assert [reject.row for reject in new_broker().unsubscribe_many(texts).rejects] == [0, 1]
    assert new_broker().export_subscriptions(texts) == {}
    with pytest.raises(nc.InvalidInput, match="texts must be a column that can be read"):
        nc.Weights.fit(texts)


def test_tables_without_a_single_column_of_ours() -> None:
    assert told(new_broker().publish(pa.table({"x": [1, 2]}))) == ([], [(0, "id"), (1, "id")])
    assert told(new_broker().unsubscribe_many(pa.table({"x": [1, 2]}))) == ([], [(0, "id"), (1, "id")])
    assert told(new_broker().publish(pa.table({}))) == ([], [])


# Objects


@pytest.mark.parametrize("broken", ["getitem", "iter", "keys"])
@pytest.mark.parametrize("error", [Raises, KeyError, RecursionError, TypeError])
def test_a_mapping_that_raises_is_a_reject(broken: str, error: type[Exception]) -> None:
    good = {"id": "a", "lon": 1, "lat": 1, "text": "fire"}
    broker = new_broker()
    assert told(broker.publish([BrokenMapping(good, broken, error), good])) == (["a"], [(0, "message")])
    with pytest.raises(nc.InvalidInput, match=rf"^message must be readable \(it raised {error.__name__}"):
        broker.publish(BrokenMapping(good, broken, error))
    asked = {"id": "n", "kind": "nearest", "lon": 1, "lat": 1, "keywords": "fire"}
    assert told(broker.subscribe_many([BrokenMapping(asked, broken, error), asked])) == (["a"], [(0, "subscription")])
    moved = {"id": "n", "lon": 5, "lat": 5}
    assert told(broker.move_many([BrokenMapping(moved, broken, error), moved])) == ([], [(0, "move")])
    ends = broker.unsubscribe_many([BrokenMapping({"id": "n"}, "getitem", error), {"id": "n"}])
    assert told(ends) == ([], [(0, "id")])


@pytest.mark.parametrize("stop", [KeyboardInterrupt, MemoryError])
def test_what_is_no_fault_of_a_row_is_passed_on(stop: type[BaseException]) -> None:
    broker = new_broker()
    with pytest.raises(stop):
        broker.publish([BrokenMapping({"id": "a", "lon": 1, "lat": 1, "text": "fire"}, "getitem", stop)])
    assert told(broker.publish(messages())) == (["a", "b"], [])


class Interruption(Exception):
    """What the handler of a signal may raise at any moment."""


def test_what_a_signal_raises_is_no_fault_of_the_row_that_is_read() -> None:
    class BrokenOnce(BrokenMapping):
        def _touch(self, method: str) -> None:
            if method == "getitem" and not self._broken:
                self._broken = "once"
                raise Interruption

    class FloatOnce(float):
        left = 1

        def __float__(self) -> float:
            if FloatOnce.left:
                FloatOnce.left -= 1
                raise Interruption
            return 1.0

    broker = new_broker()
    good = {"id": "a", "lon": 1.0, "lat": 1.0, "text": "fire"}
    for odd in (BrokenOnce(good, ""), good | {"lon": FloatOnce(1)}):
        with pytest.raises(Interruption):
            broker.publish([good | {"id": "b"}, odd])
    assert broker.stats()["messages"]["sequence"] == 0, "all of a batch, or nothing"


@pytest.mark.parametrize(
    "make", [Untouchable, Classless, lambda: OddInt(1), lambda: OddFloat(1), lambda: OddString("nobody")]
)
def test_objects_that_raise_at_every_touch(make: Callable[[], Any]) -> None:
    broker = new_broker()
    good = {"id": "a", "lon": 1, "lat": 1, "text": "fire", "ts": 5}
    rows = [good | {name: make()} for name in good]
    assert told(broker.publish([make(), *rows, good | {"id": "z"}]))[0][-1] == "z"
    for call in (broker.results, broker.unsubscribe, lambda value: broker.explain(value, "z")):
        with pytest.raises(nc.UnknownId):
            call(make())
    assert broker.export_subscriptions([make(), 2**70, "fires"]).keys() == {"within"}
    broker.check()


@pytest.mark.parametrize("call", ["publish", "subscribe_many", "move_many", "unsubscribe_many", "export_subscriptions"])
def test_a_generator_that_breaks_off_leaves_nothing_behind(call: str) -> None:
    broker = new_broker()
    before = broker.stats()
    good = {"id": "fires", "lon": 1, "lat": 1, "text": "fire"}
    with pytest.raises(Raises):
        getattr(broker, call)(broken_off(good, good))
    assert broker.stats() == before


def test_subclasses_are_taken_for_what_they_are() -> None:
    class Loud(nc.Message):
        text = property(lambda self: 1 / 0)  # type: ignore[assignment]

    class Other(nc.Nearest):
        kind = "other"  # type: ignore[misc]

    class Place(nc.Box):
        pass

    broker = new_broker()
    loud, empty = object.__new__(Loud), object.__new__(nc.Message)
    assert told(broker.publish([loud, empty])) == ([], [(0, "message"), (1, "message")])
    for one in (loud, empty):
        with pytest.raises(nc.InvalidInput, match="message must be readable"):
            broker.publish(one)
    broker.subscribe("other", Other(1, 1, "fire"))
    assert told(broker.publish(messages()))[0] == ["a", "a", "b", "b"]
    assert type(nc.Within(Place(0, 0, 1, 1), "fire").region) is nc.Box
    with pytest.raises(nc.InvalidInput, match="region must be readable"):
        nc.Within(object.__new__(Place), "fire")
    with pytest.raises(nc.InvalidInput, match="subscription must be readable"):
        broker.subscribe("empty", object.__new__(nc.Nearest))
    with pytest.raises(nc.InvalidInput, match="move must be readable"):
        broker.move("fires", region=object.__new__(nc.Box))


# Weights


@pytest.mark.parametrize(
    "column",
    [
        pa.array(["fire", None, "smoke fire"]),
        pa.array(["fire", None, "smoke fire"], pa.string_view()),
        pa.array(["fire", None, "smoke fire"]).dictionary_encode(),
        pa.RunEndEncodedArray.from_arrays(pa.array([1, 2, 3], pa.int32()), pa.array(["fire", None, "smoke fire"])),
        pa.array([["fire"], None, ["smoke", "fire"]], pa.list_view(pa.string())),
        pa.array([["fire"], None, ["smoke", "fire"]], pa.large_list_view(pa.string_view())),
        pa.array([["x"], ["fire"], None, ["smoke", "fire"]], pa.large_list(pa.large_string()))[1:],
        pa.array([["fire", None], None, ["smoke", "fire"]], pa.list_(pa.string(), 2)),
        pa.chunked_array([[["fire"]], [None], [["smoke", "fire"]]], pa.list_(pa.dictionary(pa.int8(), pa.string()))),
    ],
    ids=lambda column: str(column.type),
)
def test_weights_of_columns_of_every_form(column: pa.Array) -> None:
    expected = nc.Weights.fit(["fire", None, "smoke fire"])
    found = nc.Weights.fit(column)
    words = ("fire", "smoke", "x")
    assert [found.weight(word) for word in words] == [expected.weight(word) for word in words]


@pytest.mark.parametrize(
    "column",
    [
        pa.array([1]), pa.array([True]), pa.array([b"a"]), pa.array([[1]]), pa.array([{"a": "b"}]),
        pa.array([b"abc"], pa.binary(3)), pa.array([2**62], pa.timestamp("s")), pa.array([[b"a"]]), NOT_UTF8,
        pa.ListArray.from_arrays([0, 2], NOT_UTF8), IGNORED["union"], IGNORED["extension"],
        IGNORED["extension over an extension"], pa.array([[["a"]]]),
    ],
    ids=lambda column: str(column.type),
)  # fmt: skip
def test_columns_that_are_no_corpus(column: pa.Array) -> None:
    for texts in (column, pa.chunked_array([column])):
        with pytest.raises(nc.InvalidInput, match=r"^texts must be a column"):
            nc.Weights.fit(texts)
