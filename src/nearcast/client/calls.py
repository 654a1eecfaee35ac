"""What both clients ask a server for: each call as method, path and what goes with it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple
from urllib.parse import quote

from nearcast.client.forms import Id, query_of, rows_of
from nearcast.model.message import Message
from nearcast.model.query import Query

Rows = Message | Mapping[str, Any] | Iterable[Message | Mapping[str, Any]]


class Call(NamedTuple):
    """One request."""

    method: str
    path: str
    more: dict[str, Any]


def headers_of(key: str | None) -> dict[str, str]:
    """What every request carries."""
    return {} if key is None else {"Authorization": f"Bearer {key}"}


def publish(messages: Rows, key: str | None) -> Call:
    """One message or several; with a key, once however often it is sent."""
    content, kind = rows_of(messages)
    headers = {"content-type": kind, **({} if key is None else {"Idempotency-Key": key})}
    return Call("POST", "/v1/messages", {"content": content, "headers": headers})


def subscribe(id: Id, query: Query | Mapping[str, Any], expires: int | None) -> Call:
    """Register a subscription, or replace it."""
    return Call("PUT", _subscription(id), {"json": query_of(id, query, expires)})


def move(id: Id, place: dict[str, Any]) -> Call:
    """Another place."""
    return Call("PATCH", _subscription(id), {"json": place})


def unsubscribe(id: Id) -> Call:
    """End a subscription."""
    return Call("DELETE", _subscription(id), {})


def results(id: Id) -> Call:
    """The result now."""
    return Call("GET", f"{_subscription(id)}/results", {})


def explain(id: Id, message: Id) -> Call:
    """Why, or why not."""
    return Call("GET", f"{_subscription(id)}/explain/{_part(message)}", {})


def _subscription(id: Id) -> str:
    return f"/v1/subscriptions/{_part(id)}"


def _part(id: Id) -> str:
    """An id as a part of an address."""
    return quote(str(id), safe="")
