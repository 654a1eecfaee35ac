"""Claims are judged by what records say: each holds on records that show it, and not on records that do not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from nearcast.cli import bench as command

claims, count_claims, seen, verdict, figure = (
    command.part(name) for name in ("claims", "count_claims", "seen", "verdict", "figure")
)


def line(series: str, x: Any, rate: float, run: str = "one", laps: dict | None = None, **counters: float) -> dict:
    done = {"n": rate, "cpu_s": 1.0, "wall_s": 1.0, "compile_s": 0.0}
    done["laps"] = {group: {"cpu_p50_us": us, "cpu_max_us": us} for group, us in (laps or {}).items()}
    return {"series": series, "x": x, "run": run, "repeats": [done] * 3, "counters": counters}


def records(**rates: list[float]) -> Any:
    return seen.Seen([line(name, x, rate) for name, each in rates.items() for x, rate in enumerate(each)], range(9))


KEPT = {"a": [9], "a, none kept": [10], "b": [1], "b, none kept": [10]}


@pytest.mark.parametrize(
    ("claim", "rates", "holds", "partly"),
    [
        (claims.Ahead("a", ("b",)), {"a": [2, 3], "b": [1, 1]}, True, True),
        (claims.Ahead("a", ("b",)), {"a": [2, 0.5], "b": [1, 1]}, False, True),
        (claims.Ahead("a", ("b",), times=10), {"a": [2, 3], "b": [1, 1]}, False, False),
        (claims.Ahead("a", ("b",), at=(0,)), {"a": [2, 0.5], "b": [1, 1]}, True, True),
        (claims.Level(), {"a": [10, 11, 12]}, True, True),
        (claims.Level(within=1.1), {"a": [10, 20], "b": [5, 5]}, False, True),
        (claims.Trend("faster"), {"a": [1, 0, 2]}, True, True),
        (claims.Trend("slower"), {"a": [1, 0, 2]}, False, False),
        (claims.Best((1,)), {"a": [1, 3, 2]}, True, True),
        (claims.Best((0,)), {"a": [1, 3, 2]}, False, False),
        (claims.GrowsLeast("a", ("b",)), {"a": [10, 9], "b": [10, 1]}, True, True),
        (claims.GrowsLeast("b", ("a",)), {"a": [10, 9], "b": [10, 1]}, False, False),
        (claims.GrowthAtMost(("a",), 2, (0, 1)), {"a": [10, 6]}, True, True),
        (claims.GrowthAtMost(("a",), 2, (0, 1)), {"a": [10, 4]}, False, False),
        (claims.AtLeast("a", 5), {"a": [6, 5]}, True, True),
        (claims.AtLeast("a", 5), {"a": [6, 4]}, False, True),
        (claims.MarginGrows("a", ("b",)), {"a": [1, 4], "b": [1, 1]}, True, True),
        (claims.MarginGrows("a", ("b",)), {"a": [4, 1], "b": [1, 1]}, False, False),
        (claims.KeepingCosts(("a",), ("b",)), KEPT, True, True),
        (claims.KeepingCosts(("b",), ("a",)), KEPT, False, False),
    ],
)
def test_rates(claim: Any, rates: dict[str, list[float]], holds: bool, partly: bool) -> None:
    found = claim.judge(records(**rates))
    assert (found.holds, found.partly) == (holds, partly)
    assert claim.words()
    assert found.words


@pytest.mark.parametrize("swap", [False, True])
def test_counts_and_laps(swap: bool) -> None:
    few, many = {"n": 10, "by": 2}, {"n": 40, "by": 2}
    quick, slow = {"long": 9.0, "short": 8.0}, {"long": 90.0, "short": 8.0}
    given = [("a", 0, few, quick), ("a", 1, few, quick), ("b", 0, many, slow), ("b", 1, many, slow)]
    if swap:
        given = [(name, x, *((many, slow) if name == "a" else (few, quick))) for name, x, _, _ in given]
    known = seen.Seen([line(name, x, 1, laps=laps, **counts) for name, x, counts, laps in given], (0, 1))
    tried = [
        count_claims.CountAtMost("n", ("a",), "n", 5, by="by"),
        count_claims.Fewer("n", "a", ("b",), "n"),
        count_claims.Fewer("n", "a", ("b",), "n", times=4),
        count_claims.LapAtMost("a", "long", 0.01),
        count_claims.LapOrder("b", ("a",), "long"),
        count_claims.LapShare(("b",), "long", ("long", "short"), 0.9),
        count_claims.LapGap("a", ("b",), ("long", "short")),
    ]
    assert [claim.judge(known).holds for claim in tried] == [not swap] * len(tried)
    assert count_claims.CountAtLeast("n", ("a",), "n", 40).judge(known).holds == swap
    assert not count_claims.CountTrend("n", "less", ("a",), "n").judge(known).holds


def test_what_was_not_recorded_is_not_judged() -> None:
    for claim in (claims.Ahead("a", ("c",)), claims.Trend("slower", ("c",)), claims.AtLeast("c", 1)):
        assert claim.judge(records(a=[1, 2])) is None


def test_ratios_are_taken_within_a_run() -> None:
    """Repetition by repetition: a slow minute hits both alike."""
    fast = {"n": 10, "cpu_s": 1.0, "compile_s": 0.0}
    lines = [{"series": name, "x": 0, "run": "one", "counters": {},
              "repeats": [{**fast, "cpu_s": seconds * times} for seconds in (1, 5, 2)]}
             for name, times in (("a", 1), ("b", 2))]  # fmt: skip
    assert seen.Seen(lines, (0,)).times("a", "b", 0) == 2


@pytest.mark.parametrize(
    ("rates", "shape"),
    [([[2, 2], [1, 1]], "reproduced"), ([[2, 0.5], [1, 1]], "differs"), ([[1, 1], [2, 2]], "refuted")],
)
def test_the_verdict_follows_from_the_record(rates: list[list[float]], shape: str) -> None:
    declared = replace(figure.load("text_encode"), claims=(claims.Ahead("a", ("b",)),), bars=(), sweep=("x", (0, 1)))
    lines = [line(name, x, rate) for name, each in zip("ab", rates, strict=True) for x, rate in enumerate(each)]
    assert verdict.judge(declared, lines).shape == shape
    assert verdict.judge(declared, []).shape == "not recorded yet"


def test_records_from_before_a_change_are_not_shown() -> None:
    declared = replace(figure.load("text_encode"), since="2026-02")
    assert [
        kept["run"] for kept in verdict.valid(declared, [line("a", 0, 1, "2026-01"), line("a", 0, 1, "2026-03")])
    ] == ["2026-03"]
