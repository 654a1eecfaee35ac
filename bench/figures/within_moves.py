"""A million moving subscriptions and a million live messages: moves through the broker."""

from bench.cases.within_moving import MovingBroker
from bench.claims import AtLeast
from bench.figure import Figure
from nearcast.workload import s1m

FIGURE = Figure(
    title="Within, moves through the broker",
    workload="the boxes of s1m on the roads of Oldenburg, the newest 1,000,000 messages live; 50,000 moves a timestamp "
    "as Arrow tables of 10,000 through Broker.move_many",
    expected="at least 20,000 moves a second with exact updates",
    bars=(AtLeast("AP+-Tree", 20_000),),
    sweep=("subscriptions", (1_000_000,)),
    series={
        "AP+-Tree": (MovingBroker, {"engine": "ap_tree"}),
        "RQ+-Tree": (MovingBroker, {"engine": "rq_plus"}),
        "KK-Index": (MovingBroker, {"engine": "kk_index"}),
    },
    repeats=3,
    baseline="RQ+-Tree",
    sizes={"messages": "s1m", "roads": "oldenburg", "window": 1_000_000, "moved": 50_000, "checked": 50},
    tiny={"subscriptions": (1_500,), "roads": "", "window": 2_000, "moved": 500, "checked": 50},
    seed=s1m.SEED,
    together=False,
)
