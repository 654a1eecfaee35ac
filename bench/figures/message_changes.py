"""Updates and retractions at a million subscriptions of one kind and a million live messages."""

from bench.cases.changes import Changing
from bench.claims import AtLeast
from bench.figure import Figure

FIGURE = Figure(
    title="Updates and retractions",
    workload="new versions of live messages drawn at random, as Arrow batches of 1,000 through Broker.update, and 20 "
    "retractions one by one after each; k = 20; of `Within`, a message matches some 500 of a million, of s1m some 30",
    expected="at least 20,000 per CPU second for Within, 5,000 for TopK and Nearest",
    bars=(
        AtLeast("within", 20_000),
        AtLeast("within, s1m", 20_000),
        AtLeast("topk", 5_000),
        AtLeast("nearest, any word", 5_000),
        AtLeast("nearest, all words", 5_000),
    ),
    sweep=("subscriptions", (1_000_000,)),
    series={
        "within": (Changing, {"kind": "within"}),
        "within, s1m": (Changing, {"kind": "within", "messages": "s1m"}),
        "topk": (Changing, {"kind": "topk"}),
        "nearest, any word": (Changing, {"kind": "nearest_any"}),
        "nearest, all words": (Changing, {"kind": "nearest_all"}),
        "topk after a publish": (Changing, {"kind": "topk", "loaded": "publish"}),
    },
    repeats=3,
    sizes={
        "messages": "poi_simplegeo_us",
        "window": 1_000_000,
        "k": 20,
        "loaded": "update",
        "batch": 1_000,
        "changed": 20_000,
        "retracted": 20,
        "checked": 20,
    },
    tiny={"messages": "zipf", "subscriptions": (300,), "window": 300, "batch": 50, "changed": 100, "retracted": 5},
    together=False,
)
