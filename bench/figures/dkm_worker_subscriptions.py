"""Messages per CPU second of one worker against the number of its subscriptions."""

from bench.cases.nearest import ANY, TINY_ANY, WORKERS, Watching
from bench.claims import Ahead
from bench.figure import Figure

FIGURE = Figure(
    title="DkM-SKS, a worker: number of subscriptions",
    workload=(
        "subscriptions of any of 1 to 5 words drawn from places, k 1 to 10; no window, 300,000 messages "
        "before; the engine alone"
    ),
    expected="the grid with words is fastest, and grows with the results that change",
    bars=(
        Ahead("grid and words", ("words only",), times=5),
        Ahead("grid and words", ("space only",)),
    ),
    sweep=("subscriptions", (100_000, 300_000)),
    series={name: (Watching, line) for name, line in WORKERS.items()},
    baseline="words only",
    sizes=ANY,
    tiny={**TINY_ANY, "subscriptions": (1_500,)},
    repeats=3,
    together=False,
)
