from __future__ import annotations

import sys
import unicodedata

from hypothesis import example, given
from hypothesis import strategies as st

from nearcast.model.words import fold, words_in, words_of


def plainly(text: str) -> list[str]:
    """The text rules, a character at a time."""
    folded, before = text, None
    while folded != before:
        before, folded = folded, unicodedata.normalize("NFKC", folded).casefold()
    return "".join(c if c.isalnum() else " " for c in folded).split(" ")


def test_examples() -> None:
    assert words_of("") == []
    assert words_of("¡—!") == []
    assert words_of("#Tag, it's A_B 2x") == ["tag", "it", "s", "a", "b", "2x"]
    assert words_of("STRASSE Straße ﬁsh \uff12\uff14 x²") == ["strasse", "strasse", "fish", "24", "x2"]
    assert words_of("東京ラーメン　寿司") == ["東京ラーメン", "寿司"]


@given(st.text())
def test_words_follow_the_rules(text: str) -> None:
    assert words_of(text) == [word for word in plainly(text) if word]


def test_every_character_follows_the_rules() -> None:
    for code in range(sys.maxunicode + 1):
        if unicodedata.category(chr(code)) in ("Cn", "Co", "Cs"):  # unassigned, private, surrogate: nearly all of them
            continue
        words = words_of(f"a{chr(code)}b")
        assert words == [word for word in plainly(f"a{chr(code)}b") if word], hex(code)
        assert words_in(words) == words, hex(code)


@given(st.text())
def test_words_of_a_text_are_folded_already(text: str) -> None:
    words = words_of(text)
    assert words_in(words) == words


@given(st.text())
@example("\u1fb3\u0308")  # folds to letter, iota, mark: the last two merge
@example("\u0390")  # folds to three, which merge to what folds to the same three
def test_what_is_folded_folds_to_itself(text: str) -> None:
    assert fold(fold(text)) == fold(text)


def test_folding_settles_for_every_character_before_a_mark() -> None:
    marks = "\u0300\u0301\u0308\u0316\u0323\u0342\u0345\u093c\u3099\u1161\u11a8"
    for code in range(sys.maxunicode + 1):
        letter = chr(code)
        if unicodedata.normalize("NFKC", letter).casefold() == letter and not unicodedata.decomposition(letter):
            continue
        for mark in marks:
            folded = fold(letter + mark)
            assert fold(folded) == folded, hex(code)


def test_keywords_are_folded_not_cut() -> None:
    assert words_in(["New York", "", "C++", " "]) == ["new york", "c++", " "]
    assert fold("ÀÉ") == "àé"
    assert fold("ß") == fold("SS")
