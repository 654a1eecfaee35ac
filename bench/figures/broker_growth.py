"""The broker against the number of subscriptions, each kind by itself."""

from bench.cases.publish import Publish
from bench.claims import GrowthAtMost
from bench.figure import Figure

FIGURE = Figure(
    title="Broker, growth",
    workload="synthetic messages in batches of 100 through Broker.publish, a window of the newest 5,000",
    expected="messages a second fall far more slowly than subscriptions grow",
    bars=(GrowthAtMost(("within", "similar", "topk", "nearest_all", "nearest_any"), 50, (1_000, 100_000)),),
    sweep=("subscriptions", (1_000, 10_000, 100_000)),
    series={kind: (Publish, {"kind": kind}) for kind in ("within", "similar", "topk", "nearest_all", "nearest_any")},
    repeats=3,
    sizes={
        "messages": "zipf",
        "window": 5_000,
        "batch": 100,
        "pairs": 10_000_000,
        "least": 100,
        "most": 5_000,
        "checked": 50,
    },
    tiny={"subscriptions": (100,), "window": 500, "pairs": 20_000, "least": 200, "most": 200, "checked": 20},
)
