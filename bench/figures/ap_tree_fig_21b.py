"""AP-Tree figure 21b: moves on all data sets of moving subscriptions."""

from dataclasses import replace

from bench.cases.within_moving import MOVING_LINES, Relocating
from bench.claims import Ahead
from bench.count_claims import CountAtLeast
from bench.figures.ap_tree_fig_21a import FIGURE as ARRIVALS

FIGURE = replace(
    ARRIVALS,
    title="Within, moving: moves",
    expected="AP+-Tree ahead of all everywhere, most on places",
    claims=(Ahead("AP+-Tree", ("IQ+-Tree", "RQ+-Tree", "SS-Index", "KK-Index")),),
    bars=(CountAtLeast("rebuilds", ("AP+-Tree",), "rebuilds", 1),),
    because="the rivals here file small cells and short lists in flat arrays, so that a move touches little, at "
    "several times the memory and the price of an arrival; and in these records AP+-Tree was never "
    "rebuilt for movement, so that its cost of movement had no say",
    series={name: (Relocating, own) for name, own in MOVING_LINES.items()},
)
