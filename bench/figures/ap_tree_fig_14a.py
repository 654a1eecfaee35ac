"""AP-Tree figure 14a: matching against the size of the boxes, tweets."""

from bench.cases.within import LINES, SIZES, TINY, Standing
from bench.claims import Ahead, Trend
from bench.figure import Figure

FIGURE = Figure(
    title="Within, size of boxes: tweets",
    workload="200,000 boxes that cover this share of the space, 1 to 5 words; the engine alone",
    expected="slower with larger boxes, because more matches; IQ-Tree better than RQ-Tree for small ones, worse for "
    "large ones; AP-Tree ahead throughout",
    claims=(
        Trend("slower"),
        Ahead("AP-Tree", ("IQ-Tree", "RQ-Tree")),
        Ahead("IQ-Tree", ("RQ-Tree",), at=(1e-8,)),
        Ahead("RQ-Tree", ("IQ-Tree",), at=(0.1,)),
    ),
    bars=(Ahead("AP-Tree", ("two-level",)),),
    because="RQ-Tree files the smallest boxes in cells of their size under their rarest word and touches half as "
    "many rows as AP-Tree; our rivals have their next two words in the row, so that words cost RQ-Tree "
    "little",
    sweep=("area", (1e-8, 1e-6, 1e-4, 0.01, 0.1)),
    series={name: (Standing, own) for name, own in LINES.items()},
    repeats=3,
    baseline="two-level",
    sizes={**SIZES, "messages": "tweets_2021_2022"},
    tiny={**TINY, "area": (1e-4, 0.1)},
)
