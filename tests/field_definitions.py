"""What `where` means, in plain Python: a text goes in, a predicate over the fields of a message comes out.

A part of `definitions.py`, and like it written a second time: it shares nothing with what it judges.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

Fields = Mapping[str, Any] | None
FieldPredicate = Callable[[Fields], bool]

_TOKENS = re.compile(
    r"""\s*(?:
      (?P<string>'(?:[^']|'')*')
    | (?P<quoted>"(?:[^"]|"")*")
    | (?P<number>[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)
    | (?P<word>[A-Za-z_][A-Za-z0-9_]*)
    | (?P<sign><=|>=|!=|[=<>(),])
    )""",
    re.VERBOSE | re.ASCII,
)
_WORDS = {"AND", "OR", "NOT", "IN", "HAS", "TRUE", "FALSE"}


class NotACondition(Exception):
    """The text says nothing that could hold."""


def is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def equals(value: Any, wanted: Any) -> bool | None:
    """Is a field, or one of a list, equal to what is wanted? None if it is missing or of another type."""
    if is_number(wanted):
        return bool(value == wanted) if is_number(value) else None
    if isinstance(wanted, bool):
        return value is wanted if isinstance(value, bool) else None
    if isinstance(value, list | tuple):
        return wanted in value
    return value == wanted if isinstance(value, str) else None


def ordered(value: Any, sign: str, wanted: Any) -> bool:
    """Numbers by size, strings by their bytes; nothing else has an order."""
    if is_number(value) and is_number(wanted):
        less, same = value < wanted, value == wanted
    elif isinstance(value, str) and isinstance(wanted, str):
        less, same = value.encode() < wanted.encode(), value == wanted
    else:
        return False
    return bool({"<": less, "<=": less or same, ">": not less and not same, ">=": not less}[sign])


def condition(text: str) -> FieldPredicate:
    """What a text says of fields; `NotACondition` if it is malformed."""
    reader = Reader(text)
    holds = reader.either()
    if reader.tokens:
        raise NotACondition("something follows the condition")
    return holds


class Reader:
    """Takes a condition apart from left to right, one method for each rule of its grammar."""

    def __init__(self, text: str) -> None:
        self.tokens: list[tuple[str, str]] = []
        at = 0
        while text[at:].strip():
            found = _TOKENS.match(text, at)
            if found is None:
                raise NotACondition(f"at {at}")
            self.tokens.append((str(found.lastgroup), found.group(str(found.lastgroup))))
            at = found.end()

    def peek(self) -> str | None:
        return self.tokens[0][1] if self.tokens else None

    def take(self) -> tuple[str, str]:
        if not self.tokens:
            raise NotACondition("the end comes too soon")
        return self.tokens.pop(0)

    def either(self) -> FieldPredicate:
        sides = [self.both()]
        while self.peek() == "OR":
            self.take()
            sides.append(self.both())
        return lambda fields: any(side(fields) for side in sides)

    def both(self) -> FieldPredicate:
        sides = [self.negated()]
        while self.peek() == "AND":
            self.take()
            sides.append(self.negated())
        return lambda fields: all(side(fields) for side in sides)

    def negated(self) -> FieldPredicate:
        if self.peek() != "NOT":
            return self.operand()
        self.take()
        inner = self.negated()
        return lambda fields: not inner(fields)

    def operand(self) -> FieldPredicate:
        if self.peek() == "(":
            self.take()
            inner = self.either()
            if self.take()[1] != ")":
                raise NotACondition("a parenthesis is not closed")
            return inner
        if self.peek() == "HAS":
            self.take()
            wanted = self.name()
            return lambda fields: (fields or {}).get(wanted) is not None
        return self.comparison(self.name())

    def name(self) -> str:
        kind, token = self.take()
        if kind == "quoted":
            return token[1:-1].replace('""', '"')
        if kind != "word" or token in _WORDS:
            raise NotACondition(f"{token} is no name")
        return token

    def value(self) -> Any:
        kind, token = self.take()
        if kind == "string":
            return token[1:-1].replace("''", "'")
        if kind == "number":
            return int(token) if re.fullmatch(r"[-+]?\d+", token) else float(token)
        if token in ("TRUE", "FALSE"):
            return token == "TRUE"
        raise NotACondition(f"{token} is no value")

    def values(self) -> list[Any]:
        if self.take()[1] != "(":
            raise NotACondition("IN needs a list")
        values = [self.value()]
        while (after := self.take()[1]) == ",":
            values.append(self.value())
        if after != ")":
            raise NotACondition("the list of IN is not closed")
        return values

    def comparison(self, field: str) -> FieldPredicate:
        _, sign = self.take()
        if sign == "IN":
            values = self.values()
            return lambda fields: any(equals((fields or {}).get(field), one) for one in values)
        if sign not in ("=", "!=", "<", "<=", ">", ">="):
            raise NotACondition(f"{sign} compares nothing")
        wanted = self.value()
        if sign == "=":
            return lambda fields: equals((fields or {}).get(field), wanted) is True
        if sign == "!=":
            return lambda fields: equals((fields or {}).get(field), wanted) is False
        if isinstance(wanted, bool):
            raise NotACondition("booleans have no order")
        return lambda fields: ordered((fields or {}).get(field), sign, wanted)
