"""Moves as callers give them become columns: which row, which id, and the place or region it goes to."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa

from nearcast.columns.arena import Array, Floats, Longs
from nearcast.columns.arrow_checks import LARGEST, SIDES, Columns
from nearcast.columns.ids import bulk_id_type
from nearcast.columns.regions import RegionRows, box_rows, region_rows
from nearcast.model.event import Move
from nearcast.model.instant import LAST_INSTANT
from nearcast.space.space import Space

_FIELDS = ("event", "id", "ts")


Goals = Floats | RegionRows  # places are float64[n, 2]


class Moves(NamedTuple):
    """Moves in the order given, all to a place or all to a region."""

    rows: Longs  # row numbers in the caller's batch
    ids: pa.Array
    goals: Goals

    @property
    def to_regions(self) -> bool:
        return isinstance(self.goals, RegionRows)

    def take(self, at: Longs) -> Moves:
        """Only these rows."""
        goals = self.goals.take(at) if isinstance(self.goals, RegionRows) else self.goals[at]
        return Moves(self.rows[at], self.ids.take(pa.array(at)), goals)


def goal_of(move: Move, space: Space) -> Goals:
    """Where a single move goes."""
    if move.region is not None:
        return region_rows([move.region], space)
    place: Floats = np.array([(move.lon, move.lat)], dtype=np.float64)
    return place


def from_objects(given: list[tuple[int, Move]], space: Space) -> list[Moves]:
    """Moves by row."""
    placed = [(row, move) for row, move in given if move.region is None]
    others = [(row, move, move.region) for row, move in given if move.region is not None]
    parts = []
    if placed:
        rows, moves = zip(*placed, strict=True)
        places = np.array([(move.lon, move.lat) for move in moves], dtype=np.float64)
        parts.append(Moves(np.array(rows, dtype=np.int64), pa.array([move.id for move in moves]), places))
    if others:
        rows, moves, regions = zip(*others, strict=True)
        goals = region_rows(list(regions), space)
        parts.append(Moves(np.array(rows, dtype=np.int64), pa.array([move.id for move in moves]), goals))
    return parts


def sure_moves(table: pa.Table, space: Space, id_type: str | None) -> list[Moves]:
    """The rows of a table that are surely right by themselves: ids of the type given, and a place or a box."""
    if "id" not in table.column_names or id_type is None or bulk_id_type(table.column("id").type) != id_type:
        return []
    boxed = np.zeros(table.num_rows, dtype=bool)
    for name in ("region", SIDES[0]):
        if name in table.column_names:
            boxed |= table.column(name).is_valid().to_numpy()
    parts = []
    for rows, sure in ((np.flatnonzero(~boxed), _sure_places), (np.flatnonzero(boxed), _sure_boxes)):
        if rows.size:
            parts.append(sure(table.take(rows) if rows.size < table.num_rows else table, rows, space))
    return parts


def _sure_places(table: pa.Table, rows: Array, space: Space) -> Moves:
    columns = Columns(table, (*_FIELDS, "lon", "lat"))
    columns.whole("ts", -LAST_INSTANT, LAST_INSTANT, 0)
    x, y = columns.numbers("lon", -LARGEST, LARGEST), columns.latitudes("lat", space)
    ids = columns.ids()
    return Moves(rows[columns.good], ids, np.stack([x, y], axis=1)[columns.good])


def _sure_boxes(table: pa.Table, rows: Array, space: Space) -> Moves:
    columns = Columns(table, (*_FIELDS, "region", *SIDES))
    columns.whole("ts", -LAST_INSTANT, LAST_INSTANT, 0)
    boxes = columns.boxes(space)
    ids = columns.ids()
    return Moves(rows[columns.good], ids, box_rows(boxes[columns.good]))
