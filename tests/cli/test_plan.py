"""`nearcast plan` as a user meets it: a table of loads, a picture, advice with its reason, errors of one line."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from partition.test_costs import SPACES, columnar, town
from rich.console import Console

from nearcast.cli import main as front
from nearcast.cli.plan import Plan, advise, plan_for, show
from nearcast.cli.plan_picture import draw
from nearcast.partition.costs import MESSAGE_NS
from nearcast.partition.partition import METHODS, SplitSettings
from nearcast.partition.sample import Sample

SPACE = ("--space", "0,0,8,8", "--metric", "euclidean")


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("plan")
    messages, asked = town(SPACES[0], 80, 100, 3)
    for name, rows in (("messages", messages), ("subscriptions", asked)):
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    pq.write_table(columnar(asked), folder / "subscriptions.parquet")
    mixed = [{"event": "publish", **m} for m in messages] + [{"event": "subscribe", **s} for s in asked]
    mixed.append({"event": "unsubscribe", "id": 1})
    (folder / "events.jsonl").write_text("".join(json.dumps(row) + "\n" for row in mixed))
    return folder


def said(capsys: pytest.CaptureFixture[str], *words: str | Path) -> str:
    assert front.main(["plan", *SPACE, *map(str, words)]) == 0
    return capsys.readouterr().out


def refused(capsys: pytest.CaptureFixture[str], *words: str | Path) -> str:
    assert front.main(["plan", *map(str, words)]) == 2
    return capsys.readouterr().err.strip()


def test_loads_of_every_shard_and_way(files: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    given = ("--messages", files / "messages.jsonl", "--shards", "3", "--picture", tmp_path / "new" / "plan.svg")
    out = said(capsys, "--subscriptions", files / "subscriptions.jsonl", *given)
    assert "100 subscriptions, estimated from 80 messages" in out
    assert re.search(r"nearest, any +20", out)
    for shard in range(3):
        assert re.search(rf"^ +{shard}( +[0-9.]+){{4}}", out, re.MULTILINE)
    assert re.search(r"spread( +[0-9.]+){4}", out)
    assert re.search(r"advice: \d+ shards?, because a message takes", out)
    drawn = ElementTree.fromstring((tmp_path / "new" / "plan.svg").read_text())
    assert len(drawn.findall(".//{*}rect/{*}title")) == 3 * len(METHODS)
    in_columns = said(capsys, "--subscriptions", files / "subscriptions.parquet", *given)
    from_events = said(capsys, "--events", files / "events.jsonl", "--shards", "3", "--picture", tmp_path / "p.svg")
    for other in (in_columns, from_events):
        assert out.split("load of each shard")[0] == other.split("load of each shard")[0]
        assert re.findall(r"advice.*", out) == re.findall(r"advice.*", other)


def test_without_messages_and_with_malformed_rows(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    asked = town(SPACES[0], 1, 20, 3)[1]
    table = columnar(asked)
    kinds = ["nonsense", *table.column("kind").to_pylist()[1:]]
    pq.write_table(table.set_column(table.column_names.index("kind"), "kind", pa.array(kinds)), tmp_path / "s.parquet")
    out = said(capsys, "--subscriptions", tmp_path / "s.parquet", "--shards", "2")
    assert "19 subscriptions, estimated from 0 messages" in out
    assert "without messages all words are taken to be equally frequent" in out
    assert "1 rows are malformed and were passed over" in out


def test_words_are_compared_as_the_analyzer_has_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    told = [{"id": i, "lon": i % 8, "lat": 2, "text": "the fires burn"} for i in range(60)]
    asked = {"id": 1, "kind": "within", "region": [0, 0, 8, 8], "keywords": "fired AND burning"}
    for name, rows in (("messages", told), ("subscriptions", [asked])):
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    given = ("--messages", tmp_path / "messages.jsonl", "--subscriptions", tmp_path / "subscriptions.jsonl")
    loads = [
        float(re.search(r"busiest +([0-9.]+)", said(capsys, *given, "--shards", "1", *more))[1])  # type: ignore[index]
        for more in ((), ("--stemmer", "english"))
    ]
    assert loads[1] > loads[0]  # without stems nobody would hold its words


def test_errors_name_option_and_value(files: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    asked = ("--subscriptions", files / "subscriptions.jsonl")
    start = "nearcast plan: error: "
    assert refused(capsys, "--messages", files / "messages.jsonl").startswith(start + "--subscriptions must name")
    assert refused(capsys, *asked, "--shards", "0") == start + "--shards must be >= 1, got 0"
    assert refused(capsys, *asked, "--rate", "-1") == start + "--rate must be > 0, got -1.0"
    assert refused(capsys, *asked, "--gamma1", "0") == start + "--gamma1 must be >= 1, got 0"
    assert refused(capsys, *asked, "--picture", "a.jpg") == start + "--picture must end in .svg, got 'a.jpg'"
    assert "must be a file or folder that exists" in refused(capsys, "--subscriptions", tmp_path / "none.jsonl")
    (tmp_path / "empty.jsonl").write_text("")
    assert "must hold a subscription that is well-formed" in refused(
        capsys, "--subscriptions", tmp_path / "empty.jsonl"
    )
    assert "--space must be four numbers" in refused(capsys, *asked, "--space", "1,2")


def test_advice_follows_loads_and_rate() -> None:
    fixed = MESSAGE_NS
    assert advise(fixed / 2, 1_000, None)[0] == 1
    assert advise(fixed * 7.5, 1_000, None)[0] == 8
    assert advise(fixed * 7.5, 3, None)[0] == 3
    rate = 0.5e9 / (3 * fixed)  # leaves a shard twice what a message costs it anyway
    n, reason = advise(fixed * 7.5, 1_000, rate)
    assert n == 4
    assert "messages a second" in reason
    n, reason = advise(fixed * 7.5, 1_000, 1e9)
    assert n == 8
    assert "no number of shards keeps up" in reason


def test_ways_are_judged_by_one_estimate() -> None:
    messages, asked = town(SPACES[0], 80, 400, 5)
    plan = plan_for(asked, Sample(SPACES[0], columnar(messages)), 4, None, SplitSettings())
    totals = [loads.sum() for loads in plan.loads.values()]
    assert np.allclose(totals, totals[0])
    assert all(held.sum() == 400 for held in plan.held.values())
    assert np.ptp(plan.loads["dkm"]) < np.ptp(plan.loads["space"])
    assert sum(cost for _, cost in plan.kinds.values()) == pytest.approx(totals[0])


def test_nothing_to_draw_is_drawn_flat() -> None:
    assert "spread 0.000" in draw({"none": np.zeros(40)})
    console = Console(record=True, width=100, file=io.StringIO())
    loads, held = {"dkm": np.array([3000.0, 1000.0])}, {"dkm": np.array([2, 1], np.int32)}
    show(Plan(2, loads, held, {"within": (3, 4000.0)}, 0, 5, 2, "why"), console)
    text = console.export_text()
    assert re.search(r"spread +1\.000", text)
    assert "advice: 2 shards, because why" in text
