"""Keys, webhooks and their deliveries, in SQLite. Small, seldom written, and not derived from the log."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

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


class Store:
    """The database of a data folder."""

    def __init__(self, data: Path) -> None:
        data.mkdir(parents=True, exist_ok=True)
        path = data / "server.db"
        self._database = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        path.chmod(0o600)
        self._database.row_factory = sqlite3.Row
        self._database.execute("PRAGMA journal_mode = WAL")
        self._database.execute("PRAGMA foreign_keys = ON")
        self._database.executescript(_TABLES)

    def rows(self, query: str, *values: Any) -> list[dict[str, Any]]:
        """What a query finds."""
        return [dict(row) for row in self._database.execute(query, values)]

    def run(self, statement: str, *values: Any) -> int:
        """Change something; returns how many rows."""
        return self._database.execute(statement, values).rowcount

    def close(self) -> None:
        """Close the database."""
        self._database.close()
