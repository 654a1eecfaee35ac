"""DuckDB and chDB (ClickHouse in the process): columnar joins, by the rarest word where words are asked for."""

from __future__ import annotations

import time
from typing import Any, ClassVar

import pyarrow as pa

from bench.open.workload import Workload
from bench.peers.base import Pairs, Peer
from bench.peers.words import with_rarest

NOBODY = pa.table({"s": pa.array([], pa.int64()), "m": pa.array([], pa.int64())})
_SHARING = """
        (SELECT a.id AS s_id, b.id AS m_id, count(*) AS n FROM (SELECT id, {unnest}(keywords) AS word FROM s) AS a
        JOIN (SELECT id, {unnest}(keywords) AS word FROM live) AS b ON a.word = b.word GROUP BY a.id, b.id) AS p
        JOIN s ON s.id = p.s_id JOIN live AS m ON m.id = p.m_id"""
_DISTANCE = "sqrt((m.lon - s.lon) * (m.lon - s.lon) + (m.lat - s.lat) * (m.lat - s.lat))"


class Columnar(Peer):
    """What both share: the questions, in the words of each system."""

    functions: ClassVar[dict[str, str]]

    def __init__(self, workload: Workload) -> None:
        super().__init__(workload)
        self.last = self.task.before
        self.found = NOBODY

    def cpu_s(self) -> float:
        return time.process_time()

    def pairs(self) -> Pairs:
        return set(zip(self.found["s"].to_pylist(), self.found["m"].to_pylist(), strict=True))

    def sql(self) -> str:
        """The question of this kind: subscriptions `s`, messages that come `m`, live messages `live`."""
        sharing = _SHARING.format(**self.functions)
        return QUESTIONS[self.task.kind].format(
            **self.functions, max_distance=repr(self.task.max_distance), distance=_DISTANCE, sharing=sharing
        )


QUESTIONS = {
    "within": """
        SELECT s.id AS s, m.id AS m FROM (SELECT id, lon, lat, keywords, {unnest}(keywords) AS word FROM m) AS m
        JOIN s ON s.rarest = m.word
        WHERE m.lon BETWEEN s.min_lon AND s.max_lon AND m.lat BETWEEN s.min_lat AND s.max_lat
        AND {has_all}(m.keywords, s.keywords)""",
    "similar": """
        SELECT s.id AS s, m.id AS m FROM m CROSS JOIN s
        WHERE s.delta * ({shared}) / {length}(s.keywords)
        + (1 - s.delta) * {greatest}(0.0, 1 - {distance} / {max_distance}) >= s.tau""",
    "topk": """
        SELECT s, m FROM (SELECT s.id AS s, m.id AS m, s.k AS k, row_number() OVER (PARTITION BY s.id ORDER BY
        s.alpha * {greatest}(0.0, 1 - {distance} / {max_distance})
        + (1 - s.alpha) * p.n / sqrt({length}(s.keywords) * {length}(m.keywords)) DESC, m.id DESC) AS place
        FROM {sharing}) AS ranked WHERE place <= k""",
    "nearest_all": """
        SELECT s, m FROM (SELECT s.id AS s, m.id AS m, s.k AS k,
        row_number() OVER (PARTITION BY s.id ORDER BY {distance}, m.id DESC) AS place
        FROM (SELECT id, lon, lat, keywords, {unnest}(keywords) AS word FROM live) AS m JOIN s ON s.rarest = m.word
        WHERE {has_all}(m.keywords, s.keywords)) AS ranked WHERE place <= k""",
    "nearest_any": """
        SELECT s, m FROM (SELECT s.id AS s, m.id AS m, s.k AS k,
        row_number() OVER (PARTITION BY s.id ORDER BY {distance}, m.id DESC) AS place
        FROM {sharing}) AS ranked WHERE place <= k""",
}


class DuckDB(Columnar):
    """DuckDB in memory, one thread."""

    name = "DuckDB"
    functions: ClassVar[dict[str, str]] = {
        "unnest": "unnest",
        "has_all": "list_has_all",
        "shared": "len(list_intersect(s.keywords, m.keywords))",
        "length": "len",
        "greatest": "greatest",
    }

    @property
    def version(self) -> str:
        import duckdb

        return str(duckdb.__version__)

    def load(self) -> None:
        import duckdb

        self.db = duckdb.connect(":memory:")
        self.db.execute("SET threads = 1")
        self._keep("s", with_rarest(self.workload))
        self._keep("live", self.workload.messages.slice(0, self.task.before))

    def _keep(self, name: str, rows: pa.Table) -> None:
        self.db.register("given", rows)
        self.db.execute(f"CREATE TABLE {name} AS SELECT * FROM given")
        self.db.unregister("given")

    def publish(self, batch: pa.Table) -> None:
        self.db.register("m", batch)
        if self.task.keeps:
            self.last += batch.num_rows
            self.db.execute("INSERT INTO live SELECT * FROM m")
            self.db.execute("DELETE FROM live WHERE id <= ?", [self.last - self.task.before])
        self.found = self.db.sql(self.sql()).to_arrow_table()
        self.db.unregister("m")

    def close(self) -> None:
        self.db.close()


class ChDB(Columnar):
    """ClickHouse in the process, one thread."""

    name = "chDB"
    functions: ClassVar[dict[str, str]] = {
        "unnest": "arrayJoin",
        "has_all": "hasAll",
        "shared": "length(arrayIntersect(s.keywords, m.keywords))",
        "length": "length",
        "greatest": "greatest",
    }

    @property
    def version(self) -> str:
        return str(self._query("SELECT version()")).strip().strip('"')

    def _query(self, sql: str, form: str = "CSV") -> Any:
        return self.db.query(sql, form)

    def load(self) -> None:
        from chdb import session

        self.db = session.Session()
        self._query("CREATE DATABASE IF NOT EXISTS peers")
        self._query("USE peers")
        self._query("SET max_threads = 1")
        for name, rows in (
            ("s", with_rarest(self.workload)),
            ("live", self.workload.messages.slice(0, self.task.before)),
        ):
            self._query(f"CREATE TABLE {name} ({_columns(rows)}) ENGINE = MergeTree ORDER BY id")
            self._insert(name, rows)
        self._query(f"CREATE TABLE m ({_columns(self.workload.messages)}) ENGINE = Memory")

    def _insert(self, name: str, rows: pa.Table) -> None:
        import tempfile

        import pyarrow.parquet as pq

        with tempfile.NamedTemporaryFile(suffix=".parquet") as file:
            pq.write_table(rows, file.name)
            self._query(f"INSERT INTO {name} SELECT * FROM file('{file.name}', Parquet, '{_columns(rows)}')")

    def publish(self, batch: pa.Table) -> None:
        self._insert("m", batch)
        if self.task.keeps:
            self.last += batch.num_rows
            self._query("INSERT INTO live SELECT * FROM m")
            self._query(f"DELETE FROM live WHERE id <= {self.last - self.task.before}")
        found = self._query(self.sql(), "ArrowStream").bytes()
        self.found = pa.ipc.open_stream(pa.py_buffer(found)).read_all() if found else NOBODY
        self._query("TRUNCATE TABLE m")

    def close(self) -> None:
        self.db.close()


def _columns(rows: pa.Table) -> str:
    """The columns of a table in the words of ClickHouse."""
    types = {"int64": "Int64", "double": "Float64", "string": "String"}
    return ", ".join(f"{field.name} {types.get(str(field.type), 'Array(String)')}" for field in rows.schema)
