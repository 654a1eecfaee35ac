"""Recorded lines become pages of the docs: `python -m bench.pages` writes docs/benchmarks/.

There is one page per engine, which shows each figure by its latest record: the shape that is expected and what was
found beside it, a verdict, a drawing, a table of rates, and where the numbers come from; and one page with a line for
every figure of the papers. Pages say what the records say; earlier records stay in bench/results.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.figure import FOLDER, Figure, load, names
from bench.open import page as open_page
from bench.paper_figures import PAPER_FIGURES, PaperFigure
from bench.peers import page as peers_page
from bench.plot import as_markdown, draw, latest, number, provenance, tables
from bench.record import RESULTS, Line, read
from bench.verdict import NOT_RECORDED, Judged, Verdict, judge, valid

DOCS = FOLDER.parent / "docs" / "benchmarks"
PAGES = {
    "within": ("Within: AP-Tree and AP+-Tree", ("ap_tree_", "within_")),
    "similar": ("Similar: STAMP", ("stamp_", "similar_")),
    "topk": ("TopK: Skype", ("skype_", "topk_")),
    "nearest": ("Nearest: AOIQ-tree and grid pyramid", ("ckqst_", "nearest_", "dkm_worker_")),
    "partition": ("Partitioning: DkM-SKS", ("dkm_",)),
    "around": ("Around the engines", ("",)),
}
PAPERS = {
    "APTREE": "AP-Tree and AP+-Tree",
    "STAMP": "STAMP",
    "SKYPE": "Skype",
    "CKQST": "CkQST",
    "DKMSKS": "DkM-SKS",
}
_FROM = "Generated from the records in `bench/results` by `python -m bench.pages`."


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
    whose = "The paper" if figure.claims else "The bar"
    parts = [
        f"## {figure.name}",
        f"{figure.title}. {_sentence(figure.workload)}",
        f"**{whose}:** {_sentence(figure.expected)}",
    ]
    verdict = judge(figure, lines)
    if not lines:
        return "\n\n".join([*parts, f"**Verdict:** {NOT_RECORDED}."])
    shown = latest(lines)
    parts.append(f"**Verdict:** {_sentence(in_words(figure, verdict))}")
    parts.append(_claims(verdict))
    parts.append(f"![{figure.title}: {shown[0]['unit']} per CPU second, by {figure.sweep[0]}]({figure.name}.svg)")
    parts += [
        f"{rows.title}\n\n{as_markdown(rows)}" for rows in tables(figure, lines) if "peak memory" not in rows.title
    ]
    if lacking := not_recorded(figure, shown):
        parts.append(f"Not recorded yet: {lacking}.")
    return "\n\n".join([*parts, _sentence(f"Recorded {_when(shown)}, {_load(shown)}; {provenance(lines)}")])


def not_recorded(figure: Figure, shown: list[Line]) -> str:
    """Points of the sweep without any line, and series that some points lack."""
    have = {(line["x"], line["series"]) for line in shown}
    points = [x for x in figure.sweep[1] if not any(x == at for at, _ in have)]
    others = [x for x in figure.sweep[1] if x not in points]
    series = [name for name in figure.series if any((x, name) not in have for x in others)]
    told = [f"{figure.sweep[0]} {', '.join(map(number, points))}"] if points else []
    return "; ".join(told + [f"{name} at some points" for name in series])


def in_words(figure: Figure, verdict: Verdict) -> str:
    """The verdict with its reason."""
    open_ = sum(judged.found is None for judged in (*verdict.claims, *verdict.asked))
    said = [verdict.shape] if verdict.shape else []
    if verdict.bars:
        said.append(f"bar {verdict.bars}" if verdict.bars != NOT_RECORDED else NOT_RECORDED)
    if open_ and NOT_RECORDED not in said:
        said.append(f"{open_} of {len(verdict.claims) + len(verdict.asked)} claims not recorded yet")
    because = f", because {figure.because}" if verdict.differs and figure.because else ""
    return "; ".join(said) + because


def _claims(verdict: Verdict) -> str:
    """The expected shape beside what was found."""
    rows = [("expected", "found", "holds"), ("---", "---", "---")]
    rows += [_claim(judged, "") for judged in verdict.claims]
    rows += [_claim(judged, "bar: " if verdict.claims else "") for judged in verdict.asked]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _claim(judged: Judged, before: str) -> tuple[str, str, str]:
    if judged.found is None:
        return before + judged.claim.words(), NOT_RECORDED, "-"
    return before + judged.claim.words(), judged.found.words, "yes" if judged.found.holds else "no"


def every_figure() -> str:
    """A page with a line for each figure of each paper."""
    parts = [
        "# Every figure of the papers",
        f"{_FROM} A figure is *reproduced* when all that its paper says of its shape (who wins, how it grows) is seen "
        "in our latest record, *refuted* when nothing of it is, and *differs* otherwise. Absolute times are not "
        "compared: machines, sizes and languages are others. Figures that only explain are left out.",
    ]
    for key, title in PAPERS.items():
        rows = [f"## {title}", ""]
        rows += ["| figure | what it shows | here | verdict |", "| --- | --- | --- | --- |"]
        reasons: set[str] = set()
        rows += [line for listed in PAPER_FIGURES if listed.paper == key for line in _lines(listed, reasons)]
        parts.append("\n".join(rows))
    return "\n\n".join([*parts, _own_bars()]) + "\n"


def _own_bars() -> str:
    """A line for each figure that follows no paper."""
    rows = ["## Bars of our own", "", "| figure | what it shows | bar | |", "| --- | --- | --- | --- |"]
    for name in names():
        figure = load(name)
        if figure.claims:
            continue
        verdict = judge(figure, valid(figure, read(RESULTS / f"{name}.jsonl")))
        why = figure.because if verdict.bars == "missed" else ""
        rows.append(f"| [{name}]({page_of(name)}.md#{name}) | {figure.title} | {verdict.bars} | {why} |")
    return "\n".join(rows)


def _lines(listed: PaperFigure, reasons: set[str]) -> list[str]:
    """The lines of a paper's figure: one for each figure here, or why there is none; a reason is given once."""
    if not listed.ours:
        return [f"| {listed.number} | {listed.shows} | - | not done: {listed.missing} |"]
    made = []
    for name in listed.ours:
        figure = load(name)
        verdict = judge(figure, valid(figure, read(RESULTS / f"{name}.jsonl")))
        told = verdict.shape or f"bar {verdict.bars}"
        if told in ("differs", "refuted"):
            told += ", as above" if figure.because in reasons else f", because {figure.because}"
            reasons.add(figure.because)
        told += f" ({listed.missing})" if listed.missing else ""
        made.append(f"| {listed.number} | {listed.shows} | [{name}]({page_of(name)}.md#{name}) | {told} |")
    return made


def page_of(figure: str) -> str:
    """The page that shows a figure."""
    return next(page for page in PAGES if figure in figures_of(page))


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
        parts = [f"# {title}", f"{_FROM} [How a number is recorded](../benchmarks.md)."]
        for name in figures_of(page):
            figure = load(name)
            lines = valid(figure, read(RESULTS / f"{name}.jsonl"))
            parts.append(section(figure, lines))
            if lines:
                draw(figure, lines, folder / f"{name}.svg")
        (folder / f"{page}.md").write_text("\n\n".join(parts) + "\n", encoding="utf-8")
    for name, text in (("verdicts", every_figure()), ("peers", peers_page.page()), ("open", open_page.page())):
        (folder / f"{name}.md").write_text(text, encoding="utf-8")


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
