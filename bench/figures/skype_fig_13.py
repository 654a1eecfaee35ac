"""Skype figure 13: arrivals and expiries, by k."""

from bench.cases.topk import CIQ, KMAX, SMALL, TINY, WORKLOAD, Sliding
from bench.figure import Figure

FIGURE = Figure(
    title="TopK, k",
    workload=f"{WORKLOAD}; the engine alone",
    expected="both slower with larger k, Skype far ahead",
    sweep=("k", (10, 20, 40, 60)),
    series={"Skype": (Sliding, {}), "CIQ-kmax": (Sliding, {"engine": CIQ, **KMAX})},
    repeats=3,
    baseline="CIQ-kmax",
    sizes=SMALL,
    tiny={**TINY, "k": (5,)},
    together=False,
)
