"""What fields must satisfy, such as ``price < 100 AND NOT category IN ('food', 'drink')``, becomes comparisons.

A condition is read once and then asked of many messages. So it is kept as its comparisons in the order of the text,
each with the comparison to go on with if it holds and if it does not: no operators are left. `IN` is one comparison
for each value. NOT only exchanges the two ways on.

Logic is two-valued: a comparison with a field that is not there, or is of another type, does not hold.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from math import inf, isinf
from typing import NamedTuple

from nearcast.errors import InvalidInput
from nearcast.model.checks import string
from nearcast.model.fields import LARGEST_WHOLE, LEAST_WHOLE
from nearcast.model.malformed import malformed

ACCEPT, REJECT = -1, -2  # instead of a comparison to go on with: the condition holds, or it does not
MAX_COMPARISONS = 1024  # of one condition, each value of an IN counted
MAX_KEYS = 3  # of a condition
MAX_NESTING = 100  # open parentheses and pending NOTs

AND, OR, NOT, IN, HAS, TRUE, FALSE = "AND", "OR", "NOT", "IN", "HAS", "TRUE", "FALSE"
EQUAL = "="
ORDERS = ("<", "<=", ">", ">=")
OPERATORS = (EQUAL, "!=", *ORDERS)
_RESERVED = (AND, OR, NOT, IN, HAS, TRUE, FALSE)
_PRECEDENCE = {"(": 0, OR: 1, AND: 2, NOT: 3}
_TOKEN = re.compile(
    r"""(?P<space>\s+)
    |(?P<name>[A-Za-z_][A-Za-z0-9_]*)
    |(?P<quoted>"(?:[^"]|"")*")
    |(?P<text>'(?:[^']|'')*')
    |(?P<number>[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)
    |(?P<mark><=|>=|!=|<>|==|[=<>(),])
    |(?P<odd>.)""",
    re.VERBOSE | re.DOTALL,
)
_HINTS = {
    "==": "is written as one =",
    "<>": "is written as !=",
    "'": "has no ' after it",
    '"': 'has no " after it',
    "&": "is written as AND",
    "|": "is written as OR",
    "!": "is written as NOT",
}
_LOWER = {word.lower(): word for word in _RESERVED}

Value = float | int | str | bool | None


@dataclass(frozen=True, slots=True)
class Comparison:
    """A field compared with a value, and the comparison to go on with if that holds and if it does not."""

    name: str
    operator: str  # one of OPERATORS, or HAS
    value: Value  # None for HAS
    if_true: int  # position of a comparison, ACCEPT or REJECT
    if_false: int

    def __str__(self) -> str:
        name = self.name if _is_bare(self.name) else '"' + self.name.replace('"', '""') + '"'
        return f"HAS {name}" if self.operator == HAS else f"{name} {self.operator} {_written(self.value)}"


@dataclass(frozen=True, slots=True)
class Condition:
    """A well-formed condition: its text, and its comparisons, of which the first is asked first.

    The rest is for indexes and quick checks. `keys` are positions of up to `MAX_KEYS` ``=`` comparisons that must hold
    if the condition does; it is `decided` if that is all it says. `range` is a field that must then be a number, with
    the smallest and largest that it may be; the condition `spans` if it holds for all numbers between these two.
    """

    text: str
    comparisons: tuple[Comparison, ...]
    keys: tuple[int, ...]
    decided: bool
    range: tuple[str, float, float] | None
    spans: bool


@lru_cache(maxsize=4096)
def _parse_plain(text: str) -> Condition:
    return _Reader(text).condition()


def parse_condition(text: str) -> Condition:
    """Read a condition.

    Raises
    ------
    InvalidInput
        Field ``where``; the rule shows the offending place.

    Examples
    --------
    >>> for comparison in parse_condition("price < 100 AND category IN ('food', 'drink')").comparisons:
    ...     print(comparison, comparison.if_true, comparison.if_false)
    price < 100 1 -2
    category = 'food' -1 2
    category = 'drink' -1 -2
    """
    return _parse_plain(string("where", text))


def _is_flag(comparison: Comparison) -> bool:
    return isinstance(comparison.value, bool)


def _is_bare(name: str) -> bool:
    return re.fullmatch("[A-Za-z_][A-Za-z0-9_]*", name) is not None and name not in _RESERVED


def _written(value: Value) -> str:
    if isinstance(value, bool):
        return TRUE if value else FALSE
    return "'" + value.replace("'", "''") + "'" if isinstance(value, str) else repr(value)


class _Reader:
    """Reads a condition token by token into postfix order: numbers of groups of comparisons, and operators."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._tokens = [
            (found.lastgroup or "", found.group(), found.start())
            for found in _TOKEN.finditer(text)
            if found.lastgroup != "space"
        ]
        self._at = 0
        self._found: list[tuple[str, str, Value]] = []  # name, operator and value of each comparison

    def condition(self) -> Condition:
        if not self._tokens:
            raise InvalidInput("where", self.text, "must hold at least one comparison")
        steps = self._postfix()
        needs = _needs(steps, self._found)
        comparisons = tuple(
            Comparison(*found, *ways_on)
            for found, ways_on in zip(self._found, _targets(steps, len(self._found)), strict=True)
        )
        exact = all(isinstance(comparisons[at].value, str | bool) for at in needs.equals)
        # Strings tell most, then numbers.
        keys = sorted(
            needs.equals, key=lambda at: (not isinstance(comparisons[at].value, str), _is_flag(comparisons[at]))
        )
        decided = needs.decided and exact and len(keys) <= MAX_KEYS
        ranges = sorted(needs.ranges.items(), key=lambda item: isinf(item[1][0]) + isinf(item[1][1]))
        range_ = (ranges[0][0], *ranges[0][1]) if ranges else None
        return Condition(self.text, comparisons, tuple(keys[:MAX_KEYS]), decided, range_, needs.spans)

    def _postfix(self) -> list[int | str]:
        """Comparisons by number, and the operators after theirs; an IN is its comparisons and ORs."""
        steps: list[int | str] = []
        pending: list[tuple[str, int]] = []  # operators and open parentheses that still wait, with their positions
        nesting = 0
        wants_comparison = True

        def settle(precedence: int) -> None:
            nonlocal nesting
            while pending and _PRECEDENCE[pending[-1][0]] >= precedence:
                operator, _ = pending.pop()
                nesting -= operator == NOT
                steps.append(operator)

        while self._at < len(self._tokens):
            _, token, position = self._tokens[self._at]
            if wants_comparison:
                if token not in ("(", NOT):
                    steps += self._comparison()
                    wants_comparison = False
                    continue
                pending.append((token, position))
                nesting += 1
                if nesting > MAX_NESTING:
                    raise self._malformed(position, f"is nested more than {MAX_NESTING} deep")
            elif token == ")":
                settle(1)
                if not pending:
                    raise self._malformed(position, 'has no "(" before it')
                pending.pop()
                nesting -= 1
            elif token in (AND, OR):
                settle(_PRECEDENCE[token])
                pending.append((token, position))
                wants_comparison = True
            else:
                raise self._malformed(position, _hint(token) or "needs AND or OR before it")
            self._at += 1
        if wants_comparison:
            raise self._malformed(len(self.text.rstrip()), "needs a comparison here")
        settle(1)
        if pending:
            raise self._malformed(pending[-1][1], 'has no ")" after it')
        return steps

    def _comparison(self) -> list[int | str]:
        """The comparison at hand."""
        if self._tokens[self._at][1] == HAS:
            self._at += 1
            return [self._add(self._name(), HAS, None)]
        name = self._name()
        operator, position = self._next(f"needs a comparison after {name}")
        if operator == IN:
            return self._values(name)
        if operator not in OPERATORS:
            rule = f"is written as NOT {name} IN (...)" if operator == NOT else f"needs a comparison after {name}"
            raise self._malformed(position, _hint(operator) or rule)
        _, after = self._peek()
        value = self._value()
        if operator in ORDERS and isinstance(value, bool):
            raise self._malformed(after, f"has no order: {operator} compares numbers or strings")
        return [self._add(name, operator, value)]

    def _values(self, name: str) -> list[int | str]:
        opening, position = self._next('needs "(" after IN')
        if opening != "(":
            raise self._malformed(position, 'needs "(" after IN')
        steps: list[int | str] = [self._add(name, EQUAL, self._value())]
        while True:
            token, position = self._next('needs "," or ")" here')
            if token == ")":
                return steps
            if token != ",":
                raise self._malformed(position, 'needs "," or ")" here')
            steps += [self._add(name, EQUAL, self._value()), OR]

    def _name(self) -> str:
        token, position = self._next("needs the name of a field here")
        kind = self._tokens[self._at - 1][0]
        if kind == "quoted":
            return token[1:-1].replace('""', '"')
        if kind == "name" and token not in _RESERVED:
            return token
        reserved = f'is an operator: write "{token}" in quotes if a field is meant' if token in _RESERVED else ""
        raise self._malformed(
            position,
            _hint(token) or reserved or "must be the name of a field, in double quotes if it is not a plain word",
        )

    def _value(self) -> Value:
        token, position = self._next("needs a value here")
        kind = self._tokens[self._at - 1][0]
        if kind == "text":
            return token[1:-1].replace("''", "'")
        if kind == "number":
            return self._number(token, position)
        if token in (TRUE, FALSE):
            return token == TRUE
        if kind in ("name", "quoted"):
            spelled = _LOWER.get(token.lower()) if token.lower() in ("true", "false") else None
            raise self._malformed(position, f"is written as {spelled}" if spelled else "must be in single quotes")
        raise self._malformed(position, _hint(token) or "must be a number, a string in single quotes, TRUE or FALSE")

    def _number(self, token: str, position: int) -> int | float:
        if re.fullmatch("[+-]?[0-9]+", token) and len(token) <= 40:
            whole = int(token)
            if LEAST_WHOLE <= whole <= LARGEST_WHOLE:
                return whole
        value = float(token)
        if isinf(value):
            raise self._malformed(position, "is too large")
        return value

    def _add(self, name: str, operator: str, value: Value) -> int:
        if len(self._found) == MAX_COMPARISONS:
            raise InvalidInput("where", self.text, f"must hold at most {MAX_COMPARISONS} comparisons")
        self._found.append((name, operator, value))
        return len(self._found) - 1

    def _peek(self) -> tuple[str, int]:
        if self._at < len(self._tokens):
            return self._tokens[self._at][1:]
        return "", len(self.text.rstrip())

    def _next(self, missing: str) -> tuple[str, int]:
        token, position = self._peek()
        if not token:
            raise self._malformed(position, missing)
        self._at += 1
        return token, position

    def _malformed(self, position: int, what: str) -> InvalidInput:
        return malformed(self.text, position, what, field="where")


def _hint(token: str) -> str:
    if token in _LOWER:
        return f"is written as {_LOWER[token]}"
    return _HINTS.get(token, "")


def _targets(steps: list[int | str], n: int) -> list[tuple[int, int]]:
    """For each comparison, where to go on if it holds and if it does not; from the last step, the root, down."""
    firsts: list[int] = []  # of what waits: its first comparison
    right_firsts: list[int] = []
    for step in steps:
        if isinstance(step, int):
            firsts.append(step)
        elif step != NOT:
            right_firsts.append(firsts.pop())
    targets = [(ACCEPT, REJECT)] * n
    waiting = [(ACCEPT, REJECT)]
    for step in reversed(steps):
        if_true, if_false = waiting.pop()
        if isinstance(step, int):
            targets[step] = (if_true, if_false)
        elif step == NOT:
            waiting.append((if_false, if_true))
        else:
            right = right_firsts.pop()
            left = (right, if_false) if step == AND else (if_true, right)
            waiting += (left, (if_true, if_false))
    return targets


class _Needs(NamedTuple):
    """What must hold wherever a part of a condition does."""

    equals: tuple[int, ...]  # comparisons by =
    ranges: dict[str, tuple[float, float]]  # of fields that are numbers, borders included
    decided: bool  # the part is no more than these comparisons
    spans: bool  # it is no more than a range of one field, but for its borders


_NOTHING = _Needs((), {}, False, False)


def _needs(steps: list[int | str], found: list[tuple[str, str, Value]]) -> _Needs:
    stack: list[_Needs] = []
    for step in steps:
        if isinstance(step, int):
            stack.append(_needed(step, *found[step]))
        elif step == NOT:
            stack[-1] = _NOTHING
        else:
            right, left = stack.pop(), stack.pop()
            stack.append(_both(left, right) if step == AND else _either(left, right))
    return stack.pop()


def _needed(at: int, name: str, operator: str, value: Value) -> _Needs:
    equals = (at,) if operator == EQUAL else ()
    if value is None or isinstance(value, str | bool) or operator == "!=":
        return _Needs(equals, {}, bool(equals), False)
    number = float(value)
    low = -inf if operator in ("<", "<=") else number
    high = inf if operator in (">", ">=") else number
    return _Needs(equals, {name: (low, high)}, bool(equals), not equals)


def _both(left: _Needs, right: _Needs) -> _Needs:
    ranges = dict(left.ranges)
    for name, (low, high) in right.ranges.items():
        before = ranges.get(name, (-inf, inf))
        ranges[name] = max(before[0], low), min(before[1], high)
    spans = left.spans and right.spans and len(ranges) == 1
    return _Needs(left.equals + right.equals, ranges, left.decided and right.decided, spans)


def _either(left: _Needs, right: _Needs) -> _Needs:
    """One side holds, so a range must hold both; no single comparison need hold."""
    ranges = {
        name: (min(low, right.ranges[name][0]), max(high, right.ranges[name][1]))
        for name, (low, high) in left.ranges.items()
        if name in right.ranges
    }
    return _Needs((), ranges, False, False)
