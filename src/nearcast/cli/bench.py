"""`nearcast bench`: measures the figures of a checkout, shows what was recorded, and guards their counts of work."""

from __future__ import annotations

import argparse
import importlib
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from nearcast.cli.parser import Parser
from nearcast.errors import InvalidInput, SetupError

_DESCRIPTION = """\
Measure the benchmarks of a checkout, and show what was recorded.

Each series runs in a fresh process and is compared with a brute force before it is timed; the series of a point take
turns. Every result is one line of bench/results/FIGURE.jsonl.
"""

_EPILOG = """\
examples
  nearcast bench                                     list the figures
  nearcast bench text_encode                         measure a figure, record and show it
  nearcast bench message_index --x 100000 --repeats 3 --set questions=100 --dry
  nearcast bench text_encode --show --svg text.svg   show and draw what was recorded
  nearcast bench --guard                             compare counts of work with the accepted ones
"""


def build_parser() -> argparse.ArgumentParser:
    """The options of `nearcast bench`."""
    parser = Parser(
        prog="nearcast bench",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("figures", nargs="*", metavar="FIGURE", help="which figures; none: list them")
    parser.add_argument("--x", action="append", metavar="VALUE", help="only this value of the sweep (repeatable)")
    parser.add_argument("--series", action="append", metavar="NAME", help="only this series (repeatable)")
    parser.add_argument("--repeats", type=int, metavar="N", help="timed repetitions (default: the figure's)")
    parser.add_argument("--seed", type=int, metavar="N", help="seed of all random numbers (default: the figure's)")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="change a size (repeatable)")
    parser.add_argument("--dry", action="store_true", help="measure and show, but record nothing")
    parser.add_argument("--out", type=Path, metavar="FILE", help="record in this file")
    parser.add_argument("--show", action="store_true", help="measure nothing: show what was recorded")
    parser.add_argument("--markdown", action="store_true", help="show tables as Markdown")
    parser.add_argument("--svg", type=Path, metavar="FILE", help="also draw the figure")
    parser.add_argument("--guard", action="store_true", help="run figures in miniature; compare their counts of work")
    parser.add_argument("--accept", action="store_true", help="with --guard: accept the counts found")
    return parser


def part(name: str) -> Any:
    """The module `name` of the checkout's bench folder.

    Raises
    ------
    SetupError
        If Nearcast does not run from a checkout.
    """
    root = Path(__file__).resolve().parents[3]
    if not (root / "bench" / "runner.py").is_file():
        raise SetupError(
            f"benchmarks are part of the source tree, and {root} is none: clone the project and install it with "
            "pip install -e '.[dev]'"
        )
    if str(root) not in sys.path:
        sys.path.insert(0, str(root))
    return importlib.import_module(f"bench.{name}")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command: 0 when all was measured and right, 1 when a series was wrong or a guard differs."""
    options = build_parser().parse_args(argv)
    known = part("figure").names()
    for name in options.figures:
        if name not in known:
            raise InvalidInput("figure", name, f"must be one of {', '.join(known)}")
    console = Console()
    if options.guard:
        return _guard(options.figures or known, options.accept, console)
    if not options.figures:
        for name in known:
            console.print(f"{name:<26}{part('figure').load(name).title}", highlight=False)
        return 0
    codes = [_figure(part("figure").load(name), options, console) for name in options.figures]
    return max(codes)


def _figure(figure: Any, options: argparse.Namespace, console: Console) -> int:
    record = part("record")
    lines: list[dict[str, Any]] = []
    code = 0
    if options.show:
        lines = list(record.read(options.out or record.RESULTS / f"{figure.name}.jsonl"))
        if not lines:
            raise SetupError(f"nothing is recorded for {figure.name}: run nearcast bench {figure.name}")
    else:
        lines, code = _measure(figure, options, console)
    if lines:
        _show(figure, lines, options, console)
    return code


def _measure(figure: Any, options: argparse.Namespace, console: Console) -> tuple[list[dict[str, Any]], int]:
    record, runner = part("record"), part("runner")
    xs = _chosen("x", options.x, figure.sweep[1])
    series = _chosen("series", options.series, tuple(figure.series))
    changed = dict(_setting(word, figure) for word in options.set)
    seed = figure.seed if options.seed is None else options.seed
    repeats = figure.repeats if options.repeats is None else options.repeats
    if repeats < 1:
        raise InvalidInput("repeats", repeats, "must be >= 1")
    context = record.surroundings()
    lines: list[dict[str, Any]] = []
    code = 0
    for x in xs:
        with console.status(f"{figure.name}: {figure.sweep[0]} {x}"):
            for result in runner.measure(figure, x, series, changed, seed, repeats):
                if isinstance(result, runner.Failed):
                    print(f"nearcast bench: {figure.name} at {x}: {result}", file=sys.stderr)
                    code = 1
                    continue
                lines.append(record.compose(figure, x, seed, result, context))
                if not options.dry:
                    record.append(lines[-1], options.out)
    return lines, code


def _show(figure: Any, lines: list[dict[str, Any]], options: argparse.Namespace, console: Console) -> None:
    plot = part("plot")
    for rows in plot.tables(figure, lines):
        if options.markdown:
            print(f"{rows.title}\n\n{plot.as_markdown(rows)}\n")
        else:
            console.print(plot.as_rich(rows))
    print(f"expected: {figure.expected}\n{plot.provenance(lines)}")
    if options.svg:
        plot.draw(figure, lines, options.svg)


def _chosen(option: str, wanted: list[str] | None, known: tuple[Any, ...]) -> list[Any]:
    """The values of a sweep, or the series, that were asked for; all of them by default."""
    by_name = {str(value): value for value in known}
    for word in wanted or []:
        if word not in by_name:
            raise InvalidInput(option, word, f"must be one of {', '.join(by_name)}")
    return [by_name[word] for word in wanted] if wanted else list(known)


def _setting(word: str, figure: Any) -> tuple[str, Any]:
    """NAME=VALUE; the value is JSON, or text where it is not."""
    name, sign, value = word.partition("=")
    known = {*figure.sizes, *(own for _, settings in figure.series.values() for own in settings)}
    if not sign or name not in known:
        raise InvalidInput("set", word, f"must be NAME=VALUE with a name of {', '.join(sorted(known))}")
    try:
        return name, json.loads(value)
    except json.JSONDecodeError:
        return name, value


def _guard(names: Sequence[str], accept: bool, console: Console) -> int:
    guards = part("guards")
    code = 0
    for name in names:
        found = guards.count(name)
        changed = guards.differences(found, guards.accepted(name))
        if accept:
            guards.accept(name, found)
        elif changed:
            code = 1
        state = "as accepted" if not changed else "accepted now" if accept else "differs"
        console.print(f"{name:<26}{state}", highlight=False)
        for line in changed:
            print(f"  {line}")
    return code
