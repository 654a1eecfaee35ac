"""Why a message is, or is not, in a subscriber's result: the parts of its score, one by one."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from nearcast.broker.parts import Parts
from nearcast.columns.arena import Ints
from nearcast.columns.clauses import split_clauses
from nearcast.columns.fields.conditions import NO_CONDITION, compare_all
from nearcast.columns.scores import gather, scatter
from nearcast.columns.subscription_tables import PointTable, WithinTable, in_region
from nearcast.engines.contract import EngineContext
from nearcast.engines.exact import NO_MATCH, rank, similarity
from nearcast.errors import UnknownId
from nearcast.model.condition import ACCEPT, parse_condition
from nearcast.model.kinds import Kind
from nearcast.model.query import MATCHES, MEASURES
from nearcast.model.words import word_of_key
from nearcast.space.distance import distance, ssim
from nearcast.window.recency import faded
from nearcast.window.window import is_live


@dataclass(frozen=True, slots=True)
class Explanation:
    """What the broker knows about one subscription and one message.

    Parameters
    ----------
    in_result
        Whether the message is in the result now.
    score
        Its score or distance, None for `Within` and where there is none.
    reason
        One sentence.
    parts
        The numbers behind it, by name.
    """

    in_result: bool
    score: float | None
    reason: str
    parts: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        lines = [self.reason] + [f"  {name}: {value}" for name, value in self.parts.items()]
        return "\n".join(lines)


def explain_one(number: int, message_id: str | int, broker: Parts) -> Explanation:
    """The same for a message by its id; `UnknownId` if there is no such live message."""
    kind, slot = broker.registry.where(number)
    found, _ = broker.engines[kind].result(slot)
    ids = broker.context.live.table.ids
    message = ids.find(message_id)
    if broker.context.live.window is None:  # ids are not filed, but results hold some messages
        held = [int(at) for at in found if ids.is_called(int(at), message_id)]
        message = held[0] if held else -1
    if message < 0:
        raise UnknownId("message_id", message_id, "must be the id of a live message")
    return explain(kind, broker.tables[kind], slot, message, message in found, broker.context)


def explain(
    kind: Kind, table: WithinTable | PointTable, slot: int, message: int, shown: bool, context: EngineContext
) -> Explanation:
    """Take the score of a stored message apart; `shown` says whether it is in the result."""
    live = context.live
    stored, (at,) = live.table.layout, (message,)
    if isinstance(table, WithinTable):
        stored, (at,) = live.table.with_patterns(np.array([message], np.int32))
    row = stored.rows[at]
    parts: dict[str, Any] = {}
    dense = np.zeros(context.vocabulary.idf.size)
    scatter(stored.terms, stored.counts, row["term_start"], row["n_terms"], context.vocabulary.idf, dense)
    try:
        if isinstance(table, WithinTable):
            matches, score, reason = _within(table, slot, row, context, dense, parts)
        elif kind == Kind.SIMILAR:
            matches, score, reason = _similar(table, slot, row, context, dense, parts)
        else:
            matches, score, reason = _kept(kind, table, slot, row, context, dense, parts)
    finally:
        gather(stored.terms, row["term_start"], row["n_terms"], dense)
    condition = int(table.rows["condition"][slot])
    if condition != NO_CONDITION:
        failed = _where(table, condition, message, context, parts)
        if matches and failed:
            return Explanation(shown, score, f"not in the result: {failed}", parts)
    if matches and not shown:
        reason = _why_not(kind, table, slot, row, context)
    return Explanation(shown, score, reason, parts)


def _where(
    table: WithinTable | PointTable, condition: int, message: int, context: EngineContext, parts: dict[str, Any]
) -> str:
    """Which comparison of a condition failed, or an empty string: the last one asked that alone would change it."""
    live = context.live.table
    text = table.conditions.texts(np.array([condition], np.int32))[0].as_py()
    comparisons = parse_condition(text).comparisons
    held = np.zeros(len(comparisons), dtype=np.bool_)
    compare_all(table.layout.conditions, condition, live.layout.fields, message, held)

    def outcome(at: int, asked: list[int]) -> int:
        while at >= 0:
            asked.append(at)
            at = comparisons[at].if_true if held[at] else comparisons[at].if_false
        return at

    asked: list[int] = []
    parts["where holds"] = outcome(0, asked) == ACCEPT
    parts["fields"] = live.fields(message)
    parts["comparisons"] = {str(comparisons[at]): bool(held[at]) for at in asked}
    if parts["where holds"]:
        return ""
    decisive = asked[-1]
    for at in asked:
        if outcome(comparisons[at].if_false if held[at] else comparisons[at].if_true, []) == ACCEPT:
            decisive = at
    return f"its fields do not satisfy where: {comparisons[decisive]} is {'true' if held[decisive] else 'false'}"


def _why_not(kind: Kind, table: WithinTable | PointTable, slot: int, row: Any, context: EngineContext) -> str:
    live = context.live
    if row["sequence"] <= table.rows["since"][slot]:
        return "not in the result: it arrived before the subscription, which has no backfill"
    if live.window is None:
        kept = (
            "no result is kept without a window"
            if kind in (Kind.WITHIN, Kind.SIMILAR)
            else "it arrived too early, or others are nearer"
        )
        return f"not in the result: {kept}"
    if not is_live(row, live.last, live.clock, live.limits.newest):
        return "not in the result: it has expired"
    k = int(table.rows["k"][slot])
    return f"not in the result: {k} other {'message is' if k == 1 else 'messages are'} better"


def _words(terms: Ints, context: EngineContext) -> list[str]:
    return [word_of_key(context.vocabulary.word(int(term))) for term in terms]


def _within(
    table: WithinTable, slot: int, row: Any, context: EngineContext, dense: Any, parts: dict[str, Any]
) -> tuple[bool, float | None, str]:
    layout = table.layout
    inside = bool(in_region(layout, slot, context.space.metric_code, row["x"], row["y"]))
    start = layout.rows["clause_start"][slot]
    clauses = split_clauses(layout.clauses[start : start + layout.rows["clause_size"][slot]])
    holding = None
    missing: list[str] = []
    forbidden: list[str] = []
    for positive, negative in clauses:
        if (dense[positive] != 0).all() and (dense[negative] == 0).all():
            holding = _words(positive, context)
            break
        missing += _words(positive[dense[positive] == 0], context)
        forbidden += _words(negative[dense[negative] != 0], context)
    parts["inside region"] = inside
    parts["words hold"] = holding is not None
    if holding is not None:
        parts["because of"] = holding
    else:
        parts["missing words"], parts["forbidden words"] = sorted(set(missing)), sorted(set(forbidden))
    if inside and holding is not None:
        return True, None, "in the result: inside the region, and its words satisfy the expression"
    why = "its place is outside the region" if not inside else "its words do not satisfy the expression"
    return False, None, f"not in the result: {why}"


def _place(table: PointTable, slot: int, row: Any, context: EngineContext, dense: Any, parts: dict[str, Any]) -> float:
    """Parts that all kinds with a place have; returns the distance."""
    own = table.rows[slot]
    terms = table.layout.terms[own["term_start"] : own["term_start"] + own["n_terms"]]
    apart = float(distance(context.space.metric_code, own["x"], own["y"], row["x"], row["y"]))
    parts["distance"] = apart
    parts["shared words"] = _words(terms[dense[terms] != 0], context)
    parts["missing words"] = _words(terms[dense[terms] == 0], context)
    return apart


def _similar(
    table: PointTable, slot: int, row: Any, context: EngineContext, dense: Any, parts: dict[str, Any]
) -> tuple[bool, float | None, str]:
    own = table.rows[slot]
    place = float(ssim(_place(table, slot, row, context, dense, parts), context.space.max_distance))
    where = context.space.kernel_input
    score = float(similarity(table.layout, slot, row, where, context.vocabulary.idf, dense))
    scale = table.scales[slot]
    delta, tau = float(scale["delta"]), float(scale["tau"])
    parts |= {"measure": MEASURES[own["mode"]], "delta": delta, "ssim": place}
    if delta > 0.0:
        parts["tsim"] = (score - (1.0 - delta) * place) / delta
    parts |= {"score": score, "tau": tau}
    if score >= tau:
        return True, score, f"in the result: score {score:.6g} reaches tau {tau:.6g}"
    return False, score, f"not in the result: score {score:.6g} is below tau {tau:.6g}"


def _kept(
    kind: Kind, table: PointTable, slot: int, row: Any, context: EngineContext, dense: Any, parts: dict[str, Any]
) -> tuple[bool, float | None, str]:
    own = table.rows[slot]
    apart = _place(table, slot, row, context, dense, parts)
    where = context.space.kernel_input
    value = float(rank(int(kind), table.layout, slot, row, where, context.vocabulary.idf, dense))
    parts["k"] = int(own["k"])
    if kind == Kind.NEAREST:
        parts["match"] = MATCHES[own["mode"]]
    if value == NO_MATCH:
        shares_none = not parts["shared words"]
        return (
            False,
            None,
            f"not in the result: it {'shares no word' if shares_none else 'does not hold all the words'}",
        )
    if kind == Kind.NEAREST:
        return True, apart, f"in the result: distance {apart:.6g}"
    alpha, place = float(table.scales["alpha"][slot]), float(ssim(apart, context.space.max_distance))
    parts |= {"alpha": alpha, "ssim": place}
    if alpha < 1.0:
        parts["cos"] = (value - alpha * place) / (1.0 - alpha)
    half_life = int(table.half_lives_of(np.array([slot], np.int32))[0])
    if half_life:
        clock = context.live.clock
        parts["base"], parts["decay factor"] = value, float(faded(1.0, int(row["ts"]), clock, half_life))
        value = float(faded(value, int(row["ts"]), clock, half_life))
    parts["score"] = value
    return True, value, f"in the result: score {value:.6g}"
