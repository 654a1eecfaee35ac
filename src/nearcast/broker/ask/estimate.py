"""Before subscribing: how many live messages a query would match, and how many that is an hour."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from nearcast.broker.moves import split_repeats
from nearcast.broker.parts import Parts
from nearcast.columns.arena import Floats, Ints, Longs
from nearcast.columns.decode_moves import Moves
from nearcast.columns.decode_subscriptions import Part
from nearcast.columns.subscription_tables import PointTable, WithinTable
from nearcast.engines.contract import EngineContext
from nearcast.engines.live_search import matching_similar, matching_within, qualifying
from nearcast.errors import InvalidInput
from nearcast.model.checks import number
from nearcast.model.kinds import Kind
from nearcast.model.update import Reject
from nearcast.text.words import as_given
from nearcast.window.window import Window

_HOUR_MS = 3_600_000


class Estimate(NamedTuple):
    """What a query would have matched of the messages that are live now.

    Parameters
    ----------
    matches
        How many live messages satisfy it; for `TopK` and `Nearest`: qualify, whatever k.
    per_hour
        The same for an hour, over the time since the oldest live message; None if no time has passed since.
    """

    matches: int
    per_hour: float | None


def estimates(part: Part, context: EngineContext) -> list[Estimate]:
    """One for each of these subscriptions, which are checked and not registered."""
    vocabulary = context.vocabulary
    with vocabulary.trial():
        terms = vocabulary.encode(as_given(part.words))
        table = _trial_table(part.kind, context)
        numbers = np.zeros(len(part.ids), dtype=np.int32)
        given = part.given._replace(backfill=np.ones(numbers.size, dtype=bool))
        slots = table.write(given, part.n_clauses, terms, numbers, 0, part.where)
        return _counted(part.kind, table, slots, context)


def _estimates_there(kind: Kind, slots: Ints, moves: Moves, parts: Parts) -> list[Estimate]:
    """One for each of these registered subscriptions, as if it had been moved; none is."""
    with parts.context.vocabulary.trial():
        table = _trial_table(kind, parts.context)
        copied = parts.tables[kind].copy(slots)
        copied["rows"]["since"] = 0  # also messages from before it was registered
        copies = table.add_copied(copied, np.zeros(slots.size, dtype=np.int32))
        with table.moving(copies, moves.goals):
            return _counted(kind, table, copies, parts.context)


def _trial_table(kind: Kind, context: EngineContext) -> WithinTable | PointTable:
    return WithinTable(context.vocabulary) if kind == Kind.WITHIN else PointTable(context.vocabulary, kind)


def _counted(kind: Kind, table: WithinTable | PointTable, slots: Ints, context: EngineContext) -> list[Estimate]:
    dense = np.zeros(context.vocabulary.idf.size)
    counts = [_count(kind, table, int(slot), context, dense) for slot in slots]
    return [Estimate(n, _per_hour(n, context)) for n in counts]


def as_limit(value: Any, window: Window | None) -> float | None:
    """A number of matches an hour, or None for no limit.

    Raises
    ------
    InvalidInput
        For anything else, and for a limit without a window, in which nothing could be estimated.
    """
    if value is None:
        return None
    limit = number("max_matches_per_hour", value)
    if limit <= 0:
        raise InvalidInput("max_matches_per_hour", value, "must be > 0, or None")
    if window is None:
        raise InvalidInput("max_matches_per_hour", value, "must be left out without a window: no message is live")
    return limit


def too_broad(asked: Sequence[Part | Moves], limit: float, parts: Parts) -> dict[int, InvalidInput]:
    """Rows of which more messages an hour are expected than the limit, with the error that tells how many.

    What `TopK` and `Nearest` match lies anywhere, so that no move changes it.
    """
    errors: dict[int, InvalidInput] = {}
    for part in asked:
        if isinstance(part, Part):
            errors |= _too_many("query", part.given.rows, estimates(part, parts.context), limit)
    for kind, slots, turn in split_repeats([part for part in asked if isinstance(part, Moves)], parts.registry):
        if kind in (Kind.WITHIN, Kind.SIMILAR):
            errors |= _too_many("move", turn.rows, _estimates_there(kind, slots, turn, parts), limit)
    return errors


def _too_many(field: str, rows: Longs, found: list[Estimate], limit: float) -> dict[int, InvalidInput]:
    rule = f"must match at most {limit:g} messages an hour, by what is live now"
    return {
        row: InvalidInput(field, f"{each.per_hour:.6g} an hour ({each.matches} matches)", rule)
        for row, each in zip(rows.tolist(), found, strict=True)
        if each.per_hour is not None and each.per_hour > limit
    }


def without(parts: Sequence[Part], rows: Collection[int]) -> list[Part]:
    """These parts without some rows."""
    kept = [part.filter(~np.isin(part.given.rows, list(rows))) for part in parts]
    return [part for part in kept if len(part.ids)]


def without_moves(parts: Sequence[Moves], rows: Collection[int]) -> list[Moves]:
    """These moves without some rows."""
    kept = [part.take(np.flatnonzero(~np.isin(part.rows, list(rows)))) for part in parts]
    return [part for part in kept if part.rows.size]


def rejected(rejects: Iterable[Reject], broad: Mapping[int, InvalidInput]) -> list[Reject]:
    """These rejects and those that are too broad, by row."""
    more = [Reject(row, error.field, str(error)) for row, error in broad.items()]
    return sorted([*rejects, *more], key=lambda reject: reject.row)


def _count(kind: Kind, table: WithinTable | PointTable, slot: int, context: EngineContext, dense: Floats) -> int:
    if isinstance(table, WithinTable):
        found, _ = matching_within(table.layout, slot, context, dense)
    elif kind == Kind.SIMILAR:
        found, _ = matching_similar(table.layout, slot, context, dense)
    else:
        found = qualifying(int(kind), table.layout, slot, context, dense)
    return int(found.size)


def _per_hour(n: int, context: EngineContext) -> float | None:
    live = context.live
    slots = live.table.live_slots
    passed = live.clock - int(live.table.layout.rows["ts"][slots].min()) if slots.size else 0
    return n * _HOUR_MS / passed if passed else None
