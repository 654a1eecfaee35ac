"""Keys, webhooks and their deliveries, in SQLite. Small, seldom written, and not derived from the log."""

from __future__ import annotations

import asyncio
import contextlib
import queue
import sqlite3
import threading
from pathlib import Path
from typing import Any, NamedTuple

_TABLES = """
CREATE TABLE IF NOT EXISTS keys (
    id TEXT PRIMARY KEY, hash TEXT NOT NULL, name TEXT NOT NULL, scopes TEXT NOT NULL, prefix TEXT NOT NULL,
    quotas TEXT NOT NULL, created REAL NOT NULL);
CREATE TABLE IF NOT EXISTS webhooks (
    id TEXT PRIMARY KEY, owner TEXT NOT NULL, url TEXT NOT NULL, subscriptions TEXT NOT NULL, options TEXT NOT NULL,
    secrets TEXT NOT NULL, cursor TEXT NOT NULL, disabled TEXT NOT NULL DEFAULT '', heard TEXT NOT NULL DEFAULT '{}',
    created REAL NOT NULL);
CREATE TABLE IF NOT EXISTS deliveries (
    id TEXT PRIMARY KEY, webhook TEXT NOT NULL REFERENCES webhooks (id) ON DELETE CASCADE, first TEXT NOT NULL,
    last TEXT NOT NULL, attempts INTEGER NOT NULL DEFAULT 0, state TEXT NOT NULL, error TEXT NOT NULL DEFAULT '',
    at REAL NOT NULL, number INTEGER NOT NULL);
CREATE INDEX IF NOT EXISTS deliveries_by_webhook ON deliveries (webhook, number);
"""


class Statement(NamedTuple):
    """A change of the database."""

    text: str
    values: tuple[Any, ...]


class _Job(NamedTuple):
    statements: tuple[Statement, ...]
    loop: asyncio.AbstractEventLoop
    done: asyncio.Future[None]


class Store:
    """The database of a data folder."""

    def __init__(self, data: Path) -> None:
        data.mkdir(parents=True, exist_ok=True)
        self._path = data / "server.db"
        self._database = self._open()
        self._path.chmod(0o600)
        self._database.execute("PRAGMA journal_mode = WAL")
        self._database.executescript(_TABLES)
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._work, name="nearcast-store", daemon=True)
        self._thread.start()

    def _open(self) -> sqlite3.Connection:
        database = sqlite3.connect(self._path, isolation_level=None, check_same_thread=False)
        database.row_factory = sqlite3.Row
        database.execute("PRAGMA foreign_keys = ON")
        return database

    def rows(self, query: str, *values: Any) -> list[dict[str, Any]]:
        """What a query finds."""
        return [dict(row) for row in self._database.execute(query, values)]

    def run(self, statement: str, *values: Any) -> int:
        """Change something that seldom changes; returns how many rows. It waits for the disk."""
        return self._database.execute(statement, values).rowcount

    async def change(self, *statements: Statement) -> None:
        """Change something while the loop goes on: all of it, or, if the process is killed, nothing.

        Changes are made in order, and those that come together are synced together.
        """
        loop = asyncio.get_running_loop()
        done: asyncio.Future[None] = loop.create_future()
        self._jobs.put(_Job(statements, loop, done))
        await done

    def _work(self) -> None:
        database = self._open()
        while (job := self._jobs.get()) is not None:
            jobs: list[_Job | None] = [job]
            while not self._jobs.empty():
                jobs.append(self._jobs.get())
            own = [each for each in jobs if each is not None]
            for each, error in zip(own, _changed(database, own), strict=True):
                with contextlib.suppress(RuntimeError):  # the loop has ended
                    each.loop.call_soon_threadsafe(_answer, each.done, error)
            if None in jobs:
                break
        database.close()

    def close(self) -> None:
        """Finish what waits, and close the database."""
        self._jobs.put(None)
        self._thread.join()
        self._database.close()


def _changed(database: sqlite3.Connection, jobs: list[_Job]) -> list[sqlite3.Error | None]:
    """Jobs in one transaction; what became of each."""
    try:
        database.execute("BEGIN IMMEDIATE")
        errors = [_attempt(database, job) for job in jobs]
        database.execute("COMMIT")
    except sqlite3.Error as error:
        if database.in_transaction:
            database.execute("ROLLBACK")
        return [error] * len(jobs)
    return errors


def _attempt(database: sqlite3.Connection, job: _Job) -> sqlite3.Error | None:
    """One job among others: if it fails, nothing of it counts, and the others do."""
    database.execute("SAVEPOINT job")
    try:
        for statement in job.statements:
            database.execute(statement.text, statement.values)
    except sqlite3.Error as error:
        database.execute("ROLLBACK TO job")
        return error
    finally:
        database.execute("RELEASE job")
    return None


def _answer(done: asyncio.Future[None], error: sqlite3.Error | None) -> None:
    if done.done():
        return
    if error is None:
        done.set_result(None)
    else:
        done.set_exception(error)
