"""AP-Tree figure 19b: what the location update alone costs: moves while no message is kept."""

from dataclasses import replace

from bench.cases.within_moving import MOVING_LINES, Relocating
from bench.claims import Ahead
from bench.count_claims import CountAtLeast
from bench.figures.ap_tree_fig_19a import FIGURE as INSERTION

FIGURE = replace(
    INSERTION,
    title="Within, moving: location update",
    workload="200,000 boxes of 0.01 % to 1 % with 1 to 5 words on the roads of Oldenburg; no message is kept",
    expected="IQ+-Tree and RQ+-Tree slowest: they choose cells again for every move; AP+-Tree fast",
    claims=(Ahead("AP+-Tree", ("IQ+-Tree", "RQ+-Tree")),),
    because="the rivals here file small cells and short lists in flat arrays, so that a move touches little, at "
    "several times the memory and the price of an arrival; a move in AP+-Tree goes down the tree",
    bars=(CountAtLeast("rebuilds", ("AP+-Tree",), "rebuilds", 1),),
    series={name: (Relocating, {**own, "kept": False}) for name, own in MOVING_LINES.items()},
    since="2026-11-18T15:30:00Z",
)
