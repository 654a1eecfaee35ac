"""TopK by the number of subscriptions, and what subscribing costs."""

from bench.cases.topk import SIZES, TINY, Sliding, Subscribing
from bench.claims import AtLeast, GrowthAtMost
from bench.figure import Figure

FIGURE = Figure(
    title="TopK, growth",
    workload="subscriptions of 1 to 5 words, k = 20, alpha at random; the newest 1,000,000 messages; the engine alone, "
    "and subscribe_many through the broker",
    expected="time per message grows at most 5 times from 1 to 5 million; at least 5,600 subscriptions a second",
    bars=(
        GrowthAtMost(("Skype",), 5, (1_000_000, 5_000_000)),
        AtLeast("subscribe_many", 5_600),
    ),
    because="a message enters five times as many results, and buffers of 182 million entries no longer fit into "
    "any cache",
    sweep=("subscriptions", (100_000, 200_000, 1_000_000, 5_000_000)),
    series={"Skype": (Sliding, {}), "subscribe_many": (Subscribing, {})},
    repeats=3,
    sizes=SIZES,
    tiny={**TINY, "subscriptions": (300,)},
    together=False,
)
