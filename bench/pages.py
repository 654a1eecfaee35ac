"""Recorded lines become pages of the docs, one per engine: `python -m bench.pages` writes docs/benchmarks/.

Each figure is shown by its latest record: what is expected, a verdict, a drawing, a table of rates, and where the
numbers come from. A page says what the records say; earlier records stay in bench/results.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.figure import FOLDER, Figure, load, names
from bench.plot import as_markdown, draw, latest, provenance, tables
from bench.record import RESULTS, Line, read

DOCS = FOLDER.parent / "docs" / "benchmarks"
PAGES = {
    "within": ("Within: AP-Tree and AP+-Tree", ("ap_tree_", "within_")),
    "similar": ("Similar: STAMP", ("stamp_", "similar_")),
    "topk": ("TopK: Skype", ("skype_", "topk_")),
    "nearest": ("Nearest: AOIQ-tree and grid pyramid", ("ckqst_", "nearest_", "dkm_worker_")),
    "partition": ("Partitioning: DkM-SKS", ("dkm_",)),
    "around": ("Around the engines", ("",)),
}
_NOT_JUDGED = "not judged yet"


def figures_of(page: str) -> list[str]:
    """The figures that a page shows; each is on the first page that takes it."""
    taken: set[str] = set()
    for name, (_, prefixes) in PAGES.items():
        own = [figure for figure in names() if figure.startswith(prefixes) and figure not in taken]
        if name == page:
            return own
        taken |= set(own)
    raise KeyError(page)


def section(figure: Figure, lines: Iterable[Line]) -> str:
    """All that is told of a figure."""
    lines = list(lines)
    parts = [
        f"## {figure.name}",
        f"{figure.title}. {_sentence(figure.workload)}",
        f"**Expected:** {_sentence(figure.expected)}",
    ]
    if not lines:
        return "\n\n".join([*parts, "Not recorded yet."])
    shown = latest(lines)
    parts.append(f"**Verdict:** {_sentence(figure.verdict or _NOT_JUDGED)}")
    parts.append(f"![{figure.title}: {shown[0]['unit']} per CPU second, by {figure.sweep[0]}]({figure.name}.svg)")
    parts += [
        f"{rows.title}\n\n{as_markdown(rows)}" for rows in tables(figure, lines) if "peak memory" not in rows.title
    ]
    return "\n\n".join([*parts, _sentence(f"Recorded {_when(shown)}, {_load(shown)}; {provenance(lines)}")])


def _sentence(text: str) -> str:
    text = text.strip()
    return text[:1].upper() + text[1:] + ("" if text.endswith((".", "!", "?")) else ".")


def _when(lines: list[Line]) -> str:
    days = sorted({line["run"][:10] for line in lines})
    return days[0] if len(days) == 1 else f"{days[0]} to {days[-1]}"


def _load(lines: list[Line]) -> str:
    """How busy the machine was, in words and numbers."""
    loads = [line["load"] for line in lines if "load" in line]
    n_repeats = min(len(line["repeats"]) for line in lines)
    times = f"{n_repeats} repetition{'' if n_repeats == 1 else 's'}"
    if not loads:
        return f"{times}, the load of the machine not recorded"
    cores = max(int(line["machine"]["cores"]) for line in lines)
    said = "quiet" if max(loads) <= cores else "busy"
    return f"{times} on a {said} machine (load {min(loads):g} to {max(loads):g} on {cores} cores)"


def write(folder: Path) -> None:
    """All pages and drawings."""
    folder.mkdir(parents=True, exist_ok=True)
    for page, (title, _) in PAGES.items():
        parts = [
            f"# {title}",
            "Generated from the records in `bench/results` by `python -m bench.pages`. "
            "[How a number is recorded](../benchmarks.md).",
        ]
        for name in figures_of(page):
            figure, lines = load(name), list(read(RESULTS / f"{name}.jsonl"))
            parts.append(section(figure, lines))
            if lines:
                draw(figure, lines, folder / f"{name}.svg")
        (folder / f"{page}.md").write_text("\n\n".join(parts) + "\n", encoding="utf-8")


def stale() -> list[str]:
    """Names of pages and drawings that are not what the records say."""
    with TemporaryDirectory() as folder:
        write(Path(folder))
        made = {path.name: path.read_bytes() for path in Path(folder).iterdir()}
    kept = {path.name: path.read_bytes() for path in DOCS.iterdir()} if DOCS.exists() else {}
    return sorted(name for name in made.keys() | kept.keys() if made.get(name) != kept.get(name))


if __name__ == "__main__":
    write(DOCS)
    sys.stdout.write(f"{DOCS}\n")
