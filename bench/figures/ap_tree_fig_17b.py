"""AP-Tree figure 17b: insertion, against the share that was filed at once."""

from dataclasses import replace

from bench.cases.within_upkeep import Inserting
from bench.figures.ap_tree_fig_17a import FIGURE as MATCHING
from bench.figures.ap_tree_fig_17a import LINES

FIGURE = replace(
    MATCHING,
    title="Within, upkeep: insertion",
    expected="AP-Tree without rebuilding (NR) fastest of the trees, AP-Tree slowest and still quick",
    series={name: (Inserting, own) for name, own in LINES.items()},
)
