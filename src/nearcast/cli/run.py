"""`nearcast run`: options become a pipeline; shows how it goes and what it did."""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

import nearcast as nc
from nearcast.cli.options import SEVERAL, add_analyzer, add_format, add_space, analyzer_of, bounds_of, joined, parser_of
from nearcast.errors import InvalidInput
from nearcast.partition.partition import METHODS
from nearcast.spark.run.files import Input
from nearcast.spark.run.intake import BATCH_ROWS
from nearcast.spark.run.job import BALANCE, BALANCE_AFTER_S, SNAPSHOT_EVERY, WORLD, Head, Options, Result, run
from nearcast.spark.run.totals import Totals

_DESCRIPTION = """\
Answer subscriptions over a stream of messages, on Spark.

Reads messages and subscription events from files or folders, and writes what changes for each subscriber to
OUT/updates, and every row that could not be honoured, with the reason, to OUT/rejects. It may be stopped or killed
at any moment: run the same command to resume; every update is in the output once.
"""

_EPILOG = """\
input
  JSON lines (.jsonl, .ndjson, .json, also .gz), CSV with a header (.csv, .csv.gz) or Parquet (.parquet). The fields:
    message        {"id": 1, "lon": -73.97, "lat": 40.76, "text": "New ramen place", "ts": 1700000000000}
    subscription   {"id": "bob", "kind": "within", "region": [-74.0, 40.7, -73.9, 40.8], "keywords": "fire OR smoke"}
                   {"id": "ann", "kind": "topk", "lon": -73.98, "lat": 40.75, "keywords": "ramen sushi", "k": 5}
    event          {"event": "move", "id": "ann", "lon": -73.95, "lat": 40.70, "ts": 1700000600000}
                   {"event": "unsubscribe", "id": "bob", "ts": 1700000900000}
  A Redis stream, named redis://HOST:PORT/NAME, has such a row as JSON in the field "json" of each entry; a Kafka
  topic, named kafka://HOST:PORT/TOPIC, as the value of each record.
  Times are epoch milliseconds. Events are taken in the order of ts (none first), subscription events before
  messages, then by id; so subscriptions without ts come before every message.

output
  OUT/updates      subscription, message, sign (+ into the result, - out of it), score, ts, batch, seq;
                   (batch, seq) is the order of the updates of a subscription
  OUT/rejects      source, row, text, field, reason; of rows that were refused, and of messages that came too late
  OUT/summary.json the counts that are shown at the end
  OUT/metrics.jsonl what each micro-batch did: rows, updates, rows waiting, seconds and work of every shard, imbalance

examples
  nearcast run --messages tweets.parquet --subscriptions subs.jsonl --window-count 100000 --out out
  nearcast run --messages inbox/ --events events/ --window-age 3600 --follow --out out
  nearcast run --messages redis://localhost/posts --subscriptions subs.jsonl --follow --out out
"""


def build_parser() -> argparse.ArgumentParser:
    """The options of `nearcast run`."""
    parser = parser_of("nearcast run", _DESCRIPTION, _EPILOG)
    reading = parser.add_argument_group("what to read")
    add = reading.add_argument
    add("--messages", **SEVERAL, help="files or folders of messages (rows that name another event are taken as such)")
    add("--subscriptions", **SEVERAL, help="files or folders of subscriptions, or of subscription events")
    add("--events", **SEVERAL, help="files or folders of events of all sorts")
    add_format(reading)
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--once", action="store_true", help="read what is there, then end (this is the default)")
    how.add_argument("--follow", action="store_true", help="keep watching folders for new files; Ctrl-C ends it")

    answering = parser.add_argument_group("what to answer")
    add_space(answering)
    add = answering.add_argument
    add("--window-count", type=int, metavar="N", help="only the newest N messages are live")
    add("--window-age", type=float, metavar="S", help="messages are live for S seconds")
    add("--max-ahead", type=float, metavar="S", help="reject messages more than S seconds ahead of the clock")
    add(
        "--corpus",
        **SEVERAL,
        help="files of messages whose texts fix how much each word weighs (default: all the same)",
    )
    add_analyzer(add)

    add = parser.add_argument_group("where it goes").add_argument
    add("--out", required=True, metavar="DIR", help="folder for the output")
    add("--updates-format", choices=("parquet", "jsonl"), default="parquet", help="default: parquet")
    add("--updates-to", metavar="URL", help="also enter updates in a Redis stream, redis://HOST:PORT/NAME")
    add("--checkpoint", metavar="DIR", help="folder for what a restart needs (default: OUT/_checkpoint)")

    add = parser.add_argument_group("how it runs").add_argument
    add("--master", metavar="URL", help="a Spark master (default: Spark inside this machine)")
    add(
        "--shards",
        type=int,
        metavar="N",
        help="parts the subscriptions are split into (default: half the cores; another number than before is fine)",
    )
    add("--threads", type=int, metavar="N", help="cores that each shard uses (default: 1, or what Spark gives a task)")
    add(
        "--partition",
        choices=METHODS,
        default="dkm",
        help="split them by expected cost (dkm), words, place, or a hash of their ids (default: dkm)",
    )
    add(
        "--balance",
        type=float,
        default=BALANCE,
        metavar="X",
        help="move subscriptions when the work of shards differs by more than this share of its mean "
        f"(default: {BALANCE}; inf: never)",
    )
    add(
        "--balance-after",
        type=float,
        default=BALANCE_AFTER_S,
        metavar="S",
        help=f"seconds of work per shard before that is judged (default: {BALANCE_AFTER_S:g})",
    )
    add("--batch-rows", type=int, default=BATCH_ROWS, metavar="N", help=f"rows per batch (default: {BATCH_ROWS})")
    add(
        "--snapshot-every",
        type=int,
        default=SNAPSHOT_EVERY,
        metavar="N",
        help=f"turns from one snapshot of a shard to the next (default: {SNAPSHOT_EVERY})",
    )
    return parser


def main(argv: Sequence[str]) -> int:
    """Run the command; return its exit code."""
    args = build_parser().parse_args(joined(argv))
    options = options_from(args)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # a polite kill ends a run as Ctrl-C does
    with Display() as display:
        result = run(options, display.show)
    summary = summary_of(result)
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "summary.json").write_text(json.dumps(summary, indent=2) + "\n")
    print_summary(result, options, Console())
    return 130 if result.stopped and not options.follow else 0


def options_from(args: argparse.Namespace) -> Options:
    """The pipeline's options.

    Raises
    ------
    InvalidInput
        For a value out of range, or no input at all.
    """
    roles = ("messages", "subscriptions", "events")
    inputs = tuple(Input(path, role, args.format) for role in roles for path in getattr(args, role))
    if not inputs:
        raise InvalidInput("input", None, "must be named with --messages, --subscriptions or --events")
    least = {"shards": 1, "threads": 1, "batch_rows": 1, "snapshot_every": 1, "balance": 0, "balance_after": 0}
    for name, bound in least.items():
        value = getattr(args, name)
        if value is not None and not value >= bound:
            raise InvalidInput("--" + name.replace("_", "-"), value, f"must be >= {bound}")
    window = None
    if args.window_count is not None or args.window_age is not None or args.max_ahead is not None:
        window = nc.Window(count=args.window_count, age=args.window_age, max_ahead=args.max_ahead)
    return Options(
        inputs=inputs,
        out=Path(args.out),
        checkpoint=Path(args.checkpoint) if args.checkpoint else None,
        space=nc.Space(bounds_of(args.space), args.metric, args.max_distance),
        window=window,
        analyzer=analyzer_of(args),
        corpus=tuple(Input(path, "corpus", args.format) for path in args.corpus),
        shards=args.shards,
        threads=args.threads,
        partition=args.partition,
        balance=args.balance,
        balance_after=args.balance_after,
        master=args.master,
        follow=args.follow,
        updates_format=args.updates_format,
        updates_to=args.updates_to,
        batch_rows=args.batch_rows,
        snapshot_every=args.snapshot_every,
    )


class Display:
    """Shows progress: a bar in a terminal, a line now and then elsewhere."""

    _EVERY_S = 2.0

    def __init__(self) -> None:
        # A copy of the descriptor, because stderr itself is Spark's while Spark starts.
        self._console = Console(file=os.fdopen(os.dup(sys.stderr.fileno()), "w"))
        self._began = time.monotonic()
        self._shown_at = 0.0
        self._first_rows: int | None = None
        columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
        self._progress = Progress(*columns, TimeElapsedColumn(), console=self._console, transient=True)
        self._task = self._progress.add_task("reading", total=None)

    def __enter__(self) -> Display:
        if self._console.is_terminal:
            self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._console.is_terminal:
            self._progress.stop()
        self._console.file.close()

    def show(self, stage: str, totals: Totals, head: Head) -> None:
        """Take what `run` tells."""
        now = time.monotonic()
        waiting = {
            "start": "starting Spark",
            "compile": "compiling, once for this version",
            "read": "reading and sorting the input on Spark",
        }
        if stage in waiting:
            text = waiting[stage]
        else:
            if self._first_rows is None:
                self._first_rows, self._began = totals.rows, now
            rate = (totals.rows - self._first_rows) / max(now - self._began, 1e-9)
            text = (
                f"batch {totals.next_batch}/{head.batches}, {totals.updates:,} updates, "
                f"{totals.counts['rejects']:,} rejects, {rate:,.0f} rows/s"
            )
        if self._console.is_terminal:
            total = None if stage in waiting else head.rows
            self._progress.update(self._task, description=text, completed=totals.rows, total=total)
        elif stage in waiting or now - self._shown_at >= self._EVERY_S or totals.next_batch == head.batches:
            self._shown_at = 0.0 if stage in waiting else now
            rows = "" if stage in waiting else f"{totals.rows:,}/{head.rows:,} rows, "
            print(rows + text, file=self._console.file, flush=True)


def summary_of(result: Result) -> dict[str, object]:
    """What a run did, for programs."""
    totals = result.totals
    return {
        "rows": totals.rows,
        "accepted": totals.accepted,
        "messages": totals.counts["messages"],
        "events": totals.counts["events"],
        "late": totals.counts["late"],
        "rejects": totals.counts["rejects"],
        "rejects_by_reason": dict(totals.reasons.most_common()),
        "subscriptions": dict(totals.subscriptions),
        "updates": {"+": totals.counts["added"], "-": totals.counts["removed"]},
        "batches": totals.next_batch,
        "shards": result.n_shards,
        "moved": totals.counts["assigned"],
        "files": result.head.files,
        "restores": totals.counts["restored"],
        "seconds": round(result.seconds, 3),
    }


def print_summary(result: Result, options: Options, console: Console) -> None:
    """What a run did, for people."""
    totals, counts = result.totals, result.totals.counts
    new_rows = totals.rows - result.before.rows
    table = Table(title="nearcast run", title_justify="left", show_header=False)
    table.add_column(style="bold")
    table.add_column(justify="right")
    for name, value in (
        ("rows", totals.rows),
        ("  accepted messages", counts["messages"]),
        ("  accepted events", counts["events"]),
        ("  late messages", counts["late"]),
        ("  rejects", counts["rejects"]),
    ):
        table.add_row(name, f"{value:,}")
    for reason, value in totals.reasons.most_common(10):
        table.add_row(f"    {escape(reason)}", f"{value:,}")
    table.add_section()
    table.add_row("subscriptions at the end", f"{totals.subscriptions['all']:,}")
    for kind, value in totals.subscriptions.items():
        if kind != "all" and value:
            table.add_row(f"  {kind}", f"{value:,}")
    table.add_row("updates +", f"{counts['added']:,}")
    table.add_row("updates -", f"{counts['removed']:,}")
    table.add_section()
    table.add_row("files", f"{result.head.files:,}")
    table.add_row("batches", f"{totals.next_batch:,}")
    table.add_row("shards", f"{result.n_shards:,}")
    table.add_row("subscriptions assigned to shards", f"{counts['assigned']:,}")
    table.add_row("shards restored", f"{counts['restored']:,}")
    rate = f" ({new_rows / result.seconds:,.0f} rows/s, start included)" if new_rows else ""
    table.add_row("time", f"{result.seconds:.1f} s{rate}")
    console.print(table)
    if options.space.bounds == WORLD and options.space.metric == "haversine":
        console.print("space: the world, in degrees and metres (--space and --metric choose another)")
    for path in result.changed:
        console.print(f"warning: {path} changed after it was read; changes ignored", style="yellow", markup=False)
    if result.stopped:
        console.print("stopped; run the same command to resume")
    elif new_rows == 0 and result.before.rows:
        console.print("nothing to do: an earlier run has processed everything")
    elif result.before.rows:
        console.print(f"resumed; {result.before.rows:,} rows were already processed")
    console.print(f"updates: {options.out / 'updates'}", soft_wrap=True, markup=False)
    console.print(f"rejects: {options.out / 'rejects'}", soft_wrap=True, markup=False)
