"""Update time of the busiest shard against the number of shards."""

from bench.cases.sharded import SIZES, TINY, WAYS, WORK, Sharded
from bench.claims import Ahead, Trend
from bench.figure import Figure

FIGURE = Figure(
    title="DkM-SKS, figure 8: number of shards",
    workload=(
        "any of 1 to 5 words drawn from places, k 1 to 10; no window, 200,000 messages before; "
        "100 subscriptions come and 100 leave with every 1,000 messages; timed is the busiest shard"
    ),
    expected="faster with more shards; DkM-SKS first, and evenly loaded",
    claims=(
        Trend("faster", ("DkM-SKS", "KOP", "SOP")),
        Ahead("DkM-SKS", ("KOP", "SOP")),
    ),
    sweep=("shards", (5, 10, 20, 40)),
    series={name: (Sharded, way) for name, way in WAYS.items()},
    baseline="DkM-SKS",
    sizes=SIZES,
    tiny={**TINY, "shards": (2, 5)},
    repeats=3,
    work=WORK,
    together=False,
    since="2026-11-18T15:30:00Z",
)
