"""AP-Tree figure 26: time and messages sent with safe regions and without, by subscriptions."""

from bench.cases.safe_regions import TALKING_LINES, TALKING_SIZES, Talking
from bench.cases.within_moving import MOVING_SIZES, MOVING_TINY
from bench.claims import Ahead
from bench.count_claims import Fewer
from bench.figure import Figure

FIGURE = Figure(
    title="Within, moving: safe regions",
    workload="circles with 1 to 5 words, all of which move on the roads of Oldenburg; 10,000 tweets in each timestamp",
    expected="AP+-Tree takes less time; with safe regions fewer messages are sent",
    claims=(
        Ahead("AP+-Tree", ("AP+-Tree-Safe",)),
        Fewer("messages sent", "AP+-Tree-Safe", ("AP+-Tree",), "sent", by="timestamps"),
    ),
    because="with 10 and 1,000 subscriptions a timestamp is so little work that both take the same time; with 100,000 "
    "AP+-Tree takes a tenth of it",
    sweep=("subscriptions", (10, 1_000, 100_000)),
    series={name: (Talking, own) for name, own in TALKING_LINES.items()},
    repeats=3,
    baseline="AP+-Tree",
    sizes={**MOVING_SIZES, **TALKING_SIZES},
    tiny={**MOVING_TINY, "subscriptions": (10, 500), "arrivals": 200},
    work={"sent in a timestamp": ("sent", "timestamps")},
    together=False,
)
