"""AP-Tree figure 25a: moves against scale, tweets."""

from bench.cases.within_moving import MOVING_LINES, MOVING_SIZES, MOVING_TINY, Relocating
from bench.figure import Figure

FIGURE = Figure(
    title="Within, moving: scale",
    workload="boxes of 0.01 % to 1 % with 1 to 5 words on the roads of Oldenburg, and as many live messages",
    expected="slower at scale, because more changes; AP+-Tree ahead throughout",
    sweep=("subscriptions", (50_000, 200_000, 500_000)),
    series={name: (Relocating, own) for name, own in MOVING_LINES.items()},
    repeats=3,
    baseline="RQ+-Tree",
    sizes={**MOVING_SIZES, "window": 0, "mobility": 0.1},
    tiny={**MOVING_TINY, "window": 0, "subscriptions": (1_000,)},
    together=False,
)
