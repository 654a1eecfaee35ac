"""`python -m bench.serve CASE`: run a case, print its figures as one line of JSON."""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import os
import resource
import tempfile
from pathlib import Path

import uvloop

from bench.record import surroundings
from bench.serve.cases import CASES


def main() -> None:
    """Run one case."""
    parser = argparse.ArgumentParser(prog="python -m bench.serve", description=__doc__)
    parser.add_argument("case", choices=CASES)
    parser.add_argument("--set", action="append", default=[], metavar="NAME=N", help="another size, such as rows=200")
    args = parser.parse_args()
    sizes = {name: int(value) for name, _, value in (each.partition("=") for each in args.set)}
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 40_000), hard))
    gc.disable()  # a pause of the driver would count as one of the server
    with tempfile.TemporaryDirectory() as folder, asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        figures = runner.run(CASES[args.case](Path(folder) / "data", **sizes))
    rounded = {name: round(value, 3) if isinstance(value, float) else value for name, value in figures.items()}
    load = [round(each, 1) for each in os.getloadavg()]
    print(json.dumps({"case": args.case, **sizes, **rounded, "load": load, **surroundings()}))


if __name__ == "__main__":
    main()
