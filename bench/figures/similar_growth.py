"""Time per answer from a million to ten million subscriptions."""

from bench.cases.similar import StandingPerAnswer
from bench.claims import GrowthAtMost
from bench.figure import Figure
from bench.figures.similar_bars import FIGURE as BARS

FIGURE = Figure(
    title="Similar, up to ten million subscriptions",
    workload="as in similar_bars, delta 0 to 1 and tau 0.5 to 1; over tweets and over places",
    expected="the time per answer grows at most 1.5 times from one to ten million subscriptions",
    bars=(GrowthAtMost(("tweets", "places"), 1.5, (1_000_000, 10_000_000)),),
    sweep=("subscriptions", (1_000_000, 3_000_000, 10_000_000)),
    series={
        "tweets": (StandingPerAnswer, {"messages": "tweets_2021_2022"}),
        "places": (StandingPerAnswer, {"messages": "poi_simplegeo_us"}),
    },
    repeats=3,
    work={name: BARS.work[name] for name in ("answers a message", "candidates an answer", "bytes a subscription")},
    together=False,
    sizes={"engine": "stamp", "max_distance": 50_000, "published": 100, "checked": 5},
    tiny={"subscriptions": ()},
)
