from __future__ import annotations

from itertools import pairwise
from types import FunctionType
from unicodedata import category, combining, normalize

import definitions
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from nearcast.model.words import fold, set_apart, words_in, words_of
from nearcast.text import words as words_module
from nearcast.text.words import from_lists, tokenise

# Characters at which folding or cutting is not plain: upper case that becomes two letters, ligatures, full width,
# letters that become letter and separator, combining marks that merge, reorder or fold to a letter, Hangul, emoji.
ODD = "ßİıŉΐΣςﬁﬃﷺ½①Ａａｱﾞ㌔Å\u0300\u0301\u0316\u0323\u0334\u0345\u037a\u0344\u093c\u094d\u09be\u05b4éếǖ"
ODD += (
    "\u1100\u1161\u11a8가각ㄱㅏ쥅👍🏽👨\u200d👩\ufe0f\u20e3_'\u2019#\u00a0\u3000\u0000\ufffd中\U0001d538\U0001d7d8𐐀😂٣"
)
TEXT = st.one_of(
    st.text("aB1 #_", max_size=12),
    st.text(ODD, max_size=8),
    st.text(ODD + "aB ", max_size=12),
    st.text(st.characters(exclude_categories=("Cs",)), max_size=8),
)
STRING_TYPES = st.sampled_from([pa.string(), pa.large_string(), pa.string_view()])


def rows_of(words):
    data, word_start, row_start = words.data.tobytes(), words.word_start.tolist(), words.row_start.tolist()
    assert row_start[-1] == len(word_start) - 1
    assert word_start[-1] == len(data)
    texts = [data[a:b].decode() for a, b in pairwise(word_start)]
    return [texts[a:b] for a, b in pairwise(row_start)]


@settings(deadline=None)
@given(st.lists(st.none() | TEXT, max_size=12), STRING_TYPES, st.integers(0, 12))
@example(
    ["\u037a\u08eb쥅"], pa.string(), 0
)  # NFKC moves the iota subscript behind the mark, where it joins the next letter
@example(["ﷺ" * 9, "ΐ" * 9], pa.string(), 1)  # grows more than the room first set aside
def test_tokenise_agrees_with_the_rules(texts, kind, cut):
    expected = [words_of(text or "") for text in texts]
    column = pa.array(texts, kind)
    assert rows_of(tokenise(column)) == expected
    assert rows_of(tokenise(column[cut:])) == expected[cut:]
    assert rows_of(tokenise(pa.chunked_array([column[:cut], column[cut:]], kind))) == expected


@settings(deadline=None)
@given(st.lists(st.none() | st.lists(st.none() | TEXT, max_size=4), max_size=8), st.integers(0, 8), st.data())
def test_lists_are_folded_and_not_split(lists, cut, data):
    kind = data.draw(st.sampled_from([pa.list_(pa.string()), pa.large_list(pa.large_string())]))
    expected = [[set_apart(w) for w in words_in(w for w in row or [] if w is not None)] for row in lists]
    column = pa.array(lists, kind)
    assert rows_of(from_lists(column)) == expected
    assert rows_of(from_lists(column[cut:])) == expected[cut:]
    assert rows_of(from_lists(pa.chunked_array([column[:cut], column[cut:]], kind))) == expected


def test_every_character_beside_letters_and_marks():
    step = 1 if not isinstance(words_module.split_many, FunctionType) else 997  # in plain Python a sample
    points = [chr(point) for point in range(0, 0x110000, step) if not 0xD800 <= point <= 0xDFFF]
    points = [point for point in points if category(point) not in ("Cn", "Co")]  # neither unassigned nor private
    for before, after in [("a", "b"), ("ế", "\u0316x"), ("\u1fb3", "\u0308")]:
        texts = [before + point + after for point in points]
        assert rows_of(tokenise(pa.array(texts))) == [words_of(text) for text in texts]


def test_what_folds_to_several_letters_before_every_mark():
    compiled = not isinstance(words_module.split_many, FunctionType)
    points = [chr(point) for point in range(0xA0, 0x20000) if len(fold(chr(point))) > 1 and chr(point).isalpha()]
    marks = [chr(point) for point in range(0xA0, 0x20000) if combining(chr(point)) or chr(point) in "\u1161\u11a8"]
    greek = [point for point in points if "\u0370" <= normalize("NFKD", point)[0] < "\u0400"]
    pairs = [(point, mark) for point in greek for mark in marks] + [(point, "\u0308") for point in points]
    texts = [point + mark + "x" for point, mark in pairs[:: 1 if compiled else 97]]
    expected = [words_of(text) for text in texts]
    assert rows_of(tokenise(pa.array(texts))) == expected
    assert expected == [definitions.words_of(text) for text in texts]
    assert rows_of(from_lists(pa.array([[text] for text in texts]))) == [[definitions.fold(text)] for text in texts]


def test_the_merging_characters_are_all_that_merge():
    merging = words_module.merging_characters()
    for point in range(0xA0, 0x110000):
        pair = normalize("NFD", chr(point))
        if len(pair) == 2 and normalize("NFC", pair) == chr(point):
            assert pair[1] in merging, hex(point)
    assert "\u0301" in merging
    assert "\u1161" in merging
    assert combining("\u094d")
    assert "\u094d" not in merging


@pytest.mark.parametrize(
    "bad",
    [
        b"\x80",
        b"\xc3",
        b"\xc0\xaf",
        b"\xe0\x80\xaf",
        b"\xed\xa0\x80",
        b"\xf0\x80\x80\xaf",
        b"\xf4\x90\x80\x80",
        b"\xff",
    ],
)
def test_bytes_that_are_not_utf8_separate(bad):
    column = pa.array([b"Ab" + bad + b"cD", b"x" + bad]).view(pa.string())
    assert rows_of(tokenise(column)) == [["ab", "cd"], ["x"]]
    lists = pa.ListArray.from_arrays(pa.array([0, 2], pa.int32()), column)
    assert rows_of(from_lists(lists)) == [
        [fold(word.decode(errors="replace")) for word in (b"Ab" + bad + b"cD", b"x" + bad)]
    ]


def test_no_rows():
    assert rows_of(tokenise(pa.array([], pa.string()))) == []
    assert rows_of(tokenise(pa.nulls(2))) == [[], []]
    assert rows_of(from_lists(pa.array([], pa.list_(pa.string())))) == []
    assert tokenise(pa.chunked_array([], pa.string())).word_start.tolist() == [0]


def test_the_arrays_are_fit_kernel_input():
    for words in (tokenise(pa.array(["a é b"])), from_lists(pa.array([["a", "é"]])), from_lists(pa.array([["a"]]))):
        assert [array.dtype for array in words] == [np.uint8, np.int64, np.int64]
        assert all(array.flags.c_contiguous and array.flags.writeable for array in words)
