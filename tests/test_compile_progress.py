"""Who waits for kernels is told so, and nobody else."""

from __future__ import annotations

import importlib.util
import sys
from types import ModuleType
from typing import Any

import pytest

from nearcast import compile_progress
from nearcast.compile_progress import TEXT, CompileProgress


class ZMQInteractiveShell:
    """What Jupyter's kernels call theirs."""


def compile_two(new_bar: Any = None) -> CompileProgress:
    progress = CompileProgress(new_bar)
    for _ in range(2):
        progress.begin()
        progress.advance()
    progress.end()
    return progress


def notebook(monkeypatch: pytest.MonkeyPatch, with_widgets: bool) -> None:
    ipython = ModuleType("IPython")
    ipython.get_ipython = ZMQInteractiveShell  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    found: Any = importlib.util.find_spec("json") if with_widgets else None
    monkeypatch.setattr(compile_progress, "find_spec", lambda name: found)


def test_a_script_says_nothing(capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("INFO", "nearcast"):
        assert compile_two().n_compiled == 2
    assert caplog.messages == [TEXT]
    assert capfd.readouterr() == ("", "")


def test_a_notebook_without_widgets_gets_one_line(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    notebook(monkeypatch, with_widgets=False)
    compile_two()
    assert capfd.readouterr() == ("", f"{TEXT}\n")


def test_a_notebook_with_widgets_gets_a_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    notebook(monkeypatch, with_widgets=True)
    seen: list[Any] = []

    class Bar:
        def start(self) -> None:
            seen.append("start")

        def advance(self, task: int) -> None:
            seen.append(task)

        def stop(self) -> None:
            seen.append("stop")

    compile_two(Bar)
    assert seen == ["start", 0, 0, "stop"]
