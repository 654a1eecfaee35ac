"""A run on executors of its own: a Python worker, an executor and the driver are killed, and it does not show."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from spark.hosts import executors, python_workers, stop
from spark.run.test_job import lines, updates_in
from spark.scenes import One, controls_of, messages_of

WAIT_S = 600.0  # for one step, on a busy machine


def n_batches(out: Path) -> int:
    place = out / "metrics.jsonl"
    return len(place.read_text().splitlines()) if place.exists() else 0


def until(holds: Callable[[], bool], process: subprocess.Popen[bytes]) -> None:
    """Wait for something to hold; the run may also have ended."""
    deadline = time.monotonic() + WAIT_S
    while not holds() and process.poll() is None:
        assert time.monotonic() < deadline, "no progress"
        time.sleep(0.05)


@pytest.mark.slow
@pytest.mark.spark
def test_kills_of_every_sort_of_process_do_not_show(tmp_path: Path) -> None:
    messages = [row for row in messages_of(11, 360) if row["ts"] < 2**60]
    controls = [row for row in controls_of(11, 40, 50_000) if row["event"] != "advance"]
    lines(tmp_path / "m.jsonl", messages)
    lines(tmp_path / "s.jsonl", controls)
    out = tmp_path / "out"
    command = [
        sys.executable, "-m", "nearcast.cli.main", "run", "--messages", "m.jsonl", "--subscriptions", "s.jsonl",
        "--metric", "euclidean", "--space=0,0,8,8", "--window-count", "60", "--window-age", "40", "--shards", "2",
        "--batch-rows", "30", "--snapshot-every", "3", "--out", str(out),
    ]  # fmt: skip
    run = subprocess.Popen(command, cwd=tmp_path, start_new_session=True)
    try:
        for find in (python_workers, executors):
            done = n_batches(out)
            until(lambda done=done: n_batches(out) > done, run)  # type: ignore[misc]
            until(lambda find=find: bool(find([run.pid])), run)  # type: ignore[misc]
            os.kill(find([run.pid])[0], signal.SIGKILL)
        done = n_batches(out)
        until(lambda: n_batches(out) > done, run)
        assert run.poll() is None, "it was to be killed before its end"
    finally:
        stop(run)
    n_before = n_batches(out)
    assert subprocess.run(command, cwd=tmp_path, check=False, timeout=2 * WAIT_S).returncode == 0
    assert n_batches(out) > n_before
    assert updates_in(out / "updates") == dict(One().take(messages, controls).updates)
    summary = json.loads((out / "summary.json").read_text())
    assert summary["rows"] == len(messages) + len(controls)
