"""Frames become Arrow."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from nearcast.errors import InvalidInput
from nearcast.model.frames import batches_of, plain
from nearcast.text.weights import Weights

TEXTS = ["ramen fire", None, "ramen"]


class Streaming:
    def __init__(self, given: pa.Table | pa.ChunkedArray) -> None:
        self._given = given

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self._given.__arrow_c_stream__(requested_schema)


def test_what_is_no_frame() -> None:
    for other in ([], (), {}, "text", None, 5, iter("ab"), pa.table({"a": [1]}), pa.array([1]), object()):
        assert batches_of("messages", other) is None


def test_streams_come_batch_by_batch() -> None:
    table = pa.table({"id": [1, 2, 3]})
    for source in (table.to_reader(2), Streaming(pa.Table.from_batches(table.to_batches(2)))):
        batches = batches_of("messages", source)
        assert batches is not None
        assert [batch.to_pydict() for batch in batches] == [{"id": [1, 2]}, {"id": [3]}]
    (column,) = batches_of("ids", Streaming(pa.chunked_array([[1], [2]]))) or ()
    assert column.to_pylist() == [1, 2]


def test_strings_get_their_plain_encoding() -> None:
    words = ["a", None, "é"]
    lists = [["a"], None, ["b", "é"]]
    columns = [
        pa.array(words, pa.string_view()), pa.array(words, pa.large_string()), pa.array(words).dictionary_encode(),
        pa.array(lists, pa.large_list(pa.string_view())), pa.array(lists, pa.list_(pa.large_string())),
        pa.array([1, 2, 3]),
    ]  # fmt: skip
    given = pa.RecordBatch.from_arrays(columns, names=list("abcdef"))
    made = plain(given)
    assert made.to_pydict() == given.to_pydict()
    assert made.schema.types == [*[pa.string()] * 3, *[pa.list_(pa.string())] * 2, pa.int64()]
    assert plain(made) is made
    assert plain(given.slice(0, 0)).num_rows == 0


def test_damaged_strings_are_left_as_they_are() -> None:
    damaged = pa.Array.from_buffers(pa.large_string(), 1, pa.array([b"\xff"], pa.large_binary()).buffers())
    batch = pa.RecordBatch.from_arrays([damaged], names=["text"])
    assert plain(batch).schema.types == [pa.large_string()]


def test_a_corpus_in_a_table_or_a_stream() -> None:
    wanted = Weights.fit(TEXTS)
    lists = [["ramen", "fire"], None, ["ramen"]]
    for corpus in (
        pa.table({"text": TEXTS, "id": [1, 2, 3]}),
        pa.table({"what": TEXTS}),
        pa.table({"text": TEXTS, "keywords": [None, None, ["x"]]}),
        pa.table({"keywords": lists, "id": [1, 2, 3]}),
        pa.table({"text": ["ramen fire", None, None], "keywords": [None, None, ["ramen"]]}),
        pa.table({"text": TEXTS}).to_reader(1),
        pa.table({"text": TEXTS}).to_batches()[0],
        Streaming(pa.table({"text": TEXTS})),
        Streaming(pa.chunked_array([TEXTS])),
    ):
        weights = Weights.fit(corpus)
        assert weights.n_texts == wanted.n_texts == 2
        assert [weights.weight(word) for word in ("fire", "ramen")] == [wanted.weight("fire"), wanted.weight("ramen")]
    with pytest.raises(InvalidInput, match="texts must have a column text or keywords, or one column"):
        Weights.fit(pa.table({"a": TEXTS, "b": TEXTS}))


def test_what_cannot_be_opened_is_refused() -> None:
    class Broken:
        def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
            raise RuntimeError("no stream today")

    with pytest.raises(InvalidInput, match=r"messages must be readable .*no stream today"):
        batches_of("messages", Broken())
