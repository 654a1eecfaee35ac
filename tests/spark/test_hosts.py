"""Hosts that do not see the driver's disk: nothing is lost, and what cannot be read is told."""

from __future__ import annotations

import pytest

from spark.hosts import hosts, missing
from spark.kill_and_compare import Drive, compare

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.skipif(missing() is not None, reason=str(missing()))]


def test_answers_are_those_of_one_broker_though_processes_are_killed() -> None:
    assert "are those of one broker" in compare(kills=2, seed=2, n_workers=2)


def test_a_file_that_executors_cannot_see_fails_the_run() -> None:
    with hosts(1) as cluster:
        for name in ("messages", "controls"):
            (cluster.folder / f"{name}.jsonl").write_text('{"id": 1, "lon": 0, "lat": 0, "text": "x", "ts": 1}\n')
        drive = Drive(cluster, "", "redis://unused")
        paths = {f"{name}": str(cluster.folder / f"{name}.jsonl") for name in ("messages", "controls")}
        drive.start(1, **paths, store=(cluster.shared / "store").as_uri())
        assert drive.process.wait(600) != 0
        assert "messages.jsonl cannot be opened on host" in drive.log(20_000)
        assert not (cluster.shared / "store" / "intake" / "00000000.json").exists()  # it is not remembered as read
