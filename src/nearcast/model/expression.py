"""An expression such as ``ipad AND (discount OR sale) AND NOT used`` becomes clauses: words asked for, words forbidden.

Operators are upper case only. NOT binds before AND before OR, neighbours mean AND. Every other run of characters is an
operand: it goes through the text rules and means all words that it yields. In quotes it is a phrase: these words next
to each other, in this order. A star behind it makes its last word a prefix: any word that starts so. In clauses a
phrase and a prefix stand among the words, as ``"new york"`` and ``fire*``; no word has a quote or a star. What other
query languages would read as fuzzy words is refused (`malformed.py`).

Neither parsing nor expansion recurses. `parse` sorts the tokens into postfix order; `clauses` reads that order
backwards to learn which parts stand under an odd number of NOTs, then forwards to build each part's normal form.

A short text can have a huge normal form, or a small one that is long in the making. `MAX_CLAUSES` and `MAX_WORDS` bound
the first, `MAX_WRITTEN` the second; it is checked before a product is made.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from nearcast.errors import InvalidInput
from nearcast.model.analyzer import PLAIN_RULE, Analyzer
from nearcast.model.checks import string
from nearcast.model.malformed import QUOTES, malformed, refuse_tildes
from nearcast.model.words import words_of

MAX_CLAUSES = 256  # clauses that an expression, or any part of it, may expand to
MAX_WORDS = 256 * MAX_CLAUSES  # words of all these clauses together; as many as the expression itself may hold
MAX_WRITTEN = 8 * MAX_WORDS  # words that all parts of it may expand to, before anything is simplified
MIN_PREFIX = 2  # letters or digits before a star
MAX_NESTING = 100  # open parentheses and pending NOTs
_MAX_PRODUCT = 16 * MAX_CLAUSES  # pairs that one AND may multiply out before duplicates go
_SHOWN = 20  # words shown of a clause that only forbids

_TOO_MANY_CLAUSES = f"must expand to at most {MAX_CLAUSES} alternatives of ANDed words"
_TOO_MANY_WORDS = f"must expand to at most {MAX_WORDS} words in all its alternatives together"
_TOO_MUCH = f"must expand to at most {MAX_WRITTEN} words in all its parts together"

AND, OR, NOT = "AND", "OR", "NOT"
_PRECEDENCE = {"(": 0, OR: 1, AND: 2, NOT: 3}
_TOKEN = re.compile(rf"[()]|[{QUOTES}][^{QUOTES}]*[{QUOTES}]?|[^\s(){QUOTES}]+")


@dataclass(frozen=True, slots=True)
class Clause:
    """One way to satisfy an expression: all `positive` words and none of the `negative`; both sorted.

    Among the words are prefixes such as ``fire*`` and phrases such as ``"new york"``, the quotes included.
    """

    positive: tuple[str, ...]
    negative: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Operand:
    """A run of characters of an expression: all `words` that it yields, as clauses have them."""

    words: tuple[str, ...]
    position: int  # from 0


@dataclass(frozen=True, slots=True)
class Expression:
    """A well-formed expression in postfix order: operands, and the operators `AND`, `OR`, `NOT` after theirs."""

    text: str
    steps: tuple[Operand | str, ...]


def parse(text: str, analyzer: Analyzer = PLAIN_RULE) -> Expression:
    """Read an expression; its operands go through the analyzer.

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
    refuse_tildes(text)
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
                raise malformed(text, position, _missing(before, token))
            settle(1 if token == ")" else _PRECEDENCE[token])
            if token == ")":
                if not pending:
                    raise malformed(text, position, 'has no "(" before it')
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
                raise malformed(text, position, f"is nested more than {MAX_NESTING} deep")
            before = token
        else:
            steps.append(Operand(_operand(text, token, position, analyzer), position))
            wants_operand = False
    if wants_operand:
        if not before:
            raise InvalidInput("keywords", text, "must hold at least one word")
        raise malformed(text, len(text.rstrip()), _missing(before, ""))
    settle(1)
    if pending:
        raise malformed(text, pending[-1][1], 'has no ")" after it')
    return Expression(text, tuple(steps))


def _operand(text: str, token: str, position: int, analyzer: Analyzer) -> tuple[str, ...]:
    """The words of an operand; the last may be a prefix, or all of them one phrase."""
    is_phrase = token[0] in QUOTES
    if is_phrase and (len(token) == 1 or token[-1] not in QUOTES):
        raise malformed(text, position, "has no quote after it")
    star = token.find("*")
    if star >= 0 and is_phrase:
        raise malformed(text, position + star, "must not stand inside quotes: a phrase has whole words only")
    if 0 <= star < len(token) - 1:
        raise malformed(text, position + star, "must be the last character of a word: it asks for all that start so")
    raw = words_of(token)
    words = analyzer.words(token)
    if star >= 0:
        last = words_of(token[:-1] + "x")[-1]  # the word that ends at the star, and x
        if len(last) <= MIN_PREFIX:
            raise malformed(text, position + star, f"needs at least {MIN_PREFIX} letters or digits before it")
        *before, prefix = analyzer.pieces(raw[-1])
        words = [form.word for word in raw[:-1] for form in analyzer.forms_of(word)] + before + [prefix + "*"]
    if not words:
        raise malformed(text, position, "holds only stop words" if raw else "holds no letter or digit")
    return (f'"{" ".join(words)}"',) if is_phrase and len(words) > 1 else tuple(words)


def clauses(expression: Expression) -> tuple[Clause, ...]:
    """The disjunctive normal form: satisfied when any clause is. Sorted, without contradictions and redundant clauses.

    Raises
    ------
    InvalidInput
        Field ``keywords``: when a clause asks for no word, when no clause is left, or past `MAX_CLAUSES`,
        `MAX_WORDS` or `MAX_WRITTEN`.

    Examples
    --------
    >>> clauses(parse("ipad AND (discount OR sale) AND NOT used"))  # doctest: +NORMALIZE_WHITESPACE
    (Clause(positive=('discount', 'ipad'), negative=('used',)),
     Clause(positive=('ipad', 'sale'), negative=('used',)))
    """
    if sum(len(step.words) for step in expression.steps if isinstance(step, Operand)) > MAX_WORDS:
        raise InvalidInput("keywords", expression.text, _TOO_MANY_WORDS)
    if all(step == AND or isinstance(step, Operand) for step in expression.steps):
        words = {word for step in expression.steps if isinstance(step, Operand) for word in step.words}
        return (Clause(tuple(sorted(words)), ()),)
    negations = _negations(expression.steps)
    forbidden_at: dict[str, int] = {}  # a word, and the first place that forbids it
    for step, negated in zip(expression.steps, negations, strict=True):
        if isinstance(step, Operand) and negated:
            for word in step.words:
                forbidden_at.setdefault(word, step.position)
    forms = _Expansion(expression).forms(negations)
    if not forms:
        place = min(forbidden_at.values())
        raise malformed(expression.text, place, "can never hold: every alternative asks for a word that it forbids")
    made = []
    for form in forms:
        positive = tuple(sorted(word for word, wanted in form if wanted))
        negative = tuple(sorted(word for word, wanted in form if not wanted))
        if not positive:
            place = min(forbidden_at[word] for word in negative)
            shown = " ".join("NOT " + word for word in negative[:_SHOWN]) + " …" * (len(negative) > _SHOWN)
            raise malformed(expression.text, place, f'only forbids: "{shown}" asks for no word that must be there')
        made.append(Clause(positive, negative))
    return tuple(sorted(made, key=lambda clause: (clause.positive, clause.negative)))


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


# A clause under construction: each word in it, and whether it is asked for (True) or forbidden.
_Form = frozenset[tuple[str, bool]]


class _Expansion:
    """Builds the normal form of every part of an expression, and counts the words that this writes."""

    def __init__(self, expression: Expression) -> None:
        self._expression = expression
        self._n_words = 0  # written up to now

    def forms(self, negations: list[bool]) -> list[_Form]:
        """The forms of the whole expression: none contradicts itself, none is implied by another."""
        # Each part with the operator that joins its sides. A chain such as `a b c` stays open until something else
        # asks for it, so that it is joined once and not once for each of its sides.
        stack: list[tuple[str, list[list[_Form]]]] = []
        for step, negated in zip(self._expression.steps, negations, strict=True):
            if isinstance(step, Operand):
                words = sorted(set(step.words))
                each = [frozenset([(word, not negated)]) for word in words]
                stack.append((AND, [each if negated else [frozenset().union(*each)]]))
            elif step != NOT:  # which has done its work in `_negations`
                operator = step if not negated else OR if step == AND else AND
                right = self._joined(*stack.pop())
                own, sides = stack.pop()
                if own != operator and len(sides) > 1:
                    sides = [self._joined(own, sides)]
                sides.append(right)
                stack.append((operator, sides))
        return self._joined(*stack.pop())

    def _joined(self, operator: str, sides: list[list[_Form]]) -> list[_Form]:
        """The forms of an AND or an OR of these sides."""
        if len(sides) == 1:
            return self._few_enough(sides[0])
        if operator == OR:
            self._write(sum(map(_n_words, sides)))
            return self._few_enough(minimal(form for side in sides for form in side))
        # First all that asks for one thing only, at once: it cannot add a form.
        single = [side[0] for side in sides if len(side) == 1]
        self._write(sum(map(len, single)))
        joined = self._few_enough(_consistent([frozenset().union(*single)]))
        for side in sides:
            if len(side) != 1:
                joined = self._both(joined, side)
        return joined

    def _both(self, left: list[_Form], right: list[_Form]) -> list[_Form]:
        """The forms of an AND of two sides."""
        if len(left) * len(right) > _MAX_PRODUCT:
            raise self._refused(_TOO_MANY_CLAUSES)
        self._write(len(left) * _n_words(right) + len(right) * _n_words(left))
        return self._few_enough(minimal(_consistent([a | b for a in left for b in right])))

    def _write(self, n_words: int) -> None:
        """Forms of this many words are about to be made."""
        self._n_words += n_words
        if self._n_words > MAX_WRITTEN:
            raise self._refused(_TOO_MUCH)

    def _few_enough(self, forms: list[_Form]) -> list[_Form]:
        if len(forms) > MAX_CLAUSES:
            raise self._refused(_TOO_MANY_CLAUSES)
        if _n_words(forms) > MAX_WORDS:
            raise self._refused(_TOO_MANY_WORDS)
        return forms

    def _refused(self, rule: str) -> InvalidInput:
        return InvalidInput("keywords", self._expression.text, rule)


def _n_words(forms: list[_Form]) -> int:
    return sum(map(len, forms))


def _consistent(forms: list[_Form]) -> list[_Form]:
    """Those that do not ask for a word that they forbid."""
    return [form for form in forms if len({word for word, _ in form}) == len(form)]


def minimal(forms: Iterable[_Form]) -> list[_Form]:
    """Those that no other implies, up to one too many. Shortest first, so that nothing kept is implied later."""
    kept: list[_Form] = []
    for form in sorted(dict.fromkeys(forms), key=len):
        if not any(other <= form for other in kept):
            kept.append(form)
            if len(kept) > MAX_CLAUSES:
                break
    return kept


def _missing(before: str, found: str) -> str:
    place = f'after "{before}"' if before else "at the start"
    return f"needs a word {place}" + (f', found "{found}"' if found else "")
