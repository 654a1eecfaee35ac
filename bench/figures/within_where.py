"""The workload s1m with a `where` of a tenth of all messages: at least as fast as without."""

from bench.cases.fields import Asking
from bench.claims import Ahead
from bench.figure import Figure
from nearcast.workload import s1m

FIGURE = Figure(
    title="Within with where, s1m",
    workload="1,000,000 boxes over 200 clusters, 1 to 4 words of 20,000; messages of 4 to 10 words with a category, "
    "one of ten, and a price; Arrow batches of 1,000 through Broker.publish, no window; each where holds for a tenth",
    expected="with a where no slower than without, by category and by price",
    bars=(
        Ahead("category", ("no where",)),
        Ahead("price", ("no where",)),
    ),
    sweep=("subscriptions", (1_000_000,)),
    series={
        "no fields": (Asking, {"where": "plain"}),
        "no where": (Asking, {"where": "none"}),
        "category": (Asking, {"where": "="}),
        "price": (Asking, {"where": "<"}),
        "both": (Asking, {"where": "both"}),
    },
    baseline="no where",
    sizes={"messages": "s1m", "checked": 100, "engine": "ap_tree", "published": 50_000},
    tiny={"subscriptions": (2_000,), "published": 1_000},
    seed=s1m.SEED,
)
