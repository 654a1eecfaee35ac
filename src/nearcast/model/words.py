"""A text becomes its words: NFKC, case-folded, cut at everything that is not a letter or digit."""

from __future__ import annotations

import re
from collections.abc import Iterable
from unicodedata import normalize

_WORD = re.compile(r"[^\W_]+")  # \w is str.isalnum() and the underscore


def fold(word: str) -> str:
    """The form under which a word is compared: NFKC, then case-folded.

    Examples
    --------
    >>> fold("Straße"), fold("ＲＡＭＥＮ")
    ('strasse', 'ramen')
    """
    if word.isascii():
        return word.lower()
    return normalize("NFKC", word).casefold()


def words_of(text: str) -> list[str]:
    """The words of a text in their order, repeats included.

    Examples
    --------
    >>> words_of("New #ramen place, best ramen!")
    ['new', 'ramen', 'place', 'best', 'ramen']
    """
    return _WORD.findall(fold(text))


def words_in(keywords: Iterable[str]) -> list[str]:
    """The words of a keywords list: folded, not cut; empty strings are dropped.

    Examples
    --------
    >>> words_in(["New York", "", "PIZZA"])
    ['new york', 'pizza']
    """
    return [fold(word) for word in keywords if word]
