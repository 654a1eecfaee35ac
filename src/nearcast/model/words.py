"""A text becomes its words: NFKC and case-folded until nothing changes, cut at all that is not a letter or digit."""

from __future__ import annotations

import re
from collections.abc import Iterable
from unicodedata import is_normalized, normalize

_WORD = re.compile(r"[^\W_]+")  # \w is str.isalnum() and the underscore

# What a vocabulary holds beside words begins with a byte that no word begins with. An item of a list could: it is then
# filed behind PLAIN, as is every other item that begins with one of the reserved bytes.
PLAIN, PREFIX, PHRASE = "\x00", "\x01", "\x02"
RESERVED = "\x08"  # the last of the reserved bytes


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


def set_apart(word: str) -> str:
    """What a vocabulary files a word under, which may be an item of a list."""
    return PLAIN + word if word[:1] <= RESERVED else word


def term_key(word: str) -> str:
    """What a vocabulary files a word of a clause under: ``fire*`` and ``"new york"`` apart from all words.

    Examples
    --------
    >>> term_key("fire"), term_key("fire*"), term_key('"new york"')
    ('fire', '\\x01fire', '\\x02new york')
    """
    if word[-1:] == "*":
        return PREFIX + word[:-1]
    if word[:1] == '"':
        return PHRASE + word[1:-1]
    return set_apart(word)


def word_of_key(key: str) -> str:
    """The word of a clause that is filed under a key: the inverse of `term_key`."""
    if key[:1] == PREFIX:
        return key[1:] + "*"
    if key[:1] == PHRASE:
        return f'"{key[1:]}"'
    return key[1:] if key[:1] == PLAIN else key
