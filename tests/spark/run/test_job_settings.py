"""Checkpoints of runs that cannot be resumed are refused in a sentence."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from nearcast.errors import InvalidInput, SetupError
from nearcast.spark.run.files import Input
from nearcast.spark.run.job import Options, cause
from nearcast.spark.run.job_settings import VERSION, Settings, settle
from nearcast.spark.run.totals import Record


def settled(folder: Path, **others: int) -> int:
    """The number of shards of a run."""
    options = Options((Input("m.jsonl", "messages"),), folder / "out", **others)  # type: ignore[arg-type]
    with settle(folder / "checkpoint", options) as settings:
        return settings.n_shards


def test_a_checkpoint_keeps_its_shards_unless_told_otherwise(tmp_path: Path) -> None:
    assert [settled(tmp_path, shards=3), settled(tmp_path), settled(tmp_path, shards=2)] == [3, 3, 2]


def test_one_run_at_a_time(tmp_path: Path) -> None:
    with (
        settle(tmp_path, Options((), tmp_path / "out")),
        pytest.raises(InvalidInput, match="is in use by another run"),
        settle(tmp_path, Options((), tmp_path / "out")),
    ):
        pass


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("{", r"checkpoint has a run\.json that is damaged: put it back"),
        ("[]", "is damaged: put it back from a copy, or name another --out"),
        (json.dumps({"version": VERSION - 1}), f"was made by another version of Nearcast .format {VERSION - 1}"),
    ],
)
def test_checkpoints_that_cannot_be_read_are_named(tmp_path: Path, content: str, said: str) -> None:
    settled(tmp_path)
    (tmp_path / "checkpoint" / "run.json").write_text(content)
    with pytest.raises(InvalidInput, match=said):
        settled(tmp_path)


def test_updates_without_their_checkpoint_are_not_added_to(tmp_path: Path) -> None:
    (tmp_path / "out" / "updates").mkdir(parents=True)
    (tmp_path / "out" / "updates" / "part-1").touch()
    with pytest.raises(InvalidInput, match="must be an empty folder, or have the checkpoint"):
        settled(tmp_path)


@pytest.mark.parametrize("damage", [b"", b"{", b"\x00\xff" * 40, b'{"counts": {}}'])
def test_totals_and_weights_that_are_damaged_are_named(tmp_path: Path, damage: bytes) -> None:
    Record(tmp_path).add(0, [])
    (tmp_path / "0.json").write_bytes(damage)
    with pytest.raises(SetupError, match=r"0\.json is damaged .* another --out"):
        Record(tmp_path).last()
    (tmp_path / "weights.arrow").write_bytes(damage)
    options = Options((), tmp_path / "out", corpus=(Input("c.jsonl", "corpus"),))
    with pytest.raises(InvalidInput, match=r"has a weights\.arrow that is damaged"):
        Settings(1, 1).weights(None, options, tmp_path / "weights.arrow")  # type: ignore[arg-type]


OURS = "nearcast.errors.SetupError: a is not there"
STOPPED = "[STREAM_FAILED] Query [id = 1] terminated with exception: no worker. SQLSTATE: XXKST"


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (["x: y", OURS, "ValueError: b"], OURS),
        (
            ["py4j.protocol.Py4JJavaError: an error", "\tat x", "Caused by: java.io.IOException: cut"],
            "IOException: cut",
        ),
        ([STOPPED, "Thread State: RUNNABLE"], "no worker."),
        ([], "no reason given"),
    ],
)
def test_the_line_that_says_what_went_wrong_is_told(lines: list[str], said: str) -> None:
    assert cause("\n".join(lines)).endswith(said)
