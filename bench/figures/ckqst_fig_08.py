"""Messages per CPU second on several sets of data, against other indexes as filters."""

from bench.cases.nearest import ALL, DATA, LINES, TINY_ALL, Watching
from bench.claims import Ahead
from bench.figure import Figure

FIGURE = Figure(
    title="CkQST, figure 8: sets of data",
    workload=(
        "200,000 subscriptions of 1 to 5 words drawn from each set, k 20; the newest 40,000 messages live, a "
        "little off the places they were drawn from; the engine alone"
    ),
    expected="AOIQ-tree is fastest on every set",
    claims=(Ahead("AOIQ-tree", ("IQ-Tree", "AP-Tree", "FAST-style")),),
    because="keeping the results, the same code for all four, is most of the time, so that indexes cannot be far "
    "apart; on places_gnis_us AP-Tree reads one list from end to end where AOIQ-tree looks up 90 short "
    "ones",
    sweep=("messages", DATA),
    series={name: (Watching, line) for name, line in LINES.items()},
    baseline="AP-Tree",
    sizes={**ALL, "subscriptions": 200_000, "live": 40_000},
    tiny={**TINY_ALL, "messages": ("zipf",)},
    repeats=3,
    together=False,
)
