"""Keywords that look like something they do not mean: refused with a picture of the place, or hinted at."""

from __future__ import annotations

import re
from collections.abc import Sequence
from unicodedata import combining, east_asian_width

from nearcast.errors import InvalidInput, shown, warn

_PICTURE = 30  # characters shown on each side of an offending place
QUOTES = '"\N{LEFT DOUBLE QUOTATION MARK}\N{RIGHT DOUBLE QUOTATION MARK}'
_FUZZY = "would make a fuzzy word, which is not supported: name the spellings that are meant"
_PHRASE = "would make a phrase, which only expressions of Within have: leave the quotes out to ask for the words"
_PREFIX = "would make a prefix, which only expressions of Within have: name the words that are meant"
_MARK = re.compile(f"[{QUOTES}*~]")
_TILDE = re.compile("~")
_QUOTED = re.compile(f"[{QUOTES}][^{QUOTES}]*[{QUOTES}]")

# Operators in lower case between words, as Python's and as Arrow's regular expressions have them.
LOWER_CASE = r"\S\s+(?:and|or|not|And|Or|Not)\s+\S"
_LOWER_CASE = re.compile(LOWER_CASE)
hinted = False  # once in each process


def refuse_marks(keywords: str | Sequence[str], marks: re.Pattern[str] = _MARK) -> None:
    """Raise `InvalidInput` for quotes, stars and tildes in the keywords of a query: as text they would mean nothing."""
    if isinstance(keywords, str):
        found = marks.search(keywords)
        if found is not None:
            raise malformed(keywords, found.start(), _why(found.group()))
        return
    for number, item in enumerate(keywords, 1):
        found = marks.search(item)
        if found is not None:
            raise malformed(item, found.start(), _why(found.group()), f" of item {number}")


def refuse_tildes(expression: str) -> None:
    """Raise `InvalidInput` for a tilde in an expression, where quotes and stars have a meaning."""
    refuse_marks(expression, _TILDE)


def _why(mark: str) -> str:
    return _FUZZY if mark == "~" else _PREFIX if mark == "*" else _PHRASE


def wants_hint() -> bool:
    """Has nobody been told of operators in lower case yet?"""
    return not hinted


def hint_at_operators(text: str) -> None:
    """Warn, once in each process, of an expression whose words are most likely meant as operators."""
    global hinted
    if not hinted and _LOWER_CASE.search(_QUOTED.sub('""', text)) is not None:
        hinted = True
        warn(
            f"keywords {shown(text)} asks for messages with these words, and/or/not among them: operators are written "
            "AND, OR, NOT. This is said once"
        )


def malformed(text: str, position: int, what: str, where: str = "", field: str = "keywords") -> InvalidInput:
    """The error for a place in an expression, with a picture of the place; the position counts from 1."""
    start, end = max(0, position - _PICTURE), position + _PICTURE
    head, tail = "…" if start else "", "…" if end < len(text) else ""
    line = head + "".join(" " if c.isspace() or not c.isprintable() else c for c in text[start:end]) + tail
    indent = len(head) + sum(_width(c) for c in text[start:position])
    picture = f"    {line.rstrip()}\n    {' ' * indent}^"
    return InvalidInput(field, text, f"is malformed at position {position + 1}{where}\n{picture} {what}")


def _width(character: str) -> int:
    """Columns that a terminal gives to a character."""
    if combining(character):
        return 0
    return 2 if east_asian_width(character) in "WF" else 1
