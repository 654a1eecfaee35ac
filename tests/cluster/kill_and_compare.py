"""A stream on a real Spark cluster, in which processes are killed at random; then every update is compared.

    python tests/cluster/kill_and_compare.py --kills 20 --seed 1

Starts a standalone master and workers, runs `nearcast run` against them, and kills an executor, a Python worker or the
driver whenever the run has come some random way further. A driver that was killed is started again, twice with
another number of shards. Subscriptions move between shards all the while. At the end the output must be that of one
undisturbed broker, update by update. Only processes that were started here are killed.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from cluster.processes import below, python_workers
from cluster.scenes import answer, events, read_rejects, read_updates, write_lines
from nearcast.cluster.java import find_java
from nearcast.cluster.progress import read_totals
from nearcast.cluster.store import Store, read_json

_WAIT_S = 900.0  # for one step of the plan, on a busy machine


class Cluster:
    """A master and its workers, of one core each."""

    def __init__(self, folder: Path, n_workers: int) -> None:
        import pyspark

        self._home = Path(pyspark.__file__).parent
        self._folder = folder
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self.url = f"spark://127.0.0.1:{port}"
        self.environment = {
            **os.environ,
            "JAVA_HOME": str(find_java().home),
            "SPARK_HOME": str(self._home),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_WORKER_DIR": str(folder / "work"),
            "PYSPARK_PYTHON": sys.executable,
        }
        self._processes = [self._start("Master", "--host", "127.0.0.1", "--port", str(port), "--webui-port", "0")]
        worker = ("-c", "1", "-m", "2g", "--host", "127.0.0.1", "--webui-port", "0", self.url)
        self._processes += [self._start("Worker", *worker) for _ in range(n_workers)]

    def _start(self, role: str, *words: str) -> subprocess.Popen[bytes]:
        command = [str(self._home / "bin" / "spark-class"), f"org.apache.spark.deploy.{role.lower()}.{role}", *words]
        with open(self._folder / f"{role}.log", "ab") as log:
            return subprocess.Popen(command, env=self.environment, stdout=log, stderr=log, start_new_session=True)

    @property
    def pids(self) -> list[int]:
        return [process.pid for process in self._processes]

    def stop(self) -> None:
        for process in self._processes:
            stop(process)


class Driver:
    """`nearcast run`, started again whenever it was killed."""

    def __init__(self, folder: Path, cluster: Cluster) -> None:
        self._folder = folder
        self._cluster = cluster
        self.out = folder / "out"
        self.n_starts = 0

    def start(self, n_shards: int) -> None:
        words = ["--events", str(self._folder / "in"), "--out", str(self.out), "--space", "-10,-10,10,10"]
        words += ["--window-count", "60", "--window-age", "120", "--max-ahead", "3600", "--batch-rows", "30"]
        words += ["--snapshot-every", "4", "--balance", "0.02", "--balance-after", "0.2"]
        words += ["--master", self._cluster.url, "--shards", str(n_shards)]
        command = [sys.executable, "-m", "nearcast.cli.main", "run", *words]
        with open(self._folder / "driver.log", "ab") as log:
            self.process = subprocess.Popen(
                command, env=self._cluster.environment, stdout=log, stderr=log, start_new_session=True
            )
        self.n_starts += 1

    @property
    def n_batches(self) -> int:
        """Batches done, in whichever era."""
        checkpoint = self.out / "_checkpoint"
        known = read_json(checkpoint / "run.json")
        try:
            return read_totals(Store(checkpoint, known["settings"]["era"])).next_batch if known else 0
        except FileNotFoundError:  # swept while it was read
            return 0


def stop(process: subprocess.Popen[bytes]) -> None:
    """Kill a process that was started here, and those it started."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def victims(cluster: Cluster, kind: str) -> list[int]:
    """Executors, or Python workers, of this cluster."""
    if kind == "executor":
        return [
            pid
            for pid, line in below(cluster.pids).items()
            if "CoarseGrainedExecutorBackend" in line and "java" in line
        ]
    return python_workers(cluster.pids)


def wait_for(driver: Driver, n_batches: int) -> bool:
    """Wait until so many batches are done; False if the driver has ended before."""
    deadline = time.monotonic() + _WAIT_S
    while driver.n_batches < n_batches:
        if driver.process.poll() is not None:
            return False
        assert time.monotonic() < deadline, "no progress"
        time.sleep(0.05)
    return True


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # a polite kill stops what was started
    rng = random.Random(args.seed)
    n_batches = 3 * args.kills + 10
    stream = events(args.seed, 30 * n_batches)
    kinds = [("executor", "python worker", "driver")[number % 3] for number in range(args.kills)]
    rng.shuffle(kinds)
    shards = {args.kills // 3: 3, 2 * args.kills // 3: 2}  # another number from these kills on
    for number in shards:
        kinds[number] = "driver"
    moments = sorted(rng.sample(range(1, n_batches - 3), args.kills))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_lines(folder / "in" / "events.jsonl", stream)
        cluster = Cluster(folder, 3)
        driver = Driver(folder, cluster)
        try:
            n_shards, killed = 2, Counter[str]()
            driver.start(n_shards)
            for number, (kind, moment) in enumerate(zip(kinds, moments, strict=True)):
                assert wait_for(driver, moment), (folder / "driver.log").read_text()[-3000:]
                time.sleep(rng.uniform(0, 1.0))
                if kind == "driver":
                    stop(driver.process)
                    n_shards = shards.get(number, n_shards)
                    driver.start(n_shards)
                else:
                    found = victims(cluster, kind)
                    while not found and driver.process.poll() is None:
                        time.sleep(0.1)
                        found = victims(cluster, kind)
                    for pid in found[:1]:
                        os.kill(pid, signal.SIGKILL)
                killed[kind] += 1
                print(f"kill {number + 1}: {kind} at batch {moment} of {n_batches}", flush=True)
            driver.process.wait(_WAIT_S)
            assert driver.process.returncode == 0, (folder / "driver.log").read_text()[-3000:]
            summary = json.loads((driver.out / "summary.json").read_text())
            expected = answer(stream)
            assert read_updates(driver.out) == expected.told, "updates differ"
            assert len(read_rejects(driver.out)) == expected.n_rejects + expected.n_late, "rejects differ"
            assert summary["rows"] == len(stream)
            assert summary["moved"] > 0, "no subscription has moved"
            assert summary["shards"] == 2
        finally:
            stop(driver.process)
            cluster.stop()
    n_updates = sum(map(len, expected.told.values()))
    of_each = ", ".join(f"{n} {kind}" for kind, n in sorted(killed.items()))
    print(
        f"{args.kills} kills ({of_each}), {driver.n_starts} starts, "
        f"{summary['restores']} restores, {summary['moved']} moves, shards 2 -> 3 -> 2: "
        f"all {n_updates:,} updates and {expected.n_rejects:,} rejects are those of one broker"
    )


if __name__ == "__main__":
    main()
