"""What expiries cost with k messages kept, with 2 k, and with the cost-based k-skyband."""

from bench.cases.nearest import ALL, TINY_ALL, Watching
from bench.count_claims import Fewer
from bench.figure import Figure

FIGURE = Figure(
    title="CkQST, figure 7: re-evaluations",
    workload=(
        "100,000 subscriptions of 1 to 5 words drawn from tweets; the newest 20,000 messages live, a little "
        "off the places they were drawn from; the engine alone"
    ),
    expected="far fewer evaluations with the k-skyband than with k only, and no more than 2 k messages kept",
    claims=(
        Fewer("re-evaluations", "k-skyband", ("k only",), "refills", times=10),
        Fewer("messages kept", "k-skyband", ("2 k",), "buffered"),
    ),
    bars=(Fewer("re-evaluations", "k-skyband", ("k only",), "refills", times=300),),
    because="the cost-based buffer may hold up to 2.5 k messages above its floor, of which dominated ones are "
    "dropped; where few messages match, all are kept, which is more than 2 k counts",
    sweep=("k", (10, 20, 30)),
    series={
        "k-skyband": (Watching, {"keep": "cost"}),
        "2 k": (Watching, {"keep": "2k"}),
        "k only": (Watching, {"keep": "k"}),
    },
    baseline="k only",
    sizes={**ALL, "subscriptions": 100_000, "live": 20_000, "published": 5_000},
    tiny={**TINY_ALL, "k": (10,)},
    repeats=3,
    together=False,
)
