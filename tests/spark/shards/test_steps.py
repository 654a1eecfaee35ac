"""Shards without Spark: steps are lost, repeated and forgotten, and numbers of shards change; it never shows."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import LongType, StringType

import nearcast as nc
from nearcast.errors import SetupError
from nearcast.spark.encode import EVERYBODY, encode_controls, encode_messages
from nearcast.spark.shards import steps
from nearcast.spark.shards.fanout import CONTROLS, MESSAGES, Packer, Place
from nearcast.spark.shards.steps import Block, ShardState, Step
from nearcast.spark.shards.store import Store
from nearcast.spark.shards.sweep import sweep
from nearcast.spark.spec import Spec, spec_of
from spark.scenes import (
    ANALYZER,
    SPACE,
    WINDOW,
    One,
    Row,
    assigns_of,
    changes_of,
    controls_of,
    inflected,
    messages_of,
    said_by,
)

TOLD = {"lon": pa.float64(), "lat": pa.float64(), "text": pa.string(), "keywords": pa.list_(pa.string())}
TOLD |= {"fields": pa.string()}
ASKED = {
    "kind": pa.string(), "lon": pa.float64(), "lat": pa.float64(), "region": pa.string(), "keywords": pa.string(),
    "k": pa.int64(), "alpha": pa.float64(), "delta": pa.float64(), "tau": pa.float64(), "match": pa.string(),
    "backfill": pa.bool_(), "where": pa.string(), "shard": pa.int64(),
}  # fmt: skip


def table(rows: list[Row], columns: dict[str, Any], id: Any) -> pa.Table:
    shared = {"event": pa.string(), "id": id, "ts": pa.int64(), "expires": pa.int64(), "position": pa.int64()}
    kinds = shared | columns | {"tie": pa.int64()}
    given = [{**row, "tie": 0} for row in rows]
    return pa.table({name: pa.array([row.get(name) for row in given], kind) for name, kind in kinds.items()})


class Cluster:
    """What Spark does, by hand: tasks that encode, states that are committed, shards that are asked in any order."""

    def __init__(self, folder: Path, shards: int, window: nc.Window | None = WINDOW, seed: int = 0) -> None:
        self.store = folder.as_uri()
        self.random = random.Random(seed)
        self.window = window
        self.analyzer: nc.Analyzer | None = None
        self.threads = 1
        self.states: dict[int, str] = {}
        self.batch = -1
        self.answers: list[Any] = []
        self.shards = shards

    def spec(self) -> Spec:
        ids = StringType(), LongType()
        return spec_of(SPACE, self.window, None, self.shards, self.store, *ids, analyzer=self.analyzer, placed=True,
            threads=self.threads,
        )  # fmt: skip

    def run(self, messages: list[Row], controls: list[Row]) -> list[Any]:
        """One batch; every shard may be tried more than once, and may find itself in memory or not."""
        self.batch += 1
        blocks: list[tuple[int, Block]] = []
        spec = self.spec()
        packer = Packer(spec, Place("q", self.batch, 0, self.random.randrange(10**6)))
        half = len(messages) // 2
        for rows in (messages[:half], messages[half:]):
            if rows:
                blocks += _blocks(packer.rows(MESSAGES, encode_messages(table(rows, TOLD, pa.int64()), spec)))
        if controls:
            blocks += _blocks(packer.rows(CONTROLS, encode_controls(table(controls, ASKED, pa.string()), spec)))
        after = dict(self.states)
        for shard in self.random.sample(range(self.shards), self.shards):
            mine = sorted(block for to, block in blocks if to in (shard, EVERYBODY))
            for _ in range(1 + (self.random.random() < 0.3)):
                if self.random.random() < 0.3:
                    steps.HELD.clear()
                known = self.states.get(shard)
                step = Step(spec, "q", self.batch, shard, None if known is None else ShardState.from_json(known))
                told = [row for part in step.run([], mine) for row in part.to_pylist()]
            assert step.state is not None
            after[shard] = step.state.to_json()
            self.answers += [_Row(row) for row in told]
        self.states = after
        return self.answers


class _Row:
    def __init__(self, row: dict[str, Any]) -> None:
        self.__dict__ |= row


def _blocks(batches: Any) -> list[tuple[int, Block]]:
    rows = [row for batch in batches for row in batch.to_pylist()]
    return [(row["shard"], Block(row["kind"], row["rows"], row["name"] or "")) for row in rows]


def cut(rows: list[Row], n: int, last_ts: int) -> list[list[Row]]:
    parts: list[list[Row]] = [[] for _ in range(n)]
    for row in rows:
        parts[min(n - 1, max(0, row["ts"]) * n // last_ts)].append(row)
    return parts


@pytest.mark.parametrize(("seed", "window"), [(1, WINDOW), (2, None), (3, nc.Window(age=9.0))])
def test_lost_and_repeated_steps_do_not_show(tmp_path: Path, seed: int, window: nc.Window | None) -> None:
    n = 9
    messages = [row for row in messages_of(seed, 240) if row["ts"] < 2**60]
    messages += changes_of(seed, messages) if window is not None else []
    controls = controls_of(seed, 50, 40_000) + assigns_of(seed, 60, 40_000)
    cluster, one = Cluster(tmp_path, 2, window, seed), One(window)
    for i, (told, asked) in enumerate(zip(cut(messages, n, 40_000), cut(controls, n, 40_000), strict=True)):
        cluster.shards = (2, 2, 3, 3, 4, 4, 2, 2, 3)[i]
        assert said_by(cluster.run(told, asked)) == one.take(told, asked)
    assert len(Store(cluster.store).names("q/copies")) > 3
    assert Store(cluster.store).names("q/snapshots")


def test_shards_may_use_any_number_of_threads(tmp_path: Path) -> None:
    messages = [row for row in messages_of(6, 120) if row["ts"] < 2**60]
    messages += changes_of(6, messages)
    controls = controls_of(6, 30, 20_000) + assigns_of(6, 20, 20_000)
    cluster, one = Cluster(tmp_path, 2, WINDOW, 6), One()
    for i, (told, asked) in enumerate(zip(cut(messages, 12, 20_000), cut(controls, 12, 20_000), strict=True)):
        cluster.threads = (1, 2, 3)[i // 4]
        if i % 4 == 0:
            steps.HELD.clear()
        assert said_by(cluster.run(told, asked)) == one.take(told, asked)
    assert {held.shard.broker.threads for held in steps.HELD.values()} <= {1, 2, 3}
    with pytest.raises(nc.InvalidInput, match="threads must be"):
        spec_of(SPACE, WINDOW, None, 1, None, StringType(), LongType(), threads=0)


def test_an_analyzer_is_at_work_in_every_shard(tmp_path: Path) -> None:
    messages = inflected(4, [row for row in messages_of(4, 240) if row["ts"] < 2**60])
    messages += changes_of(4, messages)
    controls = inflected(5, controls_of(4, 50, 40_000) + assigns_of(4, 60, 40_000))
    cluster, one = Cluster(tmp_path, 2, WINDOW, 4), One(analyzer=ANALYZER)
    cluster.analyzer = ANALYZER
    for i, (told, asked) in enumerate(zip(cut(messages, 6, 40_000), cut(controls, 6, 40_000), strict=True)):
        cluster.shards = (2, 3, 3, 4, 2, 2)[i]
        assert said_by(cluster.run(told, asked)) == one.take(told, asked)
    assert sum(map(len, one.said.updates.values())) > 300
    cluster.analyzer = nc.Analyzer(stemmer="english")
    with pytest.raises(SetupError, match=r"was begun with .*cjk='bigrams'\), .* and not with .*stemmer='english'"):
        cluster.run(messages_of(1, 20), [])


def test_weights_must_be_fitted_with_the_analyzer(tmp_path: Path) -> None:
    weights = nc.Weights.fit(["burning fires"], nc.Analyzer(stemmer="english"))
    for analyzer in (None, ANALYZER):
        with pytest.raises(nc.InvalidInput, match="weights must be fitted with the broker's analyzer"):
            spec_of(SPACE, WINDOW, weights, 1, None, StringType(), LongType(), analyzer=analyzer)
    with pytest.raises(nc.InvalidInput, match="analyzer must be an Analyzer or None"):
        spec_of(SPACE, WINDOW, None, 1, None, StringType(), LongType(), analyzer="english")  # type: ignore[arg-type]


def test_snapshots_beside_the_stream_do_not_show(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(steps, "SMALL_BYTES", 0)
    n = 20
    messages = [row for row in messages_of(7, 300) if row["ts"] < 2**60]
    controls = controls_of(7, 50, 50_000) + assigns_of(7, 60, 50_000)
    cluster, one = Cluster(tmp_path, 2, seed=7), One()
    named = set()
    for told, asked in zip(cut(messages, n, 50_000), cut(controls, n, 50_000), strict=True):
        assert said_by(cluster.run(told, asked)) == one.take(told, asked)
        for held in list(steps.HELD.values()):
            if held.writing is not None and cluster.random.random() < 0.7:
                held.writing.wait()
        named |= {json.loads(state)["snapshot"] for state in cluster.states.values()}
    assert len(named - {None}) >= 3
    for held in steps.HELD.values():
        if held.writing is not None:
            held.writing.wait()
            assert held.writing.finished


def test_a_snapshot_that_fails_is_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(steps, "SMALL_BYTES", 0)
    cluster = Cluster(tmp_path, 1, seed=8)
    steps.HELD.clear()
    monkeypatch.setattr(cluster.random, "random", lambda: 1.0)  # nothing is lost
    messages = [row for row in messages_of(8, 300) if row["ts"] < 2**60]
    states = []
    for number, told in enumerate(cut(messages, 30, 50_000)):
        cluster.run(told, [])
        (held,) = steps.HELD.values()
        states.append(json.loads(cluster.states[0]))
        if held.writing is not None:
            if number < 12:
                held.writing.abandon()
            held.writing.wait()
            assert held.writing.failed == (number < 12)
    assert states[12]["snapshot"] is None
    assert len(states[12]["log"]) == 13
    assert states[-1]["snapshot"] is not None
    assert len(states[-1]["log"]) < 16


def test_what_a_checkpoint_was_begun_with_must_stay(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path, 1)
    cluster.run(messages_of(1, 20), controls_of(1, 5, 100))
    cluster.window = nc.Window(count=3)
    with pytest.raises(SetupError, match="was begun with"):
        cluster.run(messages_of(1, 20), [])


def test_rows_that_are_lost_fail_the_batch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Loses(steps.Shard):
        def refuse(self, told: pa.Table, of: str) -> pa.Table:
            answers = super().refuse(told, of)
            self.counts["rejects"] -= 1
            return answers

    monkeypatch.setattr(steps, "Shard", Loses)
    cluster = Cluster(tmp_path, 1)
    bad = {"id": 3, "lon": 1.0, "lat": float("nan"), "text": "ant", "ts": 5, "position": 9}
    with pytest.raises(AssertionError, match=r"rows came in, .* were accounted for"):
        cluster.run([*messages_of(1, 20), bad], [])


def test_states_of_other_versions_are_named(tmp_path: Path) -> None:
    with pytest.raises(SetupError, match="written in format 0"):
        ShardState.from_json('{"format": 0}')
    with pytest.raises(SetupError, match="damaged"):
        ShardState.from_json('{"form')


def test_places_that_are_damaged_are_named(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path, 1)
    while not (places := list(tmp_path.glob("q/snapshots/*-places"))):
        cluster.run([], controls_of(cluster.batch + 2, 3, 100))
    steps.HELD.clear()
    places[0].write_bytes(b"nearcast")
    with pytest.raises(SetupError, match=r"-places cannot be used .*Put it back from a copy"):
        cluster.run(messages_of(1, 20), [])


def test_a_block_that_is_missing_is_named(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path, 1)
    cluster.run(messages_of(1, 20), controls_of(1, 5, 100))
    steps.HELD.clear()
    for path in (tmp_path / "q" / "blocks").iterdir():
        path.unlink()
    with pytest.raises(SetupError, match=r"is not there\. Every host must see the same store"):
        cluster.run(messages_of(1, 20), [])


def test_a_sweep_leaves_what_a_restart_needs(tmp_path: Path) -> None:
    store, checkpoint = tmp_path / "store", tmp_path / "checkpoint"
    (checkpoint / "commits").mkdir(parents=True)
    (checkpoint / "metadata").write_text('{"id": "q"}')
    cluster, one = Cluster(store, 2, seed=4), One()
    messages = [row for row in messages_of(4, 240) if row["ts"] < 2**60]
    controls = controls_of(4, 20, 40_000)
    for told, asked in zip(cut(messages, 20, 40_000), cut(controls, 20, 40_000), strict=True):
        expected = one.take(told, asked)
        assert said_by(cluster.run(told, asked)) == expected
        (checkpoint / "commits" / str(cluster.batch)).touch()
        n_deleted = sweep(cluster.store, checkpoint.as_uri(), retained=2, older_than=-60.0)
    assert n_deleted > 0
    assert min(int(name.split("-")[0]) for name in Store(cluster.store).names("q/blocks")) >= 5
    assert len(Store(cluster.store).names("q/heads")) >= 2
    with pytest.raises(nc.InvalidInput, match="must be the checkpoint of a streaming query"):
        sweep(cluster.store, (tmp_path / "nothing").as_uri())
