"""What the page of the server shows runs; what the dashboard asks for is measured."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

import nearcast.server
from nearcast.client import Snapshot
from nearcast.server import schema
from nearcast.server.metrics import Metrics
from nearcast.server.problems import STATUSES
from nearcast.server.run import new_key
from server.serving import Process, Running, running, settings, wait

PAGE = (Path(__file__).parents[2] / "docs" / "server.md").read_text(encoding="utf-8")


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Running]:
    with running(tmp_path, space=(-180.0, -90.0, 180.0, 90.0), metric="haversine", clock="wall") as server:
        yield server


def test_the_lines_of_curl_run(server: Running) -> None:
    lines = [
        line for block in re.findall(r"```sh\n(.*?)```", PAGE, re.S) for line in block.splitlines() if "curl" in line
    ]
    assert len(lines) > 5
    for line in lines:
        here = line.replace("http://127.0.0.1:8787", server.address)
        done = subprocess.run(
            ["bash", "-o", "pipefail", "-c", here], capture_output=True, text=True, check=False, timeout=300
        )
        assert done.returncode == 0, (line, done.stdout, done.stderr)
        assert '"status":4' not in done.stdout or "results" in done.stdout, done.stdout


class Heard(Exception):
    """What the lines of Python printed first; they would print for ever."""


def test_the_lines_of_python_run(server: Running) -> None:
    (block,) = [block for block in re.findall(r"```python\n(.*?)```", PAGE, re.S) if "Client(" in block]

    def hear(change: object) -> None:
        raise Heard(change)

    with pytest.raises(Heard) as heard:
        exec(block.replace("http://127.0.0.1:8787", server.address), {"print": hear})
    (first,) = heard.value.args
    assert isinstance(first, Snapshot)
    assert not first.results


def test_every_address_and_code_is_on_the_page() -> None:
    for operation in schema.OPERATIONS:
        top = "/".join(operation.path.split("/")[:3])
        assert f"`{top}" in PAGE or f"{top}/..." in PAGE or top == "/v1/admin", operation.path
    for code in set(STATUSES) - {"broken-broker", "error"}:
        assert f"`{code}`" in PAGE, code
    for name in schema.asyncapi()["channels"]["ws"]["messages"]:
        assert f'"{name}"' in PAGE or name in ("updates", "pong", "quiet"), name


def test_the_dashboard_asks_for_what_is_measured() -> None:
    path = Path(nearcast.server.__file__).with_name("grafana.json")
    asked = set(re.findall(r"nearcast_\w+", json.dumps(json.loads(path.read_text()))))
    measured = {sample.name for family in Metrics().registry.collect() for sample in family.samples}
    measured |= {f"{family.name}{end}" for family in Metrics().registry.collect() for end in ("", "_total", "_bucket")}
    assert asked <= measured


@pytest.mark.slow
def test_the_demo_plays_and_a_key_is_made(tmp_path: Path) -> None:
    server = Process(tmp_path / "demo", "--demo")
    wait(lambda: httpx.get(f"{server.address}/v1/subscriptions", timeout=120).json()["subscriptions"])
    assert server.stop() == 0
    words = [sys.executable, "-m", "nearcast.cli.main", "serve", "--data"]
    assert new_key(settings(tmp_path / "keys"), ["admin"]).startswith("nc_")
    elsewhere = [*words, str(tmp_path / "x"), "--host", "0.0.0.0"]
    refused = subprocess.run(elsewhere, capture_output=True, text=True, check=False)
    assert (refused.returncode, "until there is a key" in refused.stderr) == (2, True)
