"""HTTP and WebSocket with as little work as can be, so that the driver is not what is measured."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import os
import struct
from collections.abc import Callable
from typing import Any, cast

Json = dict[str, Any]
_TEXT, _PING, _PONG = 1, 9, 10  # opcodes of RFC 6455


class Http:
    """One connection that stays open; one request at a time."""

    def __init__(self, host: str, port: int) -> None:
        self._host, self._port = host, port
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None

    async def ask(self, method: str, path: str, body: bytes = b"", kind: str = "application/json") -> tuple[int, bytes]:
        """Status and body of the answer."""
        if (
            self._reader is None or self._writer is None or self._reader.at_eof()
        ):  # closed, as nothing was asked for long
            self._reader, self._writer = await asyncio.open_connection(self._host, self._port)
        lines = [
            f"{method} {path} HTTP/1.1",
            "host: 127.0.0.1",
            f"content-type: {kind}",
            f"content-length: {len(body)}",
        ]
        self._writer.write("\r\n".join([*lines, "", ""]).encode() + body)
        told = await self._reader.readuntil(b"\r\n\r\n")
        length = int(told.lower().partition(b"content-length:")[2].partition(b"\r\n")[0])
        return int(told[9:12]), await self._reader.readexactly(length) if length else b""

    async def json(self, method: str, path: str, body: Any = None) -> Any:
        """The answer as JSON; an error if it is no success."""
        status, told = await self.ask(method, path, b"" if body is None else json.dumps(body).encode())
        if status >= 300:
            raise RuntimeError(f"{method} {path}: {status} {told[:300]!r}")
        return json.loads(told)

    def close(self) -> None:
        """Close it."""
        if self._writer is not None:
            self._writer.close()


class Socket(asyncio.Protocol):
    """A WebSocket that says hello, attaches, and hands every frame of text on."""

    def __init__(self, ids: list[Any], after: str, hear: Callable[[memoryview], None]) -> None:
        self._ids, self._after, self._hear = ids, after, hear
        self._held = bytearray()
        self._open = False
        self.ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.transport: asyncio.Transport | None = None
        self.is_closed = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Ask for the upgrade."""
        self.transport = cast(asyncio.Transport, transport)  # those of uvloop are no subclass
        key = base64.b64encode(os.urandom(16)).decode()
        lines = ["GET /v1/ws HTTP/1.1", "host: 127.0.0.1", "upgrade: websocket", "connection: Upgrade"]
        lines += [f"sec-websocket-key: {key}", "sec-websocket-version: 13", "", ""]
        self.transport.write("\r\n".join(lines).encode())

    def connection_lost(self, error: Exception | None) -> None:
        """The other side has gone."""
        self.is_closed = True
        if not self.ready.done():
            self.ready.set_exception(error or ConnectionError("closed"))

    def close(self) -> None:
        """Cut the connection."""
        if self.transport is not None:
            self.transport.abort()

    def say(self, frame: Json) -> None:
        """Send a frame of text."""
        self._send(_TEXT, json.dumps(frame).encode())

    def _send(self, kind: int, content: bytes) -> None:
        """Send a frame, masked with zeros."""
        if len(content) < 126:
            size = bytes([0x80 | len(content)])
        elif len(content) < 65_536:
            size = b"\xfe" + struct.pack(">H", len(content))
        else:
            size = b"\xff" + struct.pack(">Q", len(content))
        assert self.transport is not None
        self.transport.write(bytes([0x80 | kind]) + size + bytes(4) + content)

    def data_received(self, data: bytes) -> None:
        """Cut into frames."""
        self._held += data
        if not self._open:
            end = self._held.find(b"\r\n\r\n")
            if end < 0:
                return
            del self._held[: end + 4]
            self._open = True
            self.say({"hello": 1})
            if self._ids:
                self.say({"attach": self._ids, "after": self._after})
        at = 0
        while (end := self._frame(at)) > 0:
            at = end
        del self._held[:at]

    def _frame(self, at: int) -> int:
        """Hand on the frame that begins here; returns where the next one does, or 0 if it is not whole."""
        held = self._held
        if len(held) < at + 2:
            return 0
        size, start = held[at + 1] & 127, at + 2
        if size >= 126:
            wide = 2 if size == 126 else 8
            if len(held) < start + wide:
                return 0
            size, start = int.from_bytes(held[start : start + wide], "big"), start + wide
        if len(held) < start + size:
            return 0
        kind, content = held[at] & 15, bytes(held[start : start + size])
        if kind == _PING:
            self._send(_PONG, content)
        elif kind == _TEXT:
            if not self.ready.done() and content.startswith(b'{"attached"' if self._ids else b'{"welcome"'):
                self.ready.set_result(None)
            self._hear(memoryview(content))
        return start + size


async def connect(host: str, port: int, ids: list[Any], after: str, hear: Callable[[memoryview], None]) -> Socket:
    """A socket that is attached."""
    loop = asyncio.get_running_loop()
    _, socket = await loop.create_connection(lambda: Socket(ids, after, hear), host, port)
    await asyncio.wait_for(socket.ready, 120)
    return socket


class Receiver:
    """An endpoint of webhooks that answers at once, and counts requests and rows."""

    def __init__(self) -> None:
        self.requests = self.rows = 0
        self._server: asyncio.Server | None = None

    async def start(self) -> str:
        """Listen; returns the address."""
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}/"

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).lower()
                length = int(head.partition(b"content-length:")[2].partition(b"\r\n")[0])
                body = await reader.readexactly(length)
                self.requests += 1
                self.rows += body.count(b'"+"') + body.count(b'"-"')
                writer.write(b"HTTP/1.1 204 x\r\ncontent-length: 0\r\n\r\n")
        writer.close()
