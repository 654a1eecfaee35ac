"""The bars for Nearest: messages per CPU second, all words and any word."""

from bench.cases.nearest import ALL, ANY, WORKERS, Watching
from bench.claims import Ahead, AtLeast
from bench.figure import Figure

FIGURE = Figure(
    title="Nearest, the bars",
    workload=(
        "all words: 5 million subscriptions drawn from tweets, k 20, a million live; any word: 1 million "
        "drawn from places, k 1 to 10, no window, a million messages before; the engine alone"
    ),
    expected="all: at least 8,000 messages per CPU second; any: at least 10,000, and 5 times as many as by words only",
    bars=(
        AtLeast("all words", 8_000),
        AtLeast("any word", 10_000),
        Ahead("any word", ("any word, words only",), times=5),
    ),
    because="buffers of 87 million messages do not fit into any cache: what is entered, left or settled waits for "
    "memory",
    sweep=("published", (20_000,)),
    series={
        "all words": (Watching, {**ALL, "subscriptions": 5_000_000, "live": 1_000_000, "before": 1_100_000}),
        "any word": (Watching, {**ANY, "subscriptions": 1_000_000, "before": 1_000_000}),
        "any word, words only": (
            Watching,
            {**ANY, "subscriptions": 1_000_000, "before": 1_000_000, **WORKERS["words only"]},
        ),
    },
    sizes={"checked": 5},
    tiny={"messages": "zipf", "subscriptions": 1_500, "before": 1_000, "published": (500,), "checked": 100},
    repeats=3,
    together=False,
)
