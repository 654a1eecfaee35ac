"""Moves meet the subscriptions that they are for: checked against their kinds, and put in turns of each one once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from nearcast.broker.registry import Registry, unknown
from nearcast.columns.arena import Array, Ints, Longs
from nearcast.columns.arrow_checks import is_simple
from nearcast.columns.arrow_rows import as_table, is_sound, refuse_strangers, rows_of
from nearcast.columns.decode_moves import Goals, Moves, from_objects, goal_of, sure_moves
from nearcast.columns.times import rows_with_times, whole_times
from nearcast.errors import InvalidInput
from nearcast.model.checks import is_a, plain_copy, refusal
from nearcast.model.codec import move_from_json
from nearcast.model.event import Move
from nearcast.model.kinds import Kind
from nearcast.model.update import Reject
from nearcast.space.space import Space


class Movable(NamedTuple):
    """What decides whether a subscription may move somewhere."""

    registry: Registry
    space: Space
    has_window: bool

    def check(self, move: Move, number: int) -> None:
        """Refuse a move that does not fit the subscription of this number, or one of nobody."""
        if number < 0:
            raise unknown(move.id)
        kind, _ = self.registry.where(number)
        if kind == Kind.WITHIN:
            if move.region is None:
                raise InvalidInput("region", None, "is required to move a within subscription")
            self.space.check_region(move.region)
        elif move.lon is None or move.lat is None:
            raise InvalidInput(
                "region", move.region, f"must be left out to move a {kind.label} subscription, which has a place"
            )
        else:
            self.space.check_point(move.lon, move.lat)
        if kind == Kind.NEAREST and not self.has_window:
            raise InvalidInput("id", move.id, "must not be a nearest subscription: without a window it cannot move")

    def refusal(self, move: Move, number: int) -> InvalidInput | None:
        """Why a move is refused, or None."""
        try:
            self.check(move, number)
        except Exception as error:
            return refusal("move", move, error, lambda: self.check(move, number))
        return None

    def fits(self, moves: Moves) -> Array:
        """Which of many moves that are right by themselves `check` would let pass."""
        numbers = self.registry.find_many(moves.ids)
        kinds = self.registry.places(numbers)[0]
        fits: Array = (numbers >= 0) & ((kinds == Kind.WITHIN) == moves.to_regions)
        return fits if self.has_window else fits & (kinds != Kind.NEAREST)


def one_move(move: Move, movable: Movable) -> tuple[Kind, Ints, Goals]:
    """Which subscription a single move is for, as kind and slot, and where it goes; InvalidInput if it is refused."""
    number = movable.registry.find(move.id)
    refused = movable.refusal(move, number)
    if refused is not None:
        raise refused
    kind, slot = movable.registry.where(number)
    return kind, np.array([slot], np.int32), goal_of(move, movable.space)


def many_moves(source: Any, movable: Movable) -> tuple[list[Moves], list[Reject]]:
    """All moves of a batch that can be made, and why the others cannot."""
    table = as_table("moves", source)
    table = None if table is None else whole_times(table)
    parts: list[Moves] = []
    if table is None:
        rest: Iterable[tuple[int, Any]] = enumerate(rows_of("moves", source))
    elif not is_simple(table) or not is_sound(table):
        rest = enumerate(rows_with_times("moves", table))
    else:
        left = np.ones(table.num_rows, dtype=bool)
        for sure in _sure(table, movable):
            fits = movable.fits(sure)
            parts.append(sure if fits.all() else sure.take(np.flatnonzero(fits)))
            left[parts[-1].rows] = False
        rows = np.flatnonzero(left)
        rest = zip(rows.tolist(), rows_with_times("moves", table.take(rows)), strict=True)
    given: list[tuple[int, Move]] = []
    good: list[tuple[int, Move]] = []
    rejects: list[Reject] = []
    strangers: list[Any] = []
    for row, value in rest:
        try:
            given.append((row, _as_move(value)))
        except InvalidInput as error:
            rejects.append(Reject(row, error.field, str(error)))
            if not is_a(value, Move | Mapping):
                strangers.append(value)
    refuse_strangers("moves", strangers, len(given) + len(rejects), "a Move or a mapping")
    numbers = movable.registry.find_all([move.id for _, move in given])
    for (row, move), number in zip(given, numbers.tolist(), strict=True):
        refused = movable.refusal(move, number)
        if refused is None:
            good.append((row, move))
        else:
            rejects.append(Reject(row, refused.field, str(refused)))
    return parts + from_objects(good, movable.space), sorted(rejects, key=lambda reject: reject.row)


def _sure(table: pa.Table, movable: Movable) -> list[Moves]:
    try:
        return sure_moves(table, movable.space, movable.registry.ids.type)
    except pa.ArrowException:  # more than fits into one array
        return []


def _as_move(item: Any) -> Move:
    """A Move given as one or as its JSON form."""
    if type(item) is Move:
        return item
    try:
        return _read(item)
    except Exception as error:
        raise refusal("move", item, error, lambda: _read(item)) from error


def _read(item: Any) -> Move:
    if isinstance(item, Mapping):
        return move_from_json(dict(item))
    return plain_copy("move", item, (Move,)) or move_from_json(item)


def split_repeats(parts: list[Moves], registry: Registry) -> Iterator[tuple[Kind, Ints, Moves]]:
    """Kind, slots and moves, cut so that nobody moves twice at once; each subscription's moves stay in order."""
    if not parts:
        return
    numbers = np.concatenate([registry.find_many(part.ids) for part in parts])
    rows = np.concatenate([part.rows for part in parts])
    kinds, slots = registry.places(numbers)
    part_of = np.repeat(np.arange(len(parts)), [part.rows.size for part in parts])
    first = np.cumsum([0] + [part.rows.size for part in parts])
    order = np.lexsort((rows, numbers))
    begins = np.flatnonzero(np.diff(numbers[order], prepend=-1))
    turns = np.empty(rows.size, dtype=np.int64)
    turns[order] = np.arange(rows.size) - np.repeat(begins, np.diff(begins, append=rows.size))
    order = np.lexsort((kinds, part_of, turns))
    keys = np.stack([turns, part_of, kinds])[:, order]
    for at in np.split(order, np.flatnonzero(np.diff(keys).any(axis=0)) + 1):
        if at.size:
            part = int(part_of[at[0]])
            yield Kind(kinds[at[0]]), slots[at], parts[part].take(at - first[part])


def rows_of_slots(changed: Ints, slots: Ints, rows: Longs) -> Ints:
    """For each change, by the slot of its subscription, the row of the batch that names that slot."""
    order = np.argsort(slots)
    at = order[np.searchsorted(slots, changed, sorter=order)]
    return rows[at].astype(np.int32)
