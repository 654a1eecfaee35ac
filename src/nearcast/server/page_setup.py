"""What the page must know before it draws: the space, the window, the time."""

from __future__ import annotations

import time
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from nearcast.server.basemap import Basemap
from nearcast.server.durable.recovery import Settings
from nearcast.server.service import Service


def setup_of(settings: Settings, now: int | None, basemap: Basemap | None) -> dict[str, Any]:
    """The JSON form; `now` is the time, if the clock moves by itself."""
    return {
        "bounds": settings.bounds,
        "metric": settings.metric,
        "window": {"count": settings.window_count, "age": settings.window_age},
        "now": now,
        "basemap": None if basemap is None else basemap.setup(),
    }


def setup_route(service: Service) -> Route:
    """`GET /setup.json`, beside the page."""

    async def setup(request: Request) -> Response:
        service.caller(request, None)
        now = int(time.time() * 1000) if service.config.clock == "wall" else None
        content = msgspec.json.encode(setup_of(service.backend.settings, now, service.basemap))
        return Response(content, media_type="application/json")

    return Route("/setup.json", setup)
