"""Keywords that look like something they do not mean: refused with a picture of the place, or hinted at."""

from __future__ import annotations

import re
from collections.abc import Sequence
from unicodedata import combining, east_asian_width

from nearcast.errors import InvalidInput, shown, warn

_PICTURE = 30  # characters shown on each side of an offending place
_QUOTES = "would make a phrase, which is not supported: leave the quotes out to ask for the words"
_MARKS = {
    '"': _QUOTES,
    "\N{LEFT DOUBLE QUOTATION MARK}": _QUOTES,
    "\N{RIGHT DOUBLE QUOTATION MARK}": _QUOTES,
    "*": "would make a prefix, which is not supported: name the words that are meant",
    "~": "would make a fuzzy word, which is not supported: name the spellings that are meant",
}
_MARK = re.compile("[" + re.escape("".join(_MARKS)) + "]")

# Operators in lower case between words, as Python's and as Arrow's regular expressions have them.
LOWER_CASE = r"\S\s+(?:and|or|not|And|Or|Not)\s+\S"
_LOWER_CASE = re.compile(LOWER_CASE)
_hinted = False  # once in each process


def refuse_marks(keywords: str | Sequence[str]) -> None:
    """Raise `InvalidInput` for quotes, stars and tildes in the keywords of a query: as text they would mean nothing."""
    if isinstance(keywords, str):
        found = _MARK.search(keywords)
        if found is not None:
            raise malformed(keywords, found.start(), _MARKS[found.group()])
        return
    for number, item in enumerate(keywords, 1):
        found = _MARK.search(item)
        if found is not None:
            raise malformed(item, found.start(), _MARKS[found.group()], f" of item {number}")


def wants_hint() -> bool:
    """Has nobody been told of operators in lower case yet?"""
    return not _hinted


def hint_at_operators(text: str) -> None:
    """Warn, once in each process, of an expression whose words are most likely meant as operators."""
    global _hinted
    if not _hinted and _LOWER_CASE.search(text) is not None:
        _hinted = True
        warn(
            f"keywords {shown(text)} asks for messages with these words, and/or/not among them: operators are written "
            "AND, OR, NOT. This is said once"
        )


def malformed(text: str, position: int, what: str, where: str = "") -> InvalidInput:
    """The error for a place in an expression, with a picture of the place; the position counts from 1."""
    start, end = max(0, position - _PICTURE), position + _PICTURE
    head, tail = "…" if start else "", "…" if end < len(text) else ""
    line = head + "".join(" " if c.isspace() or not c.isprintable() else c for c in text[start:end]) + tail
    indent = len(head) + sum(_width(c) for c in text[start:position])
    picture = f"    {line.rstrip()}\n    {' ' * indent}^"
    return InvalidInput("keywords", text, f"is malformed at position {position + 1}{where}\n{picture} {what}")


def _width(character: str) -> int:
    """Columns that a terminal gives to a character."""
    if combining(character):
        return 0
    return 2 if east_asian_width(character) in "WF" else 1
