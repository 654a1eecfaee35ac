"""Skype figure 8: arrivals with individual pruning alone, and with cells and groups."""

from bench.cases.topk import DATA, SMALL, TINY, WORKLOAD, Sliding
from bench.figure import Figure

FIGURE = Figure(
    title="TopK, individual and group pruning",
    workload=f"{WORKLOAD}; arrivals alone",
    expected="IGPT visits at least 3 times fewer subscriptions, and is at least 3 times faster",
    sweep=("messages", DATA),
    series={"IPT": (Sliding, {"prune_groups": False}), "IGPT": (Sliding, {})},
    repeats=3,
    baseline="IPT",
    sizes={**SMALL, "part": "arrivals"},
    tiny={**TINY, "messages": ("zipf",)},
)
