"""A real process, killed again and again under load: nothing that was acknowledged is lost, nothing is told twice."""

from __future__ import annotations

from pathlib import Path

import pytest

from server.kill_and_compare import compared
from server.kill_clients import HookListener


@pytest.mark.slow
async def test_kill_9_loses_nothing_and_tells_nothing_twice(tmp_path: Path) -> None:
    trial = await compared(tmp_path, kills=3, clients=9)
    assert trial.n_acknowledged > 20
    for each in trial.listeners:
        assert each.rows
        assert isinstance(each, HookListener) or each.n_connections > 1
