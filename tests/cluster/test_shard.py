"""Any number of shards together say what one broker says, and each reject is said once."""

from __future__ import annotations

import json
import tempfile
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import nearcast as nc
from cluster.scenes import SPACE, WINDOW, Told, answer, events, read_updates, told_by
from nearcast.cluster.decode import Decoder
from nearcast.cluster.directory import Directory
from nearcast.cluster.intake import ordered, with_words
from nearcast.cluster.outcome_files import UpdatesFile, updates_file, write_rejects
from nearcast.cluster.shard import Outcome, Shard
from nearcast.cluster.specs import subscriptions_of
from nearcast.partition.partition import Partition, owner_of


def table_of(stream: list[Any]) -> pa.Table:
    decoder = Decoder("file", 0, "events")
    for row, value in enumerate(stream):
        decoder.add(row, None, value)
    table = decoder.table()
    return with_words(table.take(ordered(table)))


def routes(tables: list[pa.Table], n: int) -> list[Any]:
    """Routes by the hash of ids."""
    directory, partition = Directory(), Partition(n)

    def route(table: pa.Table) -> Any:
        def choose(rows: Any) -> Any:
            subscriptions = subscriptions_of(table, rows)
            return partition.assign(subscriptions), partition.costs(subscriptions)

        return directory.route(table, choose)[0]

    return [route(table) for table in tables]


def in_order(pieces: list[pa.Table], batch: int) -> pa.Table:
    """All updates of a batch with the columns that tell their order."""
    with tempfile.TemporaryDirectory() as folder:
        file = UpdatesFile(Path(folder) / "updates.parquet", batch)
        for piece in pieces:
            file.add(piece)
        file.close()
        return pq.read_table(Path(folder) / "updates.parquet")


def run_shards(tables: list[pa.Table], n: int, window: nc.Window | None = WINDOW) -> tuple[Told, list[Outcome]]:
    told: Told = defaultdict(list)
    outcomes = []
    routed = list(enumerate(zip(tables, routes(tables, n), strict=True)))
    for index in range(n):
        shard = Shard(index, nc.Broker(SPACE, window=window))
        for number, (table, shards) in routed:
            pieces: list[pa.Table] = []
            outcomes.append(shard.apply(table, shards, pieces.append))
            for subscription, said in told_by(in_order(pieces, number)).items() if pieces else ():
                assert owner_of(subscription, n) == index
                told[subscription] += said
    return dict(told), outcomes


@pytest.mark.parametrize("seed", range(3))
def test_shards_together_are_one_broker(seed: int) -> None:
    stream = events(seed, 400, numbers=seed == 1)
    expected = answer(stream)
    assert len(expected.told) >= 10
    assert expected.n_rejects > 10
    assert expected.n_late > 0
    table = table_of(stream)
    for n in (1, 3):
        for rows in (400, 33):
            told, outcomes = run_shards([table.slice(at, rows) for at in range(0, 400, rows)], n)
            assert told == expected.told
            counts = sum((outcome.counts for outcome in outcomes), Counter())
            n_rejects, n_late = (sum(len(getattr(one, name)) for one in outcomes) for name in ("rejects", "late"))
            assert (n_rejects, counts["late"], n_late) == (expected.n_rejects, expected.n_late, expected.n_late)
            assert counts["rows"] == 400 == counts["messages"] + counts["events"] + counts["late"] + n_rejects
            assert counts["added"] + counts["removed"] == sum(map(len, told.values()))


def test_each_reject_is_reported_once_with_its_row() -> None:
    query = {"kind": "within", "region": [0, 0, 1, 1], "keywords": "x"}
    stream: list[Any] = [
        {"id": "s1", **query},
        {"id": "s1", **query},
        {"id": "s2", "kind": "topk", "lon": 0, "lat": 0, "keywords": "x"},
        {"event": "unsubscribe", "id": "nobody"},
        {"event": "move", "id": "nobody", "lon": 1, "lat": 1},
        {"id": 1, "lon": 0, "lat": 95, "text": "x", "ts": 1},
        "not an object",
    ]
    for n in (1, 2, 5):
        _, outcomes = run_shards([table_of(stream)], n, window=None)
        rejects = [reject for outcome in outcomes for reject in outcome.rejects]
        assert sorted(reject["row"] for reject in rejects) == [1, 2, 3, 4, 5, 6]
        by_row = {reject["row"]: reject for reject in rejects}
        assert by_row[1]["reason"] == "id must not be the id of another subscription, got 's1'"
        assert by_row[2]["field"] == "kind" or "window" in by_row[2]["reason"]
        assert by_row[3]["reason"] == "id must be the id of a subscription, got 'nobody'"
        assert by_row[5]["field"] == "lat"
        assert by_row[5]["text"] == '{"id": 1, "lon": 0.0, "lat": 95.0, "text": "x", "ts": 1}'
        assert by_row[6]["reason"] == "row must be a JSON object, got 'not an object'"


def test_ids_are_of_the_type_that_the_first_event_has() -> None:
    query = {"kind": "within", "region": [0, 0, 1, 1], "keywords": "x"}
    message = {"lon": 0, "lat": 0, "text": "x"}
    first: list[Any] = [{"id": "s", **query}, {"id": 1, **message, "ts": 5}]
    later: list[Any] = [
        {"id": 7, **query, "ts": 6},
        {"event": "unsubscribe", "id": 8, "ts": 6},
        {"id": "m", **message, "ts": 7},
        {"id": 2, **message, "ts": 8},
    ]
    for n in (1, 3):
        told, outcomes = run_shards([table_of(first), table_of(later)], n)
        assert [row[0] for row in told["s"]] == [1, 2]
        reasons = sorted(reject["reason"] for outcome in outcomes for reject in outcome.rejects)
        assert reasons == [
            "id must be a string like the ids before it, got 7",
            "id must be an integer like the ids before it, got 'm'",
            "id must be the id of a subscription, got 8",
        ]


def test_messages_without_words_of_their_own_are_refused_in_the_usual_words() -> None:
    table = table_of([{"id": i, "lon": 0, "lat": 0, "text": "x", "ts": i} for i in range(4)])
    texts = pa.array(["fire", None, "fire", None], pa.string())
    keywords = pa.array([None, None, ["fire"], ["fire"]], pa.list_(pa.string()))
    names = table.column_names
    table = table.set_column(names.index("text"), "text", texts).set_column(
        names.index("keywords"), "keywords", keywords
    )
    spelled = with_words(table.drop_columns(["words", "counts"]))
    assert spelled.column("words").to_pylist() == [["fire"], None, None, ["fire"]]
    shard = Shard(0, nc.Broker(SPACE))
    shard.broker.subscribe("s", nc.Within(nc.Box(-1, -1, 1, 1), "fire"))
    pieces: list[pa.Table] = []
    outcome = shard.apply(spelled, None, pieces.append)
    assert [row["row"] for row in outcome.rejects] == [1, 2]
    assert {row["field"] for row in outcome.rejects} == {"text", "keywords"}
    assert [update["message"] for table in pieces for update in table.to_pylist()] == [0, 3]


def test_an_empty_batch_does_nothing(tmp_path: Path) -> None:
    shard = Shard(0, nc.Broker(SPACE))
    with updates_file(tmp_path, 0, 0, "parquet") as updates:
        outcome = shard.apply(table_of([]), None, updates.add)
    write_rejects(tmp_path, outcome, 0, 0)
    assert outcome.rejects == []
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []
    assert shard.subscription_ids is None


def test_what_is_refused_does_not_fix_the_type_of_ids() -> None:
    rows = [
        {"event": "unsubscribe", "id": "ghost"},
        {"id": "odd", "kind": "nearest", "lon": 0, "lat": 95, "keywords": "fire"},
        {"id": 1, "kind": "nearest", "lon": 0, "lat": 0, "keywords": "fire"},
        {"id": "bad", "lon": 0, "lat": 95, "text": "fire", "ts": 1},
        {"id": 10, "lon": 1, "lat": 1, "text": "fire", "ts": 2},
    ]
    for n in (1, 3):
        told, outcomes = run_shards([table_of(rows)], n)
        assert [row[0] for row in told[1]] == [10]
        assert sum(len(outcome.rejects) for outcome in outcomes) == 3


def test_late_messages_are_told_with_the_reason() -> None:
    message = {"lon": 0, "lat": 0, "text": "x"}
    stream = [
        {"id": "s", "kind": "within", "region": [-1, -1, 1, 1], "keywords": "x"},
        {"id": 1, **message, "ts": 1_000_000},
        {"id": 2, **message, "ts": 1_000_000, "expires": 900_000},
        {"id": 3, **message, "ts": 1_000_001, "expires": 1_000_001},
    ]
    older = [{"id": 4, **message, "ts": 880_001}, {"id": 5, **message, "ts": 880_002}]
    for n in (1, 3):
        told, outcomes = run_shards([table_of(stream), table_of(older)], n)
        assert [row[0] for row in told["s"]] == [1, 5]
        late = {row["row"]: row for outcome in outcomes[:2] for row in outcome.late}
        assert not any(outcome.late for outcome in outcomes[2:])
        assert [row["field"] for row in late.values()] == ["expires", "expires", "ts"]
        assert [row["reason"] for row in late.values()] == [
            "expires must be after the clock, 1000000, or the message is late, got 900000",
            "expires must be after the clock, 1000001, or the message is late, got 1000001",
            "ts must be after 880001, the window's age ago, or the message is late, got 880001",
        ]
        assert json.loads(outcomes[1].late[0]["text"]) == older[0]


@pytest.mark.parametrize("form", ["parquet", "jsonl"])
def test_updates_are_written_in_pieces(form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stream = events(4, 300)
    table, whole = table_of(stream), {}
    for at_once in (10**6, 20):
        for name in ("shard", "outcome_files"):
            monkeypatch.setattr(f"nearcast.cluster.{name}.PIECE", at_once)
        shard, sizes = Shard(0, nc.Broker(SPACE, window=WINDOW)), []
        with updates_file(tmp_path / str(at_once), 7, 0, form) as updates:

            def keep(piece: pa.Table, updates: UpdatesFile = updates, sizes: list[int] = sizes) -> None:
                sizes.append(piece.num_rows)
                updates.add(piece)

            shard.apply(table, routes([table], 1)[0], keep)
            assert not [*(tmp_path / str(at_once)).rglob("part-*")]
        whole[at_once] = read_updates(tmp_path / str(at_once))
        assert sum(sizes) == sum(map(len, whole[at_once].values()))
    assert whole[20] == whole[10**6] == answer(stream).told
    if form == "parquet":
        written = pq.ParquetFile(tmp_path / "20" / "updates" / "part-00000007-000.parquet")
        assert written.num_row_groups > 5
        assert written.read().column("seq").to_pylist() == list(range(sum(sizes)))


def test_what_breaks_half_way_leaves_no_file(tmp_path: Path) -> None:
    def break_off() -> None:
        with updates_file(tmp_path, 0, 0, "jsonl") as updates:
            updates.add(pa.table({"subscription": ["s"], "message": ["m"]}))
            raise OSError("full")

    with pytest.raises(OSError, match="full"):
        break_off()
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []
