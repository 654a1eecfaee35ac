"""What is measured; each case gives figures by name."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from bench.serve.server import KIND, Server, messages, subscribe
from bench.serve.trace import trace
from bench.serve.wire import Http, Receiver, Socket, connect

Figures = dict[str, Any]
WINDOW = ("--window-count", "50000")
EVERY_MESSAGE = {"kind": "similar", "lon": 0.5, "lat": 0.5, "keywords": "any", "delta": 0, "tau": 0}


class Heard:
    """What sockets heard: frames, rows, and the last cursor."""

    def __init__(self) -> None:
        self.frames = self.rows = self.bytes = 0

    def __call__(self, frame: memoryview) -> None:
        content = bytes(frame)
        self.bytes += len(content)
        if content.startswith(b'{"u"'):
            self.frames += 1
            self.rows += content.count(b'"+"') + content.count(b'"-"')


async def listen(server: Server, n_sockets: int, n_subscriptions: int, heard: Any, first: int = 1) -> list[Socket]:
    """Sockets that share all subscriptions between them."""
    each = n_subscriptions // n_sockets
    sockets: list[Socket] = []
    for start in range(0, n_sockets, 50):
        numbers = range(start, min(start + 50, n_sockets))
        ids = [[str(first + number * each + n) for n in range(each)] for number in numbers]
        sockets += await asyncio.gather(*(connect(server.host, server.port, own, "now", heard) for own in ids))
    return sockets


def split(items: list[Any], size: int) -> Iterator[list[Any]]:
    """Pieces of a list."""
    for first in range(0, len(items), size):
        yield items[first : first + size]


async def ingest(
    folder: Path,
    n_subscriptions: int = 100_000,
    n_sockets: int = 1_000,
    n_messages: int = 120_000,
    rows: int = 500,
    before: tuple[str, ...] = (),
) -> Figures:
    """Bulk ingest: bodies of JSON lines over eight connections, every subscription followed by one of the sockets."""
    with Server(folder, *WINDOW, before=before) as server:
        await server.ready()
        http = server.http()
        await subscribe(http, n_subscriptions)
        heard = Heard()
        sockets = await listen(server, n_sockets, n_subscriptions, heard)
        bodies = ["\n".join(json.dumps(row) for row in piece).encode() for piece in split(messages(n_messages), rows)]
        warm, bodies = bodies[:20], bodies[20:]
        await _post_all(server, warm, KIND, 8)
        cpu, frames, told, begun = server.cpu_s(), heard.frames, heard.rows, time.monotonic()
        await _post_all(server, bodies, KIND, 8)
        seconds = time.monotonic() - begun
        await asyncio.sleep(1.0)  # what is still on its way is counted
        n = len(bodies) * rows
        figures = {
            "messages_per_s": n / seconds,
            "updates_per_message": (heard.rows - told) / n,
            "frames_per_s": (heard.frames - frames) / seconds,
            "server_cpu_us_per_message": (server.cpu_s() - cpu) / n * 1e6,
            "memory_mb": server.memory_mb(),
            "closed_sockets": sum(socket.is_closed for socket in sockets),
        }
        await _metrics(http, figures)
        return figures


async def _metrics(http: Http, figures: Figures) -> None:
    """What the server says of itself."""
    _, text = await http.ask("GET", "/metrics")
    for line in text.decode().splitlines():
        for name in ("conflations_total", "gaps_total", "sync_seconds_sum", "sync_seconds_count", "batch_rows_sum"):
            if line.startswith(f"nearcast_{name} "):
                figures[name] = float(line.split()[1])


async def _post_all(server: Server, bodies: list[bytes], kind: str, n_connections: int) -> None:
    """Post every body, each connection the next one when it was answered."""
    waiting = iter(bodies)

    async def work() -> None:
        http = server.http()
        for body in waiting:
            status, told = await http.ask("POST", "/v1/messages", body, kind)
            assert status == 202, told[:500]
        http.close()

    await asyncio.gather(*(work() for _ in range(n_connections)))


async def single(folder: Path, n_messages: int = 40_000, n_connections: int = 128) -> Figures:
    """Single POSTs, each durable when it is answered, with 10,000 subscriptions that nobody follows."""
    with Server(folder, *WINDOW) as server:
        await server.ready()
        http = server.http()
        await subscribe(http, 10_000)
        bodies = [json.dumps(row).encode() for row in messages(n_messages)]
        await _post_all(server, bodies[:4_000], "application/json", n_connections)
        cpu, begun = server.cpu_s(), time.monotonic()
        await _post_all(server, bodies[4_000:], "application/json", n_connections)
        seconds, n = time.monotonic() - begun, n_messages - 4_000
        figures = {"messages_per_s": n / seconds, "server_cpu_us_per_message": (server.cpu_s() - cpu) / n * 1e6}
        await _metrics(http, figures)
        return figures


class Delays:
    """How long after its request was sent each update was heard; the time is in the message's id."""

    def __init__(self) -> None:
        self.ms: list[float] = []

    def __call__(self, frame: memoryview) -> None:
        now, content = time.monotonic(), bytes(frame)
        if content.startswith(b'{"u"'):
            self.ms += [(now - float(row[2].split("@")[1])) * 1e3 for row in json.loads(content)["u"]]

    def figures(self, name: str = "push") -> Figures:
        """Percentiles."""
        at = np.percentile(self.ms, [50, 99, 100]) if self.ms else [np.nan] * 3
        return {f"{name}_p50_ms": at[0], f"{name}_p99_ms": at[1], f"{name}_max_ms": at[2], f"{name}_n": len(self.ms)}


async def _publish_evenly(server: Server, rows: list[dict[str, Any]], per_s: int, rows_each: int) -> float:
    """Requests of some rows at an even rate, whether or not earlier ones were answered; returns the rate reached."""
    free: asyncio.LifoQueue[Http] = asyncio.LifoQueue()
    tasks: set[asyncio.Task[None]] = set()
    pieces = list(split(rows, rows_each))

    async def send(piece: list[dict[str, Any]]) -> None:
        http = server.http() if free.empty() else free.get_nowait()
        for row in piece:
            row["id"] = f"{row['id']}@{time.monotonic()}"
        body = "\n".join(json.dumps(row) for row in piece).encode()
        status, told = await http.ask("POST", "/v1/messages", body, KIND)
        assert status == 202, told[:500]
        free.put_nowait(http)

    begun = time.monotonic()
    for number, piece in enumerate(pieces):
        await asyncio.sleep(max(0.0, begun + number * rows_each / per_s - time.monotonic()))
        task = asyncio.create_task(send(piece))
        tasks.add(task)
        task.add_done_callback(tasks.discard)
    await asyncio.gather(*tasks)
    return len(rows) / (time.monotonic() - begun)


async def push(
    folder: Path, per_s: int = 2_000, seconds: int = 20, n_sockets: int = 200, n_webhooks: int = 0
) -> Figures:
    """From the request being sent to the update being heard, at 2,000 messages a second in requests of 10 rows.

    With webhooks, these follow all subscriptions too, and their rows are counted beside.
    """
    with Server(folder, *WINDOW, "--allow-private-webhooks") as server:
        await server.ready()
        http = server.http()
        await subscribe(http, 100_000)
        delays, receiver = Delays(), Receiver()
        await listen(server, n_sockets, 100_000, delays)
        url = await receiver.start()
        for number in range(n_webhooks):
            ids = [str(1 + n) for n in range(number, 100_000, n_webhooks)]
            await http.json("POST", "/v1/webhooks", {"url": url, "subscriptions": ids})
        rows = messages(per_s * (seconds + 5))
        await _publish_evenly(server, rows[: per_s * 5], per_s, 10)
        delays.ms, receiver.requests, receiver.rows = [], 0, 0
        cpu = server.cpu_s()
        rate = await _publish_evenly(server, rows[per_s * 5 :], per_s, 10)
        used = (server.cpu_s() - cpu) / (len(rows) - per_s * 5) * rate
        await asyncio.sleep(0.5)
        hooked = {"webhook_requests": receiver.requests, "webhook_rows": receiver.rows}
        return {"messages_per_s": rate, **delays.figures(), **hooked, "server_cores": used}


async def slow(folder: Path, per_s: int = 1_000, seconds: int = 5, rounds: int = 3, n_stopped: int = 10) -> Figures:
    """Push beside clients that follow every message: in turn they read, and stop to read."""
    with Server(folder, *WINDOW) as server:
        await server.ready()
        http = server.http()
        await subscribe(http, 100_000)
        await http.json("PUT", "/v1/subscriptions/all", EVERY_MESSAGE)
        figures, delays, heard = Figures(), {"reading": Delays(), "stopped": Delays()}, Delays()
        await listen(server, 100, 100_000, heard)
        rows = messages(per_s * seconds * (2 * rounds + 1))
        pieces = split(rows, per_s * seconds)
        await _publish_evenly(server, next(pieces), per_s, 10)
        for _ in range(rounds):
            for name, own in delays.items():
                others = [await connect(server.host, server.port, ["all"], "now", _ignore) for _ in range(n_stopped)]
                for socket in others if name == "stopped" else []:
                    assert socket.transport is not None
                    socket.transport.pause_reading()
                heard.ms = own.ms
                await _publish_evenly(server, next(pieces), per_s, 10)
                await asyncio.sleep(0.2)
                heard.ms = []
                figures[f"{name}_memory_mb"] = server.memory_mb()
                for socket in others:
                    socket.close()
        for name, own in delays.items():
            figures |= own.figures(name)
        await _metrics(http, figures)
        return figures


def _ignore(frame: memoryview) -> None:
    pass


async def idle(folder: Path, n_sockets: int = 10_000) -> Figures:
    """Memory with WebSocket clients that are attached and hear nothing."""
    with Server(folder, *WINDOW) as server:
        await server.ready()
        await subscribe(server.http(), 1_000)
        before = server.memory_mb()
        sockets: list[Socket] = []
        for start in range(0, n_sockets, 200):
            numbers = range(start, min(start + 200, n_sockets))
            made = (connect(server.host, server.port, [str(1 + n % 1_000)], "now", lambda frame: None) for n in numbers)
            sockets += await asyncio.gather(*made)
        await asyncio.sleep(3.0)
        figures = {"memory_mb": server.memory_mb(), "before_mb": before, "sockets": len(sockets)}
        figures["closed"] = sum(socket.is_closed for socket in sockets)
        return figures


async def restart(
    folder: Path,
    n_events: int = 1_000_000,
    n_subscriptions: int = 100_000,
    rows: int = 2_500,
    n_connections: int = 4,
) -> Figures:
    """From `kill -9` to ready, after a log of a million messages over 100,000 subscriptions."""
    with Server(folder, *WINDOW) as server:
        await server.ready()
        http = server.http()
        await subscribe(http, n_subscriptions)
        first = time.monotonic()
        for number, piece in enumerate(split(messages(n_events), 10_000)):
            bodies = ["\n".join(json.dumps(row) for row in each).encode() for each in split(piece, rows)]
            await _post_all(server, bodies, KIND, n_connections)
            if number % 25 == 0:
                await http.json("GET", "/readyz")
        wrote = time.monotonic() - first
        cursor = (await http.json("GET", "/readyz"))["cursor"]
        log = sum(path.stat().st_size for path in (folder / "log").iterdir()) / 2**20
        kept = sorted(path.name for path in (folder / "snapshots").glob("*")) if (folder / "snapshots").exists() else []
    with Server(folder, *WINDOW) as server:
        seconds = await server.ready()
        http = server.http()
        assert (await http.json("GET", "/readyz"))["cursor"] == cursor
        figures = {"ready_s": seconds, "server_cpu_s": server.cpu_s(), "log_mb": log, "snapshots": kept}
        _, text = await http.ask("GET", "/metrics")
        replayed = text.decode().partition("\nnearcast_replayed_events ")[2].partition("\n")[0]
        return {**figures, "replayed_events": float(replayed), "writing_s": wrote, "memory_mb": server.memory_mb()}


CASES = {
    "ingest": ingest,
    "single": single,
    "push": push,
    "slow": slow,
    "idle": idle,
    "restart": restart,
    "trace": trace,
}
