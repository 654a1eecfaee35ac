"""Masters that are there, and masters that are not."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from nearcast.errors import SetupError
from nearcast.spark.session.master import check_master
from nearcast.spark.session.session import start_session


@pytest.fixture
def port() -> Iterator[int]:
    """A port at which somebody answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


@pytest.fixture
def closed() -> int:
    """A port at which nobody does."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        number: int = server.getsockname()[1]
    return number


@pytest.mark.parametrize("master", ["local", "local[2,8]", "local-cluster[2,1,1024]", "yarn", "spark://", "what?"])
def test_masters_without_an_address_are_not_asked(master: str) -> None:
    check_master(master)


def test_one_address_that_answers_is_enough(port: int, closed: int) -> None:
    check_master(f"spark://127.0.0.1:{port}")
    check_master(f"spark://127.0.0.1:{closed},127.0.0.1:{port}")
    check_master(f"sc://127.0.0.1:{port}/;user_id=ann")
    check_master(f"k8s://https://127.0.0.1:{port}")


def test_the_reason_is_told_at_once(closed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pyspark.sql.SparkSession.getActiveSession", lambda: None)  # other tests have one
    master = f"spark://127.0.0.1:{closed}"
    began = time.monotonic()
    with pytest.raises(SetupError) as refused:
        start_session(master, 1, tmp_path)
    assert str(refused.value) == (
        f"the Spark master {master} cannot be reached (127.0.0.1:{closed}: Connection refused)"
    )
    assert time.monotonic() - began < 10
    assert list(tmp_path.iterdir()) == [], "before anything is written or started"


def test_silence_is_waited_for_so_long_only(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []

    def connect(place: Any, timeout: float) -> Any:
        asked.append(place)
        time.sleep(2)
        raise OSError("too late")

    monkeypatch.setattr(socket, "create_connection", connect)
    with pytest.raises(SetupError, match=r"\(nowhere:7077: no answer in 0.1 s; \[?::1\]?:5: no answer in 0.1 s\)"):
        check_master("spark://nowhere,[::1]:5", patience_s=0.1)
    assert sorted(asked) == [("::1", 5), ("nowhere", 7077)]


def test_names_that_are_none() -> None:
    with pytest.raises(SetupError, match="cannot be reached"):
        check_master("spark://" + "x" * 70 + ".invalid:7077")
