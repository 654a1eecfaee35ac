"""Skype figure 14: arrivals and expiries, by the number of subscriptions."""

from bench.cases.topk import CIQ, KMAX, SMALL, TINY, WORKLOAD, Sliding
from bench.claims import Ahead, Trend
from bench.figure import Figure

FIGURE = Figure(
    title="TopK, the number of subscriptions",
    workload=f"{WORKLOAD}; the engine alone",
    expected="both grow with it, Skype far ahead",
    claims=(
        Ahead("Skype", ("CIQ-kmax",), times=8),
        Trend("slower"),
    ),
    because="CIQ has the same kernels, keeps the same buffers and refills them by the same message index here, so "
    "that only finding candidates differs",
    sweep=("subscriptions", (50_000, 100_000, 200_000, 1_000_000)),
    series={"Skype": (Sliding, {}), "CIQ-kmax": (Sliding, {"engine": CIQ, **KMAX})},
    repeats=3,
    baseline="CIQ-kmax",
    sizes=SMALL,
    tiny={**TINY, "subscriptions": (300,)},
    together=False,
)
