"""CkQST figure 7, ICT: construction with k messages kept, with 2 k, and with the cost-based k-skyband."""

from dataclasses import replace

from bench.cases.nearest import Building
from bench.claims import Ahead
from bench.figures.ckqst_fig_07 import FIGURE as BOTH

FIGURE = replace(
    BOTH,
    title="CkQST, figure 7: construction",
    workload=f"{BOTH.workload}; all subscriptions are filed by the search ranges that they have",
    expected="fastest with 2 k, whose ranges are largest and need fewest nodes; slowest with k only",
    claims=(Ahead("2 k", ("k-skyband",)), Ahead("k-skyband", ("k only",))),
    bars=(),
    because="the cost-based buffer reaches about as far as one of 2 k here, so that search ranges, and the entries "
    "that they need, are nearly the same",
    series={name: (Building, own) for name, (_, own) in BOTH.series.items()},
)
