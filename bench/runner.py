"""A point goes in, one result for each series comes out: each measured in a fresh process, all of them in turn.

The parent starts `python -m bench.runner REQUEST` once for each series. The child prepares its case, judges it, runs it
once to warm up, says so in one JSON line, and then runs it again for every line it is sent. While one child works the
others wait, so that only one of them uses the machine, and a slow minute of it hits all series alike.
"""

from __future__ import annotations

import gc
import json
import os
import resource
import subprocess
import sys
import time
import traceback
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.figure import FOLDER, Case, Figure, Stopwatch, WrongAnswer, load

Result = dict[str, Any]

_ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")


class Failed(Exception):
    """A series could not be measured; nothing of it is recorded."""


class Compiling:
    """Seconds that this process has spent in compiling kernels or fetching compiled ones."""

    def __init__(self) -> None:
        from numba.core import event

        self._listener = event.TimingListener()
        event.register("numba:compiler_lock", self._listener)

    @property
    def seconds(self) -> float:
        return float(self._listener.duration) if self._listener.done else 0.0


def peak_bytes() -> int:
    """The most memory that this process has held."""
    try:  # what getrusage says includes the parent's pages before the child's program was loaded
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def run_once(case: Case, compiling: Compiling) -> Result:
    """One repetition of a case."""
    gc.collect()
    watch = Stopwatch()
    before = compiling.seconds
    n = case.repeat(watch)
    done: Result = {
        "n": n,
        "wall_s": watch.wall_s,
        "cpu_s": watch.cpu_s,
        "compile_s": compiling.seconds - before,
    }
    if watch.laps:
        done["laps"] = {group: quantiles(laps) for group, laps in watch.laps.items()}
    return done


def quantiles(laps: Sequence[tuple[int, int]]) -> dict[str, float]:
    """Microseconds that laps took: the middle one, the slowest in a hundred, and the slowest."""
    wall, cpu = (sorted(column) for column in zip(*laps, strict=True))
    shares = {"p50": len(laps) // 2, "p99": min(len(laps) - 1, len(laps) * 99 // 100), "max": len(laps) - 1}
    named = {f"{kind}_{name}_us": times[at] / 1000 for kind, times in (("wall", wall), ("cpu", cpu))
             for name, at in shares.items()}  # fmt: skip
    return {"n": len(laps), **named}


def serve(request: Mapping[str, Any]) -> None:
    """Be the child: measure one series, for as long as the parent asks."""
    compiling = Compiling()
    wall_s, cpu_s = time.perf_counter(), time.process_time()
    case = load(request["figure"]).make(request["series"], request["sizes"], request["seed"])
    case.prepare()
    setup = {"wall_s": time.perf_counter() - wall_s, "cpu_s": time.process_time() - cpu_s}
    try:
        checked = case.check()
        if checked < 1:
            raise WrongAnswer("nothing was compared with the brute force")
    except WrongAnswer as error:
        _say({"wrong": str(error)})
        return
    warmup = run_once(case, compiling)
    setup["compile_s"] = compiling.seconds
    _say({"unit": case.unit, "source": case.source, "checked": checked, "setup": setup, "warmup": warmup})
    for _ in sys.stdin:
        _say(run_once(case, compiling))
    _say({"peak_bytes": peak_bytes(), "counters": case.counts()})


def _say(line: Result) -> None:
    print(json.dumps(line), flush=True)


class Worker:
    """The parent's hold on one child."""

    def __init__(self, series: str, request: Mapping[str, Any]) -> None:
        self.series = series
        root = FOLDER.parent
        places = [str(root), str(root / "src"), os.environ.get("PYTHONPATH", "")]
        self._process = subprocess.Popen(
            [sys.executable, "-m", "bench.runner", json.dumps(request)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=root,
            env={**os.environ, **_ONE_THREAD, "PYTHONPATH": os.pathsep.join(filter(None, places))},
        )  # fmt: skip
        self.repeats: list[Result] = []
        self.ready: Result = {}

    def start(self) -> None:
        """Wait until the child is prepared and judged."""
        self.ready = self._hear()

    def again(self) -> None:
        """One more repetition."""
        assert self._process.stdin
        self._process.stdin.write("again\n")
        self._process.stdin.flush()
        self.repeats.append(self._hear())

    def finish(self) -> Result:
        """The whole result of the series."""
        assert self._process.stdin
        self._process.stdin.close()
        last = self._hear()
        return {"series": self.series, **self.ready, "repeats": self.repeats, **last}

    def close(self) -> None:
        """End the child, whatever it does."""
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe:
                pipe.close()

    def _hear(self) -> Result:
        assert self._process.stdout
        line = self._process.stdout.readline()
        if not line:
            raise Failed(f"{self.series}: its process ended with code {self._process.wait()}")
        said: Result = json.loads(line)
        if "wrong" in said:
            raise Failed(f"{self.series}: wrong answer, not recorded: {said['wrong']}")
        return said


def measure(
    figure: Figure, x: Any, series: Sequence[str], changed: Mapping[str, Any], seed: int, repeats: int
) -> Iterator[Result | Failed]:
    """Measure series at one point; yields a result for each, or the reason why there is none."""
    groups = [list(series)] if figure.together else [[name] for name in series]
    for group in groups:
        workers: list[Worker] = []
        failed: dict[str, Failed] = {}
        try:
            for name in group:
                sizes = figure.sizes_of(name, x, changed)
                worker = Worker(name, {"figure": figure.name, "series": name, "sizes": sizes, "seed": seed})
                workers.append(worker)
                _try(worker, worker.start, failed)
            for _ in range(repeats):
                for worker in workers:
                    _try(worker, worker.again, failed)
            for worker in workers:
                result = _try(worker, worker.finish, failed)
                sizes = figure.sizes_of(worker.series, x, changed)
                yield failed.get(worker.series) or {**(result or {}), "sizes": sizes}
        finally:
            for worker in workers:
                worker.close()


def _try(worker: Worker, step: Any, failed: dict[str, Failed]) -> Any:
    """Do a step of a worker that has not failed yet."""
    if worker.series in failed:
        return None
    try:
        return step()
    except (Failed, BrokenPipeError) as error:
        failed[worker.series] = error if isinstance(error, Failed) else Failed(f"{worker.series}: its process is gone")
        return None


if __name__ == "__main__":
    try:
        serve(json.loads(sys.argv[1]))
    except Exception:
        traceback.print_exc()
        sys.exit(1)
