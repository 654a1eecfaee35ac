"""A WebSocket: hello, attach, and then frames; what cannot be honoured is answered with an `error` frame.

-> {"hello": 1, "token": "...", "every": 60}   <- {"welcome": 1, "epoch": "...", "cursor": "...", "heartbeat": 20}
-> {"attach": ["ann"], "after": cursor | "now" | "results"}
-> {"ack": cursor}   {"move": {...}}   {"detach": [...]}   {"ping": 1}
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import msgspec
from starlette.websockets import WebSocket, WebSocketDisconnect

from nearcast.errors import InvalidInput
from nearcast.model.codec import move_from_json
from nearcast.server.access.auth import SUBSCRIBE, Caller, bearer
from nearcast.server.durable.operations import Json, line_parts
from nearcast.server.intake import move_line
from nearcast.server.problems import Problem, problem_of
from nearcast.server.push.connection import Connection, SlowConsumer
from nearcast.server.push.delivery import delivery_of
from nearcast.server.service import Service

UNAUTHORIZED, SLOW, PROTOCOL = 4001, 4008, 4000
_HELLO_S = 10.0
_FAREWELL_S = 10.0
_MOST_ATTACHED = 10_000
OPTIONS = ("every", "max_per", "quiet")


async def serve(socket: WebSocket, service: Service) -> None:
    """Talk to one client until it goes, its token expires, or it stops reading."""
    try:
        service.door.check(socket.headers.get("host"), socket.headers.get("origin"))
    except Problem as stranger:
        await socket.close(PROTOCOL, stranger.code)
        return
    await socket.accept()
    try:
        hello = await asyncio.wait_for(_receive(socket), _HELLO_S)
        if hello.get("hello") != 1:
            raise InvalidInput("hello", hello.get("hello"), "must be 1")
        caller = service.auth.caller(hello.get("token") or bearer(socket.headers.get("authorization")))
        caller.require(SUBSCRIBE)
        delivery = delivery_of({name: hello[name] for name in OPTIONS if hello.get(name) is not None})
        with service.quotas.connection(caller), service.connected("websocket", caller, delivery) as connection:
            await _Talk(socket, service, caller, connection).run()
    except (TimeoutError, WebSocketDisconnect):
        with contextlib.suppress(WebSocketDisconnect, RuntimeError):
            await socket.close(PROTOCOL)
    except (Problem, InvalidInput, msgspec.DecodeError) as error:
        problem = problem_of(error)
        with contextlib.suppress(WebSocketDisconnect, RuntimeError):
            await socket.send_text(_text({"error": problem.body()}))
            await socket.close(UNAUTHORIZED if problem.status in (401, 403) else PROTOCOL, problem.code)


def _text(frame: Json) -> str:
    return msgspec.json.encode(frame).decode()


async def _receive(socket: WebSocket) -> Json:
    message = await socket.receive()
    if message["type"] == "websocket.disconnect":
        raise WebSocketDisconnect(message.get("code", 1000))
    content = message.get("text") if message.get("text") is not None else message.get("bytes")
    frame = msgspec.json.decode(content or b"")
    if not isinstance(frame, dict):
        raise InvalidInput("frame", frame, "must be a JSON object")
    return frame


class _Talk:
    """A client that was welcomed."""

    def __init__(self, socket: WebSocket, service: Service, caller: Caller, connection: Connection) -> None:
        self._socket = socket
        self._service = service
        self._caller = caller
        self._connection = connection

    async def run(self) -> None:
        """Listen and send until one of both ends."""
        config, state = self._service.config, self._service.backend.state
        welcome = {"welcome": 1, "epoch": state.epoch, "cursor": state.cursor(), "heartbeat": config.heartbeat_s}
        await self._send(welcome)
        sending = self._connection.run(self._send, config.heartbeat_s, config.unread_s)
        jobs: list[Coroutine[Any, Any, Any]] = [sending, self._listen()]
        if self._caller.expires is not None:
            jobs.append(asyncio.sleep(max(0.0, self._caller.expires - time.time())))
        tasks = [asyncio.create_task(job) for job in jobs]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        await self._end(done, tasks)

    async def _end(self, done: set[asyncio.Task[Any]], tasks: list[asyncio.Task[Any]]) -> None:
        if len(tasks) > 2 and tasks[2] in done:
            await self._socket.close(UNAUTHORIZED, "the token expired")
            return
        for task in done:
            error = task.exception()
            if isinstance(error, SlowConsumer):
                # It is told why when it reads what waits in the socket; if it never does, it is cut off.
                self._connection.close()
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._socket.close(SLOW, "nothing was read"), _FAREWELL_S)
            elif error is not None and not isinstance(error, WebSocketDisconnect):
                raise error

    async def _send(self, frame: Json) -> None:
        await self._socket.send_text(_text(frame))

    async def _listen(self) -> None:
        while True:
            frame: Json = {}
            try:
                frame = await _receive(self._socket)
                await self._heard(frame)
            except (Problem, InvalidInput, msgspec.DecodeError, LookupError) as error:
                about = next((name for name in ("attach", "detach", "move") if name in frame), None)
                await self._send({"error": {**problem_of(error).body(), **({"about": about} if about else {})}})

    async def _heard(self, frame: Json) -> None:
        handlers: dict[str, Callable[[Json], Awaitable[None]]] = {
            "attach": self._attach,
            "detach": self._detach,
            "move": self._move,
            "ack": self._ack,
            "ping": self._ping,
        }
        named = [name for name in handlers if name in frame]
        if len(named) != 1:
            raise InvalidInput("frame", frame, f"must have one of {', '.join(handlers)}")
        await handlers[named[0]](frame)

    async def _attach(self, frame: Json) -> None:
        names, after = _names("attach", frame), frame.get("after", "results")
        if not isinstance(after, str):
            raise InvalidInput("after", after, 'must be a cursor, "now" or "results"')
        if len(self._connection.subscriptions) + len(names) > _MOST_ATTACHED:
            raise InvalidInput("attach", len(names), f"must be at most {_MOST_ATTACHED} in a connection")
        for name in names:
            self._caller.require_sight(name)
        await self._connection.attach(names, after)

    async def _detach(self, frame: Json) -> None:
        subscriptions = self._service.backend.state.bodies.subscriptions
        names = _names("detach", frame)
        self._connection.detach(id for id in map(subscriptions.named, names) if id is not None)

    async def _move(self, frame: Json) -> None:
        move = move_from_json(frame["move"])
        self._caller.require_own(move.id)
        if move.id not in self._service.backend.state.bodies.subscriptions:
            raise Problem(404, "unknown-id", f"there is no subscription {move.id!r}", field="id", value=move.id)
        answer = await self._service.submit(line_parts([move_line(move)], [0]))
        if answer.rejects:
            raise Problem(422, "invalid-input", answer.rejects[0]["reason"], field=answer.rejects[0]["field"])

    async def _ack(self, frame: Json) -> None:
        self._service.backend.state.event_of(str(frame["ack"]))

    async def _ping(self, frame: Json) -> None:
        await self._send({"pong": frame["ping"]})


def _names(field: str, frame: Json) -> list[str]:
    names = frame[field]
    if not isinstance(names, list) or not all(isinstance(name, str | int) for name in names):
        raise InvalidInput(field, names, "must be a list of subscriptions")
    return [str(name) for name in names]
