"""Skype figure 9: arrivals through CIQ and through IGPT; bytes are among the counters (9b)."""

from bench.cases.topk import CIQ, DATA, SMALL, TINY, WORKLOAD, Sliding
from bench.claims import Ahead
from bench.count_claims import Fewer
from bench.figure import Figure

FIGURE = Figure(
    title="TopK, CIQ and IGPT",
    workload=f"{WORKLOAD}; arrivals alone",
    expected="IGPT about 10 times as fast as CIQ, and smaller",
    claims=(
        Ahead("IGPT", ("CIQ",), times=8),
        Fewer("bytes", "IGPT", ("CIQ",), "subscription_bytes"),
    ),
    sweep=("messages", DATA),
    series={"CIQ": (Sliding, {"engine": CIQ, "strategy": "cost"}), "IGPT": (Sliding, {})},
    repeats=3,
    baseline="CIQ",
    sizes={**SMALL, "part": "arrivals"},
    tiny={**TINY, "messages": ("zipf",)},
)
