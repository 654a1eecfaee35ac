"""Administration: snapshots, draining, keys, and what is slow."""

from __future__ import annotations

import heapq
import time
from typing import Any
from urllib.parse import unquote

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from nearcast.errors import InvalidInput
from nearcast.server.config import Quotas
from nearcast.server.problems import Problem
from nearcast.server.schema import KeyForm
from nearcast.server.service import Service

_SHOWN = 20


def answered(value: Any, status: int = 200) -> Response:
    """A value as JSON."""
    return Response(msgspec.json.encode(value), status, media_type="application/json")


def path_part(request: Request, name: str) -> str:
    """A part of the address, such as an id."""
    return unquote(request.path_params[name])


class Admin:
    """The handlers of `/v1/admin`."""

    def __init__(self, service: Service) -> None:
        self._service = service

    async def snapshot(self, request: Request) -> Response:
        """Write a snapshot of all up to now."""
        self._service.caller(request, "admin")
        event = await self._service.backend.snapshot()
        return answered({"cursor": self._service.backend.state.cursor(event)})

    async def drain(self, request: Request) -> Response:
        """Take nothing more; the answer comes when all that was taken is durable."""
        self._service.caller(request, "admin")
        self._service.is_draining = True
        _, cursor = await self._service.backend.ask(lambda _: None)
        return answered({"cursor": cursor})

    async def keys(self, request: Request) -> Response:
        """List keys."""
        self._service.caller(request, "admin")
        return answered({"keys": self._service.auth.listed()})

    async def add_key(self, request: Request) -> Response:
        """Make a key. The first one must be able to make others, since from then on nobody comes in without."""
        self._service.caller(request, "admin")
        form = msgspec.json.decode(await request.body(), type=KeyForm)
        if self._service.auth.is_open and "admin" not in form.scopes:
            raise InvalidInput("scopes", form.scopes, "must have admin in the first key")
        quotas = None if form.quotas is None else msgspec.convert(form.quotas, Quotas, strict=False)
        return answered({"key": self._service.auth.add(form.name, form.scopes, form.prefix, quotas)}, 201)

    async def remove_key(self, request: Request) -> Response:
        """Take a key back."""
        self._service.caller(request, "admin")
        id = path_part(request, "id")
        if not self._service.auth.remove(id):
            raise Problem(404, "unknown-id", f"there is no key {id!r}", field="id", value=id)
        return Response(status_code=204)

    async def slow(self, request: Request) -> Response:
        """The loudest subscriptions that somebody follows, and the connections with the most that waits."""
        self._service.caller(request, "admin")
        loudest = heapq.nlargest(_SHOWN, self._service.hub.loudest.items(), key=lambda pair: pair[1])
        slowest = heapq.nlargest(_SHOWN, self._service.connections, key=lambda each: each.pending_bytes)
        now = time.monotonic()
        connections = [
            {
                "connection": each.name,
                "pending_bytes": each.pending_bytes,
                "sending_s": None if each.sending_since is None else round(now - each.sending_since, 3),
                "frames": each.n_frames,
                "subscriptions": len(each.subscriptions),
            }
            for each in slowest
        ]
        subscriptions = [{"subscription": id, "updates": n} for id, n in loudest]
        return answered({"subscriptions": subscriptions, "connections": connections})
