"""AP-Tree figure 21b: moves on all data sets of moving subscriptions."""

from dataclasses import replace

from bench.cases.within_moving import MOVING_LINES, Relocating
from bench.figures.ap_tree_fig_21a import FIGURE as ARRIVALS

FIGURE = replace(
    ARRIVALS,
    title="Within, moving: moves",
    expected="AP+-Tree ahead of all everywhere, most on places",
    series={name: (Relocating, own) for name, own in MOVING_LINES.items()},
)
