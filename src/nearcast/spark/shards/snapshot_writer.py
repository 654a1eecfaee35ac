"""Snapshots of shards, written beside the stream: a shard goes on while a copy of its process writes it down.

The copy shares the memory of the worker until either of them changes it, so a stream stands still for as long as a
process takes to be copied, some 10 ms for each gigabyte. Small shards are written at once. A snapshot counts when a
state names it: until then the log goes on, and a shard that is lost meanwhile is made from the snapshot before.
"""

from __future__ import annotations

import os
import signal
import tempfile
import threading
from pathlib import Path

import nearcast as nc
from nearcast.spark.shards.store import Store

SMALL_BYTES = 16 << 20  # a shard of at most this size is written at once


class SnapshotWriter:
    """A snapshot under way.

    Parameters
    ----------
    name
        Where it goes.
    covered
        How many batches of the shard's log it makes needless.
    """

    def __init__(self, store: Store, name: str, broker: nc.Broker, covered: int) -> None:
        self.name, self.covered = name, covered
        self.finished = False
        self._store = store
        self._folder = tempfile.TemporaryDirectory(prefix="nearcast-")
        self._path = Path(self._folder.name) / "snapshot"
        self._pid = os.fork()
        if not self._pid:
            self._write(broker)
        self._thread = threading.Thread(target=self._finish, name="nearcast-snapshot", daemon=True)
        self._thread.start()

    def _write(self, broker: nc.Broker) -> None:
        """Be the copy: write, and end without a word."""
        code = 1
        try:
            os.closerange(3, os.sysconf("SC_OPEN_MAX") if hasattr(os, "sysconf") else 4096)  # Spark's connections
            broker.snapshot(self._path)
            code = 0
        finally:
            os._exit(code)

    def _finish(self) -> None:
        """Put what the copy wrote into the store."""
        try:
            _, status = os.waitpid(self._pid, 0)
            if os.waitstatus_to_exitcode(status) == 0:
                self._store.put_file(self.name, self._path)
                self.finished = True
        except OSError:
            return  # the next one may succeed: the log goes on until then
        finally:
            self._folder.cleanup()

    @property
    def failed(self) -> bool:
        """Has it ended without a snapshot?"""
        return not self._thread.is_alive() and not self.finished

    def wait(self) -> None:
        """Wait until it has ended."""
        self._thread.join()

    def abandon(self) -> None:
        """Let it go: the shard that it was taken of is not the one that goes on."""
        if self._thread.is_alive():
            try:
                os.kill(self._pid, signal.SIGKILL)
            except ProcessLookupError:
                return
