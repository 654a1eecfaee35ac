"""`nearcast serve` before anybody listens."""

from __future__ import annotations

import asyncio
import sys
import webbrowser
from collections.abc import Callable
from pathlib import Path

import pytest

from nearcast.cli import serve
from nearcast.server import run
from nearcast.server.service import Service


@pytest.mark.parametrize(("display", "expected"), [(":0", ["http://127.0.0.1:1"]), ("", [])])
def test_the_page_is_opened_where_there_is_a_screen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, display: str, expected: list[str]
) -> None:
    shown: list[str] = []

    def listens(service: Service, ready: Callable[[str], None]) -> None:
        ready("http://127.0.0.1:1")
        asyncio.run(service.stop())

    monkeypatch.setattr(run, "serve", listens)
    monkeypatch.setattr(webbrowser, "open", shown.append)
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    monkeypatch.setenv("DISPLAY", display)
    assert serve.main(["--data", str(tmp_path / "data"), "--open"]) == 0
    assert shown == expected
