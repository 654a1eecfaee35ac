"""A server under load, killed at random moments; then what every client heard is compared with a plain broker.

    python tests/server/kill_and_compare.py --kills 50 --clients 100

Clients listen over WebSocket, server-sent events and webhooks, in equal parts, and resume by their cursors; others
publish and move subscriptions all the while. Segments are small, so that snapshots are written, used and killed in
between as well. At the end the whole log goes through one broker, row by row: every listener must have heard exactly
the updates of its subscriptions, each once and in order, and every acknowledged message must be in the log once.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import random
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import httpx

import nearcast as nc
from nearcast.model.codec import message_from_json
from nearcast.server.durable.log import replay, segments
from nearcast.server.durable.operations import decode
from nearcast.server.durable.recovery import snapshots
from server.judge import control
from server.kill_clients import Endpoint, HookListener, Listener, Publisher, SocketListener, StreamListener
from server.serving import Process

SPACE, COUNT = (0.0, 0.0, 10.0, 10.0), 60
WAIT_S = 300.0
CONFIG = f"""
space = {list(SPACE)}
metric = "euclidean"
window_count = {COUNT}
clock = "event"
heartbeat_s = 0.5
pending_bytes = 100_000_000
segment_bytes = 65_536
allow_private_webhooks = true
webhook_retries_s = [{", ".join(["0.2"] * 40)}]
"""
PLACE = {"lon": 5, "lat": 5}
QUERIES: list[dict[str, Any]] = [
    {"kind": "within", "region": [0, 0, 5, 5], "keywords": "tram AND NOT bus"},
    {"kind": "nearest", **PLACE, "keywords": "tram", "k": 3},
    {"kind": "topk", **PLACE, "keywords": "tram boat", "k": 3, "alpha": 0.5},
    {"kind": "similar", **PLACE, "keywords": "tram boat", "delta": 0.5, "tau": 0.6},
]


class Kept:
    """All segments that the log ever had: the server removes what its snapshots hold."""

    def __init__(self, data: Path) -> None:
        self._from = data / "log"
        self.folder = data / "kept" / "log"
        self.folder.mkdir(parents=True)

    def keep(self) -> None:
        """Link what is there; a segment that was made again under the same name is another file."""
        for _, path in segments(self._from):
            with contextlib.suppress(FileNotFoundError):
                own = self.folder / path.name
                if own.exists() and own.stat().st_ino != path.stat().st_ino:
                    own.unlink()
                if not own.exists():
                    os.link(path, own)

    async def watch(self) -> None:
        while True:
            self.keep()
            await asyncio.sleep(0.2)


async def until(holds: Callable[[], bool], what: str) -> None:
    """Wait for a condition."""
    end = time.monotonic() + WAIT_S
    while not holds():
        assert time.monotonic() < end, f"not within {WAIT_S:.0f} s: {what}"
        await asyncio.sleep(0.02)


class Trial:
    """One server, its clients, its kills."""

    def __init__(self, data: Path, seed: int, compiled: bool) -> None:
        self._data = data
        self._compiled = compiled
        self.rng = random.Random(seed)
        self.endpoint = Endpoint(seed)
        self.kept = Kept(data)
        config = data / "serve.toml"
        config.write_text(CONFIG)
        self._options = ("--config", str(config))
        self._process = Process(data, *self._options, compiled=compiled)
        self.address = self._process.address
        self.listeners: list[Listener] = []
        self.publishers: list[Publisher] = []
        self._tasks: list[asyncio.Task[None]] = []
        self.down_s: list[float] = []

    async def begin(self, n_clients: int, pause_s: float) -> None:
        """Subscribe, and set all clients to work."""
        await self.endpoint.start()
        ids = [f"s{number}" for number in range(12)]
        async with httpx.AsyncClient(base_url=self.address, timeout=WAIT_S) as http:
            for number, id in enumerate(ids):
                answer = await http.put(f"/v1/subscriptions/{id}", json=QUERIES[number % 4])
                start = answer.json()["cursor"]
            for number in range(n_clients):
                kind: Any = (SocketListener, StreamListener, HookListener)[number % 3]
                followed = self.rng.sample(ids, self.rng.randint(1, 4))
                listener = kind(self.address, followed, start)
                self.listeners.append(listener)
                if isinstance(listener, HookListener):
                    await self._hook(http, listener)
        movable = [id for number, id in enumerate(ids) if number % 4]
        self.publishers = [Publisher(tag, self.address, movable, pause_s) for tag in "abcd"]
        jobs = [*(each.run() for each in self.listeners), *(each.run() for each in self.publishers), self.kept.watch()]
        self._tasks = [asyncio.create_task(job) for job in jobs]

    async def _hook(self, http: httpx.AsyncClient, listener: HookListener) -> None:
        form = {"url": f"{self.endpoint.url}/{len(self.endpoint.listeners)}", "after": listener.cursor}
        self.endpoint.listeners.append(listener)
        answer = await http.post("/v1/webhooks", json={**form, "subscriptions": listener.ids})
        assert answer.status_code == 201, answer.text

    @property
    def n_acknowledged(self) -> int:
        """Messages that the server has promised to keep."""
        return sum(len(each.acknowledged) for each in self.publishers)

    async def kill(self, longest_s: float) -> None:
        """Let it work until some more is acknowledged, and a random time more; kill it; start it again."""
        enough = self.n_acknowledged + self.rng.randint(1, 60)
        await until(lambda: self.n_acknowledged >= enough or self.failed(), "messages are acknowledged")
        await asyncio.sleep(self.rng.random() ** 3 * longest_s)
        await asyncio.to_thread(self._process.kill)
        begun, port = time.monotonic(), self.address.rpartition(":")[2]
        options = (*self._options, "--port", port)
        self._process = await asyncio.to_thread(Process, self._data, *options, compiled=self._compiled)
        self.down_s.append(time.monotonic() - begun)

    def failed(self) -> bool:
        """Whether a client came upon something that must not be."""
        for task in self._tasks:
            if task.done() and not task.cancelled():
                task.result()
        if self.endpoint.failures:
            raise self.endpoint.failures[0]
        return False

    async def end(self) -> None:
        """Let publishers finish, and listeners hear the rest; then compare."""
        for each in self.publishers:
            each.stopped = True
        publishing = self._tasks[len(self.listeners) : len(self.listeners) + len(self.publishers)]
        await asyncio.gather(*publishing)
        self.kept.keep()
        expected, logged = judged(self.kept.folder)
        acknowledged = [id for each in self.publishers for id in each.acknowledged]
        assert sorted(logged) == sorted(acknowledged), "every acknowledged message is in the log, once"
        for listener in self.listeners:
            n = sum(len(expected[id]) for id in listener.ids)
            await until(lambda each=listener, n=n: self.failed() or len(each.rows) >= n, f"{listener} has heard all")
        async with httpx.AsyncClient(base_url=self.address, timeout=WAIT_S) as http:
            last = (await http.post("/v1/admin/drain")).json()["cursor"]
        pushed = [each for each in self.listeners if not isinstance(each, HookListener)]
        await until(lambda: all(each.cursor == last for each in pushed), "everybody was told that there is no more")
        for listener in self.listeners:
            for id in listener.ids:
                assert [row for row in listener.rows if row[0] == id] == expected[id], (listener, id)

    async def close(self) -> None:
        """Stop all that runs."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self.endpoint.stop()
        await asyncio.to_thread(self._process.stop)


def judged(log: Path) -> tuple[dict[str, list[list[Any]]], list[str]]:
    """What one broker tells every subscription, row by row of the log; and the ids of all messages."""
    broker = nc.Broker(nc.Space(SPACE, "euclidean"), nc.Window(count=COUNT))
    told: dict[str, list[list[Any]]] = {f"s{number}": [] for number in range(12)}
    ids: list[str] = []
    for _, payload in replay(log, 0):
        run = decode(payload)
        for row in run.content.to_pylist() if run.is_messages else run.content:
            if run.is_messages:
                ids.append(row["id"])
            updates = broker.publish(message_from_json(row)) if run.is_messages else control(broker, row)
            for each in updates:
                told[str(each.subscription)].append([each.subscription, each.sign, each.message, each.score, each.ts])
    return told, ids


async def compared(
    data: Path, kills: int, clients: int, seed: int = 1, compiled: bool = False, longest_s: float = 0.2
) -> Trial:
    """Live through all of it.

    Raises
    ------
    AssertionError
        If anything was lost, doubled or out of order.
    """
    trial = await asyncio.to_thread(Trial, data, seed, compiled)
    try:
        await trial.begin(clients, pause_s=0.005)
        for number in range(kills):
            await trial.kill(longest_s)
            print(f"kill {number + 1}: up again after {trial.down_s[-1]:.1f} s", file=sys.stderr, flush=True)
        await trial.end()
    finally:
        await trial.close()
    return trial


def main() -> None:
    """Tell what was compared, or fail."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--clients", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--compiled", action="store_true", help="with compiled kernels, which take longer to load")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder)
        trial = asyncio.run(compared(data, args.kills, args.clients, args.seed, args.compiled, longest_s=9.0))
        n_rows = sum(len(each.rows) for each in trial.listeners)
        again = sum(each.n_connections for each in trial.listeners)
        hooks = sum(each.n_requests for each in trial.endpoint.listeners)
        print(f"{args.kills} kills, {args.clients} clients, {len(snapshots(data))} snapshots are there")
        print(f"{trial.n_acknowledged:,} messages acknowledged, {n_rows:,} updates heard")
        print(f"over {again:,} connections and {hooks:,} requests to webhooks; nothing lost, doubled or out of order")


if __name__ == "__main__":
    main()
