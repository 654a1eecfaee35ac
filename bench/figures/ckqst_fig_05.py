"""Messages per CPU second against what an update costs, theta_U."""

from bench.cases.nearest import ALL, TINY_ALL, Watching
from bench.claims import Trend
from bench.count_claims import CountTrend
from bench.figure import Figure

FIGURE = Figure(
    title="CkQST, figure 5: the price of an update",
    workload=(
        "500,000 subscriptions of 1 to 5 words drawn from tweets, k 20; the newest 100,000 messages live, a "
        "little off the places they were drawn from; the engine alone"
    ),
    expected="dearer updates mean fewer, larger nodes: less to update, more to verify",
    claims=(
        Trend("slower"),
        CountTrend("bytes of the index", "less", ("AOIQ-tree",), "index_bytes"),
    ),
    sweep=("theta", (0.0001, 0.001, 0.01, 0.1)),
    series={"AOIQ-tree": (Watching, {})},
    sizes=ALL,
    tiny={**TINY_ALL, "theta": (0.0001, 0.1)},
    repeats=3,
)
