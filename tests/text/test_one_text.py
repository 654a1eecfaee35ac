"""One text at a time has the words that it has in a column."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import SPELLINGS

from nearcast.model.words import term_key
from nearcast.text.one_text import MOST_BYTES, N_IN_ORDER, OneText, encode_text
from nearcast.text.vocabulary import Vocabulary
from nearcast.text.weights import Weights
from nearcast.text.words import as_given, tokenise

PIECES = st.lists(st.one_of(st.sampled_from(SPELLINGS), st.sampled_from("abcAB "), st.text(max_size=6)), max_size=12)


def encode(one: OneText, text: str) -> tuple[int, int] | None:
    """How many words a text has, and distinct ones, in `one.room`; None if it must take the way of columns."""
    n_distinct = encode_text(*one.call) if one.hold(text) else -1
    if n_distinct < 0:
        return None
    one.weigh_new()
    return int(one.room.counts[N_IN_ORDER]), n_distinct


@given(st.lists(PIECES.map(" ".join), max_size=8))
def test_the_same_terms_as_in_a_column(texts: list[str]) -> None:
    """Terms, counts, order and weights; a text that is left to columns leaves nothing behind that counts."""
    ours, theirs = Vocabulary(), Vocabulary()
    one = OneText(ours)
    for text in texts:
        expected, in_order = theirs.encode_in_order(tokenise(pa.array([text])))
        found = encode(one, text)
        if found is None:
            ours.encode(tokenise(pa.array([text])))
            found = encode(one, text)
            if found is None:  # for `model.words`
                continue
        n, n_distinct = found
        words = [[ours.word(term) for term in terms] for terms in (one.room.in_order[:n], one.room.terms[:n_distinct])]
        assert words[0] == [theirs.word(term) for term in in_order]
        assert words[1] == [theirs.word(term) for term in expected.terms]
        assert one.room.repeats[:n_distinct].tolist() == expected.counts.tolist()
        assert not np.isnan(ours.idf[one.room.terms[:n_distinct]]).any()


@pytest.mark.parametrize("asked", [[], ["sun*"]])
def test_words_weigh_what_they_weigh_in_a_column(asked: list[str]) -> None:
    """Words of the corpus and others; those that start with a prefix that is asked for are found by it."""
    weights = Weights.fit(["sea sun", "sun", "moon"])
    ours, theirs = Vocabulary(weights), Vocabulary(weights)
    for vocabulary in (ours, theirs):
        vocabulary.encode(as_given(pa.array([[term_key(term) for term in asked]], pa.list_(pa.string()))))
    one = OneText(ours)
    for text in ("sea side sun", "sunny moon sea", "sunny dust"):
        if encode(one, text) is None:  # there is no room for its words
            ours.encode(tokenise(pa.array([text])))
            assert encode(one, text) is not None
        terms = one.room.in_order[: one.room.counts[N_IN_ORDER]]
        in_column = theirs.encode_in_order(tokenise(pa.array([text])))[1]
        assert [ours.word(term) for term in terms] == [theirs.word(term) for term in in_column]
        assert ours.idf[terms].tolist() == theirs.idf[in_column].tolist()
    for prefix in asked:
        term = ours.encode(as_given(pa.array([[term_key(prefix)]]))).terms[0]
        assert {ours.word(word) for word in ours.patterns.words_with(term)} == {"sun", "sunny"}


def test_many_words_make_the_table_grow() -> None:
    vocabulary = Vocabulary()
    one, n_left = OneText(vocabulary), 0
    for i in range(200):
        text = " ".join(f"w{i * 10 + j}" for j in range(10))
        if encode(one, text) is None:
            n_left += 1
            vocabulary.encode(tokenise(pa.array([text])))
        assert encode(one, text) == (10, 10)
        assert vocabulary.word(int(one.room.in_order[3])) == f"w{i * 10 + 3}"
    assert 0 < n_left < 40


def test_long_texts_are_left_to_columns() -> None:
    one = OneText(Vocabulary())
    assert encode(one, "a" * (MOST_BYTES + 1)) is None
    assert encode(one, "é" * (MOST_BYTES // 2 + 1)) is None
    assert encode(one, "") == (0, 0)
