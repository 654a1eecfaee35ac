"""Files become pieces of bounded size that end between different times, each taken once."""

from __future__ import annotations

import json
import random
import threading
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

from nearcast.errors import SetupError
from nearcast.spark.run.file_rows import SIDES, IdTypes
from nearcast.spark.run.file_source import rows_of as file_rows
from nearcast.spark.run.file_source import stream_frames
from nearcast.spark.run.files import Input, find_files
from nearcast.spark.run.intake import Intakes, Part, cuts_of, dealt, parts_of, read_part, write_runs
from nearcast.spark.run.piece_source import BOTH, PieceReader
from nearcast.spark.shards.store import Store

IDS = IdTypes("bigint", "string")


def write(path: Path, rows: list[Any]) -> Path:
    """By rename, as a careful producer would."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name("." + path.name)
    draft.write_text("".join((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows))
    draft.rename(path)
    return path


def message(number: int, ts: int | None) -> dict[str, Any]:
    return {"id": number, "lon": 0, "lat": 0, "text": "x", "ts": ts}


def control(number: int, ts: int | None) -> dict[str, Any]:
    return {"event": "unsubscribe", "id": f"s{number}", "ts": ts}


def pieces_of(folder: Path, store: Path, batch_rows: int, stride: int) -> list[dict[str, list[Any]]]:
    """Take in a folder without Spark; of each piece and side the (ts, id) of its rows."""
    made = Store(store.as_uri())
    files = find_files([Input(str(folder), "events")])
    runs = [run for n, file in enumerate(files) for run in write_runs(file, IDS, made, f"intake/t/{n}", stride)]
    intakes = Intakes(made)
    intakes.add(files, sorted(runs), cuts_of(runs, batch_rows, stride))
    found = []
    for piece in range(intakes.end):
        taken = intakes.at(piece)
        rows: dict[str, list[Any]] = {}
        for side in SIDES:
            batches = [b for part in parts_of(taken, piece, side) for b in read_part(part, store.as_uri())]
            rows[side] = [(row["ts"], row["id"]) for batch in batches for row in batch.to_pylist()]
        found.append(rows)
    return found


@pytest.mark.parametrize("seed", range(6))
def test_pieces_hold_everything_once_and_end_between_times(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = random.Random(seed)
    monkeypatch.setattr("nearcast.spark.run.intake.RUN_ROWS", rng.choice((7, 50, 1_000)))
    monkeypatch.setattr("nearcast.spark.run.file_rows.PIECE_ROWS", 5)
    rows: list[Any] = []
    for number in range(300):
        ts = rng.choice((None, *[rng.randrange(0, rng.choice((10, 200)))] * 9))
        rows.append(rng.choice((message, message, control))(number, ts))
    for number in range(3):
        write(tmp_path / "in" / f"{number}.jsonl", [*rows[number::3], "{broken"])
    found = pieces_of(tmp_path / "in", tmp_path / "store", rng.choice((20, 60)), rng.choice((1, 4, 20)))
    key = lambda ts: -1 if ts is None else ts  # noqa: E731
    for side, made in (("messages", message), ("subscriptions", control)):
        told = sorted((key(ts), str(id_)) for piece in found for ts, id_ in piece[side] if id_ is not None)
        expected = [(key(row["ts"]), str(row["id"])) for row in rows if row.keys() == made(0, 0).keys()]
        assert told == sorted(expected)
    assert sum(id_ is None for piece in found for _, id_ in piece["messages"]) == 3
    times = [{key(ts) for side in SIDES for ts, _ in piece[side]} for piece in found]
    assert len(times) > 3
    for before, after in pairwise(times):
        assert not before or not after or max(before) < min(after)


def test_sorted_files_give_pieces_of_the_size_asked_for(tmp_path: Path) -> None:
    write(tmp_path / "in" / "a.jsonl", [message(n, n) for n in range(100)])
    sizes = [len(piece["messages"]) for piece in pieces_of(tmp_path / "in", tmp_path / "store", 20, 10)]
    assert sizes == [20] * 5
    write(tmp_path / "same" / "a.jsonl", [message(n, 7) for n in range(100)])
    assert len(pieces_of(tmp_path / "same", tmp_path / "other", 20, 10)) == 1


def reader(store: Path, side: str, turn: Path, follow: list[Input] | None = None, awaited: int = 0) -> PieceReader:
    given = {"store": store.as_uri(), "side": side, "turn": str(turn), "tasks": "3", "awaited": str(awaited)}
    return PieceReader({**given, "follow": json.dumps(follow or []), "without": "[]"})


def rows_of(made: PieceReader, start: dict[str, int], end: dict[str, int]) -> list[Any]:
    names = [row for part in made.partitions(start, end) for batch in made.read(part) for row in batch.to_pylist()]
    ids = IdTypes("bigint", "string")
    tables = [table for name in names for table in file_rows(name["part"], name["side"], ids, made.uri)]
    return sorted((row["id"] for table in tables for row in table.to_pylist()), key=str)


@pytest.mark.parametrize("most", [1, 2, 5])
def test_parts_are_dealt_to_tasks_that_read_much_the_same(most: int) -> None:
    parts = [Part("a", 3, 40, 1, 9), Part("b", 0, 1, None, 9), Part("c", 2, 14, None, None)]
    given = dealt(parts, most)
    sizes = [sum(part.end - part.first for part in task) for task in given]
    assert (len(given), sum(sizes), max(sizes)) == (most, 50, -(-50 // most))
    for part in parts:
        own = [one for task in given for one in task if one.name == part.name]
        assert [number for one in own for number in range(one.first, one.end)] == list(range(part.first, part.end))
        assert {(one.after, one.to) for one in own} == {(part.after, part.to)}
    assert len(dealt(parts[1:2], most)) == 1
    assert dealt([], most) == []


def test_two_sources_go_forward_together_whoever_is_asked_first(tmp_path: Path) -> None:
    folder, store = tmp_path / "in", tmp_path / "store"
    write(folder / "a.jsonl", [*(message(n, n) for n in range(30)), control(1, 5)])
    pieces_of(folder, store, 10, 10)
    follow = [Input(str(folder), "events")]
    for order in (SIDES, SIDES[::-1]):
        turn = tmp_path / f"turn-{order[0]}"
        pair = [reader(store, side, turn, follow) for side in order]
        at = pair[0].initialOffset()
        seen: dict[str, list[Any]] = {side: [] for side in order}
        n_new = 0
        while True:
            ends, n_before = [], n_new
            for side, one in zip(order, pair, strict=True):
                ends.append(one.latestOffset(at, ReadMaxRows(10)))
                seen[side] += rows_of(one, at, ends[-1])
                if n_new < 2 and ends[-1] == at:  # a file comes while the two are asked
                    n_new += 1
                    number = 100 * len(list(folder.iterdir()))
                    write(folder / f"{number}.jsonl", [message(number, number), control(number, number)])
            assert ends[0] == ends[1]
            if ends[0] == at and n_new == n_before == 2:
                break
            at = ends[0]
        assert len(seen["messages"]) == 30 + len(list(folder.iterdir())) - 1
        assert len(seen["subscriptions"]) == len(list(folder.iterdir()))
    last = reader(store, "messages", tmp_path / "none")
    assert last.latestOffset(last.initialOffset(), ReadAllAvailable()) == at
    last.prepareForTriggerAvailableNow()
    assert last.latestOffset(at, ReadMaxRows(1)) == at
    assert last.partitions(at, at) == []


def test_a_source_of_both_frames_waits_for_an_intake_that_is_under_way(tmp_path: Path) -> None:
    folder, store = tmp_path / "in", tmp_path / "store"
    write(folder / "a.jsonl", [message(1, 1), message(2, 2), control(3, 1)])
    waiting = threading.Timer(0.1, pieces_of, (folder, store, 10, 10))
    waiting.start()
    made = reader(store, BOTH, tmp_path / "turn", awaited=1)
    assert made.latestOffset({"piece": 0}, ReadMaxRows(10)) == {"piece": 1}
    assert rows_of(made, {"piece": 0}, {"piece": 1}) == [1, 2, "s3"]
    waiting.join()
    (tmp_path / "given-up").touch()
    with pytest.raises(SetupError, match="could not be sorted"):
        reader(store, BOTH, tmp_path / "turn", awaited=2).latestOffset({"piece": 1}, ReadMaxRows(10))


def test_new_files_are_taken_oldest_first_some_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nearcast.spark.run.intake.AT_ONCE", 250)
    for number in (3, 1, 2):
        write(tmp_path / "in" / f"{number}.jsonl", [message(number, n) for n in range(2)])
        time.sleep(0.01)
    intakes = Intakes(Store((tmp_path / "store").as_uri()))
    for expected in (["3", "1"], ["2"]):
        intakes.add_direct(intakes.new(find_files([Input(str(tmp_path / "in"), "messages")])))
        assert [Path(file.path).stem for file in intakes.at(intakes.end - 1).files] == expected
    assert intakes.new(find_files([Input(str(tmp_path / "in"), "messages")])) == []
    assert intakes.end == 2
    again = Intakes(Store((tmp_path / "store").as_uri()))
    assert again.end == 2
    assert again.at(1) == intakes.at(1)


def test_damaged_files_of_the_store_are_named(tmp_path: Path) -> None:
    write(tmp_path / "in" / "a.jsonl", [message(n, n) for n in range(9)])
    pieces_of(tmp_path / "in", tmp_path / "store", 20, 10)
    made = reader(tmp_path / "store", "messages", tmp_path / "turn")
    (run,) = (tmp_path / "store" / "intake" / "t").iterdir()
    run.write_bytes(run.read_bytes()[:-40])
    with pytest.raises(SetupError, match=r"intake/t/\S+ in the store file:\S+ is damaged .*another checkpoint"):
        rows_of(made, {"piece": 0}, {"piece": 1})
    run.unlink()
    with pytest.raises(SetupError, match="cannot be opened on host"):
        rows_of(made, {"piece": 0}, {"piece": 1})
    (tmp_path / "store" / "intake" / "00000000.json").write_text("[0, [")
    with pytest.raises(SetupError, match=r"intake/00000000\.json in the store file:\S+ is damaged\."):
        Intakes(Store((tmp_path / "store").as_uri()))


def test_streams_of_files(spark: Any, tmp_path: Path) -> None:
    folder, store = tmp_path / "in", (tmp_path / "store").as_uri()
    write(folder / "a.jsonl", [*(message(n, n) for n in range(50)), *(control(n, n * 10) for n in range(5))])

    def run(n_expected: int) -> list[int]:
        frames = stream_frames(spark, [Input(str(folder), "events")], store=store, batch_rows=20)
        both = frames.messages.selectExpr("ts", "'m' side").union(frames.subscriptions.selectExpr("ts", "'s' side"))
        table = both.writeStream.format("parquet").option("path", str(tmp_path / "out"))
        query = table.option("checkpointLocation", str(tmp_path / "c")).trigger(availableNow=True).start()
        query.awaitTermination()
        found = spark.read.parquet(str(tmp_path / "out")).groupBy("side").count().collect()
        assert sum(row["count"] for row in found) == n_expected
        return [p["numInputRows"] for p in query.recentProgress if p["numInputRows"]]

    assert len(run(55)) == 3
    assert run(55) == []
    write(folder / "b.jsonl", [message(n, n) for n in range(100, 104)])
    assert run(59) == [1]  # a part, of which the tasks read the rows
