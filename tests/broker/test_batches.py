"""The same events in batches, as JSON and Arrow, and over a snapshot: nothing may differ, to the bit."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from compare import identical
from definitions import Id
from strategies import METHODS, Event, Seeded, Setting, StreamMaker, make_setting

import nearcast as nc
from nearcast.errors import InvalidInput
from nearcast.model.codec import message_to_json, region_to_json, subscription_to_json
from nearcast.model.query import Subscription
from nearcast.model.update import Update

COMPILED = os.environ.get("NUMBA_DISABLE_JIT", "0") == "0"
N_SEEDS = 12 if COMPILED else 2
N_EVENTS = 120

BATCHED = {
    "publish": "publish", "update": "update", "subscribe": "subscribe_many", "unsubscribe": "unsubscribe_many",
    "move": "move_many",
}  # fmt: skip
MESSAGES = pa.schema(
    [
        ("lon", pa.float64()),
        ("lat", pa.float64()),
        ("text", pa.string()),
        ("keywords", pa.list_(pa.string())),
        ("ts", pa.int64()),
        ("expires", pa.int64()),
        ("fields", pa.string()),
    ]
)
SUBSCRIPTIONS = pa.schema(
    [
        ("kind", pa.string()),
        ("region", pa.string()),
        ("lon", pa.float64()),
        ("lat", pa.float64()),
        ("delta", pa.float64()),
        ("tau", pa.float64()),
        ("measure", pa.string()),
        ("k", pa.int64()),
        ("alpha", pa.float64()),
        ("decay", pa.float64()),
        ("match", pa.string()),
        ("backfill", pa.bool_()),
        ("where", pa.string()),
        ("expires", pa.int64()),
    ]
)
MOVES = pa.schema([("lon", pa.float64()), ("lat", pa.float64()), ("region", pa.string())])


def stream(seed: int) -> tuple[Setting, list[Event]]:
    source = Seeded(seed)
    setting = make_setting(source)
    maker = StreamMaker(source, setting)
    methods = [method for method in METHODS if method not in ("subscribe", "unsubscribe")]
    events = [maker.make("subscribe") for _ in range(4)]
    while len(events) < N_EVENTS:  # runs of one method, so that batches have something to hold
        method = source.pick(METHODS if source.pick((True, False)) else methods)
        events += [maker.make(method) for _ in range(source.pick(range(1, 9)))]
    return setting, events


def one_by_one(broker: nc.Broker, events: Iterable[Event]) -> tuple[list[Update], list[tuple[int, str]]]:
    """All updates, and the row and field of every event that was refused."""
    updates: list[Update] = []
    refused: list[tuple[int, str]] = []
    for row, event in enumerate(events):
        try:
            updates += event.happen_to(broker) or ()
        except InvalidInput as error:
            refused.append((row, error.field))
    return updates, refused


def same_results(ours: nc.Broker, theirs: nc.Broker, ids: Iterable[Id]) -> None:
    for id in ids:
        assert results(ours, id) == results(theirs, id), f"results of {id!r}"


def results(broker: nc.Broker, id: Id) -> list[tuple[Id, float | None]] | None:
    try:
        return list(broker.results(id))
    except InvalidInput:
        return None


def ids_of(events: Iterable[Event]) -> set[Id]:
    return {event.arguments[0] for event in events if event.method == "subscribe"}


# --------------------------------------------------------------------------------------------------------------- forms


def as_objects(method: str, events: Sequence[Event]) -> Any:
    """What the batched method takes, as Python objects."""
    if method in ("publish", "update", "unsubscribe"):
        return [event.arguments[0] for event in events]
    if method == "subscribe":
        return [Subscription(*event.arguments, **event.named) for event in events]
    return [{"id": event.arguments[0], **event.named} for event in events]


def as_json(method: str, events: Sequence[Event]) -> Any:
    """The same as parsed JSON."""
    objects = as_objects(method, events)
    if method in ("publish", "update"):
        return [json.loads(json.dumps(message_to_json(message))) for message in objects]
    if method == "subscribe":
        return [json.loads(json.dumps(subscription_to_json(subscription))) for subscription in objects]
    if method == "move":
        return [{**move, "region": region_to_json(move["region"])} if "region" in move else move for move in objects]
    return objects


def as_arrow(method: str, events: Sequence[Event]) -> pa.Table:
    """The same as a table. A column has one type, so that keywords of subscriptions are all lists or all strings."""
    if method == "unsubscribe":
        return _table(pa.schema([]), [{"id": event.arguments[0]} for event in events])
    rows = as_json(method, events)
    for row in rows:
        for name in ("region", "fields"):
            if row.get(name) is not None:
                row[name] = json.dumps(row[name])
    if method == "subscribe":
        text = isinstance(rows[0]["keywords"], str)
        return _table(SUBSCRIPTIONS.append(pa.field("keywords", pa.string() if text else pa.list_(pa.string()))), rows)
    return _table(MESSAGES if method in ("publish", "update") else MOVES, rows)


def _table(schema: pa.Schema, rows: Sequence[dict[str, Any]]) -> pa.Table:
    id_type = pa.string() if isinstance(rows[0]["id"], str) else pa.int64()
    return pa.Table.from_pylist(list(rows), schema=schema.insert(0, pa.field("id", id_type)))


def _run_of(event: Event) -> Any:
    """Neighbours that may go into one batch: the same method, and for subscriptions the same sort of keywords."""
    if event.method == "subscribe":
        return event.method, isinstance(event.arguments[1].keywords, str)
    return event.method, event.method in BATCHED or id(event)


@pytest.mark.parametrize("form", [as_objects, as_json, as_arrow])
def test_batches(form: Any) -> None:
    """However events are cut into batches, and in whatever form they come."""
    for seed in range(N_SEEDS):
        setting, events = stream(seed)
        single, batched = setting.broker(), setting.broker()
        for (method, _), run in groupby(events, _run_of):
            some = list(run)
            try:
                updates, refused = one_by_one(single, some)
                if method in BATCHED and (method != "update" or setting.lifetime is not None):
                    answer = getattr(batched, BATCHED[method])(form(method, some))
                    assert [(reject.row, reject.field) for reject in answer.rejects] == refused
                    identical(updates, answer)
                else:
                    identical(updates, one_by_one(batched, some)[0])
                same_results(single, batched, ids_of(events))
            except Exception as error:
                raise AssertionError(f"seed {seed}, {setting}, in {some}\n{error}") from error


def test_updates_as_arrow_are_the_updates() -> None:
    for seed in range(N_SEEDS // 2):
        setting, events = stream(seed)
        broker = setting.broker()
        one_by_one(broker, [event for event in events if event.method == "subscribe"])
        updates = broker.publish([event.arguments[0] for event in events if event.method == "publish"])
        rows = updates.to_arrow().to_pylist()
        assert [Update(**row) for row in rows] == list(updates)
        assert len(updates) == len(rows)


# ------------------------------------------------------------------------------------------------------------ snapshot


def test_a_restored_broker_goes_on_as_if_nothing_had_happened(tmp_path: Path) -> None:
    for seed in range(N_SEEDS):
        setting, events = stream(seed)
        never = setting.broker()
        stopped = setting.broker()
        at = Seeded(seed).pick(range(len(events)))
        one_by_one(never, events[:at])
        one_by_one(stopped, events[:at])
        path = tmp_path / f"{seed}.snapshot"
        stopped.snapshot(path)
        restored = nc.Broker.restore(path)
        same_results(never, restored, ids_of(events))
        for event in events[at:]:
            expected, refused = one_by_one(never, [event])
            for broker in (stopped, restored):
                updates, also_refused = one_by_one(broker, [event])
                assert refused == also_refused, f"seed {seed}, {event}"
                identical(expected, updates)
        for broker in (stopped, restored):
            same_results(never, broker, ids_of(events))
