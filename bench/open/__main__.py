"""`python -m bench.open`: make the files of a task, answer it with Nearcast, or check anybody's answers."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from bench.open.check import SAMPLE, Refused, check
from bench.open.entry import BATCH, Run, answer
from bench.open.workload import KINDS, SIZES, Workload, make, read, read_rows, write, write_rows
from bench.record import RESULTS, append, surroundings

OPEN = RESULTS / "open.jsonl"


def parser() -> argparse.ArgumentParser:
    """The options."""
    made = argparse.ArgumentParser(prog="python -m bench.open", description=__doc__)
    steps = made.add_subparsers(dest="step", required=True)
    one = steps.add_parser("make", help="write the files of a task")
    one.add_argument("folder", type=Path)
    one.add_argument("--kind", choices=KINDS, required=True)
    one.add_argument("--size", choices=SIZES, default="100k", help="subscriptions")
    one.add_argument("--before", type=int, default=100_000, help="messages in the window")
    one.add_argument("--published", type=int, default=20_000, help="messages that come")
    one.add_argument("--form", choices=("parquet", "jsonl"), default="parquet")
    two = steps.add_parser("answer", help="answer a task with Nearcast")
    two.add_argument("folder", type=Path)
    two.add_argument("answers", type=Path, help="where to write them: .parquet or .jsonl")
    two.add_argument("--batch", type=int, default=BATCH, help="messages a call")
    two.add_argument("--repeats", type=int, default=1)
    two.add_argument("--record", action="store_true", help=f"append a line to {OPEN.name}, if the answers are right")
    three = steps.add_parser("check", help="judge answers")
    three.add_argument("folder", type=Path)
    three.add_argument("answers", type=Path)
    three.add_argument("--sample", type=int, default=SAMPLE, help="subscriptions compared with the brute force")
    three.add_argument("--seed", type=int, help="of the sample (default: drawn now)")
    return made


def main(argv: list[str] | None = None) -> int:
    """Do a step: 0 when all is well, 1 when answers are refused."""
    options = parser().parse_args(argv)
    if options.step == "make":
        workload = make(options.kind, SIZES[options.size], options.before, options.published)
        write(workload, options.folder, options.form)
        n, n_messages = workload.subscriptions.num_rows, workload.messages.num_rows
        print(f"{options.folder}: {n:,} subscriptions, {n_messages:,} messages")
        return 0
    workload = read(options.folder)
    if options.step == "answer":
        return _answer(workload, options)
    return _check(workload, read_rows(options.answers), options.sample, options.seed)


def _answer(workload: Workload, options: argparse.Namespace) -> int:
    answer(workload, options.batch)  # compiles
    runs = [answer(workload, options.batch) for _ in range(options.repeats)]
    write_rows(runs[0].answers, options.answers)
    for run in runs:
        print(f"{workload.task.published / run.cpu_s:,.0f} messages a CPU second, {run.answers.num_rows:,} updates")
    code = _check(workload, runs[0].answers, SAMPLE, None)
    if options.record and not code:
        record(workload, options.batch, runs)
    return code


def record(workload: Workload, batch: int, runs: list[Run], system: str = "Nearcast") -> None:
    """Append what an entry took to the records."""
    task = workload.task
    line = {
        "system": system,
        "kind": task.kind,
        "data": task.data,
        "subscriptions": task.subscriptions,
        "window": task.before,
        "published": task.published,
        "batch": batch,
        "updates": runs[0].answers.num_rows,
        "runs": [run._asdict() | {"answers": None} for run in runs],
        "load": round(os.getloadavg()[0], 2),
        **surroundings(),
    }
    append(line, OPEN)


def _check(workload: Workload, answers: object, sample: int, seed: int | None) -> int:
    try:
        found = check(workload, answers, sample, seed)  # type: ignore[arg-type]
    except Refused as error:
        print(f"refused: {error}")
        return 1
    print(f"right: {found.rows:,} updates; {found.subscriptions:,} of {found.of:,} subscriptions compared in full")
    return 0


if __name__ == "__main__":
    sys.exit(main())
