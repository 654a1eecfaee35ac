"""Server-sent events: the frames of a WebSocket, one way. `id:` is the cursor, and `Last-Event-ID` resumes."""

from __future__ import annotations

import asyncio
import contextlib
import time

import msgspec
from starlette.requests import Request
from starlette.types import Receive, Scope, Send

from nearcast.errors import InvalidInput
from nearcast.server.access.auth import SUBSCRIBE
from nearcast.server.durable.operations import Json
from nearcast.server.problems import Problem
from nearcast.server.push.connection import SlowConsumer
from nearcast.server.push.delivery import Delivery, delivery_of
from nearcast.server.service import Service

_HEADERS = [
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),
]


class Stream:
    """The answer to `GET /v1/stream`: frames until the client goes."""

    def __init__(self, request: Request, service: Service) -> None:
        self._service = service
        self._caller = service.caller(request, SUBSCRIBE)
        asked = request.query_params
        self._names = [name for name in asked.get("subscriptions", "").split(",") if name]
        if not self._names:
            raise InvalidInput("subscriptions", asked.get("subscriptions"), "must be names with commas between")
        for name in self._names:
            self._caller.require_sight(name)
        self._after = request.headers.get("last-event-id") or asked.get("after", "results")
        self._delivery = _delivery(dict(asked))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer."""
        service = self._service
        with (
            service.quotas.connection(self._caller),
            service.connected("sse", self._caller, self._delivery) as connection,
        ):
            await connection.attach(self._names, self._after)
            await send({"type": "http.response.start", "status": 200, "headers": _HEADERS})

            async def send_frame(frame: Json) -> None:
                await send({"type": "http.response.body", "body": encode(frame), "more_body": True})

            sending = asyncio.ensure_future(
                connection.run(send_frame, service.config.heartbeat_s, service.config.unread_s)
            )
            jobs = [sending, asyncio.ensure_future(_gone(receive))]
            if self._caller.expires is not None:
                jobs.append(asyncio.ensure_future(asyncio.sleep(max(0.0, self._caller.expires - time.time()))))
            try:
                await asyncio.wait(jobs, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for job in jobs:
                    job.cancel()
                await asyncio.gather(*jobs, return_exceptions=True)
            if sending.done() and not sending.cancelled() and isinstance(sending.exception(), SlowConsumer):
                return
            with contextlib.suppress(OSError):
                await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def _delivery(asked: dict[str, str]) -> Delivery:
    try:
        values: Json = {name: float(asked[name]) for name in ("every", "quiet") if name in asked}
        if "max_per" in asked:
            n, _, seconds = asked["max_per"].partition("/")
            return delivery_of({**values, "max_per": [int(n), float(seconds)]})
    except ValueError:
        raise Problem(
            422, "invalid-input", "every and quiet are seconds, max_per is N/SECONDS", field="every"
        ) from None
    return delivery_of(values)


def encode(frame: Json) -> bytes:
    """A frame as an event; without a cursor of its own it leaves the last one in place."""
    if frame.keys() == {"progress"}:
        return f": hb\nid: {frame['progress']}\nevent: progress\ndata: {{}}\n\n".encode()
    cursor = frame.get("c") or frame.get("cursor")
    head = f"id: {cursor}\n" if cursor else ""
    return f"{head}data: ".encode() + msgspec.json.encode(frame) + b"\n\n"
