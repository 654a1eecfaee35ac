"""Any number of shards together say what one broker says, and each reject is said once."""

from __future__ import annotations

from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import nearcast as nc
from cluster.scenes import SPACE, WINDOW, Told, answer, events, told_by
from nearcast.cluster.decode import Decoder
from nearcast.cluster.directory import Directory
from nearcast.cluster.intake import ordered, with_words
from nearcast.cluster.partition import Partition, owner_of
from nearcast.cluster.shard import Outcome, Shard, numbered
from nearcast.cluster.specs import subscriptions_of


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


def run_shards(tables: list[pa.Table], n: int, window: nc.Window | None = WINDOW) -> tuple[Told, list[Outcome]]:
    told: Told = defaultdict(list)
    outcomes = []
    routed = list(enumerate(zip(tables, routes(tables, n), strict=True)))
    for index in range(n):
        shard = Shard(index, nc.Broker(SPACE, window=window))
        for number, (table, shards) in routed:
            outcome = shard.apply(table, shards)
            outcomes.append(outcome)
            updates = numbered(outcome, number)
            for subscription, said in told_by(updates).items() if updates is not None else ():
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
            n_rejects = sum(len(outcome.rejects) for outcome in outcomes)
            assert (n_rejects, counts["late"]) == (expected.n_rejects, expected.n_late)
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
    outcome = shard.apply(spelled, None)
    assert [row["row"] for row in outcome.rejects] == [1, 2]
    assert {row["field"] for row in outcome.rejects} == {"text", "keywords"}
    assert [update["message"] for table in outcome.updates for update in table.to_pylist()] == [0, 3]


def test_an_empty_batch_does_nothing(tmp_path: Path) -> None:
    shard = Shard(0, nc.Broker(SPACE))
    outcome = shard.apply(table_of([]), None)
    assert numbered(outcome, 0) is None
    assert outcome.rejects == []
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
