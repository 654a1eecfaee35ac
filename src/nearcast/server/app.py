"""The routes of the server, and its life: recover, serve, finish."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import itertools
import secrets
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from starlette.websockets import WebSocket

from nearcast.errors import InvalidInput, NearcastError
from nearcast.model.codec import (
    message_from_json,
    message_to_json,
    move_from_json,
    subscription_from_json,
    subscription_to_json,
)
from nearcast.server import intake, schema
from nearcast.server.access.auth import Caller
from nearcast.server.admin import Admin, answered, path_part
from nearcast.server.durable.bodies import Id, named
from nearcast.server.durable.operations import Answer, line_parts
from nearcast.server.durable.state import UnknownEpoch
from nearcast.server.durable.updates import Trimmed
from nearcast.server.hooks import Hooks
from nearcast.server.logs import log
from nearcast.server.page_setup import setup_route
from nearcast.server.preview import preview, require_modest
from nearcast.server.problems import MEDIA_TYPE, Problem, gone, problem_of
from nearcast.server.push import websocket
from nearcast.server.push.hub import bodies_of, rows_of
from nearcast.server.push.sse import Stream
from nearcast.server.service import Service
from nearcast.server.transfer import Transfer

PAGE = Path(__file__).with_name("page")
SOCKET = "/v1/ws"
_MOST_LISTED = 1_000


class Routes:
    """The handlers of `/v1`, but for webhooks and administration."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._backend = service.backend

    # Messages and events

    async def publish(self, request: Request) -> Response:
        """`POST /v1/messages`."""
        caller = self._service.caller(request, "publish")
        body = await self._body(request)
        taken = intake.messages(body, _kind(request), self._service.config.max_rows)
        self._service.quotas.publish(caller, taken.n_rows)
        return await self._submit(request, caller, body, taken)

    async def update(self, request: Request) -> Response:
        """`PUT /v1/messages/{id}`."""
        caller = self._service.caller(request, "publish")
        self._service.quotas.publish(caller, 1)
        given = msgspec.json.decode(await self._body(request))
        name = path_part(request, "id")
        if isinstance(given, dict):
            id = given.setdefault("id", self._message_id(name))
            if str(id) != name:
                raise InvalidInput("id", id, f"must be {name!r}, as in the address")
        return await self._line(request, caller, {"event": "update", **message_to_json(message_from_json(given))})

    async def retract(self, request: Request) -> Response:
        """`DELETE /v1/messages/{id}`."""
        caller = self._service.caller(request, "publish")
        self._service.quotas.publish(caller, 1)
        id = self._message_id(path_part(request, "id"))
        return await self._line(request, caller, {"event": "retract", "id": id})

    def _message_id(self, name: str) -> Id:
        """The id that an address means: that of a known message, or the name itself."""
        known = named(name, self._backend.state.bodies.messages)
        return name if known is None else known

    async def events(self, request: Request) -> Response:
        """`POST /v1/events`."""
        caller = self._service.caller(request, "admin")
        body = await self._body(request)
        taken = intake.events(body, _kind(request), self._service.config.max_rows)
        return await self._submit(request, caller, body, taken)

    async def _submit(self, request: Request, caller: Caller, body: bytes, taken: intake.Taken) -> Response:
        scoped = self._key(request, caller)
        told = request.scope["path"].encode() + b"\0" + body if scoped else b""
        answer = await self._service.submit(taken.parts, taken.rejects, scoped, told)
        if taken.single and answer.rejects:
            raise refused(answer)
        return answered(answer, 202)

    async def _body(self, request: Request) -> bytes:
        most, size, chunks = self._service.config.max_body_bytes, 0, []
        async for chunk in request.stream():
            size += len(chunk)
            if size > most:
                raise Problem(413, "too-large", f"a body has at most {most} bytes", field="body", value=most)
            chunks.append(chunk)
        return b"".join(chunks)

    # Subscriptions

    async def subscribe(self, request: Request) -> Response:
        """`PUT /v1/subscriptions/{id}`."""
        caller = self._service.caller(request, "subscribe:own")
        name = path_part(request, "id")
        given = msgspec.json.decode(await self._body(request))
        known = self._backend.state.bodies.subscriptions
        if isinstance(given, dict):
            id = given.setdefault("id", known.named(name) if known.named(name) is not None else name)
            if str(id) != name:
                raise InvalidInput("id", id, f"must be {name!r}, as in the address")
        subscription = subscription_from_json(given)
        caller.require_own(subscription.id)
        await require_modest(self._backend, caller, subscription.query)
        created = subscription.id not in known
        if created:
            self._hold(caller, 1)
        line = {"event": "subscribe", **subscription_to_json(subscription), "replace": True}
        answer = await self._service.submit(line_parts([line], [0]), key=self._key(request, caller), digest=_said(line))
        if answer.rejects:
            raise refused(answer)
        return answered(schema.Stored(subscription.id, answer.cursor, created), 201 if created else 200)

    def _key(self, request: Request, caller: Caller) -> str:
        key = request.headers.get("idempotency-key", "")
        if len(key) > 255:
            raise InvalidInput("Idempotency-Key", key, "must be at most 255 characters")
        return f"{caller.name}:{key}" if key else ""

    def _hold(self, caller: Caller, more: int) -> None:
        limit = caller.quotas.subscriptions
        if limit is not None:
            held = self._backend.state.bodies.subscriptions.count(caller.prefix)
            self._service.quotas.hold("subscriptions", limit, held, more)

    async def preview(self, request: Request) -> Response:
        """`POST /v1/preview`."""
        self._service.caller(request, "subscribe:own")
        return answered(await preview(self._backend, msgspec.json.decode(await self._body(request))))

    async def match(self, request: Request) -> Response:
        """`POST /v1/match`."""
        self._service.caller(request, "read")
        message = message_from_json(msgspec.json.decode(await self._body(request)))
        heard, cursor = await self._backend.ask(lambda broker: broker.match(message))
        return answered(schema.MatchForm(cursor, heard))

    async def subscribe_many(self, request: Request) -> Response:
        """`POST /v1/subscriptions`."""
        caller = self._service.caller(request, "subscribe:own")
        body = await self._body(request)
        most = self._service.config.max_rows
        taken = intake.subscriptions(body, _kind(request), most, caller.require_own)
        self._hold(caller, taken.n_rows)
        if caller.quotas.hits_per_hour is not None:
            for part in taken.parts:
                for line in part.content:
                    query = {name: value for name, value in line.items() if name != "event"}
                    await require_modest(self._backend, caller, subscription_from_json(query).query)
        return await self._submit(request, caller, body, taken)

    async def subscriptions(self, request: Request) -> Response:
        """`GET /v1/subscriptions`."""
        caller = self._service.caller(request, "subscribe:own")
        limit = intake.whole_number("limit", request.query_params.get("limit"), 100, 1, _MOST_LISTED)
        prefix = "" if caller.may_see("") else caller.prefix
        after = _opened(request.query_params.get("next"))
        found, following = self._backend.state.bodies.subscriptions.page(after, limit, prefix)
        return answered(schema.Page(found, None if following is None else _sealed(following)))

    async def subscription(self, request: Request) -> Response:
        """`GET /v1/subscriptions/{id}`."""
        return answered(self._backend.state.bodies.subscriptions.raw(self._id(request)[0]))

    def _id(self, request: Request, own: bool = False) -> tuple[Id, Caller]:
        caller = self._service.caller(request, "subscribe:own")
        name = path_part(request, "id")
        (caller.require_own if own else caller.require_sight)(name)
        id = self._backend.state.bodies.subscriptions.named(name)
        if id is None:
            raise Problem(404, "unknown-id", f"there is no subscription {name!r}", field="id", value=name)
        return id, caller

    async def move(self, request: Request) -> Response:
        """`PATCH /v1/subscriptions/{id}`."""
        id, caller = self._id(request, own=True)
        given = msgspec.json.decode(await self._body(request))
        move = move_from_json({**given, "id": id} if isinstance(given, dict) else given)
        return await self._line(request, caller, intake.move_line(move))

    async def unsubscribe(self, request: Request) -> Response:
        """`DELETE /v1/subscriptions/{id}`."""
        id, caller = self._id(request, own=True)
        return await self._line(request, caller, {"event": "unsubscribe", "id": id})

    async def _line(self, request: Request, caller: Caller, line: dict[str, Any]) -> Response:
        parts, key = line_parts([line], [0]), self._key(request, caller)
        answer = await self._service.submit(parts, key=key, digest=_said(line))
        if answer.rejects:
            raise refused(answer)
        return answered(schema.Stored(line["id"], answer.cursor))

    async def results(self, request: Request) -> Response:
        """`GET /v1/subscriptions/{id}/results`."""
        id, _ = self._id(request)
        results, cursor = await self._backend.ask(lambda broker: list(broker.results(id)))
        bodies = self._backend.state.bodies.messages.get(message for message, _ in results)
        return answered(schema.ResultsForm(cursor, results, {str(id): body for id, body in bodies.items()}))

    async def updates(self, request: Request) -> Response:
        """`GET /v1/subscriptions/{id}/updates`."""
        caller = self._service.caller(request, "subscribe:own")
        name = path_part(request, "id")
        caller.require_sight(name)
        state = self._backend.state
        known = state.bodies.subscriptions.named(name)
        id: Id = name if known is None else known
        limit = intake.whole_number("limit", request.query_params.get("limit"), _MOST_LISTED, 1, 100_000)
        after = request.query_params.get("after")
        if after is None:
            raise InvalidInput("after", None, "is required")
        assert state.updates is not None
        until = state.event
        try:
            found, more = await asyncio.to_thread(state.updates.read_some, state.event_of(after), until, {id}, limit)
        except (UnknownEpoch, Trimmed) as error:
            raise gone(error, [name]) from None
        rows = [row for told in found for row in rows_of(told.updates)]
        ended = [end for told in found for end in told.ended]
        last = found[-1].event if more else until
        if known is None and not rows and not ended:
            raise Problem(404, "unknown-id", f"there is no subscription {name!r}", field="id", value=name)
        bodies: dict[str, Any] = {str(id): body for id, body in bodies_of(state, rows).items()}
        return answered({"u": rows, "c": state.cursor(last), "messages": bodies, "more": more, "ended": ended})

    async def explain(self, request: Request) -> Response:
        """`GET /v1/subscriptions/{id}/explain/{message}`."""
        id, _ = self._id(request)
        name = path_part(request, "message")
        message = named(name, self._backend.state.bodies.messages)
        told, cursor = await self._backend.ask(lambda broker: broker.explain(id, name if message is None else message))
        return answered(schema.ExplanationForm(cursor, told.in_result, told.score, told.reason, told.parts))

    async def stream(self, request: Request) -> Any:
        """`GET /v1/stream`."""
        return Stream(request, self._service)

    # Health

    async def healthz(self, request: Request) -> Response:
        """Alive."""
        return answered({"status": "ok"})

    async def readyz(self, request: Request) -> Response:
        """Ready for events."""
        service = self._service
        checks = {"recovered": self._backend.is_ready, "compiled": service.is_warm, "taking": not service.is_draining}
        return answered({**checks, "cursor": self._backend.state.cursor()}, 200 if all(checks.values()) else 503)

    async def metrics(self, request: Request) -> Response:
        """Numbers."""
        self._service.caller(request, "read")
        numbers, state = self._service.metrics, self._backend.state
        numbers.waiting.set(self._backend.waiting)
        numbers.subscriptions.set(len(state.bodies.subscriptions))
        numbers.messages_live.set(len(state.bodies.messages))
        numbers.event.set(state.event)
        numbers.pending_bytes.set(sum(each.pending_bytes for each in self._service.connections))
        return Response(numbers.text(), media_type="text/plain; version=0.0.4")

    async def openapi(self, request: Request) -> Response:
        """The page of HTTP."""
        return answered(schema.openapi())

    async def asyncapi(self, request: Request) -> Response:
        """The page of frames."""
        return answered(schema.asyncapi())


def _kind(request: Request) -> str:
    return intake.media_type(request.headers.get("content-type"))


def _said(line: dict[str, Any]) -> bytes:
    return msgspec.json.encode(line)


def _sealed(number: int) -> str:
    return base64.urlsafe_b64encode(b"n%d" % number).decode().rstrip("=")


def _opened(text: str | None) -> int:
    if text is None:
        return 0
    with contextlib.suppress(ValueError):
        content = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
        if content[:1] == b"n" and len(content) < 20:
            return int(content[1:])
    raise InvalidInput("next", text, "must be what an earlier page gave")


def refused(answer: Answer) -> Problem:
    """A single thing that the broker could not honour."""
    field, reason = answer.rejects[0]["field"], answer.rejects[0]["reason"]
    if reason.startswith("id must be the id of"):
        return Problem(404, "unknown-id", reason, field=field)
    if reason.startswith("id must not be"):
        return Problem(409, "duplicate-id", reason, field=field)
    return Problem(422, "invalid-input", reason, field=field)


class Entrance:
    """Around every request: its number, its host and origin, its log line, and problems for errors."""

    def __init__(self, app: ASGIApp, service: Service) -> None:
        self._app = app
        self._service = service
        self._name = secrets.token_hex(5)  # of this process, in the numbers of its requests
        self._numbers = itertools.count(1)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request in."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        number, begun, status = f"{self._name}-{next(self._numbers):x}", time.perf_counter(), 0

        async def noted(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message.get("headers", []), (b"x-request-id", number.encode())]
            await send(message)

        request = Request(scope)
        if scope.get("raw_path"):
            scope["path"] = scope["raw_path"].decode(
                "ascii", "replace"
            )  # ids may hold slashes; parts are decoded later
        try:
            self._service.door.check(request.headers.get("host"), request.headers.get("origin"))
            await self._app(scope, receive, noted)
        except Problem as problem:
            await _problem_response(problem)(scope, receive, noted)
        finally:
            self._service.metrics.answered(request.method, status)
            if status >= 400 or not status:
                took = round(time.perf_counter() - begun, 6)
                cursor = self._service.backend.state.cursor()
                log(
                    "request",
                    id=number,
                    method=request.method,
                    path=scope["path"],
                    status=status,
                    s=took,
                    cursor=cursor,
                )


def _problem_response(problem: Problem) -> Response:
    return Response(msgspec.json.encode(problem.body()), problem.status, problem.headers(), MEDIA_TYPE)


async def _on_error(request: Any, error: Exception) -> Response:
    if isinstance(error, HTTPException):
        return _problem_response(Problem(error.status_code, "http", error.detail))
    problem = problem_of(error)
    if problem.code == "internal":
        log("error", error=repr(error), path=request.url.path)
    return _problem_response(problem)


def build_app(service: Service, beside: Sequence[Callable[[Service], Coroutine[Any, Any, None]]] = ()) -> ASGIApp:
    """The application; what is `beside` it begins when the service takes events, and ends with it."""
    handlers: list[Any] = [Routes(service), Admin(service), Hooks(service), Transfer(service)]
    routes: list[BaseRoute] = []
    for each in schema.OPERATIONS:
        handler = next(getattr(owner, each.name) for owner in handlers if hasattr(owner, each.name))
        routes.append(Route(each.path, handler, methods=[each.method]))

    if PAGE.is_dir():
        routes.append(setup_route(service))
        if service.basemap is not None:
            routes.append(service.basemap.route())
        routes.append(Mount("/", StaticFiles(directory=PAGE, html=True)))

    @contextlib.asynccontextmanager
    async def life(_: Starlette) -> AsyncIterator[None]:
        async with contextlib.AsyncExitStack() as stack:
            await service.start()
            stack.push_async_callback(service.stop)
            tasks = [asyncio.create_task(job(service)) for job in beside]
            yield
            for task in tasks:
                task.cancel()
            for error in await asyncio.gather(*tasks, return_exceptions=True):
                if isinstance(error, Exception):
                    log("error", error=repr(error))

    errors = (Problem, NearcastError, UnknownEpoch, msgspec.DecodeError, HTTPException, ClientDisconnect, Exception)
    middleware = [Middleware(Entrance, service)]
    if service.config.origins:
        methods = ["GET", "POST", "PUT", "PATCH", "DELETE"]
        cors: Any = {"allow_origins": service.config.origins, "allow_methods": methods, "allow_headers": ["*"]}
        middleware.insert(0, Middleware(CORSMiddleware, **cors))
    starlette = Starlette(
        routes=routes, middleware=middleware, lifespan=life, exception_handlers=dict.fromkeys(errors, _on_error)
    )

    def app(scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        """WebSockets go past Starlette, whose frames would cost every open connection 2 kB."""
        if scope["type"] == "websocket" and scope["path"] == SOCKET:
            return websocket.serve(WebSocket(scope, receive, send), service)
        return starlette(scope, receive, send)

    return app
