"""Messages through the broker, by batch size: what the way in and out costs."""

from bench.cases.publish import Publish
from bench.claims import GrowthAtMost
from bench.figure import Figure

FIGURE = Figure(
    title="Publish",
    workload="synthetic messages as Arrow batches through Broker.publish, a window of the newest 10,000; "
    "no subscriptions, 1,000 boxes with words, 1,000 of all kinds",
    expected="batches of 1,000 carry at least 20 times as many messages as single ones without subscriptions",
    bars=(GrowthAtMost(("no subscriptions",), 0.05, (1, 1_000)),),
    sweep=("batch", (1, 100, 1_000)),
    series={
        "no subscriptions": (Publish, {"kind": "mixed", "subscriptions": 0}),
        "1,000 within": (Publish, {"kind": "within", "subscriptions": 1_000}),
        "1,000 mixed": (Publish, {"kind": "mixed", "subscriptions": 1_000}),
    },
    repeats=3,
    baseline="no subscriptions",
    sizes={"messages": "zipf", "window": 10_000, "pairs": 5_000_000, "least": 2_000, "most": 10_000, "checked": 50},
    tiny={"batch": (50,), "window": 500, "pairs": 20_000, "least": 200, "most": 200, "checked": 20},
)
