"""Messages per CPU second against the number of subscriptions, against other indexes as filters."""

from bench.cases.nearest import ALL, LINES, TINY_ALL, Watching
from bench.claims import Ahead, GrowsLeast
from bench.figure import Figure

FIGURE = Figure(
    title="CkQST, figure 9: number of subscriptions",
    workload="as figure 8, tweets, with the newest 40,000 messages live",
    expected="AOIQ-tree is fastest and grows least",
    claims=(
        Ahead("AOIQ-tree", ("IQ-Tree", "AP-Tree", "FAST-style")),
        GrowsLeast("AOIQ-tree", ("IQ-Tree", "AP-Tree", "FAST-style")),
    ),
    because="keeping the results, the same code for all four, is most of the time; on a machine with a large "
    "cache AP-Tree's long lists cost less than AOIQ-tree's many short ones, at a third more bytes",
    sweep=("subscriptions", (100_000, 200_000, 500_000, 1_000_000)),
    series={name: (Watching, line) for name, line in LINES.items()},
    baseline="AP-Tree",
    sizes={**ALL, "live": 40_000},
    tiny={**TINY_ALL, "subscriptions": (1_500,)},
    repeats=3,
    together=False,
)
