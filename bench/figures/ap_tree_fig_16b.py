"""AP-Tree figure 16b: insertion, against the divergence at which a node is rebuilt."""

from dataclasses import replace

from bench.cases.within import STILL
from bench.cases.within_upkeep import Inserting
from bench.claims import Trend
from bench.figures.ap_tree_fig_16a import FIGURE as MATCHING

FIGURE = replace(
    MATCHING,
    title="AP-Tree, rebuilding threshold: insertion",
    expected="insertion faster with larger thresholds",
    claims=(Trend("faster"),),
    series={"AP-Tree": (Inserting, STILL)},
    since="",
)
