"""Messages per CPU second against the number of words of a subscription, against other indexes as filters."""

from bench.cases.nearest import ALL, LINES, TINY_ALL, Watching
from bench.claims import Level, Trend
from bench.figure import Figure

FIGURE = Figure(
    title="CkQST, figure 10: words of a subscription",
    workload="as figure 8, tweets",
    expected="IQ-Tree hardly cares; the others are faster with more words",
    claims=(
        Level(("IQ-Tree",)),
        Trend("faster", ("AOIQ-tree", "AP-Tree", "FAST-style")),
    ),
    because="our IQ-Tree files a subscription under its rarest word within a cell, so that it gains from more "
    "words like the others",
    sweep=("n_words", (1, 2, 3, 4, 5)),
    series={name: (Watching, line) for name, line in LINES.items()},
    baseline="AP-Tree",
    sizes={**ALL, "subscriptions": 200_000, "live": 40_000},
    tiny={**TINY_ALL, "n_words": (3,)},
    repeats=3,
    together=False,
)
