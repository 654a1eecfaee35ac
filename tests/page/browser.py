"""A page as a browser leaves it, and the data inside."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
CHROMIUM = next((found for name in BROWSERS if (found := shutil.which(name))), "")
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--virtual-time-budget=5000",
    "--window-size=1280,800",
)


def embedded(path: Path) -> dict[str, Any]:
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', path.read_text("utf-8"), re.DOTALL)
    assert found is not None
    data: dict[str, Any] = json.loads(found.group(1))
    return data


def dom(path: Path, folder: Path, anchor: str = "") -> str:
    """The page as a browser leaves it after running its script."""
    if not CHROMIUM:
        pytest.skip(f"none of {', '.join(BROWSERS)} is installed")
    command = [CHROMIUM, *FLAGS, f"--user-data-dir={folder / 'profile'}", "--dump-dom", f"{path.as_uri()}#{anchor}"]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout
