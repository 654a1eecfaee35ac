"""Who waits for long work is told how far it is, and nobody else; and it changes nothing."""

from __future__ import annotations

import os
import pty
import select
import subprocess
import sys
from collections.abc import Iterator
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import nearcast as nc
from nearcast import work_progress
from nearcast.broker import in_turn
from nearcast.work_progress import watch

SPACE = nc.Space((0, 0, 16, 16), "euclidean")
WORDS = ("ramen", "sushi", "fire", "smoke")


def subscriptions(n: int = 40) -> pa.Table:
    rng = np.random.default_rng(3)
    rows: list[dict[str, Any]] = []
    for i in range(n):
        row: dict[str, Any] = {
            "id": i,
            "kind": ("within", "nearest", "topk", "similar")[i % 4],
            "keywords": WORDS[i % 3],
        }
        if i % 4 == 0:
            row |= {"min_lon": 0.0, "min_lat": 0.0, "max_lon": 9.0, "max_lat": 9.0}
        else:
            row |= {"lon": float(rng.integers(16)), "lat": float(rng.integers(16)), "backfill": bool(i % 5)}
        if i % 4 == 3:
            row |= {"delta": 0.5, "tau": 0.4}
        rows.append(row)
    rows[7]["keywords"] = None
    names = dict.fromkeys(name for row in rows for name in row)
    return pa.table({name: [row.get(name) for row in rows] for name in names})


def messages(n: int = 60) -> pa.Table:
    rng = np.random.default_rng(5)
    columns: dict[str, Any] = {
        "id": np.arange(n),
        "lon": rng.integers(0, 16, n).astype(float),
        "lat": rng.integers(0, 16, n).astype(float),
        "text": [" ".join(rng.choice(WORDS, 2)) for _ in range(n)],
        "ts": np.arange(n),
    }
    columns["lon"][17:18] = np.nan
    columns["id"][30:31] = 29
    return pa.table(columns)


@pytest.fixture
def small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nearcast.broker.broker.CHUNK", 8)
    monkeypatch.setattr(in_turn, "PIECE", 3)


def run(progress: Any) -> tuple[list[Any], nc.Broker]:
    broker = nc.Broker(SPACE, nc.Window(count=25))
    told = [broker.publish(messages(), progress=progress)]
    told.append(broker.subscribe_many(subscriptions(), progress=progress))
    told.append(broker.publish(messages().set_column(0, "id", pa.array(np.arange(100, 160))), progress=progress))
    columns = [
        (one.to_arrow().to_pylist(), one.event.tolist(), one.sequence.tolist(), one.rejects, one.late) for one in told
    ]
    return columns, broker


def test_the_steps_of_work_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    whole, _ = run(None)
    monkeypatch.setattr("nearcast.broker.broker.CHUNK", 8)
    monkeypatch.setattr(in_turn, "PIECE", 3)
    calls: list[tuple[int, int | None]] = []
    in_steps, broker = run(lambda done, total: calls.append((done, total)))
    assert in_steps == whole
    assert len(whole[1][0]) > 20
    broker.check()
    first = calls[: next(at for at, (done, _) in enumerate(calls) if done == 60) + 1]
    assert [done for done, _ in first] == [8, 16, 24, 32, 40, 48, 56, 59, 60], "a row that was refused is done too"
    assert {total for _, total in calls} == {60, 40}
    assert len(calls) > 25


@pytest.mark.usefixtures("small_steps")
def test_every_way_of_giving_rows_is_counted() -> None:
    rows = messages(20).to_pylist()
    polars, pandas = pytest.importorskip("polars"), pytest.importorskip("pandas")
    given: list[tuple[Any, int | None]] = [
        (rows, 20), (tuple(rows), 20), (messages(20), 20), (messages(20).to_batches()[0], 20),
        (pandas.DataFrame(rows), 20), (polars.DataFrame(rows), 20), (iter(rows), None),
        (messages(20).to_reader(6), None),
    ]  # fmt: skip
    for source, total in given:
        calls: list[tuple[int, int | None]] = []
        broker = nc.Broker(SPACE, nc.Window(count=25))
        broker.publish(source, progress=lambda done, total, calls=calls: calls.append((done, total)))
        assert calls[-1] == (20 if total or hasattr(source, "read_next_batch") else 19, total)
        assert calls == sorted(calls)


@pytest.mark.usefixtures("small_steps")
def test_what_a_callback_raises_is_raised_when_the_batch_is_whole() -> None:
    broker = nc.Broker(SPACE, nc.Window(count=100))
    seen: list[int] = []

    def stop(done: int, total: int | None) -> None:
        seen.append(done)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        broker.publish(messages(), progress=stop)
    assert seen == [8], "it is not called again"
    assert broker.stats()["messages"]["live"] == 58
    with pytest.raises(KeyboardInterrupt):
        broker.subscribe_many(subscriptions(), progress=stop)
    assert len(broker.subscriptions()) == 39

    def nested(done: int, total: int | None) -> None:
        broker.results(0)

    with pytest.raises(nc.NestedCall):
        broker.publish([nc.Message("late", 1, 1, "fire")], progress=nested)
    broker.check()


def test_a_stream_ends_with_the_part_whose_callback_raised() -> None:
    broker = nc.Broker(SPACE, nc.Window(count=100))

    def stop(done: int, total: int | None) -> None:
        raise ValueError("enough")

    with pytest.raises(ValueError, match="enough"):
        broker.publish(messages().slice(0, 16).to_reader(5), progress=stop)
    assert broker.stats()["messages"]["live"] == 5


def test_progress_that_is_none_is_refused() -> None:
    broker = nc.Broker(SPACE)
    for progress in (True, 5, "yes"):
        with pytest.raises(nc.InvalidInput, match="progress must be None, False or a function of"):
            broker.publish([], progress=progress)  # type: ignore[arg-type]
    assert broker.stats()["messages"]["live"] == 0


def test_backtests_are_told_of() -> None:
    calls: list[tuple[int, int | None]] = []
    nc.backtest(
        [("ann", nc.Within(nc.Box(0, 0, 9, 9), "fire"))],
        messages(20),
        space=SPACE,
        progress=lambda done, total: calls.append((done, total)),
    )
    assert calls[-1] == (20, 20)


class ZMQInteractiveShell:
    """What Jupyter's kernels call theirs."""


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """What a notebook shows: every piece of HTML that was there."""
    pieces: list[str] = []

    def put(data: dict[str, str], **kwargs: Any) -> Any:
        pieces.append(data["text/html"])
        return SimpleNamespace(update=put)

    ipython = ModuleType("IPython")
    ipython.get_ipython = ZMQInteractiveShell  # type: ignore[attr-defined]
    ipython.display = SimpleNamespace(display=put)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    monkeypatch.setattr(work_progress, "AFTER_S", 0.0)
    monkeypatch.setattr(work_progress, "EVERY_S", 0.0)
    monkeypatch.setattr(work_progress, "LARGE", 10)
    yield pieces
    assert work_progress.watch("again", None, 5).total == 5


@pytest.mark.usefixtures("small_steps")
def test_a_notebook_gets_a_bar_that_goes(shown: list[str]) -> None:
    broker = nc.Broker(SPACE, nc.Window(count=100))
    broker.publish(messages())
    assert len(shown) == 10
    assert shown[0] == '<div>messages <progress value="8" max="60"></progress> 8 of 60</div>'
    assert shown[-2] == '<div>messages <progress value="60" max="60"></progress> 60 of 60</div>'
    assert shown[-1] == ""
    shown.clear()
    broker.publish(messages(), progress=False)
    broker.publish(messages(9))
    assert shown == []
    broker.publish(iter(messages(20).to_pylist()))
    assert shown[0] == "<div>messages <progress></progress> 8</div>"


def test_a_bar_tells_of_kernels_that_are_being_compiled(shown: list[str]) -> None:
    work = watch("publish", None, 100)
    work.add(1)
    other = watch("other", None, 100)
    other.add(50)
    work_progress.PROGRESS.begin()
    work_progress.PROGRESS.advance()
    work.end()
    other.end()
    assert [piece.partition(" <")[0] for piece in shown] == [
        "<div>publish", "<div>publish: compiling kernels, once, about a minute", "<div>publish", "",
    ]  # fmt: skip


def test_a_bar_that_cannot_be_drawn_is_given_up(shown: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*args: Any, **kwargs: Any) -> Any:
        raise OSError("gone")

    monkeypatch.setattr(sys.modules["IPython"], "display", SimpleNamespace(display=broken))
    broker = nc.Broker(SPACE, nc.Window(count=100))
    assert len(broker.publish(messages()).rejects) == 2
    broker.check()


SCRIPT = """
import numpy as np, nearcast as nc
from nearcast import work_progress
work_progress.AFTER_S = 0.0
work_progress.LARGE = 10
work = work_progress.watch("messages", None, 1000)
for _ in range(10): work.add(100)
work.end()
print("done")
"""


def test_a_pipe_gets_nothing() -> None:
    done = subprocess.run([sys.executable, "-W", "error", "-c", SCRIPT], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("done\n", "")


def test_a_terminal_gets_a_bar_on_standard_error() -> None:
    ours, theirs = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "100"}
    running = subprocess.Popen(
        [sys.executable, "-W", "error", "-c", SCRIPT], stdout=subprocess.PIPE, stderr=theirs, env=environment
    )
    os.close(theirs)
    shown = b""
    while select.select([ours], [], [], 60)[0]:
        try:
            piece = os.read(ours, 4096)
        except OSError:  # the other end was closed
            break
        if not piece:
            break
        shown += piece
    out, _ = running.communicate(timeout=60)
    os.close(ours)
    assert out == b"done\n"
    assert b"messages" in shown
    assert b"1000/1000" in shown
