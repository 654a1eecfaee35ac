"""What holds of every stream that is read: each of its entries is taken once, whatever happens in between, and Spark
reads it like one process."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from nearcast.cluster.intake import Head, Intake, in_memory, read_head
from nearcast.cluster.sources import SourceFile
from nearcast.cluster.staging import on_spark
from nearcast.cluster.store import Store, read_table


def taken_once(
    store: Store, streams: dict[Any, Any], add_20: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> list[dict[str, Any]]:
    """The rows taken from streams of 42 entries, to which `add_20` adds: a killed intake, two more, one after that."""

    def take() -> Head:
        intake = Intake(store, 10)
        return intake.take([], intake.unread(streams))

    with monkeypatch.context() as patched:
        patched.setattr("nearcast.cluster.intake.write_json", lambda *_: (_ for _ in ()).throw(OSError("killed")))
        with pytest.raises(OSError, match="killed"):
            take()
    assert take().rows == 42
    assert take().batches == 5
    add_20()
    assert take().rows == 62
    rows = [row for number in range(read_head(store).batches) for row in read_table(store.batch(number)).to_pylist()]
    assert sorted(row["row"] for row in rows) == list(range(1, 63))
    return rows


def read_alike(spark: Any, folder: Path, files: list[SourceFile], streams: dict[Any, Any]) -> pa.Table:
    """The events of files and streams, in order. Spark finds the same, and an intake goes on from where that ends."""
    intake = Intake(Store(folder / "checkpoint"))
    alone, spread = (stage(files, intake.unread(streams)) for stage in (in_memory, on_spark(spark, folder / "staged")))
    events = pa.concat_tables(alone.tables)
    assert pa.concat_tables(spread.tables).to_pylist() == events.to_pylist()
    assert spread.offsets == alone.offsets
    assert set(spread.offsets) == {given.path for given in streams}
    assert not (folder / "staged").exists()
    intake.take(files, intake.unread(streams), on_spark(spark, folder / "staged"))
    assert intake.head.rows == events.num_rows
    assert intake.unread(streams) == []
    return events
