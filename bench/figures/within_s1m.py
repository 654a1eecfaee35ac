"""The workload s1m through the broker: messages per CPU second against the plain two-level index and the scan."""

from bench.cases.within import Delivery
from bench.claims import Ahead, AtLeast
from bench.figure import Figure
from nearcast.workload import s1m

FIGURE = Figure(
    title="Within, s1m",
    workload="1,000,000 boxes over 200 clusters, 1 to 4 words of 20,000; messages of 4 to 10 words as Arrow batches of "
    "1,000 through Broker.publish, no window",
    expected="AP-Tree carries at least 100,000 messages per CPU second, touches at most 2 rows a match and 40 more, "
    "and is never slower than the two-level index",
    bars=(
        AtLeast("AP-Tree", 100_000),
        Ahead("AP-Tree", ("two-level", "scan")),
    ),
    because="on s1m, whose words and boxes are independent of each other, a grid under the rarest word is as good "
    "as it gets, and the tree pays for its nodes",
    sweep=("subscriptions", (1_000_000,)),
    series={
        "AP-Tree": (Delivery, {"engine": "ap_tree", "published": 50_000}),
        "two-level": (Delivery, {"engine": "two_level", "published": 50_000}),
        "scan": (Delivery, {"engine": "scan", "published": 2_000}),
    },
    baseline="two-level",
    sizes={"messages": "s1m", "checked": 100},
    tiny={"subscriptions": (2_000,), "published": 1_000},
    seed=s1m.SEED,
)
