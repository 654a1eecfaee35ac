"""`nearcast demo` on a short day."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from nearcast.cli.demo import build_parser, main, people_table, read_updates
from nearcast.workload import city


def test_the_demo_runs_and_runs_again(spark: Any, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    words = ["--out", str(tmp_path / "demo"), "--messages", "600"]
    assert main(words) == 0
    said = capfd.readouterr().out
    assert "Mira" in said
    assert "report with a map" in said
    report = (tmp_path / "demo" / "report.html").read_text("utf-8")
    assert "Mira, newsroom" in report
    updates = read_updates(tmp_path / "demo" / "run" / "updates")
    assert {"+", "-"} == {update["sign"] for update in updates}
    assert len({update["subscription"] for update in updates} & {person.id for person in city.PEOPLE}) >= 6
    rejects = (tmp_path / "demo" / "run" / "rejects").iterdir()
    reasons = [json.loads(line)["reason"] for path in rejects for line in path.read_text().splitlines()]
    assert len(reasons) >= 5
    assert main(words) == 0
    assert read_updates(tmp_path / "demo" / "run" / "updates") == updates


def test_the_table_names_everybody() -> None:
    post = {"id": 1, "text": "smoke at the quay", "ts": 1}
    table = people_table([post], [{"subscription": "mira", "message": 1, "sign": "+", "score": None, "ts": 1}])
    assert table.row_count == len(city.PEOPLE)
    assert read_updates(Path("nowhere")) == []


def test_the_options_have_defaults() -> None:
    args = build_parser().parse_args([])
    assert (args.out, args.messages, args.seed) == ("out/demo", 4_000, city.SEED)
