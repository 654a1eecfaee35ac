"""`nearcast demo`: a day in an invented city goes through the pipeline; what a few people got comes out, and a map."""

from __future__ import annotations

import argparse
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from rich.console import Console
from rich.table import Table

import nearcast as nc
from nearcast.cli.parser import Parser
from nearcast.cli.run import Display, print_summary
from nearcast.page.draw import draw, followers
from nearcast.spark.run.files import Input
from nearcast.spark.run.job import Options, Result, run
from nearcast.workload import city

_WINDOW = nc.Window(age=3 * 3_600.0)
_BATCH_ROWS = 1_000  # small, so that there is something to see
_SHOWN_MESSAGES = 3
_DESCRIPTION = """\
A seeded day in an invented city: people subscribe, move about and leave; others post, and take back some of it; a tram
tells where it is. The whole day goes through the
pipeline on a Spark inside this machine; shows what a few subscribers got, and writes a report with a map to replay.
"""


def build_parser() -> argparse.ArgumentParser:
    """The options of `nearcast demo`."""
    parser = Parser(
        prog="nearcast demo", description=_DESCRIPTION, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", default="out/demo", metavar="DIR", help="folder for everything (default: out/demo)")
    parser.add_argument("--messages", type=int, default=4_000, metavar="N", help="posts of the day (default: 4000)")
    parser.add_argument("--seed", type=int, default=city.SEED, metavar="N", help=f"another day (default: {city.SEED})")
    return parser


def main(argv: Sequence[str]) -> int:
    """Run the command; return its exit code."""
    args = build_parser().parse_args(argv)
    out, console = Path(args.out), Console()
    for name in ("sample", "run"):  # of an earlier demo
        shutil.rmtree(out / name, ignore_errors=True)
    made = city.write_sample(out / "sample", args.seed, args.messages)
    console.print(f"{city.NAME}: {args.messages:,} posts of a day are in {out / 'sample'}", soft_wrap=True)
    options = Options(
        inputs=(Input(str(made.messages), "messages"), Input(str(made.events), "events")),
        out=out / "run",
        space=city.space(),
        window=_WINDOW,
        corpus=(Input(str(made.messages), "messages"),),
        batch_rows=_BATCH_ROWS,
    )
    with Display() as display:
        result = run(options, display.show)
    print_summary(result, options, console)
    if result.stopped:
        return 130
    posts, events = city.sample(args.seed, args.messages)
    messages = city.versions(posts, events)
    updates = read_updates(out / "run" / "updates")
    console.print(people_table(messages, updates))
    report = draw(
        title=f"A day in {city.NAME}",
        bounds=city.BOUNDS,
        messages=messages,
        subscribers=followers(events, {person.id: (person.name, person.story) for person in city.PEOPLE}),
        updates=updates,
        summary=_summary(result),
        features=city.features(),
        metric=city.METRIC,
        age=_WINDOW.age,
    ).save(out / "report.html")
    console.print(f"report with a map: {report.resolve()} (open it in a browser)", soft_wrap=True)
    return 0


def read_updates(folder: Path) -> list[dict[str, Any]]:
    """All updates that a run wrote as Parquet, in order."""
    if not folder.exists():
        return []
    table = pq.read_table(folder).sort_by([("batch", "ascending"), ("seq", "ascending")])
    updates: list[dict[str, Any]] = table.to_pylist()
    return updates


def people_table(messages: Sequence[dict[str, Any]], updates: Sequence[dict[str, Any]]) -> Table:
    """What the people of the city got: how much, and the last few posts that they were told of."""
    said = {(message["id"], message["ts"]): message["text"] for message in messages}
    last_said = {message["id"]: message["text"] for message in messages}
    table = Table(title="What some of them got", title_justify="left", show_lines=True, expand=True)
    for name, wide in (("who", 0.9), ("asked", 1.6), ("+ / -", 0.4), ("the last of it", 2.4)):
        table.add_column(name, ratio=int(wide * 10), overflow="fold")
    for person in city.PEOPLE:
        told = [update for update in updates if update["subscription"] == person.id]
        entered = [(update["message"], update["ts"]) for update in told if update["sign"] == "+"]
        texts = [said.get(version, last_said[version[0]]) for version in entered[-_SHOWN_MESSAGES:]]
        last = "\n".join(f"• {text}" for text in texts)
        table.add_row(person.name, person.story, f"{len(entered)} / {len(told) - len(entered)}", last)
    return table


def _summary(result: Result) -> dict[str, Any]:
    totals = result.totals
    return {
        "messages": totals.counts["messages"],
        "subscription events": totals.counts["events"],
        "updates": totals.updates,
        "rejected rows": totals.counts["rejects"],
        "batches on Spark": totals.next_batch,
        "seconds": round(result.seconds, 1),
    }
