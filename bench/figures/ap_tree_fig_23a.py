"""AP-Tree figure 23a: moves against velocity, tweets."""

from bench.cases.within_moving import MOVING_LINES, MOVING_SIZES, MOVING_TINY, Relocating
from bench.claims import Ahead, Best
from bench.count_claims import CountAtLeast
from bench.figure import Figure

FIGURE = Figure(
    title="Within, moving: velocity",
    workload="200,000 boxes of 0.01 % to 1 % with 1 to 5 words on the roads of Oldenburg, the newe"
    "st 200,000 messages live; velocity in units of the medium one",
    expected="AP+-Tree ahead throughout; slower when what is left and what is entered overlap less",
    claims=(
        Ahead("AP+-Tree", ("IQ+-Tree", "RQ+-Tree", "SS-Index", "KK-Index")),
        Best((1.0, 2.0, 3.0), ("AP+-Tree",)),
    ),
    bars=(CountAtLeast("rebuilds", ("AP+-Tree",), "rebuilds", 1),),
    because="the rivals here file small cells and short lists in flat arrays, so that a move touches little, at "
    "several times the memory and the price of an arrival; and in these records AP+-Tree was never "
    "rebuilt for movement, so that its cost of movement had no say",
    sweep=("velocity", (0.5, 1.0, 2.0, 3.0, 4.0)),
    series={name: (Relocating, own) for name, own in MOVING_LINES.items()},
    repeats=3,
    baseline="RQ+-Tree",
    sizes=MOVING_SIZES,
    tiny={**MOVING_TINY, "velocity": (4.0,)},
)
