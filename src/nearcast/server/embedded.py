"""The embedded backend: one broker in this process, its log, its state, and the hub that is told of every event."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from nearcast.broker import Broker
from nearcast.server.backend import Backend, Rejects, nothing_taken
from nearcast.server.durable import recovery
from nearcast.server.durable.answers import extend
from nearcast.server.durable.apply import Outcome
from nearcast.server.durable.log import SEGMENT_BYTES, segments
from nearcast.server.durable.operations import Answer, Part, Share, line_parts
from nearcast.server.durable.updates import KEPT_BYTES, Told, UpdateLog
from nearcast.server.durable.writer import Committed, Question, Submission, Writer
from nearcast.server.logs import log
from nearcast.server.metrics import Metrics
from nearcast.server.problems import Problem

_TICK_S = 1.0
_SNAPSHOT_CHECK_S = 5.0


class Embedded(Backend):
    """One broker in this process."""

    needs_kernels = True

    def __init__(
        self,
        data: Path,
        settings: recovery.Settings | None,
        metrics: Metrics,
        wall_clock: bool = False,
        segment_bytes: int = SEGMENT_BYTES,
        kept_bytes: int = KEPT_BYTES,
        threads: int = 1,
    ) -> None:
        super().__init__(data, settings, metrics)
        self._wall_clock = wall_clock
        self._segment_bytes = segment_bytes
        self._kept_bytes = kept_bytes
        self._threads = threads
        self.writer: Writer | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._snapshot: asyncio.Task[int] | None = None
        self._snapshot_event = 0

    async def start(self) -> None:
        """Recover, in a thread, and begin to write."""
        loop = asyncio.get_running_loop()
        found = await asyncio.to_thread(
            recovery.recover, self.data, self.settings, self._segment_bytes, self._kept_bytes, self._threads
        )
        self.state = found.state
        self.metrics.replayed.set(found.replayed)
        self._snapshot_event = max((event for event, _ in recovery.snapshots(self.data)), default=0)
        self.writer = Writer(found.broker, found.log, loop, self._committed, self._wall_clock)
        self.writer.start()
        self._tasks = [asyncio.create_task(self._keep_snapshots())]
        if self._wall_clock:
            self._tasks.append(asyncio.create_task(self._tick()))
            await asyncio.sleep(0)

    async def stop(self) -> None:
        """Finish what waits; the folder is free afterwards."""
        for task in self._tasks:
            task.cancel()
        if self._snapshot is not None:
            await asyncio.gather(self._snapshot, return_exceptions=True)
        if self.writer is not None:
            await asyncio.to_thread(self.writer.stop)
            await asyncio.sleep(0)  # for what it told the loop last
        if self.state.updates is not None:
            self.state.updates.close()
        self._lock.release()

    @property
    def is_ready(self) -> bool:
        """Whether it takes events."""
        return self.writer is not None

    @property
    def waiting(self) -> int:
        """Requests that wait for the writer."""
        return 0 if self.writer is None else self.writer.waiting

    def _put(self, item: Submission | Question) -> None:
        if self.writer is None:
            raise Problem(503, "starting", "the server is starting", retry_after=1)
        self.writer.put(item)

    # Events

    async def _submit(self, parts: list[Part], rejects: Rejects, key: str, digest: str) -> Answer:
        if not parts:
            return nothing_taken(self.state, rejects)
        future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()

        def done(told: list[tuple[Outcome, Share]] | BaseException) -> None:
            if future.done():
                return
            if isinstance(told, BaseException):
                future.set_exception(told)
                return
            answer = Answer("", 0)
            for outcome, share in told:
                answer = extend(answer, share, outcome, self.state.epoch)
            future.set_result(answer)

        self._put(Submission(parts, done, key, digest, rejects))
        return await future

    def _committed(self, committed: Committed) -> None:
        """Follow what the writer did, in order."""
        for step in committed.steps:
            if isinstance(step, Outcome):
                self.state.follow(step)
                self._tell(Told(step.event, step.updates, step.ended))
            else:
                done, value = step
                done(value)
        self.metrics.committed(committed)

    # Questions

    def ask_then(self, ask: Callable[[Broker], Any], then: Callable[[Any], None]) -> None:
        """Ask the broker; `then` is called with the answer or the error when `state` is just as old as the answer."""
        self._put(Question(ask, then))

    # Time and snapshots

    async def _tick(self) -> None:
        """Log one step of the clock a second."""
        while True:  # the first one before any message, which would else be far ahead of a clock that stood still
            line = {"event": "advance", "ts": int(time.time() * 1000)}
            await self.submit(line_parts([line], [0]), [])
            await asyncio.sleep(_TICK_S)

    async def _keep_snapshots(self) -> None:
        """Write a snapshot whenever a segment is full."""
        while True:
            await asyncio.sleep(_SNAPSHOT_CHECK_S)
            listed = await asyncio.to_thread(segments, self.data / "log")
            if len(listed) > 1 and listed[-1][0] - 1 > self._snapshot_event:
                try:
                    await self.snapshot(seal=False)
                except (Problem, OSError) as error:
                    log("snapshot", error=str(error))

    async def snapshot(self, seal: bool = True) -> int:
        """Write a snapshot of everything up to now, or up to the last full segment; returns its event."""
        if self._snapshot is None or self._snapshot.done():
            self._snapshot = asyncio.create_task(self._write_snapshot(seal))
        return await asyncio.shield(self._snapshot)

    async def _write_snapshot(self, seal: bool) -> int:
        writer = self.writer
        assert writer is not None
        (first, _) = await self.ask(lambda _: writer.log.seal() if seal else writer.log.first)
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "nearcast.server.durable.recovery",
            str(self.data),
            str(first),
            str(self._threads),
            stdout=asyncio.subprocess.PIPE,
            env=dict(os.environ),
        )
        try:
            out, _ = await process.communicate()
        except asyncio.CancelledError:
            process.kill()
            raise
        if process.returncode:
            raise Problem(500, "snapshot", f"the process that writes snapshots ended with {process.returncode}")
        event = int(out)
        updates = self.state.updates
        assert isinstance(updates, UpdateLog)
        await asyncio.to_thread(updates.sync)
        await asyncio.to_thread(recovery.count_snapshot, self.data, event)
        self._snapshot_event = event
        kept = recovery.snapshots(self.data)
        if len(kept) > 1:  # should the newer one be damaged, the older one and the log after it are there
            await asyncio.to_thread(writer.log.drop_before, kept[0][0])
        return event
