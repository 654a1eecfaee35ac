"""The benchmark skeleton: a tiny point end to end, wrong answers, tables that are only read, and the guards."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from nearcast.cli import bench as command
from nearcast.errors import InvalidInput, SetupError

figure, guards, plot, record, runner = map(command.part, ("figure", "guards", "plot", "record", "runner"))

TINY = [
    word
    for size in ("messages=zipf", "rows=300", "checked=50")
    for word in ("--set", size)
]  # fmt: skip


def test_a_tiny_point_is_measured_recorded_and_shown(tmp_path, capsys):
    out, picture = tmp_path / "lines.jsonl", tmp_path / "figure.svg"
    options = ["text_encode", "--x", "100", "--repeats", "2", *TINY, "--out", str(out)]
    assert command.main(options) == 0
    lines = list(record.read(out))
    assert [line["series"] for line in lines] == ["nearcast", "python loop"]
    for line in lines:
        assert (line["figure"], line["sweep"], line["x"]) == ("text_encode", "batch", 100)
        assert line["sizes"]["checked"] == line["checked"] == 50
        assert len(line["repeats"]) == 2
        assert all(done["n"] == 300 and done["wall_s"] > 0 and done["cpu_s"] > 0 for done in line["repeats"])
        assert line["setup"]["compile_s"] >= 0
        assert line["peak_bytes"] > 2**20
        assert line["counters"]["words"] > 0
        assert line["machine"]["cores"] >= 1
        assert {"python", "numba", "numpy", "pyarrow"} <= line["versions"].keys()
        assert line.keys() >= {"commit", "dirty", "run", "seed", "source", "unit", "warmup"}
    before = out.read_bytes()
    capsys.readouterr()
    assert command.main(["text_encode", "--show", "--markdown", "--out", str(out), "--svg", str(picture)]) == 0
    shown = capsys.readouterr().out
    assert "| batch | nearcast | python loop |" in shown
    assert f"seed {figure.SEED}" in shown
    assert picture.read_text().startswith("<svg")
    assert out.read_bytes() == before


def test_a_wrong_answer_is_not_recorded(tmp_path, monkeypatch, capsys):
    class Deaf(runner.Worker):
        """A child that finds one of the series wrong."""

        def _hear(self):
            if self.series == "nearcast":
                raise runner.Failed(f"{self.series}: wrong answer, not recorded: it was told so")
            return super()._hear()

    monkeypatch.setattr(runner, "Worker", Deaf)
    out = tmp_path / "lines.jsonl"
    assert command.main(["text_encode", "--x", "100", "--repeats", "1", *TINY, "--out", str(out)]) == 1
    assert [line["series"] for line in record.read(out)] == ["python loop"]
    assert "nearcast: wrong answer, not recorded" in capsys.readouterr().err


def test_a_child_that_is_wrong_says_so_and_is_not_timed(monkeypatch, capsys):
    declared = figure.load("text_encode")
    case = declared.series["nearcast"][0]
    monkeypatch.setattr(case, "rows", lambda self, column: [[] for _ in range(len(column))])
    monkeypatch.setattr(case, "repeat", lambda self, watch: pytest.fail("timed"))
    sizes = declared.sizes_of("nearcast", 100, {"messages": "zipf", "rows": 20, "checked": 5})
    runner.serve({"figure": "text_encode", "series": "nearcast", "sizes": sizes, "seed": 1})
    (line,) = capsys.readouterr().out.splitlines()
    assert "but right is" in json.loads(line)["wrong"]


def test_the_judge_finds_lost_updates():
    declared = figure.load("broker_publish")
    case = declared.make("1,000 mixed", declared.sizes_of("1,000 mixed", 50, {**declared.tiny, "batch": 50}), 1)
    case.prepare()
    publish = case.broker.publish

    class Forgetful:
        def publish(self, batch):
            told = publish(batch)
            return type(told)(told.to_arrow().slice(len(told) // 2))

    case.broker = Forgetful()
    with pytest.raises(figure.WrongAnswer, match="but right is"):
        case.check()


def test_series_take_turns(monkeypatch):
    turns: list[str] = []

    class Quick(runner.Worker):
        """A worker without a child."""

        def __init__(self, series, request):
            self.series = series

        def start(self):
            turns.append(f"start {self.series}")

        def again(self):
            turns.append(self.series)

        def finish(self):
            return {"series": self.series}

        def close(self):
            turns.append("close")

    monkeypatch.setattr(runner, "Worker", Quick)
    results = list(runner.measure(figure.load("text_encode"), 1, ["nearcast", "python loop"], {}, 1, 2))
    assert [result["series"] for result in results] == ["nearcast", "python loop"]
    assert turns[2:6] == ["nearcast", "python loop"] * 2
    assert turns[6:] == ["close", "close"]


def test_stopwatch_counts_what_it_guards_and_its_laps():
    watch = figure.Stopwatch()
    start = time.perf_counter()
    with watch:
        watch.lap("a")
        watch.lap("a")
    assert 0 < watch.wall_s <= time.perf_counter() - start
    found = runner.quantiles(watch.laps["a"])
    assert found["n"] == 2
    assert 0 <= found["wall_p50_us"] <= found["wall_p99_us"] <= found["wall_max_us"]


def test_ratios_need_one_run():
    def line(run: str, cpu_s: float) -> dict:
        return {"run": run, "repeats": [{"n": 10, "cpu_s": cpu_s, "compile_s": 0.0}]}

    assert plot.ratio(line("a", 1.0), line("a", 4.0)) == 4.0
    assert plot.ratio(line("a", 1.0), line("b", 4.0)) is None


@pytest.mark.parametrize("name", figure.names())
def test_every_figure_declares_itself(name):
    declared = figure.load(name)
    assert declared.title
    assert declared.workload
    assert declared.expected
    assert declared.sweep[1]
    assert declared.baseline is None or declared.baseline in declared.series


@pytest.mark.parametrize("name", figure.names())
def test_work_is_as_accepted(name):
    """A difference is a regression, or is accepted: nearcast bench --guard --accept."""
    assert guards.differences(guards.count(name), guards.accepted(name)) == []


def test_unknown_words_are_refused():
    with pytest.raises(InvalidInput, match=r"figure must be one of .*text_encode"):
        command.main(["no_such_figure"])
    with pytest.raises(InvalidInput, match="x must be one of 1, 100"):
        command.main(["text_encode", "--x", "7"])
    with pytest.raises(InvalidInput, match="series must be one of nearcast"):
        command.main(["text_encode", "--series", "other"])
    with pytest.raises(InvalidInput, match=r"set must be NAME=VALUE with a name of .*rows"):
        command.main(["text_encode", "--set", "row=7"])
    with pytest.raises(InvalidInput, match="repeats must be >= 1, got 0"):
        command.main(["text_encode", "--repeats", "0"])


def test_nothing_recorded_and_no_checkout_are_said(tmp_path, monkeypatch):
    with pytest.raises(SetupError, match="nothing is recorded for text_encode"):
        command.main(["text_encode", "--show", "--out", str(tmp_path / "none.jsonl")])
    monkeypatch.setattr(command, "__file__", str(tmp_path / "lib" / "site-packages" / "nearcast" / "cli" / "bench.py"))
    with pytest.raises(SetupError, match="benchmarks are part of the source tree"):
        command.main([])


def test_figures_are_listed(capsys):
    assert command.main([]) == 0
    listed = [line.split()[0] for line in capsys.readouterr().out.splitlines()]
    assert listed == figure.names()
    assert not (Path(record.RESULTS) / "lines.jsonl").exists()


def test_movement_counts_where_subscriptions_move():
    """AP+-Tree learns how subscriptions move, and builds its root again by what that costs."""
    moving = [f"ap_tree_fig_{n}{side}" for n in range(21, 26) for side in "ab"]
    points = {(name, point): counts for name in moving for point, counts in guards.accepted(name).items()}
    built = {at: counts["rebuilds"] for at, counts in points.items() if at[1].startswith("AP+-Tree at ")}
    assert sum(n > 0 for n in built.values()) >= 8
    assert all(n > 0 or points[at]["rebuilding"] for at, n in built.items()), built
