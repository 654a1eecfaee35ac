"""AP-Tree figure 15a: matching against the number of subscriptions, tweets."""

from bench.cases.within import LINES, SIZES, TINY, Standing
from bench.claims import Ahead, GrowsLeast
from bench.figure import Figure

FIGURE = Figure(
    title="Within, number of subscriptions: tweets",
    workload="boxes of 0.01 % to 1 % with 1 to 5 words, drawn from 300,000 messages; the engine alone",
    expected="time grows with the matches; AP-Tree grows least",
    claims=(
        GrowsLeast("AP-Tree", ("IQ-Tree", "RQ-Tree")),
        Ahead("AP-Tree", ("IQ-Tree", "RQ-Tree")),
    ),
    bars=(Ahead("AP-Tree", ("two-level",)),),
    sweep=("subscriptions", (200_000, 1_000_000, 5_000_000)),
    series={name: (Standing, own) for name, own in LINES.items()},
    repeats=3,
    baseline="two-level",
    sizes={**SIZES, "messages": "tweets_2021_2022", "published": 5_000, "checked": 5},
    tiny={**TINY, "subscriptions": (1_500,)},
    together=False,
)
