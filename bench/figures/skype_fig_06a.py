"""Skype figure 6a: arrivals and expiries, by kmax."""

from bench.cases.topk import SMALL, TINY, WORKLOAD, Sliding
from bench.claims import Ahead, Best
from bench.figure import Figure

FIGURE = Figure(
    title="TopK, kmax",
    workload=f"{WORKLOAD}; the engine alone",
    expected="kmax is best around 3 k and behind the cost model throughout; mean_buffer grows with it",
    claims=(
        Best((3.0,), ("kmax",)),
        Ahead("cost", ("kmax",)),
    ),
    because="over 22,000 messages, a fifth of a turn of the window, the shortest buffers are hardly ever "
    "refilled; a refill by our message index costs far less than the paper's",
    sweep=("share", (1.5, 2.0, 3.0, 4.0, 6.0)),
    series={"kmax": (Sliding, {"strategy": "kmax"}), "cost": (Sliding, {"strategy": "cost"})},
    repeats=3,
    baseline="cost",
    sizes=SMALL,
    tiny={**TINY, "share": (3.0,)},
    together=False,
)
