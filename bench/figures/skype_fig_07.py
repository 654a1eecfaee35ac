"""Skype figure 7: arrivals, by the number of alpha groups."""

from bench.cases.topk import DATA, SMALL, TINY, WORKLOAD, Sliding
from bench.claims import Best
from bench.figure import Figure

FIGURE = Figure(
    title="TopK, alpha groups",
    workload=f"{WORKLOAD}; arrivals alone",
    expected="best around 10 groups on every data set",
    claims=(Best((10,)),),
    because="every word has a quadtree of its own, so that groups are short whatever their number, and one "
    "repetition on a busy machine does not tell them apart",
    sweep=("groups", (5, 10, 20, 40)),
    series={name: (Sliding, {"messages": name}) for name in DATA},
    repeats=3,
    sizes={**SMALL, "part": "arrivals"},
    tiny={**TINY, "groups": (10,)},
    together=False,
)
