"""AP-Tree figure 12a (and 12c, bytes, among the counters): matching on all data sets."""

from bench.cases.within import DATA, LINES, SIZES, TINY, Standing
from bench.claims import Ahead
from bench.count_claims import Fewer
from bench.figure import Figure

FIGURE = Figure(
    title="Within on all data: matching",
    workload="1,000,000 boxes of 0.01 % to 1 % with 1 to 5 words, drawn from the messages; the engine alone",
    expected="AP-Tree ahead of IQ-Tree, RQ-Tree and the two-level index everywhere, and far ahead of the scan; which "
    "of IQ-Tree and RQ-Tree is better depends on the data",
    claims=(
        Ahead("AP-Tree", ("IQ-Tree", "RQ-Tree")),
        Fewer("bytes", "AP-Tree", ("IQ-Tree", "RQ-Tree"), "subscription_bytes", times=0.67),
    ),
    bars=(Ahead("AP-Tree", ("two-level", "scan")),),
    because="on s1m, whose words and boxes are independent of each other, a grid under the rarest word is as good "
    "as it gets, and the tree pays for its nodes",
    sweep=("messages", DATA),
    series={
        **{name: (Standing, own) for name, own in LINES.items()},
        "scan": (Standing, {"engine": "scan", "published": 1_000}),
    },
    repeats=3,
    baseline="two-level",
    sizes={**SIZES, "subscriptions": 1_000_000},
    tiny={**TINY, "messages": ("zipf", "s1m")},
)
