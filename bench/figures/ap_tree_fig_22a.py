"""AP-Tree figure 22a: moves against mobility, tweets."""

from bench.cases.within_moving import MOVING_LINES, MOVING_SIZES, MOVING_TINY, Relocating
from bench.claims import Ahead
from bench.count_claims import CountAtLeast
from bench.figure import Figure

FIGURE = Figure(
    title="Within, moving: mobility",
    workload="200,000 boxes of 0.01 % to 1 % with 1 to 5 words on the roads of Oldenburg, the newe"
    "st 200,000 messages live; this share moves at each timestamp",
    expected="AP+-Tree ahead throughout; the rate hardly changes",
    claims=(Ahead("AP+-Tree", ("IQ+-Tree", "RQ+-Tree", "SS-Index", "KK-Index")),),
    bars=(CountAtLeast("rebuilds", ("AP+-Tree",), "rebuilds", 1),),
    because="the rivals here file small cells and short lists in flat arrays, so that a move touches little, at "
    "several times the memory and the price of an arrival; and in these records AP+-Tree was never "
    "rebuilt for movement, so that its cost of movement had no say",
    sweep=("mobility", (0.1, 0.2, 0.4, 0.6, 0.8)),
    series={name: (Relocating, own) for name, own in MOVING_LINES.items()},
    repeats=3,
    baseline="RQ+-Tree",
    sizes=MOVING_SIZES,
    tiny={**MOVING_TINY, "mobility": (0.4,)},
)
