"""Skype figure 12: arrivals and expiries, by the number of words."""

from bench.cases.topk import CIQ, KMAX, SMALL, TINY, WORKLOAD, Sliding
from bench.claims import Ahead, Trend
from bench.figure import Figure

FIGURE = Figure(
    title="TopK, the number of words",
    workload=f"{WORKLOAD}; the engine alone",
    expected="both slower with more words, Skype far ahead",
    claims=(
        Ahead("Skype", ("CIQ-kmax",), times=8),
        Trend("slower"),
    ),
    because="CIQ has the same kernels, keeps the same buffers and refills them by the same message index here, so "
    "that only finding candidates differs",
    sweep=("n_words", (1, 2, 3, 4, 5)),
    series={"Skype": (Sliding, {}), "CIQ-kmax": (Sliding, {"engine": CIQ, **KMAX})},
    repeats=3,
    baseline="CIQ-kmax",
    sizes=SMALL,
    tiny={**TINY, "n_words": (2,)},
    together=False,
)
