"""SQLite with its R*Tree: boxes in the tree, words in a table with an index, one thread."""

from __future__ import annotations

import math
import sqlite3
import time
from typing import Any

import pyarrow as pa

from bench.peers.base import Pairs, Peer
from bench.peers.words import with_rarest

_SHARED = "(SELECT count(*) FROM s_words AS w WHERE w.s = s.id AND w.word IN (SELECT word FROM m_words WHERE m = m.id))"
_DISTANCE = "hypot(m.lon - s.lon, m.lat - s.lat)"
_PLACE = f"max(0.0, 1 - {_DISTANCE} / :reach)"
_NEAREST = """
    SELECT s, m FROM (SELECT s.id AS s, m.id AS m, s.k AS k,
    row_number() OVER (PARTITION BY s.id ORDER BY {distance}, m.id DESC) AS place FROM {found}) WHERE place <= k"""
_ALL = f"""m_words AS h JOIN s ON s.rarest = h.word JOIN m ON m.id = h.m WHERE {_SHARED} = s.n_words"""
_ANY = """(SELECT DISTINCT w.s AS s_id, h.m AS m_id FROM s_words AS w JOIN m_words AS h ON h.word = w.word) AS p
    JOIN s ON s.id = p.s_id JOIN m ON m.id = p.m_id"""
QUESTIONS = {
    "within": f"""
        SELECT s.id, m.id FROM m CROSS JOIN boxes AS b ON b.x0 <= m.lon AND b.x1 >= m.lon AND b.y0 <= m.lat
        AND b.y1 >= m.lat JOIN s ON s.id = b.id WHERE m.lon BETWEEN s.min_lon AND s.max_lon
        AND m.lat BETWEEN s.min_lat AND s.max_lat AND {_SHARED} = s.n_words""",
    "similar": f"""
        SELECT s.id, m.id FROM m CROSS JOIN s
        WHERE s.delta * {_SHARED} / s.n_words + (1 - s.delta) * {_PLACE} >= s.tau""",
    "topk": f"""
        SELECT s, m FROM (SELECT s.id AS s, m.id AS m, s.k AS k, row_number() OVER (PARTITION BY s.id ORDER BY
        s.alpha * {_PLACE} + (1 - s.alpha) * p.n / sqrt(s.n_words * m.n_words) DESC, m.id DESC) AS place
        FROM (SELECT w.s AS s_id, h.m AS m_id, count(*) AS n FROM s_words AS w JOIN m_words AS h ON h.word = w.word
        GROUP BY w.s, h.m) AS p JOIN s ON s.id = p.s_id JOIN m ON m.id = p.m_id) WHERE place <= k""",
    "nearest_all": _NEAREST.format(distance=_DISTANCE, found=_ALL),
    "nearest_any": _NEAREST.format(distance=_DISTANCE, found=_ANY),
}  # fmt: skip


class SQLite(Peer):
    """SQLite in memory. Messages that come are the table `m`; for the k best it holds all live ones."""

    name = "SQLite R*Tree"

    @property
    def version(self) -> str:
        return sqlite3.sqlite_version

    def load(self) -> None:
        self.db = sqlite3.connect(":memory:", isolation_level=None)
        self.db.create_function("hypot", 2, math.hypot, deterministic=True)
        rows = with_rarest(self.workload)
        names = [name for name in rows.column_names if name != "keywords"]
        self.db.execute(f"CREATE TABLE s ({', '.join(f'{n} PRIMARY KEY' if n == 'id' else n for n in names)}, n_words)")
        self.db.execute("CREATE TABLE s_words (s INTEGER, word TEXT)")
        self.db.execute("CREATE TABLE m (id INTEGER PRIMARY KEY, lon REAL, lat REAL, n_words INTEGER)")
        self.db.execute("CREATE TABLE m_words (m INTEGER, word TEXT)")
        marks = ", ".join("?" * (len(names) + 1))
        listed = rows.to_pylist()
        self._many(
            f"INSERT INTO s VALUES ({marks})", [[*(row[n] for n in names), len(row["keywords"])] for row in listed]
        )
        self._many(
            "INSERT INTO s_words VALUES (?, ?)", [(row["id"], word) for row in listed for word in row["keywords"]]
        )
        if self.task.kind == "within":
            self.db.execute("CREATE VIRTUAL TABLE boxes USING rtree(id, x0, x1, y0, y1)")
            edges = [(r["id"], r["min_lon"], r["max_lon"], r["min_lat"], r["max_lat"]) for r in listed]
            self._many("INSERT INTO boxes VALUES (?, ?, ?, ?, ?)", edges)
        self.db.execute("CREATE INDEX by_s ON s_words (s, word)")
        self.db.execute("CREATE INDEX by_word ON s_words (word, s)")
        self.db.execute("CREATE INDEX by_rarest ON s (rarest)")
        self.db.execute("CREATE INDEX m_by_word ON m_words (word, m)")
        self.db.execute("CREATE INDEX m_by_m ON m_words (m, word)")
        self.last = self.task.before
        if self.task.keeps:
            self._arrive(self.workload.messages.slice(0, self.task.before))
        self.db.execute("ANALYZE")

    def _many(self, sql: str, rows: list[Any]) -> None:
        self.db.execute("BEGIN")
        self.db.executemany(sql, rows)
        self.db.execute("COMMIT")

    def _arrive(self, batch: pa.Table) -> None:
        listed = batch.to_pylist()
        self._many(
            "INSERT INTO m VALUES (?, ?, ?, ?)", [(r["id"], r["lon"], r["lat"], len(r["keywords"])) for r in listed]
        )
        self._many(
            "INSERT INTO m_words VALUES (?, ?)", [(row["id"], word) for row in listed for word in row["keywords"]]
        )

    def publish(self, batch: pa.Table) -> None:
        self.last += batch.num_rows
        gone = self.last - (self.task.before if self.task.keeps else batch.num_rows)
        for table, column in (("m", "id"), ("m_words", "m")):
            self.db.execute(f"DELETE FROM {table} WHERE {column} <= ?", [gone])
        self._arrive(batch)
        self.found = self.db.execute(QUESTIONS[self.task.kind], {"reach": self.task.max_distance}).fetchall()

    def pairs(self) -> Pairs:
        return set(self.found)

    def cpu_s(self) -> float:
        return time.process_time()

    def close(self) -> None:
        self.db.close()
