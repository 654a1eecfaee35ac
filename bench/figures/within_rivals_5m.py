"""Five million subscriptions on every data set: AP-Tree against IQ-Tree, RQ-Tree and the two-level index."""

from bench.cases.within import DATA, LINES, SIZES, TINY, Standing
from bench.claims import Ahead
from bench.figure import Figure

FIGURE = Figure(
    title="Within, 5 million",
    workload="5,000,000 boxes of 0.01 % to 1 % with 1 to 5 words, drawn from 300,000 messages; the engine alone",
    expected="AP-Tree faster than all on every data set, at least 5 times as fast as IQ-Tree and RQ-Tree on one",
    bars=(Ahead("AP-Tree", ("two-level", "IQ-Tree", "RQ-Tree")),),
    because="on s1m, whose words and boxes are independent of each other, a grid under the rarest word is as good "
    "as it gets, and the tree pays for its nodes",
    sweep=("messages", DATA),
    series={name: (Standing, own) for name, own in LINES.items()},
    repeats=3,
    baseline="AP-Tree",
    sizes={**SIZES, "subscriptions": 5_000_000, "published": 10_000, "checked": 5},
    tiny={**TINY, "messages": ("zipf",)},
    together=False,
)
