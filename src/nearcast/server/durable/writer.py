"""The one thread that owns the broker: it logs what waits, lets the broker match while the disk syncs, and hands over.

Requests gather while the disk syncs for those before them, and then go together: one write, one sync, few calls of the
broker. Nothing leaves before both are done. A question about the broker waits in the same queue, so that its answer has
a place among the events.
"""

from __future__ import annotations

import asyncio
import os
import queue
import sys
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import msgspec
import pyarrow as pa

from nearcast.broker import Broker
from nearcast.errors import NearcastError
from nearcast.server.durable.apply import Outcome, apply
from nearcast.server.durable.log import DiskFull, Log
from nearcast.server.durable.operations import Forms, Part, Run, Share, encode

_GATHER_S = 0.002  # how long a batch waits for more, if the one before it had company
_MOST_ROWS = 20_000  # of a batch
_MOST_BYTES = 32 * 2**20


class Submission(msgspec.Struct):
    """A request on its way: its parts, and whom to tell. `outcomes` has one outcome a part."""

    parts: list[Part]
    done: Callable[[list[tuple[Outcome, Share]] | BaseException], None]  # called on the loop
    key: str = ""
    digest: str = ""
    rejects: list[tuple[int, str, str]] = []  # rows that were refused at the door


class Question(msgspec.Struct):
    """Something to ask the broker between two events."""

    ask: Callable[[Broker], Any]
    done: Callable[[Any], None]  # called on the loop with the answer or the error


class Committed(msgspec.Struct):
    """What the loop is told of one batch: outcomes and answers, in order."""

    steps: list[Outcome | tuple[Callable[[Any], None], Any]]
    n_rows: int
    seconds: float
    sync_seconds: float
    match_seconds: float


class _Batch:
    """What is taken together: runs of operations, questions between them."""

    def __init__(self, wall_clock: bool) -> None:
        self._steps: list[_Open | Question] = []
        self.owners: list[tuple[Submission, list[tuple[int, Share]]]] = []  # the step and share of every part
        self._named: set[Any] = set()
        self._now = time.time()
        self._stamp = int(self._now * 1000) if wall_clock else None
        self.n_rows = 0
        self.n_bytes = 0

    def add(self, item: Submission | Question) -> None:
        """One more."""
        if isinstance(item, Question):
            self._steps.append(item)
            return
        shares = []
        for number, part in enumerate(item.parts):
            first = number == 0
            share = Share(0, part.n, item.key, item.digest, self._now, part.rows, item.rejects if first else [])
            share.last = number + 1 == len(item.parts)
            shares.append((self._add(part, share), share))
        self.owners.append((item, shares))

    def _add(self, part: Part, share: Share) -> int:
        """File a part in the last run, if it fits, or in a new one; returns the number of the step."""
        content = part.content
        last = self._steps[-1] if self._steps else None
        fits = isinstance(last, _Open) and last.is_messages == part.is_messages and last.shape == part.shape
        if not part.is_messages:
            ids = {line.get("id") for line in content}
            fits = fits and not ids & self._named
            self._named = ids | (self._named if fits else set())
        else:
            self.n_bytes += content.nbytes
        if not fits:
            last = _Open(part)
            self._steps.append(last)
        assert isinstance(last, _Open)
        share.first = last.n_rows
        last.items += [content] if isinstance(content, pa.Table) else content
        last.n_rows += part.n
        last.shares.append(share)
        self.n_rows += part.n
        return len(self._steps) - 1

    def close(self) -> list[Run | Question]:
        """No more comes: the steps."""
        return [step.close(self._stamp) if isinstance(step, _Open) else step for step in self._steps]


class _Open:
    """A run that still grows."""

    def __init__(self, part: Part) -> None:
        self.is_messages = part.is_messages
        self.shape = part.shape
        self.items: list[Any] = Forms() if isinstance(part.content, Forms) else []  # else tables, or lines
        self.shares: list[Share] = []
        self.n_rows = 0

    def close(self, stamp: int | None) -> Run:
        if not self.is_messages:
            return Run(self.items, self.shares)
        whole = self.items.to_table() if isinstance(self.items, Forms) else pa.concat_tables(self.items)
        return Run(whole if stamp is None else stamped(whole, stamp), self.shares)


def stamped(table: pa.Table, now: int) -> pa.Table:
    """Messages whose missing `ts` is the time of receipt."""
    if "ts" not in table.schema.names:
        return table.append_column("ts", pa.array([now] * table.num_rows, pa.int64()))
    column = table.column("ts")
    if not column.null_count or not pa.types.is_integer(column.type):
        return table
    return table.set_column(table.schema.names.index("ts"), "ts", column.fill_null(now))


class Writer:
    """Takes submissions and questions from the loop, and tells it what came of them."""

    def __init__(
        self,
        broker: Broker,
        log: Log,
        loop: asyncio.AbstractEventLoop,
        committed: Callable[[Committed], None],
        wall_clock: bool = False,
    ) -> None:
        self._broker = broker
        self.log = log
        self._loop = loop
        self._committed = committed
        self._wall_clock = wall_clock
        self._queue: queue.SimpleQueue[Submission | Question | None] = queue.SimpleQueue()
        self._syncing = ThreadPoolExecutor(1, "nearcast-sync")
        self._thread = threading.Thread(target=self._run, name="nearcast-writer", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    @property
    def waiting(self) -> int:
        """Requests that wait."""
        return self._queue.qsize()

    def put(self, item: Submission | Question) -> None:
        """Hand over a request."""
        self._queue.put(item)

    def stop(self) -> None:
        """Finish what waits, and end."""
        self._queue.put(None)
        self._thread.join()
        self._syncing.shutdown()
        self.log.close()

    def _run(self) -> None:
        company = False
        while True:
            item = self._queue.get()
            if item is None:
                return
            batch = _Batch(self._wall_clock)
            batch.add(item)
            ends = self._gather(batch, company)
            company = len(batch.owners) > 1
            try:
                self._take(batch)
            except BaseException as error:  # the broker may be half changed, the log may not be on disk
                print(f"nearcast serve: the writer stops: {error!r}", file=sys.stderr, flush=True)
                os._exit(70)
            if ends:
                return

    def _gather(self, batch: _Batch, wait: bool) -> bool:
        """Take all that waits; returns whether the end was among it."""
        until = time.monotonic() + (_GATHER_S if wait else 0.0)
        while batch.n_rows < _MOST_ROWS and batch.n_bytes < _MOST_BYTES:
            left = until - time.monotonic()
            try:
                item = self._queue.get(left > 0, left if left > 0 else None)
            except queue.Empty:
                return False
            if item is None:
                return True
            batch.add(item)
        return False

    def _take(self, batch: _Batch) -> None:
        begun = time.perf_counter()
        todo = batch.close()
        runs = [step for step in todo if isinstance(step, Run)]
        payloads = [encode(run) for run in runs]
        first = self.log.last + 1
        try:
            if payloads:
                self.log.reserve(sum(len(payload) + 16 for payload in payloads))
        except DiskFull as error:
            self._refuse(batch.owners, todo, error)
            return
        sync = None
        if payloads:
            self.log.append(payloads)
            sync = self._syncing.submit(self._sync)
        steps, outcomes = self._apply(todo, first)
        matched = time.perf_counter() - begun
        synced = sync.result() if sync is not None else 0.0
        for owner, shares in batch.owners:
            steps.append((owner.done, [(outcomes[step], share) for step, share in shares]))
        seconds = time.perf_counter() - begun
        self._tell(Committed(steps, batch.n_rows, seconds, synced, matched))

    def _sync(self) -> float:
        begun = time.perf_counter()
        self.log.sync()
        return time.perf_counter() - begun

    def _apply(self, steps: Sequence[Run | Question], event: int) -> tuple[list[Any], dict[int, Outcome]]:
        told: list[Any] = []
        outcomes: dict[int, Outcome] = {}
        for number, step in enumerate(steps):
            if isinstance(step, Question):
                told.append((step.done, self._ask(step)))
            else:
                outcomes[number] = apply(self._broker, event, step)
                told.append(outcomes[number])
                event += 1
        return told, outcomes

    def _ask(self, question: Question) -> Any:
        try:
            return question.ask(self._broker)
        except (NearcastError, OSError) as error:
            return error

    def _refuse(
        self, owners: Sequence[tuple[Submission, Any]], todo: Sequence[Run | Question], error: DiskFull
    ) -> None:
        """Nothing can be logged; questions are answered all the same."""
        steps: list[Any] = [(owner.done, error) for owner, _ in owners]
        steps += [(step.done, self._ask(step)) for step in todo if isinstance(step, Question)]
        self._tell(Committed(steps, 0, 0.0, 0.0, 0.0))

    def _tell(self, committed: Committed) -> None:
        try:
            self._loop.call_soon_threadsafe(self._committed, committed)
        except RuntimeError:  # the loop has ended; what was logged is there when it is read again
            return
