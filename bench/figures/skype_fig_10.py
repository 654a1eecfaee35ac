"""Skype figure 10: expiries with the cost model, kmax and Skyband."""

from bench.cases.topk import DATA, KMAX, SKYBAND, SMALL, TINY, WORKLOAD, Sliding
from bench.claims import Ahead
from bench.figure import Figure

FIGURE = Figure(
    title="TopK, re-evaluation",
    workload=f"{WORKLOAD}; expiries alone",
    expected="the cost model has fewest refills and is 4 to 20 times as fast as the next",
    claims=(Ahead("cSkyband", ("kmax", "Skyband"), times=4),),
    because="a refill costs far less here than in the paper: a message index cut into stretches of time answers "
    "it in some 100 us; Skyband is held to 4 k messages",
    sweep=("messages", DATA),
    series={"cSkyband": (Sliding, {}), "kmax": (Sliding, KMAX), "Skyband": (Sliding, SKYBAND)},
    repeats=3,
    baseline="kmax",
    sizes={**SMALL, "part": "expiries"},
    tiny={**TINY, "messages": ("zipf",)},
    together=False,
)
