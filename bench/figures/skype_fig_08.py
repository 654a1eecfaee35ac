"""Skype figure 8: arrivals with individual pruning alone, and with cells and groups."""

from bench.cases.topk import DATA, SMALL, TINY, WORKLOAD, Sliding
from bench.claims import Ahead
from bench.figure import Figure

FIGURE = Figure(
    title="TopK, individual and group pruning",
    workload=f"{WORKLOAD}; arrivals alone",
    expected="IGPT visits at least 3 times fewer subscriptions, and is at least 3 times faster",
    claims=(Ahead("IGPT", ("IPT",), times=3),),
    because="every word has a quadtree of its own, and all that a posting is judged by is in the posting: "
    "individual pruning alone is already nearly as good",
    sweep=("messages", DATA),
    series={"IPT": (Sliding, {"prune_groups": False}), "IGPT": (Sliding, {})},
    repeats=3,
    baseline="IPT",
    sizes={**SMALL, "part": "arrivals"},
    tiny={**TINY, "messages": ("zipf",)},
)
