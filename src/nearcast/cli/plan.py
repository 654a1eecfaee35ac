"""`nearcast plan`: subscriptions and a sample of messages become the load of each shard, by every way to split them."""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from rich import box
from rich.console import Console
from rich.table import Table

import nearcast as nc
from nearcast.cli.options import (
    SEVERAL,
    add_analyzer,
    add_format,
    add_space,
    add_split,
    analyzer_of,
    bounds_of,
    joined,
    parser_of,
)
from nearcast.cli.plan_picture import draw
from nearcast.columns.arena import Floats, Ints
from nearcast.errors import InvalidInput
from nearcast.partition.costs import MESSAGE_NS, own_costs
from nearcast.partition.footprint import COST_KINDS, Subscriptions, find_footprints
from nearcast.partition.partition import METHODS, SplitSettings, owners_of, split
from nearcast.partition.sample import SAMPLE_ROWS, Sample
from nearcast.spark.run.file_rows import IdTypes, SourceFile, read_file
from nearcast.spark.run.files import Input, find_files, id_types
from nearcast.spark.shards.blocks import rows_with_lists

TITLES = {"dkm": "DkM-SKS", "keyword": "by words", "space": "by space", "hash": "by id"}
BUSY = 0.5  # of a core's time: what a shard should have to do at most

_DESCRIPTION = """\
Tell how evenly subscriptions would be spread over shards, and how many shards to take.

Reads subscriptions and messages like those to come, estimates what each subscription will cost, and shows the load
of every shard for each way to split them: DkM-SKS (by words and places), by words alone, by space alone, and by a
hash of the id. Nothing is run, and Spark is not started.
"""

_EPILOG = """\
what is shown
  The load of a shard is the CPU time that its subscriptions are expected to take for one message, in
  microseconds. Every way to split is judged by the same estimate, so that columns can be compared. The last rows
  tell the spread, (busiest - idlest) / mean, the load of the busiest, and how many subscriptions shards hold.

how many shards
  Every shard sees every message, which costs it something whatever it holds. With --rate the advice is the smallest
  number of shards whose busiest is at work for half of the time at most. Without it, the number from which on a shard
  would spend more on receiving messages than on its subscriptions.

examples
  nearcast plan --messages tweets.parquet --subscriptions subs.jsonl
  nearcast plan --messages tweets.parquet --subscriptions subs.jsonl --rate 5000 --picture plan.svg
"""


class Plan(NamedTuple):
    """What the command found out."""

    n_shards: int
    loads: dict[str, Floats]  # by method: nanoseconds of CPU per message of each shard
    held: dict[str, Ints]  # by method: subscriptions of each shard
    kinds: dict[str, tuple[int, float]]  # by kind: subscriptions, and what all of them cost
    n_refused: int
    n_sampled: int
    advice: int
    reason: str


def build_parser() -> argparse.ArgumentParser:
    """The options of `nearcast plan`."""
    parser = parser_of("nearcast plan", _DESCRIPTION, _EPILOG)
    reading = parser.add_argument_group("what to read")
    add = reading.add_argument
    add("--subscriptions", **SEVERAL, help="files or folders of subscriptions, as nearcast run reads them")
    add("--messages", **SEVERAL, help="files or folders of messages like those to come")
    add("--events", **SEVERAL, help="files or folders of both; moves and ends of subscriptions are passed over")
    add_format(reading)
    add("--sample", type=int, default=SAMPLE_ROWS, metavar="N",
        help=f"stop reading messages after N (default: {SAMPLE_ROWS})")  # fmt: skip

    answering = parser.add_argument_group("what to answer")
    add_space(answering)
    add = answering.add_argument
    add("--no-window", action="store_true", help="messages live forever, as in nearcast run without --window-...")
    add_analyzer(add)

    add = parser.add_argument_group("what to plan").add_argument
    add("--shards", type=int, metavar="N", help="show the loads of N shards (default: as many as advised)")
    add("--rate", type=float, metavar="R", help="messages a second that are to be kept up with")
    add_split(add)
    add("--picture", metavar="FILE", help="draw the loads as an SVG file")
    return parser


def main(argv: Sequence[str]) -> int:
    """Run the command; return its exit code."""
    args = build_parser().parse_args(joined(argv))
    for name in ("shards", "sample", "rate", "theta", "gamma1", "gamma2"):
        value = getattr(args, name)
        if value is not None and not (value > 0 and math.isfinite(value)):
            raise InvalidInput(f"--{name}", value, "must be > 0" if name == "rate" else "must be >= 1")
    if args.picture and not args.picture.lower().endswith(".svg"):
        raise InvalidInput("--picture", args.picture, "must end in .svg")
    roles = ("messages", "subscriptions", "events")
    inputs = [Input(path, role, args.format) for role in roles for path in getattr(args, role)]
    if not args.subscriptions and not args.events:
        raise InvalidInput("--subscriptions", None, "must name subscriptions to plan for (or --events)")
    files = find_files(inputs)
    space = nc.Space(bounds_of(args.space), args.metric, args.max_distance)
    analyzer = analyzer_of(args)
    ids = id_types(files)
    sample = Sample(space, read_messages(files, ids, args.sample), analyzer=analyzer)
    subscriptions = read_subscriptions(files, ids)
    settings = SplitSettings(args.theta, args.gamma1, args.gamma2, window=not args.no_window)
    plan = plan_for(subscriptions, sample, args.shards, args.rate, settings)
    show(plan, Console())
    if args.picture:
        path = Path(args.picture)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(draw({TITLES[method]: loads for method, loads in plan.loads.items()}))
        print(f"picture: {path}")
    return 0


def read_messages(files: Sequence[SourceFile], ids: IdTypes, most: int) -> pa.Table | None:
    """Messages of the files, the first `most`."""
    tables: list[pa.Table] = []
    n = 0
    for file in files:
        for _, table in read_file(file, ("messages",), ids) if n < most else ():
            told = _of(table, "publish", "update").select(["lon", "lat", "text", "keywords"])
            tables.append(told)
            n += told.num_rows
            if n >= most:
                break
    return pa.concat_tables(tables).slice(0, most) if tables else None


def read_subscriptions(files: Sequence[SourceFile], ids: IdTypes) -> Subscriptions:
    """Subscriptions of the files: Parquet as it is if there is nothing else."""
    own = [file for file in files if file.role != "messages"]
    if own and all(file.format == "parquet" and "event" not in pq.read_schema(file.path).names for file in own):
        return pa.concat_tables([pq.read_table(file.path) for file in own], promote_options="permissive")
    tables = [table for file in own for _, table in read_file(file, ("subscriptions",), ids)]
    if not tables:
        return []
    asked = _of(pa.concat_tables(tables), "subscribe").drop_columns([*_BESIDE, "event", "ts", "shard"])
    return rows_with_lists(asked.select([n for n in asked.column_names if asked.column(n).null_count < len(asked)]))


_BESIDE = ("position", "source", "raw", "refused")


def _of(table: pa.Table, *events: str) -> pa.Table:
    """The rows that ask for one of these events, or for none, which means the first; no rows that were refused."""
    asked = pc.is_in(pc.fill_null(table.column("event"), events[0]), pa.array(events))
    return table.filter(pc.and_(asked, table.column("refused").is_null()))


def plan_for(
    subscriptions: Subscriptions, sample: Sample, n_shards: int | None, rate: float | None, settings: SplitSettings
) -> Plan:
    """Split subscriptions in every way, and judge all by one estimate."""
    found = find_footprints(subscriptions, sample)
    if not found.rows.size:
        raise InvalidInput("--subscriptions", len(subscriptions), "must hold a subscription that is well-formed")
    costs = own_costs(found, sample, found.rows.size / (n_shards or 1), settings.window)
    advice, reason = advise(float(costs.sum()), found.rows.size, rate)
    n_shards = n_shards or advice
    loads, held = {}, {}
    for method in METHODS:
        if method == "hash":
            shards = owners_of(subscriptions, n_shards)[found.rows]
        else:
            shards = split(method, found, sample, n_shards, settings)[0]
        loads[method] = np.bincount(shards, costs, n_shards).astype(np.float64)
        held[method] = np.bincount(shards, minlength=n_shards).astype(np.int32)
    kinds = {
        name: (int((found.kinds == number).sum()), float(costs[found.kinds == number].sum()))
        for number, name in enumerate(COST_KINDS)
    }
    return Plan(n_shards, loads, held, kinds, len(subscriptions) - found.rows.size, sample.n, advice, reason)


def advise(load_ns: float, n_subscriptions: int, rate: float | None) -> tuple[int, str]:
    """How many shards to take, and why."""
    each, fixed = (
        f"{load_ns / 1000:,.2f} µs for all subscriptions",
        f"{MESSAGE_NS / 1000:,.2f} µs for itself in every shard",
    )
    if rate is None:
        n = max(1, min(n_subscriptions, math.ceil(load_ns / MESSAGE_NS)))
        if n == 1:
            return n, f"a message takes {fixed} and only {each}: splitting would save little"
        return n, f"a message takes {fixed} and {each}; with more than {n} shards most work would be receiving messages"
    budget = BUSY * 1e9 / rate
    goal = (
        f"at {rate:,g} messages a second a shard that is at work half of the time has {budget / 1000:,.2f} µs for each"
    )
    if budget <= MESSAGE_NS:
        n = max(1, min(n_subscriptions, math.ceil(load_ns / MESSAGE_NS)))
        return n, f"{goal}, but a message takes {fixed}: no number of shards keeps up, and more than {n} hardly help"
    n = max(1, min(n_subscriptions, math.ceil(load_ns / (budget - MESSAGE_NS))))
    return n, f"{goal}; a message takes {fixed} and {each}"


def spread(loads: Floats) -> float:
    """(busiest - idlest) / mean."""
    return float(np.ptp(loads) / max(loads.mean(), 1e-300))


def show(plan: Plan, console: Console) -> None:
    """Print the plan."""
    n = sum(count for count, _ in plan.kinds.values())
    console.print(f"{n:,} subscriptions, estimated from {plan.n_sampled:,} messages", highlight=False)
    if not plan.n_sampled:
        console.print("without messages all words are taken to be equally frequent", style="yellow")
    if plan.n_refused:
        console.print(f"{plan.n_refused:,} rows are malformed and were passed over", style="yellow", highlight=False)
    kinds = Table("kind", "subscriptions", "µs a message", "share", box=box.SIMPLE)
    total = sum(cost for _, cost in plan.kinds.values())
    for name, (count, cost) in plan.kinds.items():
        if count:
            kinds.add_row(name.replace("_", ", "), f"{count:,}", f"{cost / 1000:,.2f}", f"{cost / total:.0%}")
    console.print(kinds)
    title = "load of each shard, µs of CPU a message"
    table = Table(
        "shard", *(TITLES[method] for method in plan.loads), title=title, title_justify="left", box=box.SIMPLE
    )
    for shard in range(plan.n_shards):
        table.add_row(str(shard), *(f"{loads[shard] / 1000:,.3f}" for loads in plan.loads.values()))
    table.add_section()
    table.add_row("spread", *(f"{spread(loads):.3f}" for loads in plan.loads.values()))
    table.add_row("busiest", *(f"{loads.max() / 1000:,.3f}" for loads in plan.loads.values()))
    table.add_row("subscriptions", *(f"{held.min():,} to {held.max():,}" for held in plan.held.values()))
    console.print(table)
    console.print(f"advice: {plan.advice} shard{'s' if plan.advice > 1 else ''}, because {plan.reason}", soft_wrap=True)
