"""Subscriptions filed per CPU second, against other indexes as filters."""

from bench.cases.nearest import ALL, LINES, TINY_ALL, Building
from bench.claims import Ahead
from bench.figure import Figure

FIGURE = Figure(
    title="CkQST: construction",
    workload="as figure 8, tweets; all subscriptions are filed by the search ranges that they have",
    expected="AP-Tree takes longest",
    bars=(Ahead("AOIQ-tree", ("IQ-Tree", "AP-Tree")),),
    sweep=("subscriptions", (100_000, 200_000)),
    series={name: (Building, line) for name, line in LINES.items()},
    baseline="AP-Tree",
    sizes={**ALL, "live": 40_000},
    tiny={**TINY_ALL, "subscriptions": (1_500,)},
    repeats=3,
    together=False,
)
