"""AP-Tree figure 17b: insertion, against the share that was filed at once."""

from dataclasses import replace

from bench.cases.within_upkeep import Inserting
from bench.claims import Ahead, AtLeast
from bench.figures.ap_tree_fig_17a import FIGURE as MATCHING
from bench.figures.ap_tree_fig_17a import LINES

FIGURE = replace(
    MATCHING,
    title="Within, upkeep: insertion",
    expected="AP-Tree without rebuilding (NR) fastest of the trees, AP-Tree slowest and still quick",
    claims=(
        Ahead("AP-Tree-NR", ("AP-Tree", "IQ-Tree", "RQ-Tree")),
        Ahead("IQ-Tree", ("AP-Tree",)),
        Ahead("RQ-Tree", ("AP-Tree",)),
    ),
    bars=(AtLeast("AP-Tree", 8_300),),
    because="insertion is batched here: 10,000 at a time go down the tree together, which costs less than the "
    "rivals' choice of cells for each",
    series={name: (Inserting, own) for name, own in LINES.items()},
    since="",
)
