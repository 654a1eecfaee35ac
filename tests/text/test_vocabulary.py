from __future__ import annotations

from collections import Counter

import numpy as np
import pyarrow as pa
from hypothesis import example, given, settings
from hypothesis import strategies as st

from nearcast.model.words import set_apart, words_in, words_of
from nearcast.text.vocabulary import Vocabulary
from nearcast.text.weights import Weights
from nearcast.text.words import from_lists, tokenise

# words that share their first bytes, so that order is decided late; one is the start of another, one holds a NUL
WORD = st.one_of(
    st.sampled_from(["a", "a\0", "abcdefg", "abcdefgh", "abcdefg\0", "abcdefgi", "abcdefé", "ü", "中文", "😂x"]),
    st.text("ab", min_size=1, max_size=12),
    st.text(st.characters(exclude_categories=("Cs",)), min_size=1, max_size=4),
)


def read(vocabulary, rows):
    """Rows of terms as rows of (word, count)."""
    entries = [(vocabulary.word(term), count) for term, count in zip(rows.terms, rows.counts.tolist(), strict=True)]
    return [entries[a:b] for a, b in zip(rows.row_start[:-1], rows.row_start[1:], strict=True)]


def counted(words):
    return sorted(Counter(words).items(), key=lambda entry: entry[0].encode())


@settings(deadline=None)
@given(st.lists(st.lists(st.lists(WORD, max_size=12), max_size=6), max_size=3))
@example([[[f"word{i * 7919 % 200}" for i in range(300)], []]])  # long enough for several rounds of sorting
def test_rows_are_distinct_counted_and_sorted_by_bytes(batches):
    vocabulary = Vocabulary()
    terms = {}
    for batch in batches:
        rows = vocabulary.encode(from_lists(pa.array(batch, pa.list_(pa.string()))))
        assert read(vocabulary, rows) == [counted(map(set_apart, words_in(words))) for words in batch]
        assert (rows.terms.dtype, rows.counts.dtype, rows.row_start.dtype) == (np.int32, np.int32, np.int64)
        for term in rows.terms.tolist():
            assert terms.setdefault(vocabulary.word(term), term) == term
    assert len(vocabulary) == len(terms)
    assert vocabulary.capacity == len(vocabulary.idf) == len(terms)


def test_texts_and_lists_share_their_terms():
    vocabulary = Vocabulary()
    texts = vocabulary.encode(tokenise(pa.array(["Ramen, RAMEN & straße", None, ""])))
    lists = vocabulary.encode(from_lists(pa.array([["strasse", "ramen", "Ramen"], []])))
    assert texts.terms.tolist() == lists.terms.tolist()
    assert texts.counts.tolist() == lists.counts.tolist() == [2, 1]
    assert texts.row_start.tolist() == [0, 2, 2, 2]


def test_words_are_weighed_as_they_come_and_anew():
    weights = Weights.fit(["a b", "b"])
    vocabulary = Vocabulary(weights)
    vocabulary.encode(tokenise(pa.array(["b a a c"])))
    more = vocabulary.encode(tokenise(pa.array(["d a"])))
    for term in range(vocabulary.capacity):
        assert vocabulary.idf[term] == weights.weight(vocabulary.word(term))
    assert vocabulary.idf[more.terms[0]] == weights.weight("a") != weights.weight("b")
    vocabulary.set_weights(Weights.none())
    assert vocabulary.idf.tolist() == [1.0] * 4
    assert Vocabulary().idf.tolist() == []


def test_a_freed_term_is_given_again_with_its_own_weight():
    weights = Weights.fit(["a b", "b"])
    vocabulary = Vocabulary(weights)
    rows = vocabulary.encode(tokenise(pa.array(["a b"])))
    vocabulary.free(rows.terms[:1])
    assert len(vocabulary) == 1
    assert np.isnan(vocabulary.idf[rows.terms[0]])
    new = vocabulary.encode(tokenise(pa.array(["unheard"])))
    assert new.terms.tolist() == rows.terms[:1].tolist()
    assert vocabulary.idf[new.terms[0]] == weights.weight("unheard")
    assert vocabulary.capacity == 2
    vocabulary.free(new.terms)
    vocabulary.set_weights(Weights())  # weighs what is there, and only that
    assert vocabulary.idf[rows.terms[1]] == 1.0
    assert np.isnan(vocabulary.idf[rows.terms[0]])


@settings(deadline=None)
@given(st.lists(st.text("abc ", max_size=9), max_size=6), st.lists(st.text("abcd ", max_size=9), max_size=6))
def test_a_loaded_vocabulary_goes_on_as_the_first(before, after):
    first = Vocabulary(Weights.fit(before))
    first.encode(tokenise(pa.array(before, pa.string())))
    state = {name: np.array(v) if isinstance(v, np.ndarray) else v for name, v in first.state().items()}
    second = Vocabulary().load(state)
    for vocabulary in (first, second):
        rows = vocabulary.encode(tokenise(pa.array(after, pa.string())))
        assert read(vocabulary, rows) == [counted(words_of(text)) for text in after]
    assert first.idf.tolist() == second.idf.tolist()
    assert first.weights.state().keys() == second.weights.state().keys()
    assert second.nbytes > 0
