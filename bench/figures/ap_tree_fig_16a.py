"""AP-Tree figure 16a: matching after growth, against the divergence at which a node is rebuilt."""

from bench.cases.within import SIZES, STILL, TINY
from bench.cases.within_upkeep import Drifted
from bench.claims import Trend
from bench.figure import Figure

FIGURE = Figure(
    title="AP-Tree, rebuilding threshold: matching",
    workload="200,000 boxes of 0.01 % to 1 % with 1 to 5 words, drawn from tweets in the order of time; the first "
    "fifth is filed at once, the rest in batches of 10,000",
    expected="matching a little slower with larger thresholds",
    claims=(Trend("slower"),),
    because="a leaf is scanned 64 boxes at a time, so that lists that have grown since the tree was built cost little, "
    "and no threshold is told from another by more than an eighth",
    sweep=("drift", (0.0001, 0.001, 0.01, 0.1, 0.5)),
    series={"AP-Tree": (Drifted, STILL)},
    repeats=3,
    sizes={**SIZES, "messages": "tweets_2021_2022", "built": 0.2, "published": 100_000},
    tiny={**TINY, "drift": (0.001,)},
    since="2026-11-18T15:30:00Z",
)
