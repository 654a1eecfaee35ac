"""A real process, killed again and again under load: nothing that was acknowledged is lost, nothing is told twice."""

from __future__ import annotations

import json
import random
import threading
import time
from pathlib import Path
from typing import Any

import httpx
import pytest
import websockets.sync.client as sockets
from websockets.exceptions import WebSocketException

from nearcast.server.durable.log import replay
from nearcast.server.durable.operations import decode
from server.serving import NEAREST, WITHIN, Process

OPTIONS = ("--space", "0,0,10,10", "--metric", "euclidean", "--window-count", "30", "--clock", "event")
KILLS = 3


class Publisher(threading.Thread):
    """Posts messages one after another; what was not answered is sent again under the same key."""

    def __init__(self, name: str) -> None:
        super().__init__(daemon=True)
        self.tag = name
        self.address = ""
        self.acknowledged: list[str] = []
        self.stopped = False

    def run(self) -> None:
        number = 0
        client = httpx.Client(timeout=5)  # one for all: each has to read certificates
        while not self.stopped:
            rng = random.Random(f"{self.tag}{number}")
            body = {
                "id": f"{self.tag}{number}",
                "lon": rng.randint(0, 9),
                "lat": 1,
                "text": rng.choice(["tram", "bus tram"]),
            }
            try:
                key = {"Idempotency-Key": f"{self.tag}-{number}"}
                answer = client.post(f"{self.address}/v1/messages", json=body, headers=key)
            except httpx.HTTPError:
                time.sleep(0.02)
                continue
            assert answer.status_code == 202, answer.text
            self.acknowledged.append(body["id"])
            number += 1
        client.close()


class Listener(threading.Thread):
    """Follows two subscriptions and resumes by its cursor after every break."""

    def __init__(self, cursor: str) -> None:
        super().__init__(daemon=True)
        self.address = ""
        self.cursor = cursor
        self.rows: list[Any] = []
        self.stopped = False

    def run(self) -> None:
        while not self.stopped:
            try:
                self._listen()
            except (OSError, WebSocketException, TimeoutError):
                time.sleep(0.02)

    def _listen(self) -> None:
        with sockets.connect(self.address.replace("http", "ws") + "/v1/ws", open_timeout=2) as socket:
            socket.send(json.dumps({"hello": 1}))
            socket.send(json.dumps({"attach": ["ann", "bob"], "after": self.cursor}))
            while not self.stopped:
                frame = json.loads(socket.recv(timeout=0.5))
                assert "error" not in frame, frame
                if "u" in frame:
                    self.rows += frame["u"]
                    self.cursor = frame["c"]
                self.cursor = frame.get("progress", self.cursor)


def wait_for(publishers: list[Publisher], more: int) -> None:
    """Until that many more messages were acknowledged."""
    enough = sum(len(each.acknowledged) for each in publishers) + more
    until = time.monotonic() + 60
    while sum(len(each.acknowledged) for each in publishers) < enough:
        assert time.monotonic() < until
        time.sleep(0.005)


@pytest.mark.slow
def test_kill_9_loses_nothing_and_tells_nothing_twice(tmp_path: Path) -> None:
    server = Process(tmp_path, *OPTIONS)
    httpx.put(f"{server.address}/v1/subscriptions/ann", json=NEAREST)
    start = httpx.put(f"{server.address}/v1/subscriptions/bob", json=WITHIN).json()["cursor"]
    publishers, listeners = [Publisher("p"), Publisher("q")], [Listener(start), Listener(start)]
    threads: list[Publisher | Listener] = [*publishers, *listeners]
    for thread in threads:
        thread.address = server.address
        thread.start()
    rng = random.Random(3)
    for _ in range(KILLS):
        wait_for(publishers, 8)
        time.sleep(rng.random() / 20)
        server.kill()
        server = Process(tmp_path, *OPTIONS)
        for thread in threads:
            thread.address = server.address
    wait_for(publishers, 8)
    for thread in publishers:
        thread.stopped = True
        thread.join(10)
    last = httpx.post(f"{server.address}/v1/admin/drain").json()["cursor"]
    told: list[Any] = []
    for id in ("ann", "bob"):
        rows = httpx.get(f"{server.address}/v1/subscriptions/{id}/updates?limit=100000", params={"after": start}).json()
        assert rows["c"] == last
        told += rows["u"]
    until = time.monotonic() + 10
    while any(len(each.rows) < len(told) for each in listeners) and time.monotonic() < until:
        time.sleep(0.05)
    time.sleep(0.2)
    for thread in threads:
        thread.stopped = True
        thread.join(10)
    acknowledged = publishers[0].acknowledged + publishers[1].acknowledged
    assert len(acknowledged) >= 8 * (KILLS + 1)
    heard = [row[2] for row in told if row[0] == "bob" and row[1] == "+"]
    assert len(heard) == len(set(heard))
    assert {row["id"] for row in _log(tmp_path)} == set(acknowledged)
    assert set(heard) <= set(acknowledged)
    for each in listeners:
        assert len(each.rows) == len(told)
        for id in ("ann", "bob"):
            assert [row for row in each.rows if row[0] == id] == [row for row in told if row[0] == id]
    assert server.stop() == 0


def _log(data: Path) -> list[dict[str, Any]]:
    runs = [decode(payload) for _, payload in replay(data / "log", 0)]
    rows = [row for run in runs if run.is_messages for row in run.content.to_pylist()]
    assert len(rows) == len({row["id"] for row in rows})
    return rows
