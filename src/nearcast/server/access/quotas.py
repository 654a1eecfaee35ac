"""How much a caller may use: messages a second by token buckets, and counts of what it holds."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from nearcast.server.access.auth import Caller
from nearcast.server.problems import Problem

_BURST_S = 2.0  # a bucket holds what comes in this time


class Quotas:
    """What every caller uses."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._buckets: dict[str, tuple[float, float]] = {}  # caller: tokens, as of when
        self._connections: Counter[str] = Counter()

    def publish(self, caller: Caller, n: int) -> None:
        """Take `n` messages from the caller's bucket.

        Raises
        ------
        Problem
            429 if there are too few tokens; a request larger than the bucket takes a full one.
        """
        rate = caller.quotas.messages_per_second
        if rate is None:
            return
        now, most = self._clock(), max(rate * _BURST_S, 1.0)
        tokens, then = self._buckets.get(caller.name, (most, now))
        tokens = min(most, tokens + (now - then) * rate)
        if tokens < min(n, most):
            wait = (min(n, most) - tokens) / rate
            raise over("messages_per_second", rate, wait)
        self._buckets[caller.name] = tokens - n, now

    def hold(self, name: str, limit: int | None, held: int, more: int = 1) -> None:
        """Refuse to hold more of something than its limit."""
        if limit is not None and held + more > limit:
            raise over(name, limit)

    @contextmanager
    def connection(self, caller: Caller) -> Iterator[None]:
        """Count a connection while it is open."""
        self.hold("connections", caller.quotas.connections, self._connections[caller.name])
        self._connections[caller.name] += 1
        try:
            yield
        finally:
            self._connections[caller.name] -= 1


def over(limit: str, value: float, wait: float | None = None) -> Problem:
    """The answer to too much."""
    return Problem(429, "quota", f"over the limit {limit} of {value:g}", field=limit, value=value, retry_after=wait)
