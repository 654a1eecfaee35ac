"""Moves in bulk say what the same moves say one by one."""

from __future__ import annotations

import json
import os
import random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from compare import identical
from contract.contenders import Town

import nearcast as nc
from nearcast.broker.moves import split_repeats
from nearcast.broker.registry import Registry
from nearcast.columns.decode_moves import Moves, from_objects
from nearcast.columns.regions import box_rows
from nearcast.errors import InvalidInput
from nearcast.model.codec import move_from_json
from nearcast.model.event import Move
from nearcast.model.kinds import Kind
from nearcast.model.update import Reject, Update
from nearcast.space.space import Space

COMPILED = os.environ.get("NUMBA_DISABLE_JIT", "0") == "0"
KINDS = ("within", "similar", "topk", "nearest")
SIDES = ("min_lon", "min_lat", "max_lon", "max_lat")
N = 40 if COMPILED else 8
SCHEMA = pa.schema(
    [("id", pa.int64()), ("lon", pa.float64()), ("lat", pa.float64()), ("region", pa.string()), ("ts", pa.int64())]
    + [(side, pa.float64()) for side in SIDES]
)


def town_broker(window: nc.Window | None, names: bool = False) -> nc.Broker:
    """Ten or more subscriptions of every kind that the window allows, ids 0, 4, 8, ... Within, and live messages."""
    town = Town(3)
    broker = nc.Broker(town.space, window)
    queries = [(n, town.query(KINDS[n % 4])) for n in range(N) if window is not None or n % 4 != 2]
    broker.subscribe_many([(str(n) if names else n, query) for n, query in queries])
    broker.publish(town.messages(3 * N))
    return broker


def some_moves(seed: int, n: int) -> list[dict[str, Any]]:
    """Moves that fit their subscriptions and moves that do not, ids again and again."""
    town, source = Town(seed), random.Random(seed)
    moves = []
    for _ in range(n):
        id = source.randrange(N + 2)
        x, y = map(float, town.place())
        side = source.choice([1.0, 4.0, 8.0])
        box = dict(zip(SIDES, (x, y, x + side, y + side), strict=True))
        circle = {"region": json.dumps({"type": "Circle", "coordinates": [x, y], "radius": side})}
        goals: list[dict[str, Any]] = [{"lon": x, "lat": y}] if id % 4 else [box, box, circle]
        goals += source.choice(
            [[], [], [], [box], [{"lon": x}, {"lon": x, "lat": y, **box}, {"lon": np.nan, "lat": y}]]
        )
        moves.append({"id": id, **source.choice(goals)})
    return moves


def one_by_one(broker: nc.Broker, moves: list[dict[str, Any]]) -> tuple[list[Update], list[Reject]]:
    said: list[Update] = []
    rejects: list[Reject] = []
    for row, given in enumerate(moves):
        try:
            move = move_from_json(given)
            said += broker.move(move.id, move.lon, move.lat, move.region)
        except InvalidInput as error:
            rejects.append(Reject(row, error.field, str(error)))
    return said, rejects


@pytest.mark.parametrize("window", [nc.Window(count=2 * N), None], ids=repr)
@pytest.mark.parametrize("names", [False, True])
def test_tables_move_like_one_by_one(window: nc.Window | None, names: bool) -> None:
    single, in_bulk, as_objects = (town_broker(window, names) for _ in range(3))
    n_said = n_rejects = 0
    for seed in range(3):
        moves = some_moves(seed, 3 * N)
        if names:
            moves = [{**move, "id": str(move["id"])} for move in moves]
        expected, refused = one_by_one(single, moves)
        schema = SCHEMA.set(0, pa.field("id", pa.string() if names else pa.int64()))
        updates = in_bulk.move_many(pa.Table.from_pylist(moves, schema=schema))
        assert list(updates) == expected
        assert updates.rejects == refused
        given = as_objects.move_many(moves)
        identical(given, expected)
        assert given.rejects == refused
        in_bulk.check()
        n_said += len(expected)
        n_rejects += len(refused)
    assert n_rejects > 0
    assert n_said > 0 or window is None
    for n in range(N):
        if window is not None or n % 4 != 2:
            id = str(n) if names else n
            assert in_bulk.results(id) == single.results(id) == as_objects.results(id)


def test_columns_that_mean_nothing_for_a_move_are_refused_by_row() -> None:
    broker = town_broker(nc.Window())
    table = pa.table({"id": [1, 1], "lon": [2.0, 3.0], "lat": [2.0, 3.0], "colour": [None, "red"], "ts": [5, 6]})
    assert [(reject.row, reject.field) for reject in broker.move_many(table).rejects] == [(1, "colour")]
    assert broker.move_many(table.slice(0, 0)).rejects == []
    assert [reject.field for reject in broker.move_many(pa.table({"id": ["1"], "lon": [1], "lat": [1]})).rejects] == [
        "id"
    ]
    assert [reject.field for reject in broker.move_many(pa.table({"lon": [1], "lat": [1]})).rejects] == ["id"]
    nobody = nc.Broker(nc.Space((0, 0, 1, 1), metric="euclidean"))
    assert [reject.field for reject in nobody.move_many(table).rejects] == ["id", "colour"]


def test_boxes_across_the_date_line_and_past_the_pole() -> None:
    broker = nc.Broker(nc.Space((-180, -90, 180, 90), "haversine"), nc.Window())
    broker.subscribe(1, nc.Within(nc.Box(0, 0, 1, 1), "a"))
    broker.publish(nc.Message("m", 180, 0, "a", ts=1))
    rows = {"id": [1, 1], "min_lon": [170, 0], "min_lat": [-1, 0], "max_lon": [-170, 1], "max_lat": [1, 91]}
    updates = broker.move_many(pa.table(rows))
    assert [(update.sign, update.message) for update in updates] == [("+", "m")]
    assert [(reject.row, reject.field) for reject in updates.rejects] == [(1, "region")]


def test_nobody_moves_twice_at_once() -> None:
    registry = Registry()
    numbers = np.concatenate(
        [registry.add(pa.array(["a", "b"]), Kind.WITHIN), registry.add(pa.array(["p"]), Kind.NEAREST)]
    )
    registry.place(numbers, np.array([5, 6, 7], np.int32), np.full(3, 2**63 - 1))
    boxes = Moves(np.array([0, 1, 3, 6]), pa.array(["a", "b", "a", "a"]), box_rows(np.arange(16.0).reshape(4, 4)))
    others = from_objects(
        [(2, Move("a", region=nc.Box(9, 9, 9, 9))), (4, Move("p", 1, 2)), (5, Move("p", 3, 4))],
        Space((0, 0, 9, 9), metric="euclidean"),
    )
    told = [
        (kind, slots.tolist(), moves.rows.tolist(), moves.to_regions)
        for kind, slots, moves in split_repeats([boxes, *others], registry)
    ]
    assert told == [
        (0, [5, 6], [0, 1], True),
        (3, [7], [4], False),
        (3, [7], [5], False),
        (0, [5], [2], True),
        (0, [5], [3], True),
        (0, [5], [6], True),
    ]
    assert list(split_repeats([], registry)) == []
