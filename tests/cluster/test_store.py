"""Files appear whole or not at all, and only what is needed stays."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

from nearcast.cluster.store import DRAFT, Store, end_line, read_json, read_table, write_json, write_table, write_whole
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


def test_what_a_killed_process_left_is_cleared(tmp_path: Path) -> None:
    store, out = Store(tmp_path / "checkpoint"), tmp_path / "out"
    kept = [store.batch(0), store.manifest(0), store.head, store.turn(0), out / "updates" / "part-00000000-000.jsonl"]
    for place in kept:
        write_json(place, 0)
    (store.spark / "state").mkdir(parents=True)
    (store.spark / "state" / f"{DRAFT}of-spark").touch()
    halves = [store.batch(1), store.shards / "shard", out / "updates" / "part-1", out / "rejects" / "part-1", store.run]
    killed_while_writing(halves)
    drafts = {path for top in (store.checkpoint, out) for path in top.rglob(f"{DRAFT}*")}
    assert len(drafts) == len(halves) + 1
    uncounted = [store.batch(1), store.manifest(1)]
    for place in uncounted:
        write_json(place, 0)
    (store.staged / "sorted").mkdir(parents=True)
    with store.locked():
        gone = store.clear(out, n_batches=1, n_intakes=1)
    assert set(gone) == drafts - {store.spark / "state" / f"{DRAFT}of-spark"} | set(uncounted)
    assert not any(path.exists() for path in (*gone, store.staged))
    assert all(place.exists() for place in kept)
    assert store.clear(out, 1, 1) == []


def killed_while_writing(places: list[Path]) -> None:
    """Have a process die in the middle of writing these files."""
    program = f"""
import os, signal
from pathlib import Path
from nearcast.cluster.store import write_whole

def write(places):
    def half(draft):
        draft.write_text("half")
        write(places[1:]) if places[1:] else os.kill(os.getpid(), signal.SIGKILL)
    write_whole(Path(places[0]), half)

write({[str(place) for place in places]!r})
"""
    assert subprocess.run([sys.executable, "-c", program]).returncode == -signal.SIGKILL


def test_a_line_that_was_cut_short_goes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nearcast.cluster.store._LINE_BYTES", 12)  # only so much is read of a long file
    place = tmp_path / "metrics.jsonl"
    end_line(place)
    assert not place.exists()
    for text, left in (('{"a": 1}\n{"b"', '{"a": 1}\n'), ('{"a": 1}\n', '{"a": 1}\n'), ('{"a', ""), ("", "")):
        place.write_text(text)
        end_line(place)
        assert place.read_text() == left


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
