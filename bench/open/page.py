"""Records of the open benchmark become a page of the docs."""

from __future__ import annotations

from statistics import median
from typing import Any

from bench.peers.page import NAMES
from bench.plot import number
from bench.record import RESULTS, read

_HEAD = """\
# Results of the open benchmark

Generated from `bench/results/open.jsonl` and `bench/results/peers.jsonl` by `python -m bench.pages`. [What is asked,
and how to enter](../open-benchmark.md).

Every line was judged by the checker, or compared with answers that were. Messages per CPU second, the middle of the
runs; loading is what messages before and subscriptions take, in CPU seconds."""


def page() -> str:
    """All of it."""
    latest: dict[tuple[Any, ...], dict[str, Any]] = {}
    for line in read(RESULTS / "open.jsonl"):
        latest[_key(line)] = {**line, "rate": _rate(line), "loading": median(run["load_cpu_s"] for run in line["runs"])}
    for line in read(RESULTS / "peers.jsonl"):
        if line["data"] == "s1m":
            spent = median(done["cpu_s"] for done in line["batches"])
            latest[_key(line)] = {**line, "rate": line["batch"] / max(spent, 1e-9), "runs": line["batches"]}
    parts = [_HEAD]
    for kind, title in NAMES.items():
        rows = sorted((key, line) for key, line in latest.items() if key[0] == kind)
        table = [
            "| system | subscriptions | live | a batch | messages | runs | loading | load of the machine | commit |"
        ]
        table.append("| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | --- |")
        table += [_row(line) for _, line in sorted(rows, key=lambda row: (row[0][1:3], -row[1]["rate"]))]
        parts.append(f"## {title}\n\n" + ("\n".join(table) if rows else "Not recorded yet."))
    return "\n\n".join(parts) + "\n"


def _key(line: dict[str, Any]) -> tuple[Any, ...]:
    return (line["kind"], line["subscriptions"], line["window"], line["batch"], line["system"])


def _rate(line: dict[str, Any]) -> float:
    return float(line["published"] / median(run["cpu_s"] for run in line["runs"]))


def _row(line: dict[str, Any]) -> str:
    sizes = f"{line['subscriptions']:,} | {line['window']:,} | {line['batch']:,}"
    loading = f"{line['loading']:.1f} s" if "loading" in line else "-"
    return (
        f"| {line['system']} | {sizes} | {number(line['rate'])} | {len(line['runs'])} | {loading} | {line['load']:g} | "
        f"{line['commit']} |"
    )
