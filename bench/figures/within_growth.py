"""Matches per CPU second against the number of subscriptions, 1 to 20 million."""

from bench.cases.within import LINES, SIZES, TINY, StandingPerMatch
from bench.claims import GrowthAtMost
from bench.figure import Figure
from nearcast.workload import s1m

FIGURE = Figure(
    title="Within, growth",
    workload="s1m with more subscriptions: boxes over 200 clusters, 1 to 4 words of 20,000; the engine alone",
    expected="time per match grows at most 1.5 times from 1 to 20 million",
    bars=(GrowthAtMost(("AP-Tree",), 1.5, (1_000_000, 20_000_000)),),
    sweep=("subscriptions", (1_000_000, 2_000_000, 5_000_000, 10_000_000, 20_000_000)),
    series={name: (StandingPerMatch, LINES[name]) for name in ("AP-Tree", "two-level")},
    repeats=3,
    baseline="two-level",
    sizes={**SIZES, "messages": "s1m", "checked": 5},
    tiny={**TINY, "messages": "s1m", "subscriptions": (1_500,)},
    seed=s1m.SEED,
    together=False,
)
