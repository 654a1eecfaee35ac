"""`python -m bench.peers`: all systems on one task, batch by batch in turn, recorded where their answers are right."""

from __future__ import annotations

import argparse
import math
import os
import sys
import time
from typing import Any

from bench.open.truth import TOLERANCE, Truth
from bench.open.workload import KINDS, Workload, make
from bench.peers.base import Pairs, Peer, Unable
from bench.peers.columnar import ChDB, DuckDB
from bench.peers.ours import Nearcast
from bench.peers.postgis import PostGIS
from bench.peers.sqlite import SQLite
from bench.record import RESULTS, append, surroundings

SYSTEMS: tuple[type[Peer], ...] = (Nearcast, PostGIS, DuckDB, SQLite, ChDB)
PEERS = RESULTS / "peers.jsonl"


def parser() -> argparse.ArgumentParser:
    """The options."""
    made = argparse.ArgumentParser(prog="python -m bench.peers", description=__doc__)
    made.add_argument("--kind", choices=KINDS, action="append", help="(repeatable; default: all)")
    made.add_argument("--system", action="append", help="(repeatable; default: all)")
    made.add_argument("--data", default="s1m", help="s1m, or a data set that is kept beside the project")
    made.add_argument("--subscriptions", type=int, default=10_000)
    made.add_argument("--window", type=int, default=10_000)
    made.add_argument("--batch", type=int, default=500)
    made.add_argument("--batches", type=int, default=6, help="each is a repetition; one more warms up")
    made.add_argument("--seconds", type=float, default=30, help="a system that took longer is not asked again")
    made.add_argument("--dry", action="store_true", help="show, and record nothing")
    return made


def main(argv: list[str] | None = None) -> int:
    """Run: 1 if a system answered wrongly."""
    options = parser().parse_args(argv)
    code = 0
    for kind in options.kind or KINDS:
        workload = make(
            kind, options.subscriptions, options.window, options.batch * (options.batches + 1), options.data
        )
        for line in run(workload, options):
            wrong = line.get("wrong")
            code |= bool(wrong)
            rate = (
                f"{line['n'] / line['cpu_s']:,.0f} messages a CPU second" if line.get("n") else line.get("unable", "")
            )
            print(f"{kind:12} {options.data:20} {line['system']:14} {wrong or rate}", flush=True)
            if not options.dry and not wrong and line.get("n"):
                append(line, PEERS)
    return code


def run(workload: Workload, options: argparse.Namespace) -> list[dict[str, Any]]:
    """One line for each system."""
    context, lines, alive = surroundings(), [], []
    for system in SYSTEMS:
        if options.system and system.name not in options.system:
            continue
        peer = system(workload)
        line = _line(peer, options) | context
        lines.append(line)
        try:
            began = time.perf_counter()
            peer.load()
            line |= {"version": peer.version, "load_wall_s": time.perf_counter() - began}
            alive.append((peer, line))
        except (Unable, ImportError) as error:
            line["unable"] = str(error)
    try:
        _batches(workload, options, alive)
    finally:
        for peer, _ in alive:
            peer.close()
    for _, line in alive:
        line["load"] = round(os.getloadavg()[0], 2)
    return lines


def _batches(workload: Workload, options: argparse.Namespace, alive: list[tuple[Peer, dict[str, Any]]]) -> None:
    """All systems, batch by batch in turn; the first batch warms up and is not counted."""
    truth = Truth(workload)
    for number in range(options.batches + 1):
        batch = workload.messages.slice(workload.task.before + number * options.batch, options.batch)
        right = None
        for peer, line in alive:
            if line.get("wrong") or line["wall_s"] > options.seconds:
                continue
            wall, cpu = time.perf_counter(), peer.cpu_s()
            peer.publish(batch)
            spent = {"wall_s": time.perf_counter() - wall, "cpu_s": peer.cpu_s() - cpu}
            found = peer.pairs()
            right = found if right is None else right
            if found != right and not alike(truth, found, right):
                line["wrong"] = f"{len(found - right)} answers too many, {len(right - found)} missing"
            if number:
                line["n"] += batch.num_rows
                line["rows"] += len(found)
                line["wall_s"], line["cpu_s"] = line["wall_s"] + spent["wall_s"], line["cpu_s"] + spent["cpu_s"]
                line["batches"].append(spent)


def alike(truth: Truth, found: Pairs, right: Pairs) -> bool:
    """Whoever differs has the same scores: of equal ones, which sums of floats may order either way, any is right."""
    asked = truth.subscriptions
    for id in {id for id, _ in found ^ right}:
        matches = truth.matches(asked.slice(id - 1, 1).to_pylist()[0])
        scores = dict(zip((matches.rows + 1).tolist(), matches.scores.tolist(), strict=True))
        ours, theirs = (sorted(scores.get(m, math.inf) for s, m in pairs if s == id) for pairs in (found, right))
        close = (math.isclose(a, b, rel_tol=TOLERANCE) for a, b in zip(ours, theirs, strict=False))
        if len(ours) != len(theirs) or not all(close):
            return False
    return True


def _line(peer: Peer, options: argparse.Namespace) -> dict[str, Any]:
    task = peer.task
    sizes = {"subscriptions": task.subscriptions, "window": task.before, "batch": options.batch}
    empty = {"n": 0, "rows": 0, "wall_s": 0.0, "cpu_s": 0.0, "batches": []}
    return {"system": peer.name, "kind": task.kind, "data": task.data, "seed": task.seed, **sizes, **empty}


if __name__ == "__main__":
    sys.exit(main())
