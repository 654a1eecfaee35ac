"""Files appear whole or not at all, and only what is needed stays."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from nearcast.cluster.store import Store, read_json, read_table, write_json, write_table, write_whole
from nearcast.errors import InvalidInput


def test_a_failed_write_leaves_the_old_file_and_no_other(tmp_path: Path) -> None:
    place = tmp_path / "a" / "x.json"
    write_json(place, {"n": 1})

    def fail(draft: Path) -> None:
        draft.write_text("half")
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        write_whole(place, fail)
    assert read_json(place) == {"n": 1}
    assert [path.name for path in place.parent.iterdir()] == ["x.json"]
    assert read_json(tmp_path / "nothing") is None


def test_tables_come_back_as_they_were(tmp_path: Path) -> None:
    table = pa.table({"a": [1, None], "b": [["x"], None]})
    write_table(tmp_path / "t.arrow", table)
    assert read_table(tmp_path / "t.arrow").equals(table)
    write_table(tmp_path / "empty.arrow", table.slice(0, 0))
    assert read_table(tmp_path / "empty.arrow").num_rows == 0


def test_one_run_at_a_time(tmp_path: Path) -> None:
    store = Store(tmp_path / "checkpoint")
    with (
        store.locked(),
        pytest.raises(InvalidInput, match="checkpoint is in use by another run"),
        Store(tmp_path / "checkpoint").locked(),
    ):
        pass
    with store.locked():
        pass


def test_the_sweep_keeps_what_is_named(tmp_path: Path) -> None:
    store = Store(tmp_path)
    names = [store.new_snapshot(0, 3).name for _ in range(3)]
    assert len(set(names)) == 3
    for name in names:
        (store.shards / name).touch()
    for number in range(4):
        for place in (store.batch(number), store.turn(number), store.route(number), store.order(number)):
            write_json(place, 0)
        write_json(store.handed(number, 0, 1), 0)
    write_json(store.directory(2, 1), 0)
    write_json(store.directory(3, 2), 0)
    assert store.last_directory() == (3, 2)
    assert store.sweep({names[1]}, 2, 3) == 2 + 2 + 2 + 2 + 1 + 1 + 1
    assert [path.name for path in store.shards.iterdir()] == [names[1]]
    assert [store.batch(i).exists() for i in range(4)] == [False, False, True, True]
    assert store.turn_numbers() == [2, 3]
    assert [store.order(i).exists() for i in range(4)] == [False, True, True, True]
    assert [store.handed(i, 0, 1).exists() for i in range(4)] == [False, True, True, True]
    assert store.last_step() is None
    write_json(store.step(12), {})
    write_json(store.step(7), {})
    assert store.last_step() == 12
