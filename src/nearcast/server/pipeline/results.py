"""Results that follow from updates alone: the one question about its subscriptions that a run's output answers.

`TopK` and `Nearest` tell whatever leaves. `Within` and `Similar` do not tell what expires: a message is left out once
its body is let go, or its time is over by the clock of the last update.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from nearcast.errors import UnknownId
from nearcast.server.durable.bodies import Bodies, Id
from nearcast.server.durable.operations import Json
from nearcast.server.problems import Problem
from nearcast.window.window import Window

_SILENT = ("within", "similar")
_SWEEP_EVERY = 200  # events


class Results:
    """Stands where routes and connections expect a broker."""

    def __init__(self, bodies: Bodies, window: Window | None) -> None:
        self._bodies = bodies
        self._age = None if window is None or window.age is None else window.age_ms
        self._entered: dict[Id, dict[Id, float | None]] = {}
        self.clock: int | None = None
        self._n = 0

    def follow(self, updates: pa.Table) -> None:
        """Apply what an event told."""
        columns = [updates.column(name).to_pylist() for name in ("subscription", "sign", "message", "score")]
        for subscription, sign, message, score in zip(*columns, strict=True):
            own = self._entered.setdefault(subscription, {})
            own.pop(message, None)
            if sign == "+":
                own[message] = score
        told = [ts for ts in updates.column("ts").to_pylist() if ts is not None]
        if told:
            self.clock = max(told) if self.clock is None else max(self.clock, *told)
        self._n += 1
        if self._n % _SWEEP_EVERY == 0:
            self._sweep()

    def _sweep(self) -> None:
        subscriptions = self._bodies.subscriptions
        self._entered = {id: own for id, own in self._entered.items() if id in subscriptions}
        for id, own in self._entered.items():
            if _kind(subscriptions.get(id)) in _SILENT:
                self._entered[id] = {message: own[message] for message in self._live(own)}

    def _live(self, own: dict[Id, float | None]) -> list[Id]:
        bodies = self._bodies.messages.get(own)
        return [id for id in own if id in bodies and not self._is_over(bodies[id])]

    def _is_over(self, body: Json) -> bool:
        if self.clock is None:
            return False
        ts, expires = body.get("ts"), body.get("expires")
        by_age = self._age is not None and isinstance(ts, int) and ts + self._age <= self.clock
        return by_age or (isinstance(expires, int) and expires <= self.clock)

    def results(self, id: Id) -> list[tuple[Id, float | None]]:
        """The result of a subscription, best or newest first.

        Raises
        ------
        UnknownId
            If there is no such subscription.
        """
        body = self._bodies.subscriptions.get(id)
        if body is None:
            raise UnknownId("id", id, "must be the id of a subscription")
        own, kind = self._entered.get(id, {}), _kind(body)
        found = [(message, own[message]) for message in (self._live(own) if kind in _SILENT else own)]
        found.reverse()
        if kind != "within":
            found.sort(key=lambda pair: (pair[1] or 0.0) * (1 if kind == "nearest" else -1))
        return found

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        raise in_pipeline(f"broker.{name}")


def _kind(body: Json | None) -> str:
    return "" if body is None else str(body["kind"])


def in_pipeline(what: str) -> Problem:
    """The answer to what only a broker of one's own can tell."""
    detail = f"{what} needs a broker in the server; this one is in front of a pipeline, which tells updates alone"
    return Problem(501, "in-pipeline", detail)
