"""AP-Tree figure 20b: moves, with messages in the leaves of the tree or in an index of their own."""

from dataclasses import replace

from bench.cases.within_moving import Relocating
from bench.claims import Ahead
from bench.figures.ap_tree_fig_20a import FIGURE as ARRIVALS
from bench.figures.ap_tree_fig_20a import VARIANTS

FIGURE = replace(
    ARRIVALS,
    title="AP+-Tree, variants: moves",
    expected="moves nearly ten times as fast with messages in the leaves",
    claims=(Ahead("in the leaves", ("own index",), times=5),),
    series={name: (Relocating, own) for name, own in VARIANTS.items()},
)
