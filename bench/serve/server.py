"""A server to be measured: started, watched in /proc, killed."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType

import pyarrow as pa

from bench.serve.wire import Http
from nearcast.workload import s1m

_TICKS = os.sysconf("SC_CLK_TCK")
KIND = "application/x-ndjson"
SPACE = ("--space", "0,0,1,1", "--metric", "euclidean", "--clock", "event")


class Server:
    """`nearcast serve` in a folder; `before` is put in front of the command, such as a tracer."""

    def __init__(self, data: Path, *options: str, before: tuple[str, ...] = ()) -> None:
        words = [*before, sys.executable, "-m", "nearcast.cli.main", "serve", "--data", str(data), "--port", "0"]
        self.begun = time.monotonic()
        self._process = subprocess.Popen(
            [*words, *SPACE, *options], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert "http://" in line, "the server did not start"
        self.host, self.port = "127.0.0.1", int(line.rsplit(":", 1)[1])
        self.pid = self._process.pid

    def __enter__(self) -> Server:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()

    def kill(self) -> None:
        """`kill -9`."""
        self._process.kill()
        self._process.communicate()

    def http(self) -> Http:
        """A connection."""
        return Http(self.host, self.port)

    async def ready(self) -> float:
        """Wait until it takes events and kernels are compiled; returns the seconds since it was started."""
        http = self.http()
        while (await http.ask("GET", "/readyz"))[0] != 200:
            await asyncio.sleep(0.02)
        http.close()
        return time.monotonic() - self.begun

    def cpu_s(self) -> float:
        """Seconds of processor time so far."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / _TICKS

    def memory_mb(self) -> float:
        """Resident memory."""
        for line in Path(f"/proc/{self.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) / 1024
        raise RuntimeError("the server is gone")


async def subscribe(http: Http, n: int) -> None:
    """The first `n` subscriptions of the workload s1m: boxes with one to four words."""
    for table in s1m.subscriptions(n):
        for first in range(0, table.num_rows, 5_000):
            rows = table.slice(first, 5_000).to_pylist()
            lines = [json.dumps(_subscription(row)) for row in rows]
            status, told = await http.ask("POST", "/v1/subscriptions", "\n".join(lines).encode(), KIND)
            assert status == 202, told
            assert json.loads(told)["accepted"] == len(rows), told[:500]


def _subscription(row: dict[str, object]) -> dict[str, object]:
    region = [row[name] for name in ("min_lon", "min_lat", "max_lon", "max_lat")]
    return {"id": str(row["id"]), "kind": "within", "region": region, "keywords": row["keywords"]}


def messages(n: int, seed: int = 1) -> list[dict[str, object]]:
    """Messages that go with them, in the JSON form."""
    rows = pa.concat_tables(list(s1m.messages(n, seed))).select(["id", "lon", "lat", "text"]).to_pylist()
    return [{**row, "id": f"m{number}", "ts": number} for number, row in enumerate(rows)]
