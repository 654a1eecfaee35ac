"""`nearcast run` as a user meets it: help that teaches, errors of one line, progress and a summary."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

import nearcast as nc
from nearcast.cli import main as front
from nearcast.cli.run import Display, build_parser, options_from, print_summary, summary_of
from nearcast.cli.run import main as run_main
from nearcast.errors import InvalidInput
from nearcast.spark.run.files import Input
from nearcast.spark.run.job import EARTH, Head, Options, Result
from nearcast.spark.run.totals import Totals


def parsed(*words: str) -> Options:
    return options_from(build_parser().parse_args(list(words)))


def a_result(**changes: Any) -> Result:
    counts = Counter(rows=100, messages=80, events=9, late=1, rejects=10, added=5, removed=2, restored=1)
    totals = Totals(counts, Counter({"lat must be a number": 7, "row must be JSON": 3}), Counter(all=4, within=4), 2)
    given: dict[str, Any] = {"before": Totals(), "changed": (), "seconds": 2.0, "n_shards": 1}
    return Result(totals=totals, head=Head(2, 100, 3), **{**given, **changes})


def printed(result: Result) -> str:
    console = Console(record=True, width=120, file=io.StringIO())
    print_summary(result, Options((), Path("out")), console)
    return console.export_text()


def test_options_have_their_defaults() -> None:
    options = parsed("--messages", "a.jsonl", "b.csv", "--messages", "c.parquet", "--subscriptions", "s", "--out", "o")
    assert [(given.path, given.role) for given in options.inputs] == [
        ("a.jsonl", "messages"),
        ("b.csv", "messages"),
        ("c.parquet", "messages"),
        ("s", "subscriptions"),
    ]
    assert options == Options(options.inputs, Path("o"))
    assert (options.space, options.window, options.follow, options.updates_format) == (EARTH, None, False, "parquet")


def test_options_are_taken_over() -> None:
    words = [
        "--events",
        "e",
        "--format",
        "csv",
        "--space=-10,-5,10,5",
        "--metric",
        "euclidean",
        "--max-distance",
        "7",
        "--window-count",
        "5",
    ]
    words += [
        "--window-age",
        "60",
        "--max-ahead",
        "9",
        "--corpus",
        "t.csv",
        "--out",
        "o",
        "--updates-format",
        "jsonl",
        "--checkpoint",
        "c",
    ]
    words += ["--master", "local[2]", "--shards", "3", "--batch-rows", "10", "--snapshot-every", "4", "--follow"]
    words += ["--partition", "space", "--balance", "0.5", "--balance-after", "1"]
    words += ["--stop-words", "english", "--stemmer", "german", "--accents", "fold", "--cjk", "bigrams"]
    assert parsed(*words) == Options(
        inputs=(Input("e", "events", "csv"),),
        out=Path("o"),
        checkpoint=Path("c"),
        space=nc.Space((-10, -5, 10, 5), "euclidean", 7),
        window=nc.Window(5, 60, 9),
        analyzer=nc.Analyzer("english", "german", "fold", "bigrams"),
        corpus=(Input("t.csv", "corpus", "csv"),),
        shards=3,
        partition="space",
        balance=0.5,
        balance_after=1.0,
        master="local[2]",
        follow=True,
        updates_format="jsonl",
        batch_rows=10,
        snapshot_every=4,
    )


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("", "input must be named with --messages, --subscriptions or --events, got None"),
        ("--messages m --shards 0", "--shards must be >= 1, got 0"),
        ("--messages m --threads 0", "--threads must be >= 1, got 0"),
        ("--messages m --batch-rows 0", "--batch-rows must be >= 1, got 0"),
        ("--messages m --balance nan", "--balance must be >= 0, got nan"),
        ("--messages m --space=1,2,3", "--space must be four numbers: min_lon,min_lat,max_lon,max_lat, got '1,2,3'"),
        ("--messages m --space=a,2,3,4", "--space must be four numbers"),
        ("--messages m --space=0,0,1,99", "must"),
        ("--messages m --window-count 0", "count must be a whole number >= 1, got 0"),
        ("--messages m --window-age=-5", "age must be"),
        ("--messages m --stemmer klingon", "stemmer must be one of arabic, "),
    ],
)
def test_values_out_of_range_are_named(words: str, said: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        parsed(*words.split(), "--out", "o")
    assert said in str(caught.value)


def test_errors_are_one_line_and_exit_code_2(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    out = str(tmp_path / "out")
    assert front.main(["run", "--messages", str(tmp_path / "nowhere.jsonl"), "--out", out]) == 2
    said = capfd.readouterr()
    assert said.err.startswith("nearcast run: error: messages must be a file or folder that exists, got ")
    assert said.err.count("\n") == 1
    assert said.out == ""
    assert not Path(out).exists()
    with pytest.raises(SystemExit) as caught:
        front.main(["run", "--messages", "m"])
    assert caught.value.code == 2
    assert "the following arguments are required: --out" in capfd.readouterr().err
    with pytest.raises(SystemExit) as caught:
        front.main(["fly"])
    assert caught.value.code == 2


def test_help_teaches(capsys: pytest.CaptureFixture[str]) -> None:
    for words in (["--help"], ["run", "--help"]):
        with pytest.raises(SystemExit) as caught:
            front.main(words)
        assert caught.value.code == 0
    said = capsys.readouterr().out
    assert all(name in said for name in front.COMMANDS)
    for option in (
        "--messages",
        "--subscriptions",
        "--follow",
        "--window-count",
        "--corpus",
        "--checkpoint",
        "--master",
    ):
        assert option in said
    assert '"kind": "within"' in said
    assert front.command_parser("run").prog == "nearcast run"


def test_nothing_of_spark_is_imported_before_it_is_needed() -> None:
    code = "import sys, nearcast, nearcast.cli.main; sys.exit(any(n.startswith('pyspark') for n in sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_an_interrupt_says_so(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def interrupted(argv: list[str]) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr("nearcast.cli.run.main", interrupted)
    assert front.main(["run"]) == 130
    assert capsys.readouterr().err == "nearcast run: interrupted\n"


def test_the_summary_adds_up() -> None:
    text = printed(a_result())
    for words in (
        "rows",
        "100",
        "accepted messages",
        "80",
        "lat must be a number",
        "7",
        "updates +",
        "within",
        "2.0 s",
    ):
        assert words in text
    assert "50 rows/s" in text
    summary = summary_of(a_result())
    assert summary["rows"] == 100 == sum(summary[name] for name in ("accepted", "late", "rejects"))  # type: ignore[misc]
    assert json.loads(json.dumps(summary)) == summary


def test_the_summary_tells_what_is_special() -> None:
    assert "nothing to do" in printed(a_result(before=a_result().totals))
    earlier = Totals(Counter(rows=40))
    assert "resumed; 40 rows were already processed" in printed(a_result(before=earlier))
    assert "run the same command to resume" in printed(a_result(stopped=True))
    assert "warning: x.csv changed after it was read; changes ignored" in printed(a_result(changed=("x.csv",)))


def test_progress_is_lines_where_there_is_no_terminal(capfd: pytest.CaptureFixture[str]) -> None:
    totals = a_result().totals
    with Display() as display:
        display.show("start", Totals(), Head())
        display.show("run", Totals(), Head(4, 200, 1))
        display.show("run", totals, Head(4, 200, 1))  # too soon after the last
        display.show("run", totals, Head(2, 100, 1))  # the end is always told
    lines = capfd.readouterr().err.splitlines()
    assert lines[0] == "starting Spark"
    assert lines[1].startswith("0/200 rows, batch 0/4, 0 updates, 0 rejects")
    assert lines[2].startswith("100/100 rows, batch 2/2, 7 updates, 10 rejects")


def test_a_run_from_end_to_end(spark: Any, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    messages, subscriptions = tmp_path / "m.csv", tmp_path / "s.jsonl"
    messages.write_text("id,lon,lat,text,ts\n1,0,0,fire here,10\n2,0.5,0.5,Fire!,11\n3,0,95,fire,12\n4,50,50,fire,13\n")
    subscriptions.write_text(
        '{"id": "bob", "kind": "within", "region": [-1, -1, 1, 1], "keywords": "fire"}\n'
        '{"id": "ann", "kind": "topk", "lon": 0, "lat": 0, "keywords": "fire"}\n{broken\n'
    )
    out = tmp_path / "out"
    words = ["--messages", str(messages), "--subscriptions", str(subscriptions), "--out", str(out)]
    words += ["--space", "-10,-10,10,10", "--updates-format", "jsonl"]
    assert run_main(words) == 0
    said = capfd.readouterr()
    assert "7/7 rows" in said.err
    assert "updates +" in said.out
    assert "TopK" in said.out or "topk" in said.out or "window" in said.out
    summary = json.loads((out / "summary.json").read_text())
    assert (summary["rows"], summary["accepted"], summary["rejects"]) == (7, 4, 3)
    assert summary["updates"] == {"+": 2, "-": 0}
    (part,) = (out / "updates").iterdir()
    told = [json.loads(line) for line in part.read_text().splitlines()]
    assert [(row["subscription"], row["message"], row["sign"], row["ts"]) for row in told] == [
        ("bob", 1, "+", 10),
        ("bob", 2, "+", 11),
    ]
    rejects = [json.loads(line) for path in (out / "rejects").iterdir() for line in path.read_text().splitlines()]
    assert sorted((Path(row["source"]).name, row["row"]) for row in rejects) == [
        ("m.csv", 4),
        ("s.jsonl", 2),
        ("s.jsonl", 3),
    ]
    assert run_main(words) == 0
    assert "nothing to do" in capfd.readouterr().out
