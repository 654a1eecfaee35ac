"""A store that an older version wrote is taken up, and its shards answer as one broker does.

`store-13.tar.xz` was written by the version before AP-Tree's leaves were packed, with snapshots of format 13: two
shards, eight of twelve batches, with and without a window; beside each store are all inputs and Spark's states.
"""

from __future__ import annotations

import json
import tarfile
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

import nearcast as nc
from nearcast.broker.snapshots import snapshot
from nearcast.spark.shards import steps
from nearcast.spark.shards.store import Store
from spark.scenes import WINDOW, One, Said, said_by
from spark.shards.test_steps import Cluster

STORE = Path(__file__).with_name("store-13.tar.xz")


def taken_up(folder: Path, name: str, shards: int) -> tuple[Cluster, One, list[Any]]:
    """Shards over what the archive holds, one broker that was given the same, and the batches still to come."""
    with tarfile.open(STORE) as archive:
        archive.extractall(folder, filter="data")
    known = json.loads((folder / name / "inputs.json").read_text())
    window = WINDOW if name == "window" else None
    cluster, one = Cluster(folder / name / "store", shards, window, seed=5), One(window)
    cluster.states = {int(shard): state for shard, state in known["states"].items()}
    cluster.batch = known["done"] - 1
    steps.HELD.clear()
    batches = [(told, asked) for told, asked in known["batches"]]
    for told, asked in batches[: known["done"]]:
        one.take(told, asked)
    one.said = Said(defaultdict(list), [], [])
    return cluster, one, batches[known["done"] :]


@pytest.mark.parametrize("name", ["window", "none"])
@pytest.mark.parametrize("shards", [2, 3])
def test_a_store_of_an_older_version_is_taken_up(tmp_path: Path, name: str, shards: int) -> None:
    cluster, one, batches = taken_up(tmp_path, name, shards)
    files = [path for path in (tmp_path / name).rglob("snapshots/*") if not path.name.endswith("-places")]
    assert {snapshot.read_stored(path).format for path in files} == {snapshot.OLDEST}
    for told, asked in batches:
        assert said_by(cluster.run(told, asked)) == one.take(told, asked)
    assert sum(map(len, one.said.updates.values())) > 20


def test_a_broker_of_an_older_version_goes_on_where_it_was(tmp_path: Path) -> None:
    cluster, _, _ = taken_up(tmp_path, "window", 2)
    state = json.loads(cluster.states[1])
    broker = Store(cluster.store).get_snapshot(state["snapshot"])
    for engine in broker.parts.engines.values():
        engine.check()
    assert broker.stats()["subscriptions"]["all"] > 3
    held = {id: list(broker.results(id)) for id in broker.subscription_ids.to_pylist()}
    assert sum(map(len, held.values())) > 5
    broker.snapshot(tmp_path / "now")
    assert snapshot.read_stored(tmp_path / "now").format == snapshot.FORMAT
    again = nc.Broker.restore(tmp_path / "now")
    assert {id: list(again.results(id)) for id in held} == held
