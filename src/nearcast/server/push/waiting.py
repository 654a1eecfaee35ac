"""Waiting with a limit of time, for ten thousand connections at once: asyncio's own takes memory and timers for each.

`asyncio.Event` holds a queue of 0.7 kB for its waiters, of which a connection has one; `asyncio.timeout` makes a timer
for every frame, though hardly any frame waits.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable


class Wake:
    """An event with one waiter."""

    __slots__ = ("_is_set", "_waiter")

    def __init__(self) -> None:
        self._is_set = False
        self._waiter: asyncio.Future[None] | None = None

    def set(self) -> None:
        """Let the waiter go on, or not even begin to wait."""
        self._is_set = True
        self._let_go()

    def _let_go(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def wait(self, seconds: float) -> None:
        """Until it was set since the last wait, or the time is over."""
        if not self._is_set:
            loop = asyncio.get_running_loop()
            self._waiter = loop.create_future()
            timer = loop.call_later(seconds, self._let_go)
            try:
                await self._waiter
            finally:
                timer.cancel()
                self._waiter = None
        self._is_set = False


class Watch:
    """A limit of time for one thing after another, with one timer that is set again only when it has rung."""

    __slots__ = ("_is_late", "_since", "_task", "_timer")

    def __init__(self) -> None:
        self._since: float | None = None  # when what is under way began
        self._timer: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[None] | None = None
        self._is_late = False

    async def within(self, seconds: float, work: Awaitable[None]) -> None:
        """Do some work.

        Raises
        ------
        TimeoutError
            If it takes longer.
        """
        self._since, self._task = time.monotonic(), asyncio.current_task()
        if self._timer is None:
            self._set(seconds, seconds)
        try:
            await work
        except asyncio.CancelledError:
            if not self._is_late:
                self.close()
                raise
            assert self._task is not None
            self._task.uncancel()
            raise TimeoutError from None
        finally:
            self._since = None

    def _set(self, left: float, seconds: float) -> None:
        self._timer = asyncio.get_running_loop().call_later(left, self._rung, seconds)

    def _rung(self, seconds: float) -> None:
        self._timer = None
        if self._since is None:
            return
        left = self._since + seconds - time.monotonic()
        if left > 0:
            self._set(left, seconds)
        elif self._task is not None:
            self._is_late = True
            self._task.cancel()

    def close(self) -> None:
        """Watch no more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
