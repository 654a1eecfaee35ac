"""How long it takes to split subscriptions into shards, by their number."""

from bench.cases.nearest import PLACES
from bench.cases.sharded import Fitting
from bench.claims import Trend
from bench.figure import Figure

FIGURE = Figure(
    title="DkM-SKS: splitting",
    workload="any of 1 to 5 words drawn from places, k 1 to 10; 20 shards, costs estimated from 100,000 messages",
    expected="minutes for ten million, growing in proportion",
    bars=(Trend("slower", ("DkM-SKS",)),),
    sweep=("subscriptions", (100_000, 1_000_000, 10_000_000)),
    series={
        name: (Fitting, {"method": method})
        for name, method in (("DkM-SKS", "dkm"), ("KOP", "keyword"), ("SOP", "space"))
    },
    baseline="DkM-SKS",
    sizes={"messages": PLACES, "shards": 20, "k": 10, "before": 100_000, "checked": 2_000},
    tiny={"messages": "zipf", "subscriptions": (1_500,), "shards": 3, "before": 1_000, "checked": 500},
    repeats=3,
    together=False,
)
