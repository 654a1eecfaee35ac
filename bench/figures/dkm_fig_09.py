"""Update time of the busiest shard against the number of subscriptions."""

from bench.cases.sharded import SIZES, TINY, WAYS, WORK, Sharded
from bench.claims import Ahead, GrowthAtMost
from bench.figure import Figure

FIGURE = Figure(
    title="DkM-SKS, figure 9: number of subscriptions",
    workload=(
        "any of 1 to 5 words drawn from places, k 1 to 10; no window, 200,000 messages before; "
        "100 subscriptions come and 100 leave with every 1,000 messages; timed is the busiest shard"
    ),
    expected="KOP and DkM-SKS grow linearly, DkM-SKS first",
    claims=(
        Ahead("DkM-SKS", ("KOP", "SOP")),
        GrowthAtMost(("KOP", "DkM-SKS"), 4.4, (100_000, 400_000)),
    ),
    sweep=("subscriptions", (100_000, 200_000, 400_000)),
    series={name: (Sharded, way) for name, way in WAYS.items()},
    baseline="DkM-SKS",
    sizes=SIZES,
    tiny={**TINY, "subscriptions": (500, 1_500)},
    repeats=3,
    work=WORK,
    together=False,
    since="2026-11-18T15:30:00Z",
)
