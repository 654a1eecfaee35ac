"""Messages per CPU second against k."""

from bench.cases.nearest import ALL, TINY_ALL, Watching
from bench.claims import Trend
from bench.count_claims import CountTrend
from bench.figure import Figure

FIGURE = Figure(
    title="CkQST, figure 6: k",
    workload=(
        "500,000 subscriptions of 1 to 5 words drawn from tweets; the newest 100,000 messages live, a little "
        "off the places they were drawn from; the engine alone"
    ),
    expected="slower with k: search ranges grow",
    claims=(
        Trend("slower"),
        CountTrend("bytes of the index", "less", ("AOIQ-tree",), "index_bytes"),
    ),
    sweep=("k", (10, 20, 30, 40, 50)),
    series={"AOIQ-tree": (Watching, {})},
    sizes=ALL,
    tiny={**TINY_ALL, "k": (30,)},
    repeats=3,
)
