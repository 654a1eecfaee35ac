"""Files become batches in one order, each file once, whatever happens in between."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from cluster.scenes import events, order, write_lines
from nearcast.cluster.intake import Head, Intake, read_head, resized
from nearcast.cluster.schema import REFUSED
from nearcast.cluster.sources import Input, find_files
from nearcast.cluster.store import Store, read_table


def batches(store: Store) -> list[list[dict[str, Any]]]:
    return [read_table(store.batch(i)).to_pylist() for i in range(read_head(store).batches)]


def ids(store: Store) -> list[Any]:
    return [row["name"] for batch in batches(store) for row in batch]


def test_the_order_is_over_all_files_and_cuts_do_not_show(tmp_path: Path) -> None:
    stream = events(1, 500)
    shuffled = random.Random(2).sample(stream, len(stream))
    expected = [event["id"] for event in sorted(stream, key=order)]
    # Equal events keep the order of the files, so each id's own events are compared as they stand there.
    for n_files, rows in ((1, 10_000), (3, 7), (5, 100)):
        store = Store(tmp_path / f"{n_files}-{rows}")
        folder = tmp_path / f"in-{n_files}-{rows}"
        for i in range(n_files):
            write_lines(folder / f"{i}.jsonl", shuffled[i::n_files])
        Intake(store, rows).take(find_files([Input(str(folder), "events")]))
        assert ids(store) == expected
        assert {len(batch) for batch in batches(store)[:-1]} <= {rows}


def test_no_time_comes_first_and_ties_stay_as_they_stand(tmp_path: Path) -> None:
    message = {"lon": 0, "lat": 0, "text": ""}
    query = {"kind": "within", "region": [0, 0, 1, 1], "keywords": "x"}
    write_lines(tmp_path / "m.jsonl", [{"id": "b", **message, "ts": 1}, {"id": "a", **message, "ts": 1}, "{broken"])
    write_lines(tmp_path / "s.jsonl", [{"id": "z", **query, "ts": 1}, {"event": "unsubscribe", "id": "z", "ts": 1}])
    write_lines(tmp_path / "t.jsonl", [{"id": "y", **query}, {"id": "c", **message}])
    store = Store(tmp_path / "checkpoint")
    Intake(store).take(find_files([Input(str(tmp_path), "events")]))
    (rows,) = batches(store)
    assert [(row["name"], row["event"]) for row in rows] == [
        (None, REFUSED),
        ("y", 0),
        ("c", 3),
        ("z", 0),
        ("z", 1),
        ("a", 3),
        ("b", 3),
    ]


def test_each_file_is_taken_once(tmp_path: Path) -> None:
    store, folder = Store(tmp_path / "checkpoint"), tmp_path / "in"
    write_lines(folder / "a.jsonl", events(1, 30))
    inputs = [Input(str(folder), "events")]
    intake = Intake(store, 10)
    assert intake.take(intake.new_files(find_files(inputs))) == Head(1, 3, 30, 1)
    assert intake.new_files(find_files(inputs)) == []
    write_lines(folder / "b.jsonl", events(2, 5))
    again = Intake(store, 10)
    assert [Path(file.path).name for file in again.new_files(find_files(inputs))] == ["b.jsonl"]
    assert again.take(again.new_files(find_files(inputs))) == Head(2, 4, 35, 2)
    assert again.changed_files(find_files(inputs)) == []
    with open(folder / "a.jsonl", "a") as file:
        file.write("{}\n")
    assert [Path(file.path).name for file in again.changed_files(find_files(inputs))] == ["a.jsonl"]
    assert again.new_files(find_files(inputs)) == []


def test_an_intake_that_was_killed_leaves_nothing_that_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store, folder = Store(tmp_path / "checkpoint"), tmp_path / "in"
    write_lines(folder / "a.jsonl", events(1, 30))
    files = find_files([Input(str(folder), "events")])
    with monkeypatch.context() as patched:
        patched.setattr("nearcast.cluster.intake.write_json", lambda *_: (_ for _ in ()).throw(OSError("killed")))
        with pytest.raises(OSError, match="killed"):
            Intake(store, 4).take(files)
    assert store.batch(7).exists()
    assert read_head(store) == Head()
    assert not store.turns.exists()
    intake = Intake(store, 10)
    assert intake.new_files(files) == files
    intake.take(files)
    assert [len(batch) for batch in batches(store)] == [10, 10, 10]


def test_many_intakes_become_one_list(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nearcast.cluster.intake._MANIFESTS", 3)
    store, folder = Store(tmp_path / "checkpoint"), tmp_path / "in"
    inputs = [Input(str(folder), "events")]
    for number in range(7):
        intake = Intake(store, 10)
        write_lines(folder / f"{number}.jsonl", events(number, 5))
        intake.take(intake.new_files(find_files(inputs)))
    assert intake.head == Head(7, 7, 35, 7, 6)
    names = sorted(path.name for path in store.intake.iterdir() if not path.name.startswith("batch"))
    assert names == ["head.json", "run-00000006.json", "seen-00000006.arrow"]
    again = Intake(store, 10)
    assert again.new_files(find_files(inputs)) == []
    with open(folder / "1.jsonl", "a") as file:
        file.write("{}\n")
    assert [Path(file.path).name for file in again.changed_files(find_files(inputs))] == ["1.jsonl"]
    again.tick()
    assert batches(store)[7] == []


def test_tables_are_cut_to_size(tmp_path: Path) -> None:
    write_lines(tmp_path / "in" / "a.jsonl", events(1, 25))
    store = Store(tmp_path / "checkpoint")
    Intake(store, 100).take(find_files([Input(str(tmp_path / "in"), "events")]))
    table = read_table(store.batch(0))
    pieces = list(resized([table.slice(0, 3), table.slice(3, 20), table.slice(23, 0), table.slice(23)], 8))
    assert [piece.num_rows for piece in pieces] == [8, 8, 8, 1]
    assert [row for piece in pieces for row in piece.to_pylist()] == table.to_pylist()
    assert list(resized([], 8)) == []
