"""AP-Tree figure 12b: bulk construction on all data sets."""

from dataclasses import replace

from bench.cases.within import LINES, Building
from bench.figures.ap_tree_fig_12a import FIGURE as MATCHING

FIGURE = replace(
    MATCHING,
    title="Within on all data: construction",
    expected="1,000,000 subscriptions in at most 5 seconds of AP-Tree; the plain indexes are faster",
    series={name: (Building, own) for name, own in LINES.items()},
    tiny={**MATCHING.tiny, "messages": ("zipf",)},
)
