"""Skype figure 11: arrivals and expiries, by the data sets; bytes are among the counters (11b)."""

from bench.cases.topk import CIQ, DATA, KMAX, SMALL, TINY, WORKLOAD, Sliding
from bench.claims import Ahead
from bench.count_claims import Fewer
from bench.figure import Figure

FIGURE = Figure(
    title="TopK, the data sets",
    workload=f"{WORKLOAD}; the engine alone",
    expected="Skype about 10 times as fast as CIQ with kmax everywhere",
    claims=(
        Ahead("Skype", ("CIQ-kmax",), times=8),
        Fewer("bytes", "Skype", ("CIQ-kmax",), "subscription_bytes"),
    ),
    because="CIQ has the same kernels, keeps the same buffers and refills them by the same message index here, so "
    "that only finding candidates differs",
    sweep=("messages", DATA),
    series={"Skype": (Sliding, {}), "CIQ-kmax": (Sliding, {"engine": CIQ, **KMAX})},
    repeats=3,
    baseline="CIQ-kmax",
    sizes=SMALL,
    tiny={**TINY, "messages": ("zipf",)},
    together=False,
)
