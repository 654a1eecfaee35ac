"""Records of the peers become a page of the docs."""

from __future__ import annotations

from statistics import median
from typing import Any

from bench.plot import number
from bench.record import RESULTS, read

NAMES = {
    "within": "Within: a box and all words",
    "similar": "Similar: share of words and place",
    "topk": "TopK: the 20 best",
    "nearest_all": "Nearest: the 20 nearest with all words",
    "nearest_any": "Nearest: the 1 to 10 nearest with any word",
}
SYSTEMS = ("Nearcast", "PostGIS", "DuckDB", "SQLite R*Tree", "chDB")
_HEAD = """\
# Beside other systems

Generated from `bench/results/peers.jsonl` by `python -m bench.pages`. What a user would pick instead, on the same
task in one run: `make peers` installs and runs it.

None of these systems has standing questions, so subscriptions are rows of a table, and each batch of messages is
joined with them: by a GiST index on boxes and arrays of words in PostGIS, by the rarest word of a subscription in
DuckDB and chDB, by the R*Tree in SQLite. For the k best, a question after every batch computes all results again over
the live messages; finding out what changed is left to the user, and not timed. Nearcast tells what changed. Every
system has one thread. Batches go to the systems in turn, and the answers are compared: all are the same.

Messages per CPU second, the middle of the batches; in brackets how many times as many Nearcast does. The CPU time of
PostGIS is that of the server process alone, which the system counts in hundredths of a second."""


def page() -> str:
    """All of it."""
    lines = list(read(RESULTS / "peers.jsonl"))
    parts = [_HEAD]
    if not lines:
        return "\n\n".join([*parts, "Not recorded yet."]) + "\n"
    latest: dict[tuple[Any, ...], dict[str, dict[str, Any]]] = {}
    for line in lines:
        key = (line["kind"], line["data"], line["subscriptions"], line["window"], line["batch"])
        shown = latest.setdefault(key, {})
        if line["system"] == "Nearcast":
            shown.clear()  # a later run takes the place of an earlier one, whole
        shown[line["system"]] = line
    for kind, title in NAMES.items():
        rows = [f"## {title}", "", f"| data | subscriptions | live | a batch | {' | '.join(SYSTEMS)} |"]
        rows.append(f"| --- | ---: | ---: | ---: |{' ---: |' * len(SYSTEMS)}")
        for key, shown in latest.items():
            if key[0] == kind:
                sizes = " | ".join(f"{size:,}" for size in key[2:])
                rows.append(f"| {key[1]} | {sizes} | {' | '.join(_cell(shown, system) for system in SYSTEMS)} |")
        parts.append("\n".join(rows) if len(rows) > 4 else "\n".join([rows[0], "", "Not recorded yet."]))
    return "\n\n".join([*parts, _provenance([line for shown in latest.values() for line in shown.values()])]) + "\n"


def _rate(line: dict[str, Any]) -> float:
    each = line["n"] / max(1, len(line["batches"]))
    return each / max(median(done["cpu_s"] for done in line["batches"]), 1e-9)


def _cell(shown: dict[str, dict[str, Any]], system: str) -> str:
    if system not in shown:
        return "-"
    rate = _rate(shown[system])
    times = "" if system == "Nearcast" else f" ({number(_rate(shown['Nearcast']) / rate)} x)"
    return f"{number(rate)}{times}"


def _provenance(lines: list[dict[str, Any]]) -> str:
    versions = sorted({f"{line['system']} {line['version']}" for line in lines})
    loads = [line["load"] for line in lines]
    machines = sorted({f"{line['machine']['cpu']}, {line['machine']['cores']} cores" for line in lines})
    commits = sorted({line["commit"] + (" (changed)" if line["dirty"] else "") for line in lines})
    days = sorted({line["run"][:10] for line in lines})
    where = f"{' and '.join(machines)}, shared with other work (load {min(loads):g} to {max(loads):g})"
    return (
        f'A "-" is a system that was not asked: its question takes minutes. Recorded {" and ".join(days)} on {where}, '
        "by "
        f"{', '.join(versions)}; commit {' and '.join(commits)}."
    )
