"""`Workers`: threads that take tasks beside the one that asks."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import TypeVar

T = TypeVar("T")

MOST_THREADS = 256


class Workers:
    """`n` threads, that of the caller included; started when they are needed first, and again after a fork."""

    def __init__(self, n: int) -> None:
        self.n = n
        self._pool: ThreadPoolExecutor | None = None
        self._process = 0  # that started the threads

    def run(self, tasks: Sequence[Callable[[], T]]) -> list[T]:
        """What tasks return, in their order; whatever happens in one of them, all are over when this ends."""
        futures: list[Future[T]] = []
        try:
            futures += [self._started().submit(task) for task in tasks[1:]]
            first = tasks[0]()
        finally:
            wait(futures)
        return [first, *(future.result() for future in futures)]

    def _started(self) -> ThreadPoolExecutor:
        if self._pool is None or self._process != os.getpid():
            self._pool, self._process = ThreadPoolExecutor(self.n - 1, "nearcast"), os.getpid()
        return self._pool
