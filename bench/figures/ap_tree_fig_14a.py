"""AP-Tree figure 14a: matching against the size of the boxes, tweets."""

from bench.cases.within import LINES, SIZES, TINY, Standing
from bench.figure import Figure

FIGURE = Figure(
    title="Within, size of boxes: tweets",
    workload="200,000 boxes that cover this share of the space, 1 to 5 words; the engine alone",
    expected="slower with larger boxes, because more matches; IQ-Tree better than RQ-Tree for small ones, worse for "
    "large ones; AP-Tree ahead throughout",
    sweep=("area", (1e-8, 1e-6, 1e-4, 0.01, 0.1)),
    series={name: (Standing, own) for name, own in LINES.items()},
    repeats=3,
    baseline="two-level",
    sizes={**SIZES, "messages": "tweets_2021_2022"},
    tiny={**TINY, "area": (1e-4, 0.1)},
)
