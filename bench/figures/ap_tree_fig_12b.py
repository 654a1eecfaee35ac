"""AP-Tree figure 12b: bulk construction on all data sets."""

from dataclasses import replace

from bench.cases.within import LINES, Building
from bench.claims import Ahead, AtLeast
from bench.figures.ap_tree_fig_12a import FIGURE as MATCHING

FIGURE = replace(
    MATCHING,
    title="Within on all data: construction",
    expected="1,000,000 subscriptions in at most 5 seconds of AP-Tree; the plain indexes are faster",
    claims=(Ahead("two-level", ("AP-Tree", "IQ-Tree", "RQ-Tree")),),
    bars=(AtLeast("AP-Tree", 200_000),),
    series={name: (Building, own) for name, own in LINES.items()},
    tiny={**MATCHING.tiny, "messages": ("zipf",)},
)
