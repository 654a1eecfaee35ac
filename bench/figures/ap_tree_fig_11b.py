"""AP-Tree figure 11b: bulk construction of the variants."""

from dataclasses import replace

from bench.cases.within import Building
from bench.claims import Ahead
from bench.figures.ap_tree_fig_11a import FIGURE as MATCHING
from bench.figures.ap_tree_fig_11a import VARIANTS

FIGURE = replace(
    MATCHING,
    title="AP-Tree, variants: construction",
    expected="HR far faster than DP",
    claims=(Ahead("HR", ("DP",), times=5),),
    series={name: (Building, own) for name, own in VARIANTS.items()},
)
