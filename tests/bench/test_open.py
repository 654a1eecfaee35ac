"""The open benchmark: files that are the same everywhere, and a checker that refuses wrong answers."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from nearcast.cli import bench as command

command.part("figure")
from bench.open import check as checking  # noqa: E402
from bench.open import workload as workloads  # noqa: E402
from bench.open.__main__ import main  # noqa: E402
from bench.open.entry import answer  # noqa: E402

KINDS = workloads.KINDS


@cache
def small(kind: str) -> workloads.Workload:
    made = workloads.make(kind, 400, 300, 200)
    if kind != "within":
        return made
    edges = zip(workloads.COLUMNS[kind], (-0.2, -0.2, 0.2, 0.2), strict=True)
    boxes = {name: made.subscriptions[name].to_numpy() + edge for name, edge in edges}
    wide = pa.table({"id": made.subscriptions["id"], "keywords": made.subscriptions["keywords"], **boxes})
    return workloads.Workload(made.task, wide, made.messages)


@cache
def right(kind: str) -> pa.Table:
    return answer(small(kind), batch=37).answers


@pytest.mark.parametrize("kind", KINDS)
def test_right_answers_are_accepted(kind: str) -> None:
    found = checking.check(small(kind), right(kind))
    assert found == (right(kind).num_rows, 400, 400)
    assert found.rows > 50


@pytest.mark.parametrize("kind", KINDS)
def test_answers_are_the_same_however_messages_are_cut(kind: str) -> None:
    assert answer(small(kind), batch=200).answers.equals(right(kind))


def change(rows: list[dict[str, Any]], at: int, what: str) -> None:
    row = rows[at]
    if what == "missing":
        del rows[at]
    elif what == "twice":
        rows.insert(at, dict(row))
    elif what == "another subscription":
        row["subscription"] = row["subscription"] % 400 + 1
    elif what == "another message":
        row["message"] -= 1
    elif what == "another event":
        row["event"] += 1 if row["event"] < 500 else -1
    elif what == "another sign":
        row["sign"] = "-" if row["sign"] == "+" else "+"
    elif what == "nobody":
        row["subscription"] = 401
    elif what == "never came":
        row["message"] = 501
    elif what == "no sign":
        row["sign"] = "!"
    else:
        row["event"] = 300


WRONG = ("missing", "twice", "another subscription", "another message", "another event", "another sign", "nobody",
         "never came", "no sign", "too early")  # fmt: skip


@pytest.mark.parametrize("what", WRONG)
@pytest.mark.parametrize("kind", KINDS)
def test_wrong_answers_are_refused(kind: str, what: str) -> None:
    n = right(kind).num_rows
    for at in sorted({0, n // 3, n // 2, n - 1}):
        rows = right(kind).to_pylist()
        change(rows, at, what)
        with pytest.raises(checking.Refused):
            checking.check(small(kind), pa.Table.from_pylist(rows, schema=checking.ANSWERS))


@pytest.mark.parametrize("kind", KINDS)
def test_no_answers_at_all_are_refused(kind: str) -> None:
    with pytest.raises(checking.Refused):
        checking.check(small(kind), checking.ANSWERS.empty_table())


def test_columns_must_be_there() -> None:
    with pytest.raises(checking.Refused, match="lack the column event"):
        checking.check(small("within"), right("within").drop_columns("event"))


def test_equal_scores_may_stand_either_way() -> None:
    """Two messages at the same place with the same words: either may be the one that is kept."""
    made = small("nearest_any")
    asked = pa.table({"id": [1], "keywords": [["a"]], "lon": [0.5], "lat": [0.5], "k": [1]})
    same = {"id": [1, 2, 3], "lon": [0.9, 0.6, 0.6], "lat": [0.5] * 3, "keywords": [["a"]] * 3}
    task = workloads.Task(**{**vars(made.task), "subscriptions": 1, "before": 1, "published": 2})
    twins = workloads.Workload(task, asked, pa.table(same))

    def told(*rows: tuple[int, int, str]) -> pa.Table:
        listed = [{"event": e, "subscription": 1, "message": m, "sign": sign} for e, m, sign in rows]
        return pa.Table.from_pylist(listed, schema=checking.ANSWERS)

    assert checking.check(twins, told((2, 1, "-"), (2, 2, "+"), (3, 2, "-"), (3, 3, "+"))).rows == 4
    with pytest.raises(checking.Refused):
        checking.check(twins, told((2, 1, "-"), (2, 2, "+"), (3, 2, "-")))


@pytest.mark.parametrize("form", ["parquet", "jsonl"])
def test_files_hold_the_task(tmp_path: Path, form: str) -> None:
    workloads.write(small("topk"), tmp_path, form)
    read = workloads.read(tmp_path)
    assert read.task == small("topk").task
    assert read.subscriptions.to_pylist() == small("topk").subscriptions.to_pylist()
    assert read.messages.to_pylist() == small("topk").messages.to_pylist()
    assert json.loads((tmp_path / "task.json").read_text())["kind"] == "topk"


def test_the_command_makes_answers_and_checks(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder, answers = tmp_path / "task", tmp_path / "answers.jsonl"
    sizes = ["--size", "10k", "--before", "500", "--published", "300", "--form", "jsonl"]
    assert main(["make", str(folder), "--kind", "nearest_any", *sizes]) == 0
    assert main(["answer", str(folder), str(answers)]) == 0
    assert main(["check", str(folder), str(answers), "--sample", "200"]) == 0
    assert "200 of 10,000 subscriptions" in capsys.readouterr().out
    lines = answers.read_text().splitlines()
    answers.write_text("\n".join([*lines[:-1], lines[0].replace('"sign": "+"', '"sign": "-"')]))
    assert main(["check", str(folder), str(answers), "--sample", "10000"]) == 1
    assert "refused: " in capsys.readouterr().out
