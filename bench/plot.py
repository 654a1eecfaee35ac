"""Recorded lines go in; tables for the terminal or for Markdown, or a drawing as SVG, come out; nothing is measured.

Each series at each point is shown by its latest line. Rates are the middle repetition's, in units per CPU second, with
the slowest and fastest beside it. A ratio is only taken between lines of one run, repetition by repetition, so that
both sides saw the same machine.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from rich import box
from rich.table import Table

from bench.figure import Figure
from bench.record import Line

_COLOURS = ("#1f6feb", "#d1495b", "#2a9d5c", "#b07d00", "#7b4fb5", "#4a5568")


class Rows(NamedTuple):
    """A table as text."""

    title: str
    head: list[str]
    body: list[list[str]]


def latest(lines: Iterable[Line]) -> list[Line]:
    """The newest line of each series at each point, in the order of the figure's first run."""
    newest: dict[tuple[Any, str], Line] = {}
    for line in lines:
        newest[line["x"], line["series"]] = line
    return list(newest.values())


def rates(line: Line) -> list[float]:
    """Units per CPU second of every repetition in which nothing was compiled, or of all if there is none such."""
    clean = [done for done in line["repeats"] if not done["compile_s"]] or line["repeats"]
    return [done["n"] / max(done["cpu_s"], 1e-9) for done in clean]


def ratio(line: Line, base: Line) -> float | None:
    """How many times as fast as the base line in the same run; None where they were not run together."""
    if line["run"] != base["run"]:
        return None
    pairs = zip(line["repeats"], base["repeats"], strict=False)
    each = [(a["n"] / max(a["cpu_s"], 1e-9)) / (b["n"] / max(b["cpu_s"], 1e-9)) for a, b in pairs]
    return float(median(each))


def tables(figure: Figure, lines: Iterable[Line]) -> list[Rows]:
    """Rates, then laps where there are any, then counts of work that the figure asks for, then memory and setup."""
    shown = latest(lines)
    by_point = {(line["x"], line["series"]): line for line in shown}
    xs = sorted({line["x"] for line in shown}, key=figure.place_of)
    named = [name for name in figure.series if any(line["series"] == name for line in shown)]
    swept = figure.sweep[0]
    made = [Rows(f"{figure.title}: per CPU second", [swept, *named], [])]
    for x in xs:
        made[0].body.append([number(x), *(_rate_cell(figure, by_point, x, name) for name in named)])
    if figure.average:
        made[0].body.append(["average", *(_average_cell(figure, by_point, xs, name) for name in named)])
    laps = Rows(f"{figure.title}: CPU microseconds, p50 / p99 (longest)", [swept, "group", *named], [])
    for x in xs:
        groups: dict[str, None] = {}
        for name in named:
            groups |= dict.fromkeys(_laps(by_point.get((x, name))))
        for group in groups:
            cells = [_lap_cell(_laps(by_point.get((x, name))).get(group)) for name in named]
            laps.body.append([number(x), group, *cells])
    if laps.body:
        made.append(laps)
    for label, (counter, by) in figure.work.items():
        made.append(Rows(f"{figure.title}: {label}", [swept, *named], []))
        for x in xs:
            cells = [_work_cell(by_point.get((x, name)), counter, by) for name in named]
            made[-1].body.append([number(x), *cells])
    memory = Rows(f"{figure.title}: peak memory, setup and compile time", [swept, *named], [])
    for x in xs:
        memory.body.append([number(x), *(_memory_cell(by_point.get((x, name))) for name in named)])
    return [*made, memory]


def _rate_cell(figure: Figure, by_point: dict[tuple[Any, str], Line], x: Any, name: str) -> str:
    line = by_point.get((x, name))
    if line is None:
        return "-"
    found = rates(line)
    spread = f" ({number(min(found))} to {number(max(found))})" if len(found) > 1 else ""
    cell = f"{number(median(found))}{spread} {line['unit']}"
    base = by_point.get((x, figure.baseline or ""))
    times = ratio(line, base) if base and figure.baseline != name else None
    return cell if times is None else f"{cell}, x {times:.3g}"


def _average_cell(figure: Figure, by_point: dict[tuple[Any, str], Line], xs: Sequence[Any], name: str) -> str:
    """One by the mean of the times that a unit takes at each point; the ratio is that of these times."""
    both = [(by_point.get((x, name)), by_point.get((x, figure.baseline or ""))) for x in xs]
    if any(line is None for line, _ in both):
        return "-"
    mean = sum(1 / median(rates(line)) for line, _ in both if line) / len(xs)
    cell = f"{number(1 / mean)} {both[0][0]['unit'] if both[0][0] else ''}"
    if name == figure.baseline or any(base is None for _, base in both):
        return cell
    return f"{cell}, x {sum(1 / median(rates(base)) for _, base in both if base) / len(xs) / mean:.3g}"


def _laps(line: Line | None) -> dict[str, list[dict[str, float]]]:
    """Quantiles of each repetition by group."""
    groups: dict[str, list[dict[str, float]]] = {}
    for done in line["repeats"] if line else []:
        for group, found in done.get("laps", {}).items():
            groups.setdefault(group, []).append(found)
    return groups


def _lap_cell(found: Sequence[dict[str, float]] | None) -> str:
    if not found:
        return "-"
    p50, p99 = (median(laps[f"cpu_{name}_us"] for laps in found) for name in ("p50", "p99"))
    return f"{number(p50)} / {number(p99)} ({number(max(laps['cpu_max_us'] for laps in found))})"


def _work_cell(line: Line | None, counter: str, by: str) -> str:
    if line is None or counter not in line["counters"]:
        return "-"
    counters = line["counters"]
    return number(counters[counter] / max(1.0, float(counters[by]) if by else 1.0))


def _memory_cell(line: Line | None) -> str:
    if line is None:
        return "-"
    return f"{line['peak_bytes'] / 2**20:,.0f} MB, {line['setup']['wall_s']:.1f} s, {line['setup']['compile_s']:.1f} s"


def number(value: Any) -> str:
    """Three digits that matter, thousands apart."""
    if not isinstance(value, int | float):
        return str(value)
    if value == 0 or isinstance(value, int):
        return f"{value:,}"
    digits = max(0, 2 - math.floor(math.log10(abs(value))))
    return f"{round(value, 2 - math.floor(math.log10(abs(value)))):,.{digits}f}"


def provenance(lines: Iterable[Line]) -> str:
    """Commits, machine, versions and seeds of what is shown."""
    shown = latest(lines)
    commits = sorted({line["commit"] + (" (changed)" if line["dirty"] else "") for line in shown})
    machines = sorted(
        {f"{m['cpu']}, {m['cores']} cores, {m['memory_gb']} GB" for m in (line["machine"] for line in shown)}
    )
    versions = sorted({", ".join(f"{name} {v}" for name, v in line["versions"].items()) for line in shown})
    seeds = sorted({str(line["seed"]) for line in shown})
    sources = sorted({line["source"] for line in shown})
    said = {"commit": commits, "machine": machines, "versions": versions, "seed": seeds, "messages": sources}
    return "; ".join(f"{name} {' and '.join(values)}" for name, values in said.items())


def as_rich(rows: Rows) -> Table:
    """A table for the terminal."""
    table = Table(*rows.head, title=rows.title, box=box.SIMPLE, title_justify="left")
    for row in rows.body:
        table.add_row(*row)
    return table


def as_markdown(rows: Rows) -> str:
    """A table for a page."""
    cut = ["---"] + ["---:"] * (len(rows.head) - 1)
    return "\n".join(f"| {' | '.join(row)} |" for row in (rows.head, cut, *rows.body))


def draw(figure: Figure, lines: Iterable[Line], path: Path) -> None:
    """Rates over the sweep as an SVG file, both axes logarithmic where the sweep is numeric and positive."""
    shown = latest(lines)
    xs = sorted({line["x"] for line in shown}, key=figure.place_of)
    middles = [median(rates(line)) for line in shown]
    low, high = math.floor(math.log10(min(middles))), math.ceil(math.log10(max(middles)) + 1e-9)
    high = max(high, low + 1)

    def across(x: Any) -> float:
        numeric = all(isinstance(v, int | float) and v > 0 for v in xs) and len(xs) > 1
        share = math.log(x / xs[0]) / math.log(xs[-1] / xs[0]) if numeric else (xs.index(x) + 0.5) / len(xs)
        return 80 + 500 * share

    def up(rate: float) -> float:
        return 340 - 290 * (math.log10(rate) - low) / (high - low)

    parts = [
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 820 400" font-family="sans-serif" font-size="12">',
        '<rect width="820" height="400" fill="white"/>',
        f'<text x="80" y="28" font-size="15">{escape(figure.title)}: {escape(shown[0]["unit"])} per CPU second</text>',
    ]
    for power in range(low, high + 1):
        y = up(10.0**power)
        parts.append(f'<path d="M80 {y:.1f}H580" stroke="#ddd"/>')
        parts.append(f'<text x="72" y="{y + 4:.1f}" text-anchor="end">{10.0**power:,g}</text>')
    parts += [f'<text x="{across(x):.1f}" y="360" text-anchor="middle">{escape(number(x))}</text>' for x in xs]
    parts.append(f'<text x="330" y="385" text-anchor="middle">{escape(figure.sweep[0])}</text>')
    for at, name in enumerate(figure.series):
        colour = _COLOURS[at % len(_COLOURS)]
        points = [(line["x"], median(rates(line))) for line in shown if line["series"] == name]
        points.sort(key=lambda point: figure.place_of(point[0]))
        placed = [f"{across(x):.1f},{up(rate):.1f}" for x, rate in points]
        parts.append(f'<polyline points="{" ".join(placed)}" fill="none" stroke="{colour}" stroke-width="2"/>')
        parts += [f'<circle cx="{p.split(",")[0]}" cy="{p.split(",")[1]}" r="3" fill="{colour}"/>' for p in placed]
        parts.append(f'<text x="600" y="{60 + 20 * at}" fill="{colour}">{escape(name)}</text>')
    path.write_text("\n".join([*parts, "</svg>"]) + "\n")
