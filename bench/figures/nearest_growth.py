"""Messages per CPU second against the number of subscriptions, 1 to 10 million."""

from bench.cases.nearest import ALL, ANY, Watching
from bench.claims import GrowthAtMost
from bench.figure import Figure

FIGURE = Figure(
    title="Nearest, growth",
    workload=(
        "all words drawn from tweets, k 20, a million live; any word drawn from places, k 1 to 10, no window, "
        "a million messages before; the engine alone"
    ),
    expected="time per message grows at most 5 times from 1 to 10 million",
    bars=(GrowthAtMost(("all words", "any word"), 5, (1_000_000, 10_000_000)),),
    because="as in nearest_bars: buffers outgrow every cache",
    sweep=("subscriptions", (1_000_000, 10_000_000)),
    series={
        "all words": (Watching, {**ALL, "live": 1_000_000, "before": 1_100_000}),
        "any word": (Watching, {**ANY, "before": 1_000_000}),
    },
    sizes={"checked": 5},
    tiny={
        "messages": "zipf",
        "subscriptions": (1_500,),
        "before": 1_000,
        "live": 1_000,
        "published": 500,
        "checked": 100,
    },
    repeats=3,
    together=False,
)
