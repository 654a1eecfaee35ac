"""What routes, sockets and webhooks share: backend, hub, keys, quotas, and the connections that are open."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from starlette.requests import Request

from nearcast.engines.parted import MOST_THREADS
from nearcast.errors import InvalidInput
from nearcast.model.analyzer import Analyzer
from nearcast.model.checks import whole
from nearcast.server.access.auth import Auth, Caller, bearer
from nearcast.server.access.origin import Door
from nearcast.server.access.quotas import Quotas
from nearcast.server.access.store import Store
from nearcast.server.backend import Backend
from nearcast.server.basemap import Basemap
from nearcast.server.config import DAY_S, WORLD, Config
from nearcast.server.durable.operations import Answer, Part
from nearcast.server.durable.recovery import Settings
from nearcast.server.embedded import Embedded
from nearcast.server.metrics import Metrics
from nearcast.server.pipeline.backend import Pipeline
from nearcast.server.problems import Problem
from nearcast.server.push.connection import Connection
from nearcast.server.push.delivery import Delivery
from nearcast.server.push.hub import Hub
from nearcast.server.push.webhooks import Webhooks

MAX_AHEAD_S = 60.0


class Service:
    """One server."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self.metrics = Metrics()
        data = Path(config.data)
        self.basemap = None if config.basemap is None else Basemap(config.basemap)
        self.backend = backend_of(config, self.metrics)
        self.store = Store(data)
        self.auth = Auth(self.store, config)
        if not config.is_loopback and self.auth.is_open:
            raise InvalidInput("--host", config.host, "must be a loopback address until there is a key (--new-key)")
        self.door = Door(config)
        self.quotas = Quotas()
        self.hub = Hub()
        self.connections: set[Connection] = set()
        self.is_warm = False
        self.is_draining = False
        self.backend.listeners.append(self.hub.told)
        self.webhooks = Webhooks(self.store, self.hub, self.backend, config, self.metrics)

    async def start(self) -> None:
        """Recover and begin."""
        await self.backend.start()
        self.hub.state = self.backend.state
        self.webhooks.start()

    async def stop(self) -> None:
        """Finish what waits."""
        await self.webhooks.stop()
        await self.backend.stop()
        self.store.close()

    def caller(self, request: Request, scope: str | None) -> Caller:
        """Who asks, with this scope."""
        caller = self.auth.caller(bearer(request.headers.get("authorization")))
        if scope is not None:
            caller.require(scope)
        return caller

    async def submit(
        self, parts: list[Part], rejects: list[tuple[int, str, str]] | None = None, key: str = "", digest: bytes = b""
    ) -> Answer:
        """Log and apply, unless the server is being drained."""
        if self.is_draining:
            raise Problem(503, "draining", "the server is being drained and takes nothing more", retry_after=5)
        return await self.backend.submit(parts, rejects or [], key, digest)

    @contextmanager
    def connected(self, kind: str, caller: Caller, delivery: Delivery) -> Iterator[Connection]:
        """A connection while it is open."""
        if not self.backend.is_ready:
            raise Problem(503, "starting", "the server is starting", retry_after=1)
        connection = Connection(self.hub, self.backend, delivery, self.config.pending_bytes, f"{kind}:{caller.name}")
        self.connections.add(connection)
        self.metrics.connections.labels(kind).inc()
        try:
            yield connection
        finally:
            connection.close()
            self.connections.discard(connection)
            self.metrics.connections.labels(kind).dec()


def backend_of(config: Config, metrics: Metrics) -> Backend:
    """A broker of its own, or what stands in front of a pipeline."""
    data, settings, wall = Path(config.data), settings_of(config), config.clock == "wall"
    if config.pipeline is not None:
        return Pipeline(data, settings, metrics, Path(config.pipeline), wall)
    threads = whole("threads", config.threads, 1, MOST_THREADS)
    return Embedded(data, settings, metrics, wall, config.segment_bytes, config.updates_bytes, threads=threads)


def settings_of(config: Config) -> Settings | None:
    """What decides about answers; None if nothing was said and the folder has it already."""
    placed = (config.space, config.metric, config.max_distance, config.window_count, config.window_age)
    worded = (config.stop_words, config.stemmer, config.accents, config.cjk)
    if (Path(config.data) / "settings.json").exists() and all(value is None for value in (*placed, *worded)):
        return None
    count, age = config.window_count, config.window_age
    alone = config.pipeline is None  # else the run has a window of its own, or none
    if count is None and age is None and alone:
        age = DAY_S
    ahead = MAX_AHEAD_S if config.clock == "wall" and alone else None
    words = Analyzer(config.stop_words, config.stemmer, config.accents or "keep", config.cjk or "whole")
    return Settings(
        config.space or WORLD, config.metric or "haversine", config.max_distance, count, age, ahead,
        words.stop_words, words.stemmer, words.accents, words.cjk,
    )  # fmt: skip
