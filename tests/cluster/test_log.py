"""Subscriptions go where the directory says; a log that is read again leads to the same directory."""

from __future__ import annotations

import random
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from cluster.scenes import SPACE, events, write_lines
from nearcast.cluster import log as log_module
from nearcast.cluster.balance import Balance, order_for
from nearcast.cluster.directory import Directory, Entries, order_of
from nearcast.cluster.intake import Intake
from nearcast.cluster.log import Log
from nearcast.cluster.schema import SUBSCRIBE, UNSUBSCRIBE
from nearcast.cluster.sources import Input, find_files
from nearcast.cluster.store import Store, read_table, write_table
from nearcast.cluster.turn_files import BATCH, GIVE, TAKE, read_route, read_turn
from nearcast.partition.partition import SplitSettings, fit

QUERY = {"kind": "within", "region": [0, 0, 1, 1], "keywords": "x"}


def held(log: Log) -> dict[Any, tuple[int, float]]:
    found = {}
    for name, slots, entries in log.directory.held():
        ids = log.directory.ids(name, slots).to_pylist()
        found |= dict(zip(ids, zip(entries.shards.tolist(), entries.costs.tolist(), strict=True), strict=True))
    return found


def taken(folder: Path, stream: list[Any], rows: int) -> tuple[Store, int]:
    write_lines(folder / "in" / "a.jsonl", stream)
    store = Store(folder / "checkpoint")
    return store, Intake(store, rows).take(find_files([Input(str(folder / "in"), "events")])).batches


def fresh(store: Store, n_shards: int = 3, method: str = "hash") -> Log:
    return Log(store, n_shards, SPACE, method, 0, 0)


def test_an_id_keeps_its_shard_until_the_batch_that_ends_it_is_over(tmp_path: Path) -> None:
    stream = [{"event": "subscribe", "id": i, **QUERY, "ts": 1} for i in (7, 8, "seven")]
    stream += [{"event": "unsubscribe", "id": 7, "ts": 2}, {"event": "subscribe", "id": 7, **QUERY, "ts": 3}]
    stream += [{"event": "unsubscribe", "id": 8, "ts": 4}, {"event": "move", "id": 8, "lon": 1, "lat": 1, "ts": 5}]
    stream += [{"event": "unsubscribe", "id": "nobody", "ts": 6}, {"event": "subscribe", "id": 8, **QUERY, "ts": 7}]
    stream += [{"event": "unsubscribe", "id": 8, "ts": 8}]
    store, n = taken(tmp_path, stream, 20)
    log = fresh(store)
    log.extend(n, 0)
    route = read_route(store, 0)
    batch = read_table(store.batch(0)).to_pylist()
    assert route is not None
    for id_ in (7, 8):
        assert len({int(shard) for shard, row in zip(route, batch, strict=True) if row["number"] == id_}) == 1
    assert route[[row["name"] for row in batch].index("nobody")] == 0
    assert held(log).keys() == {7, "seven"}
    assert log.partition.loads.sum() == 2
    assert {row["event"] for row in batch} >= {SUBSCRIBE, UNSUBSCRIBE}


def test_a_partition_is_fitted_as_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store, n = taken(tmp_path, events(8, 100), 200)
    asked, seen = SplitSettings(gamma1=3, gamma2=7, window=False), []

    def noted(*given: Any, settings: SplitSettings, **named: Any) -> Any:
        seen.append(settings)
        return fit(*given, settings=settings, **named)

    monkeypatch.setattr(log_module, "fit", noted)
    log = Log(store, 2, SPACE, "dkm", 0, 0, splitting=asked)
    log.extend(n, 0)
    assert log.fitted
    assert seen == [asked]


def test_a_log_that_is_read_again_gives_the_same_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_module, "_KEEP_EVERY", 7)
    rng = random.Random(4)
    store, n = taken(tmp_path, events(8, 500), 20)
    log = fresh(store)
    for step in range(40):
        log.extend(n, step)
        if step % 5 == 0:
            found = [(name, slots, entries) for name, slots, entries in log.directory.held() if slots.size]
            ids = {name: log.directory.ids(name, slots) for name, slots, _ in found}
            givers = {name: entries.shards for name, _, entries in found}
            takers = {name: np.array([rng.randrange(3) for _ in slots], np.int32) for name, slots, _ in found}
            order = order_of(ids, givers, takers) if ids else None
            assert (log.move(lambda _, order=order: order) is None) == (not ids)
        again = fresh(store)
        assert held(again) == held(log)
        assert (again.next_turn, again.next_batch) == (log.next_turn, log.next_batch)
        np.testing.assert_allclose(again.partition.loads, log.partition.loads)
        log = again if step % 3 == 0 else log
    turns = [read_turn(store, number) for number in store.turn_numbers()]
    assert [turn.number for turn in turns] == list(range(log.next_turn))
    assert [turn.what for turn in turns if turn.kind == BATCH] == list(range(n))
    for give, take in pairwise(turns):
        assert (give.kind == GIVE) == (take.kind == TAKE)


def test_an_order_that_was_cut_short_is_completed(tmp_path: Path) -> None:
    store, n = taken(tmp_path, events(8, 100), 100)
    log = fresh(store)
    log.extend(n, 0)
    name, slots, entries = next((name, slots, e) for name, slots, e in log.directory.held() if slots.size)
    ids, takers = log.directory.ids(name, slots), 2 - entries.shards
    log.move(lambda _: order_of({name: ids}, {name: entries.shards}, {name: takers}))
    store.turn(2).unlink()
    again = fresh(store)
    assert read_turn(store, 2) == (2, TAKE, 1)
    assert held(again) == held(log)
    assert again.next_turn == 3


def test_what_ended_by_itself_is_forgotten(tmp_path: Path) -> None:
    stream = [{"event": "subscribe", "id": "a", **QUERY, "expires": 50, "ts": 1}]
    stream += [{"event": "subscribe", "id": "b", **QUERY, "expires": 50, "ts": 1}, {"id": "b", **QUERY, "ts": 2}]
    stream += [{"event": "subscribe", "id": "c", **QUERY, "ts": 1}]
    store, n = taken(tmp_path, stream, 20)
    log = fresh(store)
    log.extend(n, 0)
    log.forget_ended(49)
    assert held(log).keys() == {"a", "b", "c"}
    log.forget_ended(50)
    assert held(log).keys() == {"b", "c"}  # a later subscribe of b has no end
    # An older directory still knows a, somewhere; wherever a went afterwards, reading the log again follows.
    taken_again = fresh(store)
    batch = read_table(store.batch(0))
    told = np.where(batch.column("event").to_numpy() == SUBSCRIBE, 2, -1)
    taken_again.directory.route(batch, lambda rows: (np.zeros(rows.size, np.int32), np.ones(rows.size)), told)
    assert {shard for shard, _ in held(taken_again).values()} == {2}


def test_a_partition_is_fitted_to_the_first_input_that_has_both(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []

    def fitted(method: str, subscriptions: pa.Table, sample: pa.Table, *rest: Any, **named: Any) -> Any:
        partition, shards = fit("hash", subscriptions, sample, *rest, **named)
        if method != "hash":
            seen.append((method, subscriptions.num_rows, sample.num_rows, subscriptions.column("keywords")[0].as_py()))
        return partition, np.arange(len(shards)) % 3

    monkeypatch.setattr(log_module, "fit", fitted)
    monkeypatch.setattr(log_module, "_SAMPLE", 10)
    stream: list[Any] = [{"id": f"s{i}", "kind": "topk", "lon": 0, "lat": 0, "keywords": ["x", "y"]} for i in range(9)]
    stream += [{"id": f"m{i}", "lon": 0, "lat": 0, "text": "x", "ts": i} for i in range(40)]
    store, n = taken(tmp_path, stream, 10)
    log = fresh(store, method="dkm")
    log.extend(n, 0)
    log.extend(n, 2)
    assert seen == [("dkm", 9, 13, "x y")]
    assert {id_: shard for id_, (shard, _) in held(log).items()} == {f"s{i}": i % 3 for i in range(9)}
    assert log.partition.loads.tolist() == [3, 3, 3]
    fresh(store, method="dkm").extend(n, 4)
    assert len(seen) == 1
    alone, n = taken(tmp_path / "alone", [row for row in stream if "kind" in row], 10)
    fresh(alone, method="dkm").extend(n, 0)
    assert len(seen) == 1


def test_shards_with_too_much_to_do_give_to_the_others(tmp_path: Path) -> None:
    directory = Directory()
    n = 1_000
    shards = np.repeat([0, 1, 2], [600, 300, 100]).astype(np.int32)
    costs = 1.0 + np.arange(n) % 7
    directory.enter(pa.array(range(n)), Entries(shards, costs, np.full(n, 2**63 - 1)))
    work = np.bincount(shards, costs)
    order = order_for(work, directory)
    assert order is not None
    write_table(tmp_path / "order", order)
    before, takers = directory.follow(read_table(tmp_path / "order"))
    assert (before.shards == order.column("giver").to_numpy()).all()
    assert set(before.shards) == {0}
    assert set(takers) == {1, 2}
    after = next(np.bincount(e.shards, e.costs, 3) for name, _, e in directory.held() if name == "number")
    assert np.ptp(after) / after.mean() < 0.02
    assert len(order) < 300  # the expensive ones went
    assert order_for(np.array([1.0, 1.0, 1.0]), directory) is None


def test_balance_is_judged_by_enough_work_of_the_right_turns() -> None:
    directory = Directory()
    directory.enter(pa.array(["a", "b", "c", "d"]), Entries(np.zeros(4, np.int32), np.ones(4), np.full(4, 2**63 - 1)))
    balance = Balance(2, 0.2, 10.0)
    balance.add(1, [12.0, 6.0])
    assert balance.order(directory) is None  # nine seconds in the mean
    balance.add(2, [2.0, 1.0])
    order = balance.order(directory)
    assert order is not None
    assert order.column("taker").to_pylist() == [1]
    balance.wait(5)
    balance.add(5, [100.0, 0.0])  # before the order was carried out
    assert balance.order(directory) is None
    balance.add(6, [11.0, 10.0])
    assert balance.order(directory) is None  # near enough
    balance.add(7, [100.0, 0.0])
    assert balance.order(directory) is not None
