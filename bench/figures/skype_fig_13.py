"""Skype figure 13: arrivals and expiries, by k."""

from bench.cases.topk import CIQ, KMAX, SMALL, TINY, WORKLOAD, Sliding
from bench.claims import Ahead, Trend
from bench.figure import Figure

FIGURE = Figure(
    title="TopK, k",
    workload=f"{WORKLOAD}; the engine alone",
    expected="both slower with larger k, Skype far ahead",
    claims=(
        Ahead("Skype", ("CIQ-kmax",), times=8),
        Trend("slower"),
    ),
    because="CIQ has the same kernels, keeps the same buffers and refills them by the same message index here, so "
    "that only finding candidates differs",
    sweep=("k", (10, 20, 40, 60)),
    series={"Skype": (Sliding, {}), "CIQ-kmax": (Sliding, {"engine": CIQ, **KMAX})},
    repeats=3,
    baseline="CIQ-kmax",
    sizes=SMALL,
    tiny={**TINY, "k": (5,)},
    together=False,
)
