"""What a client sends and hears: requests made of model objects, frames made into changes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from nearcast.model.codec import message_to_json, subscription_to_json
from nearcast.model.message import Message
from nearcast.model.query import Query, Subscription

Id = str | int
Json = dict[str, Any]
LINES = "application/x-ndjson"
GONE = 410
_FIRST_WAIT_S, _LONGEST_WAIT_S = 0.1, 10.0


class ServerError(Exception):
    """An answer that is no success: `status`, `code`, and `problem`, the whole of it."""

    def __init__(self, status: int, problem: Json) -> None:
        super().__init__(f"{status} {problem.get('code', '')}: {problem.get('detail', '')}")
        self.status = status
        self.code = str(problem.get("code", ""))
        self.problem = problem


@dataclass(frozen=True, slots=True)
class Change:
    """One update: `message` entered (``+``) or left (``-``) the result of `subscription`; `body` is what it says."""

    subscription: Id
    sign: str
    message: Id
    score: float | None
    ts: int | None
    cursor: str
    body: Json | None = None


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The whole result as of a cursor: what was known before does not hold any more."""

    subscription: Id
    results: list[tuple[Id, float | None]]
    cursor: str
    messages: Json


@dataclass(frozen=True, slots=True)
class Ended:
    """A subscription is no more."""

    subscription: Id
    reason: str


Heard = Change | Snapshot | Ended


def rows_of(messages: Message | Mapping[str, Any] | Iterable[Message | Mapping[str, Any]]) -> tuple[bytes, str]:
    """One message as JSON, or several as lines; with the media type."""
    if isinstance(messages, Message | Mapping):
        return msgspec.json.encode(_plain(messages)), "application/json"
    return b"".join(msgspec.json.encode(_plain(each)) + b"\n" for each in messages), LINES


def _plain(message: Message | Mapping[str, Any]) -> Json:
    return message_to_json(message) if isinstance(message, Message) else dict(message)


def query_of(id: Id, query: Query | Mapping[str, Any], expires: int | None) -> Json:
    """A query in the JSON form."""
    if isinstance(query, Mapping):
        return {**query, **({} if expires is None else {"expires": expires})}
    return subscription_to_json(Subscription(id, query, expires))


def checked(status: int, content: bytes) -> Any:
    """The answer of a request.

    Raises
    ------
    ServerError
        If it is a problem.
    """
    try:
        body = msgspec.json.decode(content) if content else None
    except msgspec.DecodeError:
        body = {"detail": content[:200].decode(errors="replace")}
    if status >= 400:
        raise ServerError(status, body if isinstance(body, dict) else {})
    return body


class Position:
    """Where a listener is: what it follows, and the cursor that it has handed out everything up to."""

    def __init__(self, ids: Iterable[Id], after: str, token: str | None, options: Json) -> None:
        self.ids = list(ids)
        self.after = after
        self._token = token
        self._options = options
        self._left = set(map(str, self.ids))  # whose results were not heard yet
        self._wait = _FIRST_WAIT_S

    def refused(self, error: ServerError) -> None:
        """The server cannot go on from here: take the whole result. Any other error is the caller's."""
        if error.status != GONE:
            raise error
        self.after = "results"

    def pause(self) -> float:
        """How long to wait after a break: longer each time that nothing was heard in between."""
        wait, self._wait = self._wait, min(2 * self._wait, _LONGEST_WAIT_S)
        return wait

    def hello(self) -> bytes:
        """The first frame."""
        token = {} if self._token is None else {"token": self._token}
        return msgspec.json.encode({"hello": 1, **token, **self._options})

    def attach(self) -> bytes:
        """The second frame."""
        self._left = set(map(str, self.ids))
        return msgspec.json.encode({"attach": self.ids, "after": self.after})

    def hear(self, content: str | bytes) -> Iterator[Heard]:
        """What a frame tells. The cursor moves when all of it was handed out.

        Raises
        ------
        ServerError
            For an error that is not mended by taking the whole result.
        """
        frame = msgspec.json.decode(content)
        self._wait = _FIRST_WAIT_S
        if "u" in frame:
            bodies = frame.get("messages", {})
            for subscription, sign, message, score, ts in frame["u"]:
                yield Change(subscription, sign, message, score, ts, frame["c"], bodies.get(str(message)))
            self.after = frame["c"]
        elif "snapshot" in frame:
            results = [(message, score) for message, score in frame["results"]]
            yield Snapshot(frame["snapshot"], results, frame["cursor"], frame.get("messages", {}))
            self._snapped(frame["snapshot"], frame["cursor"])
        elif "end" in frame:
            self.ids = [id for id in self.ids if str(id) != str(frame["end"])]
            yield Ended(frame["end"], frame["reason"])
        elif "progress" in frame:
            self.after = frame["progress"]
        elif "error" in frame:
            raise ServerError(frame["error"].get("status", 0), frame["error"])
        elif "attached" in frame and self.after == "now":
            self.after = frame["cursor"]

    def _snapped(self, id: Any, cursor: str) -> None:
        self._left.discard(str(id))
        if self.after != "results" or not self._left:
            self.after = cursor  # all results are there: from here on it is updates
