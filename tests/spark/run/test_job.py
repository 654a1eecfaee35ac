"""Runs over files: answers are those of one broker, through failures, restarts, moves and other numbers of shards."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from nearcast.errors import InvalidInput, SetupError
from nearcast.spark.run.files import Input
from nearcast.spark.run.job import Head, Options, run
from nearcast.spark.run.totals import Totals
from spark.scenes import SPACE, WINDOW, One, Row, controls_of, messages_of


def lines(path: Path, rows: list[Row]) -> Path:
    plain = [{k: v for k, v in row.items() if v is not None and k != "position"} for row in rows]
    for row in plain:
        if isinstance(row.get("region"), str):
            row["region"] = json.loads(row["region"])
    path.write_text("".join(json.dumps(row) + "\n" for row in plain))
    return path


def updates_in(folder: Path) -> dict[str, list[tuple[Any, ...]]]:
    rows = pq.read_table(folder).sort_by([("batch", "ascending"), ("seq", "ascending")]).to_pylist()
    found: dict[str, list[tuple[Any, ...]]] = {}
    for row in rows:
        found.setdefault(row["subscription"], []).append((row["message"], row["sign"], row["score"], row["ts"]))
    return found


def test_failures_moves_and_other_shards_do_not_show(spark: Any, tmp_path: Path) -> None:
    messages = [row for row in messages_of(9, 300) if row["ts"] < 2**60]
    first, second = messages[:240], messages[240:]
    controls = [row for row in controls_of(9, 40, 40_000) if row["event"] != "advance"]
    (tmp_path / "in").mkdir()
    lines(tmp_path / "in" / "1.jsonl", first)
    asked = lines(tmp_path / "s.jsonl", controls)
    inputs = (Input(str(tmp_path / "in"), "messages"), Input(str(asked), "subscriptions"))
    common: dict[str, Any] = {"space": SPACE, "window": WINDOW, "batch_rows": 100, "balance": 0.0}
    options = Options(inputs, tmp_path / "out", shards=2, balance_after=0.0, **common)

    def fails_in_the_middle(stage: str, totals: Totals, head: Head) -> None:
        if totals.next_batch == 2:
            raise RuntimeError("out of luck")

    with pytest.raises(SetupError, match="Spark failed"):
        run(options, fails_in_the_middle)
    with pytest.raises(InvalidInput, match="must have no unfinished batch"):
        run(Options(inputs, tmp_path / "out", shards=5, **common))
    run(Options(inputs, tmp_path / "out", shards=3, threads=2, balance_after=0.0, **common))
    one = One()
    assert updates_in(tmp_path / "out" / "updates") == dict(one.take(first, controls).updates)
    lines(tmp_path / "in" / "2.jsonl", second)
    result = run(Options(inputs, tmp_path / "out", shards=5, balance_after=0.0, **common))  # more than partitions
    assert updates_in(tmp_path / "out" / "updates") == dict(one.take(second, []).updates)
    counts = result.totals.counts
    assert result.totals.rows == len(messages) + len(controls) == result.head.rows
    assert counts["messages"] + counts["events"] + counts["late"] + counts["rejects"] == result.totals.rows
    assert counts["assigned"] > 0
    assert len((tmp_path / "out" / "metrics.jsonl").read_text().splitlines()) >= 3
    again = run(Options(inputs, tmp_path / "out", **common))
    assert (again.n_shards, again.totals.rows) == (5, result.totals.rows)
    with pytest.raises(InvalidInput, match="window must stay"):
        run(Options(inputs, tmp_path / "out", space=SPACE))
    offsets = tmp_path / "out" / "_checkpoint" / "spark" / "offsets"
    last = max((path for path in offsets.iterdir() if path.name.isdigit()), key=lambda path: int(path.name))
    last.write_text("v1\n{")
    with pytest.raises(SetupError, match=rf"offsets/{last.name} is damaged .* another --out"):
        run(Options(inputs, tmp_path / "out", **common))
