"""Update time of the busiest shard against the largest k."""

from bench.cases.sharded import SIZES, TINY, WAYS, WORK, Sharded
from bench.claims import Ahead, Trend
from bench.figure import Figure

FIGURE = Figure(
    title="DkM-SKS, figure 10: largest k",
    workload=(
        "any of 1 to 5 words drawn from places, k 1 to 10; no window, 200,000 messages before; "
        "100 subscriptions come and 100 leave with every 1,000 messages; timed is the busiest shard"
    ),
    expected="a little slower with k",
    claims=(
        Ahead("DkM-SKS", ("KOP", "SOP")),
        Trend("slower", ("KOP", "DkM-SKS")),
    ),
    sweep=("k", (5, 10, 15, 20)),
    series={name: (Sharded, way) for name, way in WAYS.items()},
    baseline="DkM-SKS",
    sizes=SIZES,
    tiny={**TINY, "k": (5, 10)},
    repeats=3,
    work=WORK,
    together=False,
    since="2026-11-18T15:30:00Z",
)
