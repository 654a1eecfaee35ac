"""STAMP, figure 8: candidates verified at once, filtered further first, or what costs less."""

from bench.cases.similar import Standing
from bench.claims import Ahead
from bench.figure import Figure
from bench.figures.stamp_fig_09 import FIGURE as FILTERED

FIGURE = Figure(
    title="Cost model of STAMP",
    workload="as in stamp_fig_09",
    expected="the choice by cost is within 5 % of the better fixed strategy, and filtering beats verifying",
    claims=(
        Ahead("filter (ST)", ("verify (SP)",)),
        Ahead("cost model", ("verify (SP)", "filter (ST)")),
    ),
    because="candidates that pass the region and the first word are few, and verifying one reads a single line of "
    "the cache, so that filtering further and verifying cost nearly the same",
    sweep=("varied", ("defaults", "delta 0.3", "delta 0.5", "delta 0.7", "tau 0.5", "tau 0.7", "tau 0.9")),
    series={
        "verify (SP)": (Standing, {"engine": "stamp", "strategy": "verify"}),
        "filter (ST)": (Standing, {"engine": "stamp", "strategy": "filter"}),
        "cost model": (Standing, {"engine": "stamp", "strategy": "cost"}),
    },
    baseline="verify (SP)",
    repeats=5,
    average=True,
    work=FILTERED.work,
    sizes={**FILTERED.sizes, "published": 400},
    tiny=FILTERED.tiny,
)
