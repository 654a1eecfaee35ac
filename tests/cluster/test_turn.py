"""A turn may be lost, repeated or taken elsewhere at any point: the files and the next state stay the same."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import nearcast as nc
from cluster.scenes import SPACE, WINDOW, answer, events, read_rejects, read_updates, write_lines
from nearcast.cluster import turn
from nearcast.cluster.intake import Intake
from nearcast.cluster.pipeline import Options, settle
from nearcast.cluster.progress import read_totals, record_step
from nearcast.cluster.sources import Input, find_files
from nearcast.cluster.store import Store

N_SHARDS = 2


class Stage:
    """A run without Spark: states are kept here, and turns are taken by hand."""

    def __init__(self, folder: Path, stream: list[Any], **options: Any) -> None:
        self.out = folder / "out"
        write_lines(folder / "in.jsonl", stream)
        inputs = (Input(str(folder / "in.jsonl"), "events"),)
        asked = Options(inputs, self.out, space=SPACE, window=WINDOW, shards=N_SHARDS, snapshot_every=3, **options)
        self.store = Store(self.out / "_checkpoint")
        self.settings = settle(self.store, asked)
        self.n_batches = Intake(self.store, 50).take(find_files(inputs)).batches
        self.states: list[str | None] = [None] * N_SHARDS

    def take(self, shard: int, first: int, stop: int | None = None) -> tuple[str, dict[str, Any]]:
        checkpoint, run = str(self.store.checkpoint), self.settings.id
        state, report = turn.take_turn(checkpoint, run, shard, self.states[shard], first, stop or first + 1)
        return state, json.loads(report)

    def step(self, number: int) -> dict[int, dict[str, Any]]:
        reports = {}
        for shard in range(N_SHARDS):
            self.states[shard], reports[shard] = self.take(shard, number)
        return reports


STREAM = events(5, 600)


def test_turns_make_the_output_of_one_broker(tmp_path: Path) -> None:
    stage = Stage(tmp_path, STREAM)
    for number in range(stage.n_batches):
        record_step(stage.store, number, stage.step(number))
    expected = answer(STREAM)
    assert read_updates(stage.out) == expected.told
    assert len(read_rejects(stage.out)) == expected.n_rejects
    totals = read_totals(stage.store)
    assert totals.rows == 600 == totals.accepted + totals.counts["late"] + totals.counts["rejects"]
    assert totals.counts["hits"] == (stage.n_batches - 1) * N_SHARDS
    assert totals.counts["restores"] == 0
    assert totals.reasons.total() == expected.n_rejects
    # The sweep leaves one or two snapshots per shard, and the batches since.
    assert N_SHARDS <= len(list(stage.store.shards.iterdir())) <= 2 * N_SHARDS
    assert not stage.store.batch(0).exists()
    assert not stage.store.turn(0).exists()


def test_losses_and_repeats_change_nothing(tmp_path: Path) -> None:
    stage = Stage(tmp_path, STREAM)
    for number in range(stage.n_batches):
        if number % 2:
            turn._CACHE.clear()  # another worker takes over
        if number % 3 == 1:
            for shard in range(N_SHARDS):
                stage.take(shard, number)  # an attempt whose state is never committed
        record_step(stage.store, number, stage.step(number))
    expected = answer(STREAM)
    assert read_updates(stage.out) == expected.told
    assert len(read_rejects(stage.out)) == expected.n_rejects
    totals = read_totals(stage.store)
    assert totals.rows == 600
    assert totals.counts["restores"] > stage.n_batches


def test_a_turn_that_fails_half_way_is_not_gone_on_from(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Stage(tmp_path, STREAM)
    for number in range(stage.n_batches):
        with monkeypatch.context() as patched:
            patched.setattr(turn, "write_outcome", lambda *_: (_ for _ in ()).throw(OSError("disk full")))
            with pytest.raises(OSError, match="disk full"):
                stage.take(0, number)
        assert (stage.settings.id, 0) not in turn._CACHE
        stage.step(number)
    assert read_updates(stage.out) == answer(STREAM).told


def test_several_batches_in_one_turn(tmp_path: Path) -> None:
    stage = Stage(tmp_path, STREAM, updates_format="jsonl")
    for first in range(0, stage.n_batches, 5):
        for shard in range(N_SHARDS):
            stage.states[shard], _ = stage.take(shard, first, min(first + 5, stage.n_batches))
    assert read_updates(stage.out) == answer(STREAM).told


def test_a_turn_out_of_place_is_a_bug(tmp_path: Path) -> None:
    stage = Stage(tmp_path, STREAM)
    stage.step(0)
    with pytest.raises(AssertionError, match="shard 0 is at batch 1, not at 2"):
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
    record_step(stage.store, 0, stage.step(0))
    reasons = read_totals(stage.store).reasons
    assert reasons.pop("row must be JSON") == 2
    assert list(reasons.values()) == [3]
    assert isinstance(reasons, Counter)
    assert pa.Table.from_pylist(read_rejects(stage.out)).column_names == ["source", "row", "text", "field", "reason"]
