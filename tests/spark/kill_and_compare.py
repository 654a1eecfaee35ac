"""A stream on several hosts, in which processes are killed at random; then every answer is compared.

    python tests/spark/kill_and_compare.py --kills 20 --seed 1

Starts a Spark cluster of hosts that do not see each other's disks (see `hosts`), an S3 server and a Redis. Files in S3
are the input, the store is in S3, answers go to a Redis stream. An executor, a Python worker or the driver is killed
whenever the run has come some random way further; a driver that was killed is started again, twice with another number
of shards. Tasks are speculated. At the end the answers must be those of one undisturbed broker, each once. Only
processes that were started here are killed.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from pyarrow import fs

from spark.hosts import Hosts, executors, hosts, missing, python_workers, stop
from spark.scenes import One, controls_of, messages_of, said_by
from spark.servers import redis_server, s3_server

WAIT_S = 600.0  # for one step, on a busy machine
BATCH_ROWS = 30


def s3_uri(server: str, path: str) -> str:
    """A URI of PyArrow's for a folder of the S3 server."""
    inner = server.removeprefix("http://")
    return f"s3://test:test@nearcast/{path}?scheme=http&region=us-east-1&endpoint_override={inner}"


def write_lines(uri: str, rows: list[dict[str, Any]]) -> None:
    """JSON lines, as one file."""
    system, path = fs.FileSystem.from_uri(uri)
    with system.open_output_stream(path) as stream:
        for row in rows:
            known = {name: value for name, value in row.items() if name != "position" and value is not None}
            for name in ("region", "keywords"):
                if isinstance(known.get(name), str) and known[name].startswith("["):
                    known[name] = json.loads(known[name])
            stream.write(json.dumps(known).encode() + b"\n")


class Drive:
    """The driver, started again whenever it was killed."""

    def __init__(self, cluster: Hosts, s3: str, redis: str) -> None:
        self._cluster, self._s3, self._redis = cluster, s3, redis
        self.n_starts = 0

    def start(self, n_shards: int, **other: str) -> None:
        given = {
            "master": self._cluster.url, "host": self._cluster.address, "shards": n_shards, "redis": self._redis,
            "messages": s3_uri(self._s3, "in/messages.jsonl"), "controls": s3_uri(self._s3, "in/controls.jsonl"),
            "store": s3_uri(self._s3, "store"), "checkpoint": str(self._cluster.shared / "checkpoint"),
            "scratch": str(self._cluster.folder / "scratch"), "batch_rows": BATCH_ROWS,
        }  # fmt: skip
        self.process = self._cluster.start_driver(
            str(Path(__file__).with_name("hosts_driver.py")), json.dumps(given | other)
        )
        self.n_starts += 1

    @property
    def n_batches(self) -> int:
        """Batches that Spark has committed."""
        commits = self._cluster.shared / "checkpoint" / "commits"
        numbers = [int(path.name) for path in commits.glob("*") if path.name.isdigit()] if commits.exists() else []
        return max(numbers, default=-1) + 1

    def wait(self, n_batches: int) -> bool:
        """Wait until batches are done; False if the driver has ended before."""
        deadline = time.monotonic() + WAIT_S
        while self.n_batches < n_batches:
            if self.process.poll() is not None:
                return False
            assert time.monotonic() < deadline, f"no progress: {self.log()}"
            time.sleep(0.05)
        return True

    def log(self, n: int = 4_000) -> str:
        """The end of what the driver wrote, but for plans and the places in Java's stacks."""
        lines = (self._cluster.folder / "driver.log").read_text().splitlines()
        return "\n".join(line for line in lines if not re.match(r"\s*[:+]?\s*(\+- |:- |at )", line))[-n:]


def kill(kind: str, cluster: Hosts, process: subprocess.Popen[bytes]) -> None:
    """Kill one executor or Python worker; wait for one if there is none."""
    find = executors if kind == "executor" else python_workers
    deadline = time.monotonic() + WAIT_S
    while not (found := find(cluster.pids)) and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.1)
    for pid in found[:1]:
        os.kill(pid, signal.SIGKILL)


def compare(kills: int, seed: int, n_workers: int = 3) -> str:
    """Run, kill and compare; returns what was done."""
    rng = random.Random(seed)
    n_batches = 2 * kills + 4
    messages = messages_of(seed, BATCH_ROWS * n_batches)
    controls = controls_of(seed, 60, 500 * len(messages) // 3)
    kinds = [("executor", "python worker", "driver")[number % 3] for number in range(kills)]
    rng.shuffle(kinds)
    shards = {kills // 3: 3, 2 * kills // 3: 2} if kills > 5 else {}
    for number in shards:
        kinds[number] = "driver"
    moments = sorted(rng.sample(range(1, n_batches - 2), kills))
    with hosts(n_workers) as cluster, s3_server(cluster.address) as s3, _redis(cluster) as redis:
        write_lines(s3_uri(s3, "in/messages.jsonl"), messages)
        write_lines(s3_uri(s3, "in/controls.jsonl"), controls)
        drive = Drive(cluster, s3, redis)
        n_shards, killed = 2, Counter[str]()
        drive.start(n_shards)
        try:
            for number, (kind, moment) in enumerate(zip(kinds, moments, strict=True)):
                assert drive.wait(moment), drive.log()
                time.sleep(rng.uniform(0, 1.0))
                if kind == "driver":
                    stop(drive.process)
                    n_shards = shards.get(number, n_shards)
                    drive.start(n_shards)
                else:
                    kill(kind, cluster, drive.process)
                killed[kind] += 1
                print(f"kill {number + 1}: {kind} at batch {moment} of about {n_batches}", flush=True)
            drive.process.wait(WAIT_S)
            assert drive.process.returncode == 0, drive.log()
        finally:
            stop(drive.process)
        found = said_by(read_answers(redis))
    expected = One().take(messages, controls)
    assert found.updates == expected.updates, "updates differ"
    for name in ("refused", "late"):
        told, wanted = (Counter(map(brief, getattr(said, name))) for said in (found, expected))
        assert told == wanted, f"{name}: {told - wanted} too many, {wanted - told} missing"
    n_updates = sum(map(len, expected.updates.values()))
    of_each = ", ".join(f"{n} {kind}" for kind, n in sorted(killed.items()))
    return (
        f"{kills} kills ({of_each}), {drive.n_starts} starts, {n_workers} hosts: all {n_updates:,} updates, "
        f"{len(expected.refused)} rejects and {len(expected.late)} late rows are those of one broker"
    )


def brief(row: tuple[Any, ...]) -> tuple[Any, ...]:
    """What event of which id was refused for which field. Files are checked at another door, which words it its way."""
    event, id, field, _ = row
    return None if field == "event" else event, id, field


def _redis(cluster: Hosts) -> Any:
    return redis_server(cluster.folder, "--protected-mode", "no", host=cluster.address)


def read_answers(address: str) -> list[Any]:
    """All answers in the Redis stream."""
    import redis

    with redis.Redis.from_url(address) as client:
        return [SimpleNamespace(**json.loads(fields[b"json"])) for _, fields in client.xrange("answers")]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # a polite kill stops what was started
    why = missing()
    if why is not None:
        raise SystemExit(f"hosts cannot be made here: {why}")
    print(compare(args.kills, args.seed))


if __name__ == "__main__":
    main()
