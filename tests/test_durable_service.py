"""The example of a durable service: what was answered is there again, whenever the process ended."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest

import nearcast as nc

EXAMPLE = Path(__file__).parents[1] / "examples" / "durable_service.py"
SPACE = nc.Space((13.0, 52.3, 13.8, 52.7))
WINDOW = nc.Window(count=5)
ANN = {"id": "ann", "kind": "nearest", "lon": 13.4, "lat": 52.5, "keywords": "ramen", "k": 3}


@pytest.fixture
def durable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    for name in ("fastapi", "httpx", "uvicorn"):
        pytest.importorskip(name)
    (tmp_path / "app").mkdir()
    monkeypatch.setenv("NEARCAST_FOLDER", str(tmp_path / "app"))
    spec = importlib.util.spec_from_file_location("durable_service", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def message(number: int) -> dict[str, Any]:
    return {"id": number, "lon": 13.4 + number / 1000, "lat": 52.5, "text": "ramen", "ts": number}


@pytest.mark.parametrize("snapshot_after", [0, 3, 9, None])
def test_a_service_goes_on_where_it_was(durable: Any, tmp_path: Path, snapshot_after: int | None) -> None:
    plain = nc.Broker(SPACE, WINDOW)
    plain.subscribe_many([ANN])
    first = durable.DurableBroker(tmp_path, SPACE, WINDOW)
    first.take({"event": "subscribe", "subscription": ANN})
    with pytest.raises(nc.InvalidInput):
        first.take({"event": "subscribe", "subscription": ANN})
    for number in range(9):
        if number == snapshot_after:
            first.snapshot()
        first.take({"event": "publish", "message": message(number)})
        plain.publish(message(number))
    if snapshot_after == 9:
        first.snapshot()
    with open(tmp_path / "events.jsonl", "ab") as log:
        log.write(b'{"event": "publ')  # the process ended here
    for number in (9, 10):
        again = durable.DurableBroker(tmp_path, SPACE, WINDOW)
        assert again.broker.results("ann") == plain.results("ann")
        updates = again.take({"event": "publish", "message": message(number)})
        assert list(updates) == list(plain.publish(message(number)))
    assert len(list(tmp_path.glob("*.snapshot"))) == (snapshot_after is not None)
