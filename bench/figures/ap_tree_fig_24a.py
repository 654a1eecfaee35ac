"""AP-Tree figure 24a: moves against size of boxes, tweets."""

from bench.cases.within_moving import MOVING_LINES, MOVING_SIZES, MOVING_TINY, Relocating
from bench.claims import Ahead, GrowsLeast, Trend
from bench.count_claims import CountAtLeast
from bench.figure import Figure

FIGURE = Figure(
    title="Within, moving: size of boxes",
    workload="200,000 boxes that cover this share of the space, 1 to 5 words, on the roads of Oldenburg, "
    "the newest 200,000 live",
    expected="slower with larger boxes, AP+-Tree least so",
    claims=(
        Ahead("AP+-Tree", ("IQ+-Tree", "RQ+-Tree", "SS-Index", "KK-Index")),
        Trend("slower"),
        GrowsLeast("AP+-Tree", ("IQ+-Tree", "RQ+-Tree", "SS-Index", "KK-Index")),
    ),
    bars=(CountAtLeast("rebuilds", ("AP+-Tree",), "rebuilds", 1),),
    because="the rivals here file small cells and short lists in flat arrays, so that a move touches little, at "
    "several times the memory and the price of an arrival; and in these records AP+-Tree was never "
    "rebuilt for movement, so that its cost of movement had no say",
    sweep=("area", (1e-8, 1e-6, 1e-4, 0.01, 0.1)),
    series={name: (Relocating, own) for name, own in MOVING_LINES.items()},
    repeats=3,
    baseline="RQ+-Tree",
    sizes=MOVING_SIZES,
    tiny={**MOVING_TINY, "area": (0.01,)},
)
