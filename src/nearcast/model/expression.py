"""An expression such as ``ipad AND (discount OR sale) AND NOT used`` becomes clauses: words asked for, words forbidden.

Operators are upper case only. NOT binds before AND before OR, neighbours mean AND. Every other run of characters is an
operand: it goes through the text rules and means all words that it yields.

Neither parsing nor expansion recurses. `parse` sorts the tokens into postfix order; `clauses` reads that order
backwards to learn which parts stand under an odd number of NOTs, then forwards to build each part's normal form.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from unicodedata import combining, east_asian_width

from nearcast.errors import InvalidInput
from nearcast.model.checks import string
from nearcast.model.words import words_of

MAX_CLAUSES = 256  # clauses that an expression, or any part of it, may expand to
MAX_NESTING = 100  # open parentheses and pending NOTs
_MAX_PRODUCT = 16 * MAX_CLAUSES  # pairs that one AND may multiply out before duplicates go; bounds the work
_PICTURE = 30  # characters shown on each side of an offending place

AND, OR, NOT = "AND", "OR", "NOT"
_PRECEDENCE = {"(": 0, OR: 1, AND: 2, NOT: 3}
_TOKEN = re.compile(r"[()]|[^\s()]+")


@dataclass(frozen=True, slots=True)
class Clause:
    """One way to satisfy an expression: all `positive` words and none of the `negative`; both sorted."""

    positive: tuple[str, ...]
    negative: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Operand:
    """A run of characters of an expression: all `words` that it yields; `position` counts from 0."""

    words: tuple[str, ...]
    position: int


@dataclass(frozen=True, slots=True)
class Expression:
    """A well-formed expression in postfix order: operands, and the operators `AND`, `OR`, `NOT` after theirs."""

    text: str
    steps: tuple[Operand | str, ...]


def parse(text: str) -> Expression:
    """Read an expression.

    Raises
    ------
    InvalidInput
        Field ``keywords``; the rule shows the offending place.

    Examples
    --------
    >>> [step if isinstance(step, str) else step.words for step in parse("fire smoke OR NOT camp-fire").steps]
    [('fire',), ('smoke',), 'AND', ('camp', 'fire'), 'NOT', 'OR']
    """
    text = string("keywords", text)
    steps: list[Operand | str] = []
    pending: list[tuple[str, int]] = []  # operators and open parentheses that still wait, with their positions
    nesting = 0
    before = ""  # the token before, if it asks for an operand
    wants_operand = True

    def settle(precedence: int) -> None:
        nonlocal nesting
        while pending and _PRECEDENCE[pending[-1][0]] >= precedence:
            operator, _ = pending.pop()
            nesting -= operator == NOT
            steps.append(operator)

    for found in _TOKEN.finditer(text):
        token, position = found.group(), found.start()
        if token in (AND, OR, ")"):
            if wants_operand:
                raise _malformed(text, position, _missing(before, token))
            settle(1 if token == ")" else _PRECEDENCE[token])
            if token == ")":
                if not pending:
                    raise _malformed(text, position, 'has no "(" before it')
                pending.pop()
                nesting -= 1
            else:
                pending.append((token, position))
                before, wants_operand = token, True
            continue
        if not wants_operand:
            settle(_PRECEDENCE[AND])
            pending.append((AND, position))
            wants_operand = True
        if token in ("(", NOT):
            pending.append((token, position))
            nesting += 1
            if nesting > MAX_NESTING:
                raise _malformed(text, position, f"is nested more than {MAX_NESTING} deep")
            before = token
        else:
            words = words_of(token)
            if not words:
                raise _malformed(text, position, "holds no letter or digit")
            steps.append(Operand(tuple(words), position))
            wants_operand = False
    if wants_operand:
        if not before:
            raise InvalidInput("keywords", text, "must hold at least one word")
        raise _malformed(text, len(text.rstrip()), _missing(before, ""))
    settle(1)
    if pending:
        raise _malformed(text, pending[-1][1], 'has no ")" after it')
    return Expression(text, tuple(steps))


def clauses(expression: Expression) -> tuple[Clause, ...]:
    """The disjunctive normal form: satisfied when any clause is. Sorted, without contradictions and redundant clauses.

    Raises
    ------
    InvalidInput
        Field ``keywords``: when a clause asks for no word, when no clause is left, or past `MAX_CLAUSES`.

    Examples
    --------
    >>> clauses(parse("ipad AND (discount OR sale) AND NOT used"))  # doctest: +NORMALIZE_WHITESPACE
    (Clause(positive=('discount', 'ipad'), negative=('used',)),
     Clause(positive=('ipad', 'sale'), negative=('used',)))
    """
    if all(step == AND or isinstance(step, Operand) for step in expression.steps):
        words = {word for step in expression.steps if isinstance(step, Operand) for word in step.words}
        return (Clause(tuple(sorted(words)), ()),)
    negations = _negations(expression.steps)
    bits: dict[str, int] = {}
    forbidden_at: dict[str, int] = {}  # a word, and the first place that forbids it
    for step, negated in zip(expression.steps, negations, strict=True):
        if isinstance(step, Operand):
            for word in step.words:
                bits.setdefault(word, 1 << len(bits))
                if negated:
                    forbidden_at.setdefault(word, step.position)
    forms = _expand(expression, negations, bits)
    if not forms:
        place = min(forbidden_at.values())
        raise _malformed(expression.text, place, "can never hold: every alternative asks for a word that it forbids")
    words_in_order = list(bits)
    made = []
    for asked, forbidden in forms:
        positive = tuple(sorted(_picked(words_in_order, asked)))
        negative = tuple(sorted(_picked(words_in_order, forbidden)))
        if not positive:
            place = min(forbidden_at[word] for word in negative)
            shown = " ".join("NOT " + word for word in negative)
            raise _malformed(expression.text, place, f'only forbids: "{shown}" asks for no word that must be there')
        made.append(Clause(positive, negative))
    return tuple(sorted(made, key=lambda clause: (clause.positive, clause.negative)))


# A form is a clause under construction: the bits of the words asked for, and of those forbidden.
_Form = tuple[int, int]


def _expand(expression: Expression, negations: list[bool], bits: dict[str, int]) -> list[_Form]:
    """The forms of the whole expression: none contradicts itself, none is implied by another."""
    stack: list[list[_Form]] = []
    for step, negated in zip(expression.steps, negations, strict=True):
        if isinstance(step, Operand):
            each = {bits[word] for word in step.words}
            forms: list[_Form] | None = [(0, bit) for bit in each] if negated else [(sum(each), 0)]
        elif step == NOT:  # has done its work in `_negations`
            continue
        else:
            right, left = stack.pop(), stack.pop()
            forms = _both(left, right) if (step == AND) != negated else _either(left, right)
        if forms is None or len(forms) > MAX_CLAUSES:
            rule = f"must expand to at most {MAX_CLAUSES} alternatives of ANDed words"
            raise InvalidInput("keywords", expression.text, rule)
        stack.append(forms)
    return stack.pop()


def _negations(steps: tuple[Operand | str, ...]) -> list[bool]:
    """For each step, whether it stands under an odd number of NOTs; from the last step, the root, down."""
    negations = []
    waiting = [False]
    for step in reversed(steps):
        negated = waiting.pop()
        negations.append(negated)
        if step == NOT:
            waiting.append(not negated)
        elif not isinstance(step, Operand):
            waiting += (negated, negated)
    negations.reverse()
    return negations


def _both(left: list[_Form], right: list[_Form]) -> list[_Form] | None:
    """The forms of an AND, or None when there are too many. Shortest first, so that nothing kept is implied later."""
    if len(left) * len(right) > _MAX_PRODUCT:
        return None
    products = {(a | c, b | d) for a, b in left for c, d in right if not (a | c) & (b | d)}
    kept: list[_Form] = []
    for form in sorted(products, key=lambda form: form[0].bit_count() + form[1].bit_count()):
        if not _implied(form, kept):
            kept.append(form)
            if len(kept) > MAX_CLAUSES:
                return None
    return kept


def _either(left: list[_Form], right: list[_Form]) -> list[_Form]:
    """The forms of an OR; each side is already free of redundant ones."""
    kept = [form for form in left if not _implied(form, right)]
    return kept + [form for form in right if not _implied(form, kept)]


def _implied(form: _Form, others: list[_Form]) -> bool:
    """Whether one of `others` asks for and forbids nothing that `form` does not."""
    free, allowed = ~form[0], ~form[1]
    return any(not (asked & free or forbidden & allowed) for asked, forbidden in others)


def _picked(words: list[str], mask: int) -> list[str]:
    picked = []
    while mask:
        lowest = mask & -mask
        picked.append(words[lowest.bit_length() - 1])
        mask ^= lowest
    return picked


def _missing(before: str, found: str) -> str:
    place = f'after "{before}"' if before else "at the start"
    return f"needs a word {place}" + (f', found "{found}"' if found else "")


def _malformed(text: str, position: int, what: str) -> InvalidInput:
    """The error for a place in an expression, with a picture of the place; the position counts from 1."""
    start, end = max(0, position - _PICTURE), position + _PICTURE
    head, tail = "…" if start else "", "…" if end < len(text) else ""
    line = head + "".join(" " if c.isspace() or not c.isprintable() else c for c in text[start:end]) + tail
    indent = len(head) + sum(_width(c) for c in text[start:position])
    picture = f"    {line.rstrip()}\n    {' ' * indent}^"
    return InvalidInput("keywords", text, f"is malformed at position {position + 1}\n{picture} {what}")


def _width(character: str) -> int:
    """Columns that a terminal gives to a character."""
    if combining(character):
        return 0
    return 2 if east_asian_width(character) in "WF" else 1
