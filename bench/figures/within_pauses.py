"""The longest pause of an AP-Tree with a million subscriptions whose subtrees are rebuilt while messages come."""

from bench.cases.within import AP_TREE, SIZES, TINY
from bench.cases.within_upkeep import Pausing
from bench.count_claims import LapAtMost
from bench.figure import Figure

FIGURE = Figure(
    title="Within, pauses",
    workload="1,000,000 boxes of 0.01 % to 1 % with 1 to 5 words, drawn from tweets in the order of time; half are "
    "filed at once, the others in batches of 10,000, with 1,000 messages between two of them, 100 at a time",
    expected="rebuilding shows in no call: the longest takes a few times the usual",
    bars=(LapAtMost("AP-Tree", "100 messages", 50),),
    because="the longest call is the one in which a rebuild of the root begins or takes its place",
    sweep=("subscriptions", (1_000_000,)),
    series={
        "AP-Tree": (Pausing, {"engine": AP_TREE}),
        "AP-Tree, no rebuilding": (Pausing, {"engine": AP_TREE, "drift": 1e9}),
    },
    repeats=3,
    sizes={**SIZES, "messages": "tweets_2021_2022", "built": 0.5},
    tiny={**TINY, "subscriptions": (1_500,), "built": 0.5},
)
