"""AP-Tree figure 27: time and messages sent with safe regions and without, by arrivals."""

from dataclasses import replace

from bench.figures.ap_tree_fig_26 import FIGURE as SUBSCRIPTIONS

FIGURE = replace(
    SUBSCRIPTIONS,
    title="Within, moving: safe regions, by arrivals",
    workload="10,000 circles with 1 to 5 words, all of which move on the roads of Oldenburg",
    sweep=("arrivals", (10, 1_000, 10_000, 50_000)),
    sizes={**SUBSCRIPTIONS.sizes, "subscriptions": 10_000},
    tiny={**SUBSCRIPTIONS.tiny, "subscriptions": 200, "arrivals": (10, 500)},
)
