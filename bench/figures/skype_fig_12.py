"""Skype figure 12: arrivals and expiries, by the number of words."""

from bench.cases.topk import CIQ, KMAX, SMALL, TINY, WORKLOAD, Sliding
from bench.figure import Figure

FIGURE = Figure(
    title="TopK, the number of words",
    workload=f"{WORKLOAD}; the engine alone",
    expected="both slower with more words, Skype far ahead",
    sweep=("n_words", (1, 2, 3, 4, 5)),
    series={"Skype": (Sliding, {}), "CIQ-kmax": (Sliding, {"engine": CIQ, **KMAX})},
    repeats=3,
    baseline="CIQ-kmax",
    sizes=SMALL,
    tiny={**TINY, "n_words": (2,)},
    together=False,
)
