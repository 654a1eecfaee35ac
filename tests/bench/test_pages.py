"""The pages of benchmarks say what the records say."""

from __future__ import annotations

from nearcast.cli import bench as command

pages, figure = (command.part(name) for name in ("pages", "figure"))


def test_no_page_is_stale() -> None:
    assert pages.stale() == [], "write them again: .venv/bin/python -m bench.pages"


def test_every_figure_is_on_one_page() -> None:
    assert sorted(name for page in pages.PAGES for name in pages.figures_of(page)) == figure.names()
