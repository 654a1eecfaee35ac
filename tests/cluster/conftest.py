"""One Spark for all tests of the pipeline; those that need processes of their own start them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from nearcast.cluster.session import embedded_master, start_session


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """An embedded session with one worker, which every pipeline run in this process then shares."""
    folder: Path = tmp_path_factory.mktemp("spark")
    session = start_session(embedded_master(1), 1, folder)
    yield session
    session.stop()
