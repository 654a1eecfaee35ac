"""Clients of a server that is killed again and again: those who publish, and those who listen in three ways.

Every listener resumes by its cursor, as the docs say, and keeps every row that it was told, in order.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
from collections.abc import AsyncIterator
from typing import Any

import httpx
import websockets.asyncio.client as sockets
from websockets.exceptions import WebSocketException

Row = list[Any]
_PAUSE_S = 0.05
_SILENCE_S = 5.0  # without a frame a connection is made again


class Listener:
    """Somebody who follows subscriptions from a cursor on."""

    def __init__(self, address: str, ids: list[str], cursor: str) -> None:
        self.address = address
        self.ids = ids
        self.cursor = cursor
        self.rows: list[Row] = []
        self.n_connections = 0

    async def run(self) -> None:
        """Listen for ever, over all breaks."""
        while True:
            with contextlib.suppress(OSError, WebSocketException, httpx.HTTPError, TimeoutError):
                await self.listen()
            await asyncio.sleep(_PAUSE_S)

    async def listen(self) -> None:
        raise NotImplementedError

    def hear(self, frame: dict[str, Any]) -> None:
        assert not frame.keys() & {"error", "gap", "snapshot", "end"}, frame
        if "u" in frame:
            self.rows += frame["u"]
            self.cursor = frame["c"]
        self.cursor = frame.get("progress", self.cursor)


class SocketListener(Listener):
    """Over a WebSocket."""

    async def listen(self) -> None:
        url = self.address.replace("http", "ws", 1) + "/v1/ws"
        async with sockets.connect(url, open_timeout=_SILENCE_S, max_size=None) as socket:
            await socket.send(json.dumps({"hello": 1}))
            await socket.send(json.dumps({"attach": self.ids, "after": self.cursor}))
            self.n_connections += 1
            while True:
                async with asyncio.timeout(_SILENCE_S):
                    self.hear(json.loads(await socket.recv()))


class StreamListener(Listener):
    """Over server-sent events; the id of the last one resumes."""

    async def listen(self) -> None:
        async with httpx.AsyncClient(base_url=self.address, timeout=_SILENCE_S) as http:
            given: Any = {"params": {"subscriptions": ",".join(self.ids)}, "headers": {"Last-Event-ID": self.cursor}}
            async with http.stream("GET", "/v1/stream", **given) as answer:
                assert answer.status_code == 200, await answer.aread()
                self.n_connections += 1
                async for frame, id in _events(answer.aiter_lines()):
                    self.hear({"progress": id} if frame is None else frame)


async def _events(lines: AsyncIterator[str]) -> AsyncIterator[tuple[dict[str, Any] | None, str]]:
    """The frames of a stream with their ids; None for a sign of life."""
    event: dict[str, str] = {}
    async for line in lines:
        name, _, value = line.partition(": ")
        if line:
            event[name] = value
            continue
        if "data" in event:
            is_progress = event.get("event") == "progress"
            yield None if is_progress else json.loads(event["data"]), event.get("id", "")
        event = {}


class HookListener(Listener):
    """By webhook; the endpoint refuses some deliveries, and what comes twice under one id counts once."""

    def __init__(self, address: str, ids: list[str], cursor: str) -> None:
        super().__init__(address, ids, cursor)
        self.taken: set[str] = set()
        self.n_requests = 0

    async def run(self) -> None:
        """The endpoint hears."""

    def deliver(self, id: str, body: dict[str, Any], rng: random.Random) -> int:
        """Take a delivery; returns the status of the answer."""
        self.n_requests += 1
        if rng.random() < 0.05:
            return 503
        if id not in self.taken:
            assert body["type"] == "updates", body
            self.taken.add(id)
            self.rows += body["data"]["u"]
            self.cursor = body["data"]["c"]
        return 200 if rng.random() > 0.05 else 500  # an answer that says no after all: it comes again


class Endpoint:
    """One HTTP server for all webhooks; a path is a listener's number."""

    def __init__(self, seed: int) -> None:
        self.listeners: list[HookListener] = []
        self.failures: list[BaseException] = []
        self._rng = random.Random(seed)
        self._server: asyncio.Server | None = None
        self.url = ""

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    def stop(self) -> None:
        if self._server is not None:
            self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
                first, *lines = head.split("\r\n")
                headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
                body = json.loads(await reader.readexactly(int(headers["content-length"])))
                listener = self.listeners[int(first.split()[1].strip("/"))]
                status = listener.deliver(headers["webhook-id"], body, self._rng)
                writer.write(f"HTTP/1.1 {status} x\r\ncontent-length: 0\r\n\r\n".encode())
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()
        except AssertionError as error:
            self.failures.append(error)
            writer.close()


class Publisher:
    """Messages, alone and in batches, and moves; what was not answered is sent again under the same key."""

    def __init__(self, tag: str, address: str, movable: list[str], pause_s: float) -> None:
        self._tag = tag
        self._address = address
        self._movable = movable
        self._pause_s = pause_s
        self.acknowledged: list[str] = []
        self.stopped = False

    async def run(self) -> None:
        """Go on until stopped; then everything that was sent was also answered."""
        async with httpx.AsyncClient(base_url=self._address, timeout=10) as http:
            number = 0
            while not self.stopped:
                await self._step(http, number)
                number += 1
                await asyncio.sleep(self._pause_s)

    async def _step(self, http: httpx.AsyncClient, number: int) -> None:
        rng = random.Random(f"{self._tag}{number}")
        key = {"Idempotency-Key": f"{self._tag}-{number}"}
        if self._movable and rng.random() < 0.1:
            place = {"lon": rng.randint(0, 9), "lat": rng.randint(0, 9)}
            await self._ask(http, "PATCH", f"/v1/subscriptions/{rng.choice(self._movable)}", json=place, headers=key)
            return
        n = rng.choice([1, 1, 2, 8])
        rows = [self._message(rng, f"{self._tag}{number}-{each}") for each in range(n)]
        content = "\n".join(map(json.dumps, rows)).encode()
        headers = {**key, "content-type": "application/x-ndjson"}
        answer = await self._ask(http, "POST", "/v1/messages", content=content, headers=headers)
        assert (answer["accepted"], answer["rejects"]) == (n, []), answer
        self.acknowledged += [row["id"] for row in rows]

    def _message(self, rng: random.Random, id: str) -> dict[str, Any]:
        text = rng.choice(["tram", "bus tram", "tram boat", "boat"])
        return {"id": id, "lon": rng.randint(0, 9), "lat": rng.randint(0, 9), "text": text}

    async def _ask(self, http: httpx.AsyncClient, method: str, path: str, **more: Any) -> dict[str, Any]:
        while True:
            try:
                answer = await http.request(method, path, **more)
            except (httpx.HTTPError, OSError):
                await asyncio.sleep(_PAUSE_S)
                continue
            assert answer.status_code in (200, 202), answer.text
            told: dict[str, Any] = answer.json()
            return told
