"""PostGIS: a server of its own in a temporary folder; GiST on boxes, GIN on words, no parallel workers."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

import pyarrow as pa

from bench.peers.base import Pairs, Peer, Unable

_DISTANCE = "sqrt((m.lon - s.lon) ^ 2 + (m.lat - s.lat) ^ 2)"
_SHARED = "(SELECT count(*) FROM unnest(s.keywords) AS w WHERE w = ANY(m.keywords))"
_PLACE = f"greatest(0.0, 1 - {_DISTANCE} / %(reach)s)"
_KEPT = """
    SELECT s.id, found.id FROM s CROSS JOIN LATERAL (SELECT m.id FROM live AS m WHERE m.keywords {has} s.keywords
    ORDER BY {order}, m.id DESC LIMIT s.k) AS found"""
QUESTIONS = {
    "within": """
        SELECT s.id, m.id FROM m JOIN s ON s.box && m.place AND m.keywords @> s.keywords
        AND m.lon BETWEEN s.min_lon AND s.max_lon AND m.lat BETWEEN s.min_lat AND s.max_lat""",
    "similar": f"""
        SELECT s.id, m.id FROM m CROSS JOIN s
        WHERE s.delta * {_SHARED} / cardinality(s.keywords) + (1 - s.delta) * {_PLACE} >= s.tau""",
    "topk": _KEPT.format(
        has="&&",
        order=f"s.alpha * {_PLACE} + (1 - s.alpha) * {_SHARED} / sqrt(cardinality(s.keywords) * "
        "cardinality(m.keywords)) DESC",
    ),
    "nearest_all": _KEPT.format(has="@>", order=_DISTANCE),
    "nearest_any": _KEPT.format(has="&&", order=_DISTANCE),
}
_SETTINGS = {
    "fsync": "off",
    "synchronous_commit": "off",
    "full_page_writes": "off",
    "shared_buffers": "512MB",
    "work_mem": "256MB",
    "max_parallel_workers_per_gather": "0",
    "jit": "off",
    "listen_addresses": "",
    "autovacuum": "off",
}


def programs() -> Path:
    """Where the server's programs are."""
    for folder in sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True):
        if (folder / "initdb").exists():
            return folder
    found = shutil.which("initdb")
    if found:
        return Path(found).parent
    raise Unable("there is no PostgreSQL: make peers installs it")


class PostGIS(Peer):
    """A server that lives as long as this object; it listens on no network."""

    name = "PostGIS"

    @property
    def version(self) -> str:
        sql = "SELECT postgis_lib_version(), current_setting('server_version')"
        return "{}, PostgreSQL {}".format(*self.db.execute(sql).fetchone())

    def load(self) -> None:
        import psycopg

        bin_, self.folder = programs(), Path(tempfile.mkdtemp(prefix="peers-"))
        self._as: dict[str, Any] = {}
        if os.geteuid() == 0:  # the server refuses to run as root
            shutil.chown(self.folder, "postgres", "postgres")
            self._as = {"user": "postgres", "group": "postgres", "extra_groups": []}
        data = self.folder / "data"
        self._run([bin_ / "initdb", "-D", data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-sync"])
        options = [word for name, value in _SETTINGS.items() for word in ("-c", f"{name}={value}")]
        self.server = subprocess.Popen(
            [bin_ / "postgres", "-D", data, "-k", self.folder, *options],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=self.folder, **self._as,
        )  # fmt: skip
        self.db = self._connect(psycopg)
        self._fill()

    def _run(self, words: list[Any]) -> None:
        done = subprocess.run(
            [str(w) for w in words], capture_output=True, text=True, check=False, cwd=self.folder, **self._as
        )
        if done.returncode:
            raise Unable(f"PostgreSQL does not start: {done.stderr.strip()[-300:]}")

    def _connect(self, psycopg: Any) -> Any:
        for _ in range(100):
            try:
                return psycopg.connect(f"host={self.folder} user=postgres dbname=postgres", autocommit=True)
            except psycopg.OperationalError:
                if self.server.poll() is not None:
                    break
                time.sleep(0.1)
        raise Unable("PostgreSQL does not answer")

    def _fill(self) -> None:
        try:
            self.db.execute("CREATE EXTENSION postgis")
        except Exception as error:
            raise Unable(f"there is no PostGIS: {error}") from error
        rows = self.workload.subscriptions
        names = [name for name in rows.column_names if name not in ("id", "keywords")]
        typed = ", ".join(f"{name} {'integer' if name == 'k' else 'double precision'}" for name in names)
        self.db.execute(f"CREATE TABLE s (id bigint PRIMARY KEY, keywords text[], {typed})")
        self._copy("s", ["id", "keywords", *names], rows)
        if self.task.kind == "within":
            self.db.execute("ALTER TABLE s ADD COLUMN box geometry")
            self.db.execute("UPDATE s SET box = ST_MakeEnvelope(min_lon, min_lat, max_lon, max_lat)")
            self.db.execute("CREATE INDEX ON s USING gist (box)")
        for table in ("m", "live"):
            self.db.execute(
                f"CREATE TABLE {table} (id bigint PRIMARY KEY, lon double precision, lat double precision, "
                "keywords text[], place geometry GENERATED ALWAYS AS (ST_MakePoint(lon, lat)) STORED)"
            )
        self.last = self.task.before
        if self.task.keeps:
            self._copy("live", ["id", "lon", "lat", "keywords"], self.workload.messages.slice(0, self.last))
            self.db.execute("CREATE INDEX ON live USING gin (keywords)")
        self.db.execute("VACUUM ANALYZE")
        self.backend = self.db.execute("SELECT pg_backend_pid()").fetchone()[0]

    def _copy(self, table: str, names: list[str], rows: pa.Table) -> None:
        with self.db.cursor().copy(f"COPY {table} ({', '.join(names)}) FROM STDIN") as copy:
            for row in rows.to_pylist():
                copy.write_row([row[name] for name in names])

    def publish(self, batch: pa.Table) -> None:
        self.last += batch.num_rows
        names = ["id", "lon", "lat", "keywords"]
        if self.task.keeps:
            self._copy("live", names, batch)
            self.db.execute("DELETE FROM live WHERE id <= %s", [self.last - self.task.before])
        else:
            self.db.execute("TRUNCATE m")
            self._copy("m", names, batch)
            self.db.execute("ANALYZE m")
        self.found = self.db.execute(QUESTIONS[self.task.kind], {"reach": self.task.max_distance}).fetchall()

    def pairs(self) -> Pairs:
        return set(self.found)

    def cpu_s(self) -> float:
        """Of the process that serves this connection, in the ticks that the system counts."""
        fields = Path(f"/proc/{self.backend}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def close(self) -> None:
        if hasattr(self, "db"):
            self.db.close()
        if hasattr(self, "server"):
            self.server.terminate()
            self.server.wait()
        if hasattr(self, "folder"):
            shutil.rmtree(self.folder, ignore_errors=True)
