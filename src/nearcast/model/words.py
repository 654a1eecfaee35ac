"""A text becomes its words: NFKC and case-folded until nothing changes, cut at all that is not a letter or digit."""

from __future__ import annotations

import re
from collections.abc import Iterable
from unicodedata import is_normalized, normalize

_WORD = re.compile(r"[^\W_]+")  # \w is str.isalnum() and the underscore


def fold(word: str) -> str:
    """The form under which a word is compared: NFKC, then case-folded, again until nothing changes.

    Once is not always enough: folding may take a character apart, and its last part may merge with the mark behind it.

    Examples
    --------
    >>> fold("Straße"), fold("ＲＡＭＥＮ")
    ('strasse', 'ramen')
    >>> fold("\u1fb3\u0308") == fold(fold("\u1fb3\u0308")) == "\u03b1\u03ca"
    True
    """
    if word.isascii():
        return word.lower()
    folded = normalize("NFKC", word).casefold()
    while not is_normalized("NFKC", folded):
        before, folded = folded, normalize("NFKC", folded).casefold()
        if folded == before:  # what it merges, case folding takes apart: never normal, and done all the same
            break
    return folded


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
