"""Type checkers see real types in the code of users: what each call gives, and what it does not take."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import nearcast

RIGHT = """
from datetime import UTC, datetime, timedelta
from typing import Literal, assert_type

import numpy as np
import numpy.typing as npt

import nearcast as nc


def show(done: int, total: int | None) -> None:
    print(done, total)


space = nc.Space(bounds=(13.0, 52.0, 14.0, 53.0))
broker = nc.Broker(space, nc.Window(count=1000, age=timedelta(hours=1)), nc.Weights.fit(["ramen", "sushi"]))
query = nc.Within(nc.Circle(13.4, 52.5, 800), "fire OR smoke")
updates = broker.subscribe("bob", query, expires=datetime.now(UTC), replace=True)
assert_type(updates, nc.Updates)
assert_type(updates[0], nc.Update)
assert_type(updates[1:], nc.Updates)
assert_type(updates.rejects, list[nc.Reject])
assert_type(updates.ended, list[str | int])
assert_type(updates.event, npt.NDArray[np.int64])
for update in broker.publish([nc.Message("m", 13.4, 52.5, "fire", ts="2024-05-17T12:00Z")], progress=False):
    assert_type(update.subscription, str | int)
    assert_type(update.sign, Literal["+", "-"])
    assert_type(update.score, float | None)
for message, score in broker.results("bob"):
    assert_type(message, str | int)
    assert_type(score, float | None)
broker.publish({"id": 1, "lon": 1.0, "lat": 2.0, "text": "x"})
broker.subscribe_many([("a", nc.Nearest(1, 2, "a")), nc.Subscription("b", query)], progress=show)
broker.move_many([{"id": "bob", "region": [1, 2, 3, 4]}])
broker.unsubscribe_many(["a", "b"])
broker.move("bob", region={"type": "Circle", "coordinates": [1, 2], "radius": 5})
assert_type(broker.subscription("bob"), nc.Subscription)
assert_type(broker.explain("bob", "m"), nc.Explanation)
assert_type(broker.map(["bob"]).html, str)
assert_type(nc.report([], [], updates), nc.Map)
assert_type(nc.backtest([], [], space=space).updates, nc.Updates)
assert_type(nc.Broker.restore("x"), nc.Broker)
assert_type(nc.__version__, str)
"""
WRONG = """
import nearcast as nc

broker = nc.Broker(nc.Space((0, 0, 1, 1)))
broker.publish(5)
broker.publish("fire")
broker.subscribe_many([nc.Message("m", 1, 2, "fire")])
broker.subscribe("bob", "fire")
broker.publish([], progress=True)
broker.results("bob").to_csv()
"""
FRAMES = """
import polars as pl

import nearcast as nc

broker = nc.Broker(nc.Space((0, 0, 1, 1)))
frame = pl.DataFrame({"id": [1]})
assert_frame: pl.DataFrame = broker.publish(frame).to_polars()
broker.subscribe_many(frame)
broker.move_many(frame)
broker.unsubscribe_many(frame)
nc.Weights.fit(frame)
"""


def checked(folder: Path, **scripts: str) -> list[str]:
    """What mypy says of scripts of a user, who has no settings of ours."""
    for name, text in scripts.items():
        (folder / f"{name}.py").write_text(text, encoding="utf-8")
    command = [sys.executable, "-m", "mypy", "--strict", "--config-file=", "--no-error-summary"]
    environment = {**os.environ, "MYPYPATH": str(Path(nearcast.__file__).parents[1])}
    environment |= {"MYPY_CACHE_DIR": str(folder / "cache")}
    silent = ["--follow-imports=silent", "--ignore-missing-imports"]
    done = subprocess.run(
        [*command, *silent, *(f"{name}.py" for name in scripts)],
        cwd=folder, env=environment, capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip
    assert not done.stderr, done.stderr
    return [line for line in done.stdout.splitlines() if ": note:" not in line]


@pytest.mark.slow
def test_the_code_of_users_has_types(tmp_path: Path) -> None:
    pytest.importorskip("mypy")
    pytest.importorskip("polars")
    said = checked(tmp_path, right=RIGHT, wrong=WRONG, frames=FRAMES)
    assert [line for line in said if not line.startswith("wrong.py")] == []
    assert [int(line.split(":")[1]) for line in said] == [5, 6, 7, 8, 9, 10], "\n".join(said)
