"""`nearcast warm`: compiles kernels ahead, so that the first event of a service waits for nothing."""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from nearcast.broker.warm import compile_kernels, note_compiled
from nearcast.cli.parser import Parser
from nearcast.kernel_cache import kernel_folder
from nearcast.model.kinds import LABELS

_DESCRIPTION = """\
Kernels are compiled when they are first needed, and kept. This compiles them now: when a machine or a container image
is set up, so that nobody waits later. Compiling takes a minute or two; where everything is there already, seconds.
"""


def build_parser() -> argparse.ArgumentParser:
    """The options of `nearcast warm`."""
    parser = Parser(
        prog="nearcast warm", description=_DESCRIPTION, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--kind",
        action="append",
        choices=LABELS,
        help="compile for this kind of query only; may be repeated (default: all)",
    )
    return parser


def main(argv: Sequence[str]) -> int:
    """Run the command; return its exit code."""
    kinds = build_parser().parse_args(argv).kind or list(LABELS)
    console, begun = Console(), time.monotonic()
    columns = (TextColumn("compiling kernels"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with (
        Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress,
        ProcessPoolExecutor(min(len(kinds), os.cpu_count() or 1)) as pool,
    ):
        task = progress.add_task("", total=len(kinds))
        for done in as_completed([pool.submit(compile_kernels, [kind]) for kind in kinds]):
            done.result()
            progress.advance(task)
    if set(kinds) == set(LABELS):
        note_compiled()
    took = time.monotonic() - begun
    console.print(f"kernels for {', '.join(kinds)} are in {kernel_folder()} ({took:.0f} s)", soft_wrap=True)
    return 0
