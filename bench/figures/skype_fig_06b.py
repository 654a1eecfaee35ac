"""Skype figure 6b: arrivals and expiries, by the ratio of floor and k-th score."""

from bench.cases.topk import SMALL, TINY, WORKLOAD, Sliding
from bench.claims import Ahead, Best
from bench.figure import Figure

FIGURE = Figure(
    title="TopK, Skyband",
    workload=f"{WORKLOAD}; the engine alone",
    expected="a ratio of 1 is poor, 0.95 best, and the cost model ahead of all; mean_buffer grows as the ratio falls",
    claims=(
        Best((0.95,), ("Skyband",)),
        Ahead("cost", ("Skyband",)),
    ),
    because="a refill costs little here, so that the best ratio lies elsewhere; Skyband is held to 4 k messages",
    sweep=("share", (1.0, 0.95, 0.9, 0.85, 0.8)),
    series={"Skyband": (Sliding, {"strategy": "ratio"}), "cost": (Sliding, {"strategy": "cost"})},
    repeats=3,
    baseline="cost",
    sizes=SMALL,
    tiny={**TINY, "share": (0.95,)},
    together=False,
)
