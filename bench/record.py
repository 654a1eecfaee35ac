"""A result goes in; one JSON line with everything needed to judge it later is appended to `results/`."""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench.figure import FOLDER, Figure
from bench.runner import Result

Line = dict[str, Any]

RESULTS = FOLDER / "results"
_PACKAGES = ("numba", "numpy", "pyarrow")


def surroundings() -> Line:
    """Commit, machine and versions, and when this run began."""
    return {
        "run": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "commit": _git("rev-parse", "--short=12", "HEAD") or "unknown",
        "dirty": bool(_git("status", "--porcelain", "--", "src", "bench", ":!bench/results")),
        "machine": {
            "cpu": _cpu(),
            "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
            "memory_gb": round(_memory_bytes() / 2**30, 1),
            "system": platform.system(),
        },
        "versions": {
            "python": platform.python_version(),
            **{name: importlib.metadata.version(name) for name in _PACKAGES},
        },
    }


def compose(figure: Figure, x: Any, seed: int, result: Result, context: Line) -> Line:
    """The line of one series at one point; `load` says how busy the machine was meanwhile."""
    load = round(os.getloadavg()[0], 2)
    return {"figure": figure.name, "sweep": figure.sweep[0], "x": x, "seed": seed, **result, "load": load, **context}


def append(line: Line, path: Path | None = None) -> Path:
    """Append a line to the results of its figure, or to another file."""
    path = path or RESULTS / f"{line['figure']}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        file.write(json.dumps(_rounded(line), separators=(",", ":")) + "\n")
    return path


def read(path: Path) -> Iterator[Line]:
    """The lines of a file, oldest first; none if there is no file."""
    if path.exists():
        with path.open() as file:
            yield from map(json.loads, file)


def _rounded(value: Any) -> Any:
    """Timings with seven digits: more is noise."""
    if isinstance(value, float):
        return float(f"{value:.7g}")
    if isinstance(value, dict):
        return {name: _rounded(inner) for name, inner in value.items()}
    return [_rounded(inner) for inner in value] if isinstance(value, list) else value


def _git(*words: str) -> str:
    done = subprocess.run(["git", *words], cwd=FOLDER.parent, capture_output=True, text=True, check=False)
    return done.stdout.strip()


def _cpu() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def _memory_bytes() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
