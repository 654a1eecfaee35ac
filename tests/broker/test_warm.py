"""Compiling ahead in another process: it ends with the one that started it, and what is compiled is noted."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from nearcast.broker import warm
from nearcast.kernel_cache import kernel_folder


def test_who_compiles_for_another_ends_with_it(tmp_path: Path) -> None:
    code = "from nearcast.broker.warm import compile_all; compile_all()"
    environment = {**os.environ, "NEARCAST_CACHE": str(tmp_path)}
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, env=environment) as process:
        assert process.stdin is not None
        process.stdin.close()
        assert process.wait(timeout=120) == 1
    assert not list(tmp_path.glob("*/warm-*"))


def test_what_is_compiled_is_noted_by_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NEARCAST_CACHE", str(tmp_path))
    warm.note_compiled()
    assert not warm.are_compiled()  # nothing is noted where nothing is kept
    kernel_folder().mkdir()
    warm.note_compiled()
    assert warm.are_compiled()
    monkeypatch.setattr(warm, "module_digest", lambda _: "another")
    assert not warm.are_compiled()
