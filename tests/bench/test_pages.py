"""The pages of benchmarks say what the records say, and every figure of the papers has a line with a verdict."""

from __future__ import annotations

from pathlib import Path

import pytest

from nearcast.cli import bench as command

pages, figure, verdict, record, paper_figures = (
    command.part(name) for name in ("pages", "figure", "verdict", "record", "paper_figures")
)


def records(name: str) -> list[dict]:
    return verdict.valid(figure.load(name), record.read(record.RESULTS / f"{name}.jsonl"))


def test_no_page_is_stale() -> None:
    assert pages.stale() == [], "write them again: .venv/bin/python -m bench.pages"


def test_a_page_is_stale_when_a_record_is_added(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for path in record.RESULTS.glob("*.jsonl"):
        (tmp_path / path.name).write_bytes(path.read_bytes())
    kept = tmp_path / "text_encode.jsonl"
    kept.write_text(kept.read_text().replace('"n":', '"n":1'))
    monkeypatch.setattr(pages, "RESULTS", tmp_path)
    assert pages.stale() == ["around.md", "text_encode.svg"]


def test_every_figure_is_on_one_page() -> None:
    assert sorted(name for page in pages.PAGES for name in pages.figures_of(page)) == figure.names()


@pytest.mark.parametrize("name", figure.names())
def test_every_figure_claims_something(name: str) -> None:
    declared = figure.load(name)
    assert declared.claims or declared.bars, f"{name} says nothing that its records could be judged by"


@pytest.mark.parametrize("name", figure.names())
def test_what_differs_is_explained(name: str) -> None:
    declared = figure.load(name)
    if verdict.judge(declared, records(name)).differs:
        assert declared.because, f"{name} does not hold what it claims: say why in `because`"


def test_every_figure_of_the_papers_has_a_verdict() -> None:
    page = pages.every_figure()
    for listed in paper_figures.PAPER_FIGURES:
        lines = [line for line in page.splitlines() if line.startswith(f"| {listed.number} | {listed.shows} |")]
        assert len(lines) == max(1, len(listed.ours))
        for line in lines:
            told = line.split("|")[4].strip()
            assert told.startswith(("reproduced", "differs, ", "refuted, ", "not recorded yet", "not done: ", "bar "))
    named = {name for listed in paper_figures.PAPER_FIGURES for name in listed.ours}
    of_papers = {name for name in figure.names() if figure.load(name).claims}
    assert of_papers <= named, "figures that follow a paper, and no line of bench/paper_figures.py names them"


def test_claims_name_series_that_there_are() -> None:
    for name in figure.names():
        declared = figure.load(name)
        for claim in (*declared.claims, *declared.bars):
            told = {getattr(claim, field, None) for field in ("first", "name", "slow")}
            told |= {each for field in ("others", "names", "least") for each in _strings(getattr(claim, field, ()))}
            assert told - {None} <= set(declared.series), f"{name}: {claim}"


def _strings(given: object) -> tuple[str, ...]:
    return given if isinstance(given, tuple) else ()
