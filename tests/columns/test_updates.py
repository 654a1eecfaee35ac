from __future__ import annotations

import numpy as np
import pyarrow as pa

from nearcast.columns.updates import Updates
from nearcast.model.update import Reject, Update

SOME = [Update("ann", 1, "-", 0.5, 7), Update("bob", 2, "+", None, 8)]


def some_updates(rejects: tuple[Reject, ...] = ()) -> Updates:
    return Updates.of(
        pa.array(["ann", "bob"]),
        pa.array([1, 2]),
        np.array([-1, 1], np.int32),
        np.array([0.5, np.nan]),
        np.array([7, 8]),
        rejects,
    )


def test_updates_are_iterated_counted_and_given_as_arrow() -> None:
    updates = some_updates()
    assert list(updates) == SOME
    assert list(updates) == SOME, "again"
    assert len(updates) == 2
    assert updates.rejects == []
    assert updates.to_arrow().to_pylist() == [
        {"subscription": "ann", "message": 1, "sign": "-", "score": 0.5, "ts": 7},
        {"subscription": "bob", "message": 2, "sign": "+", "score": None, "ts": 8},
    ]
    assert updates.to_arrow().schema.field("ts").type == pa.int64()
    assert updates.to_arrow().schema.field("score").type == pa.float64()
    assert repr(updates) == "<Updates: 2 updates, 0 rejects>"


def test_no_updates() -> None:
    reject = Reject(3, "lat", "lat must be a number, got 'x'")
    updates = Updates.none([reject])
    assert (list(updates), len(updates), updates.rejects) == ([], 0, [reject])
    assert updates.to_arrow().schema.names == some_updates().to_arrow().schema.names
    assert repr(updates) == "<Updates: 0 updates, 1 rejects>"


def test_updates_one_after_another() -> None:
    reject = Reject(0, "id", "id is required, got None")
    assert list(Updates.concat([])) == []
    assert list(Updates.concat([Updates.none(), some_updates(), Updates.none()])) == SOME
    both = Updates.concat([some_updates((reject,)), some_updates()], [reject])
    assert list(both) == SOME + SOME
    assert both.rejects == [reject]
