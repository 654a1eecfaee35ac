"""STAMP, figure 13 (d): the five measures of text similarity."""

from bench.cases.similar import Standing
from bench.claims import Ahead, Level
from bench.figure import Figure
from bench.figures.stamp_fig_11 import FIGURE as MATCHING

FIGURE = Figure(
    title="Measures of text similarity",
    workload=MATCHING.workload,
    expected="STAMP is about as fast for every measure",
    claims=(Level(("STAMP",)),),
    bars=(Ahead("STAMP", ("scan",)),),
    sweep=("measure", ("weighted", "overlap", "jaccard", "dice", "cosine")),
    series={**MATCHING.series, "scan": (Standing, {"engine": "scan"})},
    baseline="scan",
    repeats=3,
    work=MATCHING.work,
    sizes=MATCHING.sizes,
    tiny={**MATCHING.tiny, "varied": "defaults", "measure": ("jaccard", "cosine")},
)
