"""Messages per CPU second of one worker against the largest k."""

from bench.cases.nearest import ANY, TINY_ANY, WORKERS, Watching
from bench.claims import Ahead, Trend
from bench.figure import Figure

FIGURE = Figure(
    title="DkM-SKS, a worker: k",
    workload=(
        "300,000 subscriptions of any of 1 to 5 words drawn from places, k from 1 to the largest; no window, "
        "300,000 messages before; the engine alone"
    ),
    expected="slower with k: balls grow, and more results change",
    bars=(
        Trend("slower"),
        Ahead("grid and words", ("words only", "space only")),
    ),
    because="going through whole lists of a word costs the same whatever k is",
    sweep=("k", (5, 10, 20)),
    series={name: (Watching, line) for name, line in WORKERS.items()},
    baseline="words only",
    sizes=ANY,
    tiny={**TINY_ANY, "k": (5,)},
    repeats=3,
    together=False,
)
