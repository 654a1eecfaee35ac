"""The client for `async` programs; the same as `Client`, with `await`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from typing import Any

import httpx
import websockets.asyncio.client as sockets
from websockets.exceptions import WebSocketException

from nearcast.client import calls
from nearcast.client.forms import Heard, Id, Json, Position, ServerError, checked
from nearcast.model.query import Query


class AsyncClient:
    """Talks to one server.

    Parameters
    ----------
    url
        Where it listens, such as ``http://127.0.0.1:8787``.
    key
        A key, or a token, if the server asks for one.
    """

    def __init__(self, url: str, key: str | None = None, timeout: float = 30.0) -> None:
        self._url = url.rstrip("/")
        self._key = key
        self._http = httpx.AsyncClient(base_url=self._url, headers=calls.headers_of(key), timeout=timeout)

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close what is open."""
        await self._http.aclose()

    async def _ask(self, call: calls.Call) -> Any:
        answer = await self._http.request(call.method, call.path, **call.more)
        return checked(answer.status_code, answer.content)

    async def publish(self, messages: calls.Rows, key: str | None = None) -> Json:
        """Publish one message or several; with a key, once however often it is sent."""
        answer: Json = await self._ask(calls.publish(messages, key))
        return answer

    async def subscribe(self, id: Id, query: Query | Mapping[str, Any], expires: int | None = None) -> str:
        """Register a subscription, or replace it; returns the cursor behind that."""
        return str((await self._ask(calls.subscribe(id, query, expires)))["cursor"])

    async def move(self, id: Id, **place: Any) -> str:
        """Move a subscription: ``lon`` and ``lat``, or a ``region``; returns the cursor behind that."""
        return str((await self._ask(calls.move(id, place)))["cursor"])

    async def unsubscribe(self, id: Id) -> str:
        """End a subscription; returns the cursor behind that."""
        return str((await self._ask(calls.unsubscribe(id)))["cursor"])

    async def results(self, id: Id) -> Json:
        """The result now: `results`, pairs of message and score, with the `cursor` and the `messages`."""
        answer: Json = await self._ask(calls.results(id))
        return answer

    async def explain(self, id: Id, message: Id) -> Json:
        """Why a message is in the result, or not."""
        answer: Json = await self._ask(calls.explain(id, message))
        return answer

    async def updates(self, *ids: Id, after: str = "now", **options: Any) -> AsyncIterator[Heard]:
        """Changes of these subscriptions as they come, without end; ends when all of them have ended.

        Parameters
        ----------
        after
            A cursor, ``"now"``, or ``"results"`` to begin with the whole result.
        options
            ``every``, ``max_per`` and ``quiet``, as the server has them.
        """
        position = Position(ids, after, self._key, options)
        while position.ids:
            try:
                async for heard in self._listen(position):
                    yield heard
            except ServerError as error:
                position.refused(error)
            except (OSError, WebSocketException):
                await asyncio.sleep(position.pause())

    async def _listen(self, position: Position) -> AsyncIterator[Heard]:
        async with sockets.connect(self._url.replace("http", "ws", 1) + "/v1/ws", max_size=None) as socket:
            await socket.send(position.hello(), text=True)
            await socket.send(position.attach(), text=True)
            while position.ids:
                for heard in position.hear(await socket.recv()):
                    yield heard
