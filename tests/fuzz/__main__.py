"""The driver: rounds of every kind in turn until the time is over, or one round by its seed."""

from __future__ import annotations

import argparse
import json
import os
import secrets
import select
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from itertools import count
from pathlib import Path

from rich.console import Console
from rich.live import Live
from rich.text import Text

from fuzz.rounds import ROUNDS

TOLD_S = 60  # between two lines where there is no terminal to show progress on
LONGEST_S = 300  # a round that takes longer hangs; the first one of its kind may have kernels to compile


class Worker:
    """A process that runs rounds, one at a time."""

    def __init__(self) -> None:
        folder = Path(__file__).parent.parent
        paths = [str(folder), str(folder.parent / "src"), os.environ.get("PYTHONPATH", "")]
        self._process = subprocess.Popen(
            [sys.executable, "-m", "fuzz.worker"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        )  # fmt: skip
        self.round = ""
        self.since = 0.0

    def begin(self, name: str) -> None:
        assert self._process.stdin is not None
        self.round, self.since = name, time.monotonic()
        self._process.stdin.write(name + "\n")
        self._process.stdin.flush()

    def fileno(self) -> int:
        assert self._process.stdout is not None
        return self._process.stdout.fileno()

    def failure(self) -> str | None:
        """How the round that has just ended failed, or None."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            return f"the process ended with {self._process.wait()}"
        failure: str | None = json.loads(line)["failure"]
        return failure

    @property
    def hangs(self) -> bool:
        return time.monotonic() - self.since > LONGEST_S

    def stop(self) -> None:
        self._process.kill()
        self._process.wait()


def main() -> int:
    parser = argparse.ArgumentParser(prog="make fuzz", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--seed", default="", help="a number to begin with, or the name and number of one round")
    parser.add_argument("--only", default="", help="kinds of rounds, with commas between them")
    parser.add_argument("--jobs", type=int, default=2)
    given = parser.parse_args()
    console = Console()
    kinds = [kind for kind in given.only.split(",") if kind] or list(ROUNDS)
    first = int(given.seed) if given.seed.isdigit() else secrets.randbelow(2**31)
    if given.seed and not given.seed.isdigit():
        return fuzz(console, iter([given.seed]), 1, float("inf"))
    console.print(f"seed {first}, {', '.join(kinds)}, {given.minutes:g} minutes")
    rounds = (f"{kinds[n % len(kinds)]}-{first + n}" for n in count())
    return fuzz(console, rounds, given.jobs, 60 * given.minutes)


def fuzz(console: Console, rounds: Iterator[str], jobs: int, seconds: float) -> int:
    """Run rounds until the time is over or one has failed; returns the exit code."""
    start, done, failures = time.monotonic(), Counter[str](), dict[str, str]()
    told = start
    idle, busy = [Worker() for _ in range(jobs)], list[Worker]()
    ended = False
    try:
        with Live(Text(), console=console, refresh_per_second=2) as live:
            while True:
                while idle and not ended and not failures and time.monotonic() - start < seconds:
                    name = next(rounds, None)
                    if name is None:
                        ended = True
                        break
                    idle[-1].begin(name)
                    busy.append(idle.pop())
                if not busy:
                    break
                ready, _, _ = select.select(busy, [], [], 1.0)
                for worker in [worker for worker in busy if worker in ready or worker.hangs]:
                    failure = worker.failure() if worker in ready else f"no end after {LONGEST_S} seconds"
                    busy.remove(worker)
                    idle.append(worker)
                    if failure is None:
                        done[worker.round.rpartition("-")[0]] += 1
                    else:
                        failures[worker.round] = failure
                passed = f"{(time.monotonic() - start) / 60:.1f} minutes"
                counts = ", ".join(f"{n} {kind}" for kind, n in done.items())
                now = ", ".join(worker.round for worker in busy)
                line = f"{passed}: {counts or 'no'} rounds done; now {now}"
                live.update(Text(line))
                if not console.is_terminal and time.monotonic() - told > TOLD_S:
                    console.print(line, highlight=False)
                    told = time.monotonic()
    finally:
        for worker in (*idle, *busy):
            worker.stop()
    for name, failure in failures.items():
        console.print(f"\nround {name} failed; again by: make fuzz SEED={name}", style="bold red", highlight=False)
        console.print(failure, markup=False, highlight=False)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
