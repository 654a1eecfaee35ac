"""What holds of every stream that is read: each of its entries is taken once, whatever happens in between."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from nearcast.cluster.intake import Intake, read_head
from nearcast.cluster.store import Store, read_table


def taken_once(
    store: Store, streams: dict[Any, Any], add_20: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> list[dict[str, Any]]:
    """The rows taken from streams of 42 entries, to which `add_20` adds: a killed intake, two more, one after that."""
    with monkeypatch.context() as patched:
        patched.setattr("nearcast.cluster.intake.write_json", lambda *_: (_ for _ in ()).throw(OSError("killed")))
        with pytest.raises(OSError, match="killed"):
            Intake(store, 10).take_streams(streams)
    assert Intake(store, 10).take_streams(streams).rows == 42
    assert Intake(store, 10).take_streams(streams).batches == 5
    add_20()
    assert Intake(store, 10).take_streams(streams).rows == 62
    rows = [row for number in range(read_head(store).batches) for row in read_table(store.batch(number)).to_pylist()]
    assert sorted(row["row"] for row in rows) == list(range(1, 63))
    return rows
