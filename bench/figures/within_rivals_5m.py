"""Five million subscriptions on every data set: AP-Tree against IQ-Tree, RQ-Tree and the two-level index."""

from bench.cases.within import DATA, LINES, SIZES, TINY, Standing
from bench.figure import Figure

FIGURE = Figure(
    title="Within, 5 million",
    workload="5,000,000 boxes of 0.01 % to 1 % with 1 to 5 words, drawn from 300,000 messages; the engine alone",
    expected="AP-Tree faster than all on every data set, at least 5 times as fast as IQ-Tree and RQ-Tree on one",
    sweep=("messages", DATA),
    series={name: (Standing, own) for name, own in LINES.items()},
    repeats=3,
    baseline="AP-Tree",
    sizes={**SIZES, "subscriptions": 5_000_000, "published": 10_000, "checked": 5},
    tiny={**TINY, "messages": ("zipf",)},
    together=False,
)
