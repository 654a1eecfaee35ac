"""STAMP, figure 12 (b): matching after ever more of the subscriptions were inserted one batch after another."""

from dataclasses import replace

from bench.claims import Ahead, Trend
from bench.figures.stamp_fig_11 import FIGURE as MATCHING

FIGURE = replace(
    MATCHING,
    title="STAMP and its rivals after inserts",
    workload="subscriptions as in stamp_fig_09; x in a hundred came after the others, by 10,000 at a time",
    expected="STAMP stays ahead, and no slower than built at once",
    claims=(
        Ahead("STAMP", ("R^t++", "IR-tree", "100 IR-trees")),
        Trend("slower", ("STAMP",)),
    ),
    sweep=("inserted", (0, 10, 20, 30, 40)),
    sizes={**MATCHING.sizes, "subscriptions": 400_000},
    tiny={**MATCHING.tiny, "varied": "defaults", "inserted": (30,)},
)
