"""The client without `await`."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import Any

import httpx
import websockets.sync.client as sockets
from websockets.exceptions import WebSocketException

from nearcast.client import calls
from nearcast.client.forms import Heard, Id, Json, Position, ServerError, checked
from nearcast.model.query import Query


class Client:
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
        self._http = httpx.Client(base_url=self._url, headers=calls.headers_of(key), timeout=timeout)

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close what is open."""
        self._http.close()

    def _ask(self, call: calls.Call) -> Any:
        answer = self._http.request(call.method, call.path, **call.more)
        return checked(answer.status_code, answer.content)

    def publish(self, messages: calls.Rows, key: str | None = None) -> Json:
        """Publish one message or several; with a key, once however often it is sent."""
        answer: Json = self._ask(calls.publish(messages, key))
        return answer

    def subscribe(self, id: Id, query: Query | Mapping[str, Any], expires: int | None = None) -> str:
        """Register a subscription, or replace it; returns the cursor behind that."""
        return str((self._ask(calls.subscribe(id, query, expires)))["cursor"])

    def move(self, id: Id, **place: Any) -> str:
        """Move a subscription: ``lon`` and ``lat``, or a ``region``; returns the cursor behind that."""
        return str((self._ask(calls.move(id, place)))["cursor"])

    def unsubscribe(self, id: Id) -> str:
        """End a subscription; returns the cursor behind that."""
        return str((self._ask(calls.unsubscribe(id)))["cursor"])

    def results(self, id: Id) -> Json:
        """The result now: `results`, pairs of message and score, with the `cursor` and the `messages`."""
        answer: Json = self._ask(calls.results(id))
        return answer

    def explain(self, id: Id, message: Id) -> Json:
        """Why a message is in the result, or not."""
        answer: Json = self._ask(calls.explain(id, message))
        return answer

    def updates(self, *ids: Id, after: str = "now", **options: Any) -> Iterator[Heard]:
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
                yield from self._listen(position)
            except ServerError as error:
                position.refused(error)
            except (OSError, WebSocketException):
                time.sleep(position.pause())

    def _listen(self, position: Position) -> Iterator[Heard]:
        with sockets.connect(self._url.replace("http", "ws", 1) + "/v1/ws", max_size=None) as socket:
            socket.send(position.hello(), text=True)
            socket.send(position.attach(), text=True)
            while position.ids:
                yield from position.hear(socket.recv())
