from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nearcast.errors import InvalidInput
from nearcast.model.words import words_in, words_of
from nearcast.text import weights as weights_module
from nearcast.text.strings import arrow_bytes
from nearcast.text.weights import Weights

TEXT = st.text("abC ßé,", max_size=10)
LIST = st.lists(st.text("abC ßé", max_size=4), max_size=4)


def expected(rows):
    """Plain count: how many texts, and in how many each word is."""
    df = Counter()
    for row in rows:
        df.update(set(words_of(row) if isinstance(row, str) else words_in(row)))
    return len(rows), df


def judge(weights, rows):
    n, df = expected(rows)
    assert weights.n_texts == n
    for word in [*df, "neverseen"]:
        assert weights.weight(word) == (math.log(1 + n / df.get(word, 1)) if n else 1.0)
    words = pa.array(sorted(df), pa.string())
    in_bulk = weights.weights_of(*arrow_bytes(words)).tolist()
    assert in_bulk == [math.log(1 + n / df[word]) for word in sorted(df)]


@settings(deadline=None)
@given(st.lists(st.none() | TEXT | LIST, max_size=12), st.integers(1, 5))
def test_fit_counts_the_texts_that_have_a_word(rows, size):
    whole, weights_module.ROWS = weights_module.ROWS, size  # cut into several batches
    try:
        texts = [row for row in rows if row is None or isinstance(row, str)]
        lists = [row for row in rows if not isinstance(row, str)]
        judge(Weights.fit(iter(rows)), [row for row in rows if row is not None])
        judge(Weights.fit(pa.array(texts, pa.string())), [row for row in texts if row is not None])
        judge(
            Weights.fit(pa.chunked_array([pa.array(lists, pa.list_(pa.string()))])),
            [row for row in lists if row is not None],
        )
    finally:
        weights_module.ROWS = whole


def test_without_a_corpus_every_word_weighs_one():
    for weights in (Weights(), Weights.none(), Weights.fit([]), Weights.fit(pa.array([], pa.string()))):
        assert weights.n_texts == 0
        assert weights.weight("ramen") == 1.0
        assert weights.weights_of(*arrow_bytes(pa.array(["a", "b"]))).tolist() == [1.0, 1.0]


def test_texts_without_words_count_as_texts():
    assert Weights.fit(["", "a", []]).weight("a") == math.log(4)


def test_weights_come_back_from_their_state():
    first = Weights.fit(["a b", "b", ["x y"]])
    state = {name: np.array(v) if isinstance(v, np.ndarray) else v for name, v in first.state().items()}
    second = Weights().load(state)
    assert second.n_texts == 3
    for word in ("a", "b", "x y", "x"):
        assert first.weight(word) == second.weight(word)
    assert second.nbytes > 0


def test_a_word_is_folded_before_it_is_weighed():
    weights = Weights.fit(["Straße", "b", "b"])
    assert weights.weight("STRASSE") == math.log(1 + 3)
    assert weights.weight("B") == math.log(1 + 3 / 2)


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        ("ramen", "texts must be many texts, not one, got 'ramen'"),
        (["a", 5], "texts must each be a text or a list of keywords, got 5"),
        (["a", ["b", None]], "texts must each be a text or a list of keywords, got ['b', None]"),
        ([{"text": "a"}], "texts must each be a text or a list of keywords, got {'text': 'a'}"),
    ],
)
def test_what_is_no_corpus_is_refused(texts, message):
    with pytest.raises(InvalidInput) as error:
        Weights.fit(texts)
    assert str(error.value) == message
    assert error.value.field == "texts"


@pytest.mark.parametrize("texts", [None, 5, ["\ud800"], [["a", "\ud800"]], pa.array([1, 2])])
def test_neither_are_strings_that_utf8_cannot_hold(texts):
    with pytest.raises(InvalidInput, match="texts"):
        Weights.fit(texts)
    with pytest.raises(InvalidInput, match="word must be a string"):
        Weights().weight(None)
