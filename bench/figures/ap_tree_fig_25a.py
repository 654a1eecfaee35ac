"""AP-Tree figure 25a: moves against scale, tweets."""

from bench.cases.within_moving import MOVING_LINES, MOVING_SIZES, MOVING_TINY, Relocating
from bench.claims import Ahead, Trend
from bench.count_claims import CountAtLeast
from bench.figure import Figure

FIGURE = Figure(
    title="Within, moving: scale",
    workload="boxes of 0.01 % to 1 % with 1 to 5 words on the roads of Oldenburg, and as many live messages",
    expected="slower at scale, because more changes; AP+-Tree ahead throughout",
    claims=(
        Ahead("AP+-Tree", ("IQ+-Tree", "RQ+-Tree", "SS-Index", "KK-Index")),
        Trend("slower"),
    ),
    bars=(CountAtLeast("rebuilds", ("AP+-Tree",), "rebuilds", 1),),
    because="the rivals here file small cells and short lists in flat arrays, so that a move touches little, at "
    "several times the memory and the price of an arrival; and in these records AP+-Tree was never "
    "rebuilt for movement, so that its cost of movement had no say; with one repetition on a busy machine "
    "the lines are not smooth",
    sweep=("subscriptions", (50_000, 200_000, 500_000)),
    series={name: (Relocating, own) for name, own in MOVING_LINES.items()},
    repeats=3,
    baseline="RQ+-Tree",
    sizes={**MOVING_SIZES, "window": 0, "mobility": 0.1},
    tiny={**MOVING_TINY, "window": 0, "subscriptions": (1_000,)},
    together=False,
)
