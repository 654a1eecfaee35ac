"""Subscriptions that come and go beside a million others, by 10,000 at a time through the broker."""

from bench.cases.similar import Updating
from bench.claims import AtLeast
from bench.figure import Figure

FIGURE = Figure(
    title="Similar, updates at a million subscriptions",
    workload="subscriptions as in similar_bars, as Arrow tables of 10,000 through Broker.subscribe_many and "
    "Broker.unsubscribe_many; no window",
    expected="at least 30,000 a second each for STAMP; the scan shows what the broker's door costs",
    bars=(AtLeast("STAMP", 30_000),),
    sweep=("timed", ("subscribe", "unsubscribe")),
    series={
        "STAMP": (Updating, {"engine": "stamp"}),
        "scan": (Updating, {"engine": "scan"}),
        "R^t++": (Updating, {"engine": "rt++"}),
        "IR-tree": (Updating, {"engine": "ir"}),
    },
    repeats=3,
    sizes={
        "messages": "tweets_2021_2022",
        "max_distance": 50_000,
        "subscriptions": 1_000_000,
        "updated": 50_000,
        "checked": 20,
    },
    tiny={
        "messages": "zipf",
        "max_distance": 0.05,
        "subscriptions": 500,
        "updated": 100,
        "timed": ("subscribe",),
    },
)
