"""AP-Tree figure 17a: matching after growth, against the share that was filed at once."""

from bench.cases.within import STILL, TINY
from bench.cases.within_upkeep import Drifted
from bench.claims import Ahead, Level, Trend
from bench.figure import Figure
from bench.figures.ap_tree_fig_16a import FIGURE as THRESHOLD

LINES = {
    "AP-Tree": STILL,
    "AP-Tree-NR": {**STILL, "drift": 1e9},
    "IQ-Tree": {"engine": "iq_tree"},
    "RQ-Tree": {"engine": "rq_tree"},
}

FIGURE = Figure(
    title="Within, upkeep: matching",
    workload=f"{THRESHOLD.workload.split(';')[0]}; this share is filed at once, the rest in batches of 10,000",
    expected="AP-Tree stable and ahead; without rebuilding (NR) slower the less was there from the start",
    claims=(
        Level(("AP-Tree",), within=1.25),
        Ahead("AP-Tree", ("IQ-Tree", "RQ-Tree")),
        Trend("faster", ("AP-Tree-NR",)),
    ),
    because="the tree that is never rebuilt is as fast as the other whatever was there from the start: a leaf is "
    "scanned 64 boxes at a time, so that lists that have grown cost little",
    sweep=("built", (0.1, 0.3, 0.5, 0.7, 0.9)),
    series={name: (Drifted, own) for name, own in LINES.items()},
    repeats=3,
    baseline="AP-Tree",
    sizes={**THRESHOLD.sizes},
    tiny={**TINY, "built": (0.1,)},
    since="2026-11-18T15:30:00Z",
)
