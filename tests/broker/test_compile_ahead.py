"""A second process compiles ahead, where it can; where it cannot, nothing is different."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from nearcast.broker import compile_ahead
from nearcast.broker.compile_ahead import CompileAhead, claim, finish
from nearcast.compile_progress import PROGRESS
from nearcast.kernel_cache import kernel_folder
from nearcast.model.kinds import Kind
from nearcast.space.space import Space
from nearcast.window.window import Window

SPACE, WINDOW = Space((0, 0, 1, 1), "euclidean"), Window(count=5)


class Process:
    """Stands in for the second process."""

    started: tuple[list[str], dict[str, str]] | None = None

    def __init__(self, command: list[str], **options: object) -> None:
        Process.started = (command, options["env"])
        self.stdin = self
        self.told = b""
        self.code: int | None = None

    def write(self, line: bytes) -> None:
        self.told += line

    def flush(self) -> None:
        """Nothing is kept back."""

    def poll(self) -> int | None:
        return self.code

    def kill(self) -> None:
        self.code = -9

    def communicate(self) -> None:
        """It is over."""


@pytest.fixture
def ahead(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> CompileAhead:
    """None is started so far, kernels had to be compiled, and there are two cores."""
    monkeypatch.setenv("NEARCAST_CACHE", str(tmp_path))
    kernel_folder().mkdir(parents=True)
    monkeypatch.setattr(PROGRESS, "n_compiled", 3)
    monkeypatch.setattr("numba.config.NUMBA_NUM_THREADS", 2)
    monkeypatch.setattr(subprocess, "Popen", Process)
    Process.started = None
    return CompileAhead()


def rows(*modes: int) -> object:
    return {"mode": list(modes)}


def test_each_sort_of_subscription_is_told_once_and_compiled_by_one(
    ahead: CompileAhead, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compile_ahead, "WAIT_S", 3600)
    ahead.begin(SPACE, WINDOW)
    assert ahead.running
    assert Process.started is not None
    assert Process.started[0][:4] == [sys.executable, "-P", "-m", "nearcast.broker.warm"]
    assert Process.started[1]["NUMBA_NUM_THREADS"] == "1"  # so that it starts none itself
    ahead.tell(Kind.NEAREST, rows(1, 0, 1))
    ahead.tell(Kind.NEAREST, rows(0))
    ahead.tell(Kind.WITHIN, rows())
    assert ahead.process.told == b"nearest-all\nnearest-any\nwithin\n"
    ahead.wait(Kind.WITHIN)  # which is free
    assert not claim(ahead.folder, "within")
    assert claim(ahead.folder, "nearest-all")
    finish(ahead.folder, "nearest-all")
    ahead.wait(Kind.NEAREST)  # one is finished, one is free
    assert not claim(ahead.folder, "nearest-any")
    assert list(ahead.in_turn({Kind.WITHIN: "tree"}, publishes=False)) == [(Kind.WITHIN, "tree")]
    assert ahead.running  # and nobody waits for what the caller took on itself
    assert list(ahead.in_turn({Kind.WITHIN: "tree"}, publishes=True)) == [(Kind.WITHIN, "tree")]
    assert not ahead.running
    assert not ahead.folder.exists()
    ahead.end()  # which has nothing left to do
    ahead.begin(SPACE, None)
    assert not ahead.running


PROGRAM = """
import nearcast as nc
from nearcast.broker.compile_ahead import COMPILE_AHEAD
from nearcast.compile_progress import PROGRESS
broker = nc.Broker(nc.Space((0, 0, 9, 9), "euclidean"), nc.Window(count=9))
broker.subscribe("near", nc.Nearest(1, 1, "a", k=1))
updates = broker.publish([nc.Message(n, n, n, "a", ts=n) for n in (3, 2)])
print(*((u.subscription + u.sign, u.message) for u in updates))
print(COMPILE_AHEAD.process.poll(), PROGRESS.n_compiled)
"""


@pytest.mark.slow
@pytest.mark.skipif(os.environ.get("NUMBA_DISABLE_JIT", "0") != "0", reason="kernels are not compiled")
@pytest.mark.skipif((os.cpu_count() or 1) < 2, reason="there is one core")
def test_a_caller_finds_what_was_compiled_ahead(tmp_path: Path) -> None:
    """It has the answers, less to compile than there is, and no second process after its first publish."""
    environment = {**os.environ, "NEARCAST_CACHE": str(tmp_path), "NUMBA_NUM_THREADS": "2"}
    done = subprocess.run([sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    updates, end = done.stdout.splitlines()
    assert updates == "('near+', 3) ('near-', 3) ('near+', 2)"
    code, n_compiled = end.split()
    assert int(code) == -signal.SIGKILL
    assert int(n_compiled) < len(list(tmp_path.rglob("*.nbc")))


def test_nobody_waits_for_a_process_that_is_gone(ahead: CompileAhead) -> None:
    ahead.begin(SPACE, WINDOW)
    ahead.tell(Kind.TOPK, rows())
    assert claim(ahead.folder, "topk")
    ahead.process.kill()
    ahead.wait(Kind.TOPK)
    ahead.end()


def test_there_is_none_without_need(ahead: CompileAhead, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PROGRESS, "n_compiled", 0)
    ahead.begin(SPACE, WINDOW)
    assert not ahead.running
    assert Process.started is None


@pytest.mark.parametrize("case", ["one core", "frozen", "embedded", "read-only"])
def test_there_is_none_where_it_could_not_help(case: str, ahead: CompileAhead, monkeypatch: pytest.MonkeyPatch) -> None:
    if case == "one core":
        monkeypatch.setattr("numba.config.NUMBA_NUM_THREADS", 1)
    elif case == "frozen":
        monkeypatch.setattr(sys, "frozen", True, raising=False)
    elif case == "embedded":
        monkeypatch.setattr(sys, "executable", "/usr/bin/map-editor")
    else:
        monkeypatch.setattr(os, "access", lambda folder, mode: mode != os.W_OK)
    ahead.begin(SPACE, WINDOW)
    ahead.tell(Kind.WITHIN, rows())
    ahead.wait(Kind.WITHIN)
    assert list(ahead.in_turn({Kind.WITHIN: "tree"}, publishes=True)) == [(Kind.WITHIN, "tree")]
    assert Process.started is None


def test_a_process_that_cannot_be_started_is_done_without(ahead: CompileAhead, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object, **__: object) -> None:
        raise PermissionError("no processes here")

    monkeypatch.setattr(subprocess, "Popen", refused)
    ahead.begin(SPACE, WINDOW)
    assert not ahead.running


def test_a_fork_leaves_it_alone(ahead: CompileAhead, monkeypatch: pytest.MonkeyPatch) -> None:
    ahead.begin(SPACE, WINDOW)
    with monkeypatch.context() as fork:
        fork.setattr(compile_ahead.os, "getpid", lambda: -1)
        assert not ahead.running
        ahead.end()
    assert ahead.process.code is None
    ahead.end()
    assert ahead.process.code == -9
