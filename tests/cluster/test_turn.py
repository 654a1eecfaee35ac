"""A turn may be lost, repeated or taken elsewhere at any point: the files and the next state stay the same."""

from __future__ import annotations

import json
import random
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import nearcast as nc
from cluster.scenes import SPACE, WINDOW, answer, events, read_rejects, read_updates, write_lines
from nearcast.cluster import turn
from nearcast.cluster.directory import order_of
from nearcast.cluster.intake import Intake
from nearcast.cluster.log import Log
from nearcast.cluster.outcome_files import drop_outcomes
from nearcast.cluster.pipeline import Options
from nearcast.cluster.progress import read_totals, record_step
from nearcast.cluster.settling import settle
from nearcast.cluster.sources import Input, find_files
from nearcast.cluster.store import Store
from nearcast.cluster.turn_files import read_turn

N_SHARDS = 2


class Stage:
    """A run without Spark: states are kept here, and turns are taken by hand."""

    def __init__(self, folder: Path, stream: list[Any], n_shards: int = N_SHARDS, **options: Any) -> None:
        self.out = folder / "out"
        self.n_shards = n_shards
        write_lines(folder / "in.jsonl", stream)
        inputs = (Input(str(folder / "in.jsonl"), "events"),)
        self.asked = Options(inputs, self.out, space=SPACE, window=WINDOW, snapshot_every=3, **options)
        self.store = Store(self.out / "_checkpoint")
        self.settings = settle(self.store, replace(self.asked, shards=n_shards))
        self.n_batches = Intake(self.store, 50).take(find_files(inputs)).batches
        self.begin()

    def begin(self) -> None:
        """As a driver does, at the start and after it was killed."""
        totals = read_totals(self.store)
        at = totals.next_turn, totals.next_batch
        self.log = Log(self.store, self.n_shards, SPACE, "hash", *at)
        self.states: list[str | None] = [json.dumps(state) for state in totals.states] or [None] * self.n_shards
        self.n_steps = 1 + (-1 if self.store.last_step() is None else self.store.last_step() or 0)

    def reshard(self, n_shards: int) -> None:
        """Go on with another number of shards."""
        self.settings = settle(self.store, replace(self.asked, shards=n_shards))
        self.n_shards = n_shards
        self.store = Store(self.store.checkpoint, self.settings.era)
        self.store.forget_other_eras()
        self.begin()
        drop_outcomes(self.out, self.log.next_batch)
        self.states = [None] * n_shards

    def take(self, shard: int, first: int, stop: int | None = None) -> tuple[str, dict[str, Any]]:
        checkpoint, run = str(self.store.checkpoint), self.settings.id
        turns = [read_turn(self.store, number) for number in range(first, stop or first + 1)]
        state, report = turn.take_turns(checkpoint, run, shard, self.states[shard], turns)
        return state, json.loads(json.dumps(report._asdict()))

    def step(self, number: int) -> dict[int, dict[str, Any]]:
        self.log.extend(self.n_batches, number)
        reports = {}
        for shard in range(self.n_shards):
            self.states[shard], reports[shard] = self.take(shard, number)
        return reports

    def note(self, number: int) -> None:
        record_step(self.store, self.n_steps, self.step(number))
        self.n_steps += 1

    def move(self, rng: random.Random) -> None:
        """Order some subscriptions to other shards."""
        ids, givers, takers = {}, {}, {}
        for name, slots, held in self.log.directory.held():
            rows = np.array([i for i in range(len(slots)) if rng.random() < 0.4], np.int64)
            ids[name], givers[name] = self.log.directory.ids(name, slots[rows]), held.shards[rows]
            takers[name] = np.array([rng.randrange(self.n_shards) for _ in rows], np.int32)
        self.log.move(lambda directory: order_of(ids, givers, takers))


STREAM = events(5, 600)


@pytest.fixture(autouse=True)
def _directories_are_written_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nearcast.cluster.log._KEEP_EVERY", 4)


def test_turns_make_the_output_of_one_broker(tmp_path: Path) -> None:
    stage = Stage(tmp_path, STREAM)
    for number in range(stage.n_batches):
        stage.note(number)
    expected = answer(STREAM)
    assert read_updates(stage.out) == expected.told
    assert len(read_rejects(stage.out)) == expected.n_rejects + expected.n_late
    totals = read_totals(stage.store)
    assert totals.rows == 600 == totals.accepted + totals.counts["late"] + totals.counts["rejects"]
    assert totals.counts["hits"] == (stage.n_batches - 1) * N_SHARDS
    assert totals.counts["restores"] == 0
    assert totals.reasons.total() == expected.n_rejects
    # The sweep leaves one or two snapshots per shard, and the batches since.
    assert N_SHARDS <= len(list(stage.store.shards.iterdir())) <= 2 * N_SHARDS
    assert not stage.store.batch(0).exists()
    assert not stage.store.turn(0).exists()


def test_a_snapshot_is_due_after_so_much_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turn, "_REPLAY_S", 0.0)
    stage = Stage(tmp_path, STREAM[:100])
    report = stage.step(0)[0]
    assert report["state"]["first_turn"] == 1
    assert report["state"]["work"] == 0.0
    monkeypatch.setattr(turn, "_REPLAY_S", 1e9)
    report = stage.step(1)[0]
    assert report["state"]["first_turn"] == 1
    assert report["state"]["work"] == report["work"]


def test_losses_and_repeats_change_nothing(tmp_path: Path) -> None:
    stage = Stage(tmp_path, STREAM)
    for number in range(stage.n_batches):
        if number % 2:
            turn._CACHE.clear()  # another worker takes over
        if number % 3 == 1:
            for shard in range(N_SHARDS):
                stage.log.extend(stage.n_batches, number)
                stage.take(shard, number)  # an attempt whose state is never committed
        stage.note(number)
    expected = answer(STREAM)
    assert read_updates(stage.out) == expected.told
    assert len(read_rejects(stage.out)) == expected.n_rejects + expected.n_late
    totals = read_totals(stage.store)
    assert totals.rows == 600
    assert totals.counts["restores"] > stage.n_batches


def test_a_turn_that_fails_half_way_is_not_gone_on_from(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Stage(tmp_path, STREAM)
    for number in range(stage.n_batches):
        with monkeypatch.context() as patched:
            stage.log.extend(stage.n_batches, number)
            patched.setattr(turn, "write_rejects", lambda *_: (_ for _ in ()).throw(OSError("disk full")))
            with pytest.raises(OSError, match="disk full"):
                stage.take(0, number)
        assert (stage.settings.id, 0) not in turn._CACHE
        stage.step(number)
    assert read_updates(stage.out) == answer(STREAM).told


def test_several_batches_in_one_turn(tmp_path: Path) -> None:
    stage = Stage(tmp_path, STREAM, updates_format="jsonl")
    for first in range(0, stage.n_batches, 5):
        stage.log.extend(stage.n_batches, first + 5)
        for shard in range(N_SHARDS):
            stage.states[shard], _ = stage.take(shard, first, min(first + 5, stage.n_batches))
    assert read_updates(stage.out) == answer(STREAM).told


@pytest.mark.parametrize("seed", range(2))
def test_subscriptions_change_shards_and_shards_their_number(seed: int, tmp_path: Path) -> None:
    """Orders, restarts of the driver, lost workers and other numbers of shards at random: the answers stay."""
    rng = random.Random(seed)
    stream = events(20 + seed, 400, numbers=seed == 1)
    stage = Stage(tmp_path, stream, n_shards=3)
    number = n_orders = 0
    while True:
        stage.log.extend(stage.n_batches, number)
        if number == stage.log.next_turn:
            break
        if rng.random() < 0.3:
            stage.move(rng)
            n_orders += 1
        if rng.random() < 0.2:
            turn._CACHE.clear()
        if rng.random() < 0.2:
            stage.begin()
        if rng.random() < 0.3:
            for shard in range(stage.n_shards):
                stage.take(shard, number)  # an attempt whose state is never committed
        if rng.random() < 0.25:
            stage.reshard(stage.n_shards % 4 + 1)
            number = read_totals(stage.store).next_turn
            continue
        stage.note(number)
        number += 1
    assert n_orders
    assert stage.settings.era
    expected = answer(stream)
    assert read_updates(stage.out) == expected.told
    assert len(read_rejects(stage.out)) == expected.n_rejects + expected.n_late
    totals = read_totals(stage.store)
    assert totals.rows == 400 == totals.accepted + totals.counts["late"] + totals.counts["rejects"]
    assert len(list(stage.store.orders.glob("*"))) < 20


def test_a_stray_of_an_era_that_is_over_writes_nothing(tmp_path: Path) -> None:
    stage = Stage(tmp_path, STREAM)
    stage.note(0)
    state, old = stage.states[0], stage.settings.id
    stage.log.extend(stage.n_batches, 1)
    turns = [read_turn(stage.store, 1)]
    settle(stage.store, replace(stage.asked, shards=3))
    before = sorted((stage.out / "updates").iterdir())
    with pytest.raises(AssertionError, match="the checkpoint belongs to another run"):
        turn.take_turns(str(stage.store.checkpoint), old, 0, state, turns)
    assert sorted((stage.out / "updates").iterdir()) == before


def test_a_turn_out_of_place_is_a_bug(tmp_path: Path) -> None:
    stage = Stage(tmp_path, STREAM)
    stage.step(0)
    stage.log.extend(stage.n_batches, 1)
    with pytest.raises(AssertionError, match="shard 0 is at turn 1, not at 2"):
        stage.take(0, 2)


def test_weights_are_kept_exactly(tmp_path: Path) -> None:
    fitted = nc.Weights.fit(["fire and smoke", "ramen", "ramen sushi", "straße"])
    turn.save_weights(tmp_path / "weights", fitted)
    loaded = turn.load_weights(tmp_path / "weights")
    for word in ("fire", "ramen", "strasse", "unseen"):
        assert loaded.weight(word) == fitted.weight(word)
    data = np.frombuffer(b"ramenfire", np.uint8).copy()
    starts = np.array([0, 5, 9])
    assert (loaded.weights_of(data, starts) == fitted.weights_of(data, starts)).all()


def test_rejects_are_counted_by_reason_without_their_values(tmp_path: Path) -> None:
    message = {"lon": 0, "text": "x", "ts": 1}
    stage = Stage(tmp_path, [{"id": i, "lat": 91 + i, **message} for i in range(3)] + ["{broken", "[also broken"])
    stage.note(0)
    reasons = read_totals(stage.store).reasons
    assert reasons.pop("row must be JSON") == 2
    assert list(reasons.values()) == [3]
    assert isinstance(reasons, Counter)
    assert pa.Table.from_pylist(read_rejects(stage.out)).column_names == ["source", "row", "text", "field", "reason"]
