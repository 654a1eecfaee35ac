"""A server for tests: in this process on a thread of its own, or as a process that can be killed."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import msgspec
import websockets.sync.client as sockets

from nearcast.server.config import Config
from nearcast.server.run import Server
from nearcast.server.service import Service

BOX = (0.0, 0.0, 10.0, 10.0)
WITHIN = {"kind": "within", "region": [0, 0, 5, 5], "keywords": "tram"}
NEAREST = {"kind": "nearest", "lon": 1, "lat": 1, "keywords": "tram", "k": 2}


def settings(data: Path, **more: Any) -> Config:
    given: dict[str, Any] = {"space": BOX, "metric": "euclidean", "window_count": 50, "clock": "event", **more}
    return msgspec.convert({"data": str(data), "port": 0, **given}, Config)


def wait(until: Callable[[], Any], seconds: float = 120.0) -> Any:
    """Whatever `until` gives once it is true."""
    end = time.monotonic() + seconds
    while not (found := until()):
        assert time.monotonic() < end, f"not within {seconds:.0f} s"
        time.sleep(0.01)
    return found


class Running:
    """A server that listens on a thread."""

    def __init__(self, config: Config) -> None:
        self.service = Service(config)
        self._ready = threading.Event()
        self.address = ""
        self._server = Server(self.service, self._listens)
        self._server.install_signal_handlers = lambda: None  # type: ignore[attr-defined]
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 16_384)  # slow readers are noticed soon
        self._thread = threading.Thread(target=self._server.run, args=([self._listener],), daemon=True)
        self._thread.start()
        assert self._ready.wait(120)
        self.http = httpx.Client(base_url=self.address, timeout=300)  # the first request may compile kernels

    def _listens(self, address: str) -> None:
        self.address = address
        self._ready.set()

    def stop(self) -> None:
        self.http.close()
        self._server.should_exit = True
        self._thread.join(30)
        self._listener.close()
        assert not self._thread.is_alive()

    def socket(self, **hello: Any) -> Talk:
        return Talk(self.address, **hello)

    def publish(self, id: Any, ts: int, lon: float = 1.0, text: str = "tram", **more: Any) -> str:
        body = {"id": id, "lon": lon, "lat": 1.0, "text": text, "ts": ts, **more}
        answer = self.http.post("/v1/messages", json=body)
        assert answer.status_code == 202, answer.text
        return str(answer.json()["cursor"])

    def put(self, id: str, query: dict[str, Any]) -> str:
        answer = self.http.put(f"/v1/subscriptions/{id}", json=query)
        assert answer.status_code in (200, 201), answer.text
        return str(answer.json()["cursor"])


class Talk:
    """A WebSocket, line by line."""

    def __init__(self, address: str, **hello: Any) -> None:
        self._stack = ExitStack()
        url = urlsplit(address)
        plain = socket.socket()
        plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 16_384)
        plain.connect((url.hostname, url.port))
        connecting = sockets.connect(f"ws://{url.netloc}/v1/ws", sock=plain, max_size=None)
        self.socket = self._stack.enter_context(connecting)
        self.say({"hello": 1, **hello})
        self.welcome = self.hear("welcome")

    def say(self, frame: Any) -> None:
        self.socket.send(frame if isinstance(frame, str) else json.dumps(frame))

    def hear(self, name: str, timeout: float = 120.0) -> dict[str, Any]:
        """The next frame of this name; signs of life in between are passed over."""
        while True:
            frame: dict[str, Any] = json.loads(self.socket.recv(timeout))
            if name in frame:
                return frame
            assert "progress" in frame, f"{name} expected, heard {frame}"

    def close(self) -> None:
        self._stack.close()


@contextmanager
def running(data: Path, **more: Any) -> Iterator[Running]:
    server = Running(settings(data, **more))
    try:
        yield server
    finally:
        server.stop()


class Process:
    """`nearcast serve` as a process; without compiled kernels it is up sooner."""

    def __init__(self, data: Path, *options: str, compiled: bool = False) -> None:
        words = [sys.executable, "-m", "nearcast.cli.main", "serve", "--data", str(data), "--port", "0", *options]
        environment = dict(os.environ) if compiled else {**os.environ, "NUMBA_DISABLE_JIT": "1"}
        self._process = subprocess.Popen(
            words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
        )
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert "http://" in line, (line, self._process.stderr and self._process.poll() and self._process.stderr.read())
        self.address = line.split()[-1]

    def kill(self) -> None:
        """What it started may live on, with the same output."""
        with self._process as process:
            process.kill()

    def stop(self) -> int:
        self._process.terminate()
        self._process.communicate(timeout=300)  # the first request may compile kernels
        return self._process.returncode
