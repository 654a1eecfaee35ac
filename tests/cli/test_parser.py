"""A mistake on the command line gets two lines; `nearcast cache` tells of compiled kernels and removes them."""

from __future__ import annotations

from pathlib import Path

import pytest

from nearcast.cli.main import main
from nearcast.spark.run.file_rows import SUBSCRIPTIONS, IdTypes, Rows


@pytest.mark.parametrize(
    ("words", "wrong", "meant"),
    [
        (["cahce"], "nearcast: error: invalid choice: 'cahce'", "did you mean cache?"),
        (["xyz"], "nearcast: error: invalid choice: 'xyz'", "nearcast --help tells"),
        (["cache", "--claer"], "nearcast cache: error: unrecognized arguments: --claer", "did you mean --clear?"),
        (["warm", "--kind", "neerest"], "invalid choice: 'neerest'", "did you mean nearest?"),
    ],
)
def test_a_mistake_gets_two_lines(words: list[str], wrong: str, meant: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert ended.value.code == 2
    first, second = capsys.readouterr().err.splitlines()
    assert wrong in first
    assert second.startswith(meant)


def test_the_cache_is_told_of_and_cleared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("nearcast.cli.cache.kernel_folder", lambda: tmp_path / "kernels")
    (tmp_path / "kernels" / "inner").mkdir(parents=True)
    (tmp_path / "kernels" / "inner" / "a.nbc").write_bytes(bytes(500_000))
    assert main(["cache"]) == 0
    assert main(["cache", "--clear"]) == 0
    assert main(["cache", "--clear"]) == 0
    folder = tmp_path / "kernels"
    assert capsys.readouterr().out.splitlines() == [
        f"{folder}: 1 files, 0.5 MB",
        f"{folder}: 1 files, 0.5 MB, removed",
        f"{folder}: 0 files, 0.0 MB, removed",
    ]
    assert not folder.exists()


def test_messages_given_as_subscriptions_are_named() -> None:
    rows = Rows("posts.jsonl", SUBSCRIPTIONS, IdTypes())
    rows.add(1, None, {"id": "1", "lon": 1, "lat": 1, "text": "fire", "ts": 1})
    (row,) = rows.table().to_pylist()
    reason = "kind is required: this is a message, not a subscription, got None"
    assert row["refused"] == {"field": "kind", "reason": reason}


def test_a_file_of_messages_given_as_subscriptions_is_one_error(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "posts.jsonl"
    path.write_text('{"id": 1, "lon": 1, "lat": 1, "text": "fire", "ts": 1}\n' * 3)
    assert main(["run", "--subscriptions", str(path), "--out", str(tmp_path / "out")]) == 2
    (line,) = capfd.readouterr().err.splitlines()
    assert line.startswith("nearcast run: error: subscriptions must hold subscriptions, each with a kind; it holds")
    assert not (tmp_path / "out").exists()
