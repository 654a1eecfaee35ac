"""A server that listens: uvicorn around the application, kernels compiled beside it."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import signal
import socket
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import numba
import uvicorn

from nearcast.broker.warm import are_compiled
from nearcast.server.access.auth import Auth
from nearcast.server.access.store import Store
from nearcast.server.app import build_app
from nearcast.server.config import Config
from nearcast.server.logs import log
from nearcast.server.service import Service

Job = Callable[[Service], Coroutine[Any, Any, None]]

_WS_BYTES = 1 << 20  # of a frame that a client sends
_FINISH_S = 5
_UNSENT_BYTES = 128 * 1024  # that the system keeps for a client that does not read; else some megabytes


class Server(uvicorn.Server):
    """Uvicorn that tells its address once it listens."""

    def __init__(self, service: Service, ready: Callable[[str], None], *beside: Job) -> None:
        config: Any = {
            "host": service.config.host,
            "port": service.config.port,
            "http": "httptools",
            "loop": "uvloop",
            "ws": "websockets-sansio",
            "ws_max_size": _WS_BYTES,
            "ws_per_message_deflate": False,
            "log_config": None,
            "access_log": False,
            "server_header": False,
            "interface": "asgi3",
            "proxy_headers": False,  # nothing asks for the address of a client
            "timeout_graceful_shutdown": _FINISH_S,
        }
        super().__init__(uvicorn.Config(build_app(service, beside), **config))
        self._ready = ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen, then tell."""
        await super().startup(sockets)
        if self.started and self.servers:
            for listener in self.servers[0].sockets:  # connections inherit it
                listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, _UNSENT_BYTES)
            host, port = self.servers[0].sockets[0].getsockname()[:2]
            shown = f"[{host}]" if ":" in host else host
            self._ready(f"http://{shown}:{port}")


async def warm(service: Service) -> None:
    """Compile the kernels of all kinds in another process, unless this version's are compiled; then it is ready."""
    if not service.backend.needs_kernels:
        service.is_warm = True
        return
    config: Any = numba.config
    if not config.DISABLE_JIT and not are_compiled():
        log("compile", about="kernels are compiled, once for this version; /readyz tells when")
        code = "from nearcast.broker.warm import compile_all; compile_all()"
        process = await asyncio.create_subprocess_exec(sys.executable, "-c", code, stdin=asyncio.subprocess.PIPE)
        try:
            failed = await process.wait()
        except asyncio.CancelledError:
            process.kill()
            raise
        if failed:
            log("compile", about="kernels could not be compiled ahead", code=failed)
            return
    service.is_warm = True


def serve(service: Service, ready: Callable[[str], None], *beside: Job) -> None:
    """Serve until a signal comes; kernels are compiled beside it."""
    signal.signal(signal.SIGTERM, lambda *_: None)  # uvicorn raises it again when all is finished, and that is all

    def tell(address: str) -> None:
        gc.freeze()  # what was loaded and recovered stays: to look through it took 100 ms each time, and all waited
        ready(address)

    with contextlib.suppress(KeyboardInterrupt):
        Server(service, tell, warm, *beside).run()


def new_key(config: Config, scopes: list[str]) -> str:
    """Make a key in the folder of a server, which may be running: it knows the key when it starts again."""
    store = Store(Path(config.data))
    try:
        return Auth(store, config).add("command line", scopes)
    finally:
        store.close()
