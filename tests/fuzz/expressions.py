"""Random expressions: the package and the definitions accept the same ones, and match the same messages by them."""

from __future__ import annotations

import random
import warnings

from definitions import Predicate, Refused, expression

import nearcast as nc
from nearcast.errors import InvalidInput

N_EXPRESSIONS, N_MESSAGES = 100, 60

_OPERANDS = ("fire", "smoke", "ramen", "FIRE", "straße", "STRASSE", "road/fire", "and", "Or", "not", "NOTE", "ﬁre", "½")
_PATTERNS = (
    '"fire smoke"',
    '"smoke ramen fire"',
    '"fire, FIRE"',
    '"ramen"',
    "fi*",
    "STRA*",
    "road-fire*",
    "ﬁr*",
    '"road fire"',
)
_ODD = (
    "AND", "AND", "OR", "OR", "NOT", "(", ")", "((", "-", "_", "!", "\u0301", "e\u0301", '"', "*", "fire*", "\u201c",
    "f*", '"-"', "~",
)  # fmt: skip
_SHAPES = ("{}", "({} OR {})", "{} OR {}", "{} AND {}", "NOT {}", "{} {}", "({})", "{} AND NOT {}", "NOT ({} {})")
_REGION = nc.Box(0, 0, 1, 1)
_TOO_LARGE = "must expand to at most"  # what the package refuses for its size alone


def expressions_round(seed: int) -> None:
    """Some expressions, and messages with every mix of their words."""
    pick = random.Random(seed)
    broker = nc.Broker(nc.Space((0, 0, 1, 1), metric="euclidean"))
    accepted: dict[int, tuple[str, Predicate]] = {}
    for n in range(N_EXPRESSIONS):
        text = _formula(pick, pick.choice((1, 2, 3, 4))) if pick.random() < 0.6 else _jumble(pick)
        refusal, holds = _refusal(broker, n, text), _meaning(text)
        if refusal is None:
            assert holds is not None, f"not refused: {text!r}"
            accepted[n] = text, holds
        else:
            assert holds is None or _TOO_LARGE in refusal, f"{text!r} is refused: {refusal}"
    for n in range(N_MESSAGES):
        words = [word for word in (*_OPERANDS, "road", "other", "1\u20442") if pick.random() < 0.4]
        pick.shuffle(words)
        content: str | list[str] = words if pick.random() < 0.4 else pick.choice((" ", ", ")).join(words)
        said = {"keywords": words} if isinstance(content, list) else {"text": content}
        told = {update.subscription for update in broker.publish(nc.Message(n, 0.5, 0.5, **said))}
        expected = {n for n, (_, holds) in accepted.items() if holds(content)}
        assert told == expected, f"{content!r} and {[accepted[int(n)][0] for n in told ^ expected]}"
    broker.check()


def _formula(pick: random.Random, depth: int) -> str:
    """Balanced parentheses; some have clauses without a positive word."""
    shape = pick.choice(_SHAPES) if depth else "{}"
    if shape == "{}":
        return pick.choice(_OPERANDS if pick.random() < 0.7 else _PATTERNS)
    return shape.format(*(_formula(pick, depth - 1) for _ in range(shape.count("{}"))))


def _jumble(pick: random.Random) -> str:
    """Any arrangement of words, operators and parentheses; most are malformed."""
    parts = [pick.choice(pick.choice((_OPERANDS, _OPERANDS, _PATTERNS, _ODD))) for _ in range(pick.randrange(10))]
    return pick.choice((" ", " ", "", "\t")).join(parts)


def _meaning(text: str) -> Predicate | None:
    """What an expression says of words, or None if it is malformed."""
    try:
        return expression(text)
    except Refused:
        return None


def _refusal(broker: nc.Broker, id: int, text: str) -> str | None:
    """Why an expression is refused, or None."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", nc.NearcastWarning)  # a hint at lower-case operators, which are words
            broker.subscribe(id, nc.Within(_REGION, text))
    except InvalidInput as error:
        return str(error)
    return None
