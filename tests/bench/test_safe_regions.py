"""Subscribers with safe regions are told what they would be told if they reported every move, with fewer messages."""

from __future__ import annotations

from typing import Any

import pytest

from nearcast.cli.bench import part

WIDE = {"subscriptions": 30, "window": 300, "arrivals": 40, "checked": 30, "area": 0.02, "n_words": 1}


def case_of(series: str) -> Any:
    figure = part("figures.ap_tree_fig_26").FIGURE
    case = figure.make(series, {**figure.sizes_of(series, 10, figure.tiny), **WIDE}, figure.seed)
    case.prepare()
    return case


def test_both_tell_the_same_and_safe_regions_send_less() -> None:
    cases = [case_of(series) for series in ("AP+-Tree", "AP+-Tree-Safe")]
    for _ in range(8):
        for case in cases:
            assert case.check() > 0
    every, safe = (case.talk for case in cases)
    assert len(safe.told) > 10
    assert safe.told == every.told
    assert safe.n_sent < every.n_sent


@pytest.mark.parametrize("phase", ["moves", "arrivals"])
def test_a_region_that_is_too_large_is_found(phase: str) -> None:
    """Nobody reports, or nobody is told of what arrives."""
    case = case_of("AP+-Tree-Safe")
    if phase == "moves":
        case.talk.hear = lambda slots: None
    else:
        case.talk.arrive = lambda steps: None
    with pytest.raises(part("figure").WrongAnswer, match="were not told"):
        check_often(case)


def check_often(case: Any) -> None:
    for _ in range(20):
        case.check()
