from __future__ import annotations

import sys
import unicodedata

from hypothesis import given
from hypothesis import strategies as st

from nearcast.model.words import fold, words_in, words_of


def plainly(text: str) -> list[str]:
    """The text rules, a character at a time."""
    folded = unicodedata.normalize("NFKC", text).casefold()
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


def test_keywords_are_folded_not_cut() -> None:
    assert words_in(["New York", "", "C++", " "]) == ["new york", "c++", " "]
    assert fold("ÀÉ") == "àé"
    assert fold("ß") == fold("SS")
