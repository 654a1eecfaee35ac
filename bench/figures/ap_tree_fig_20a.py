"""AP-Tree figure 20a: arrivals, with messages in the leaves of the tree or in an index of their own."""

from bench.cases.within_moving import MOVING_SIZES, MOVING_TINY, Arriving
from bench.claims import Ahead
from bench.figure import Figure

VARIANTS = {
    "in the leaves": {"engine": "ap_tree", "filing": "leaves"},
    "own index": {"engine": "ap_tree", "filing": "index"},
}

FIGURE = Figure(
    title="AP+-Tree, variants: arrivals",
    workload="200,000 boxes of 0.01 % to 1 % with 1 to 5 words on the roads of Oldenburg, the newest 200,000 live",
    expected="arrivals a little slower with messages in the leaves",
    claims=(Ahead("own index", ("in the leaves",)),),
    sweep=("messages", ("tweets_2021_2022", "places_gnis_us")),
    series={name: (Arriving, own) for name, own in VARIANTS.items()},
    repeats=3,
    baseline="own index",
    sizes={name: value for name, value in MOVING_SIZES.items() if name != "messages"},
    tiny={**MOVING_TINY, "messages": ("zipf",)},
)
