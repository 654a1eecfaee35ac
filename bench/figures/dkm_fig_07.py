"""Update time of the busiest shard as time goes by."""

from bench.cases.sharded import SIZES, TINY, WAYS, WORK, Sharded
from bench.claims import Ahead, Level, Trend
from bench.figure import Figure

FIGURE = Figure(
    title="DkM-SKS, figure 7: time",
    workload=(
        "any of 1 to 5 words drawn from places, k 1 to 10; no window, 200,000 messages before; "
        "100 subscriptions come and 100 leave with every 1,000 messages; timed is the busiest shard"
    ),
    expected="level, and SOP slower with time",
    claims=(
        Level(("DkM-SKS", "KOP")),
        Trend("slower", ("SOP",)),
        Ahead("DkM-SKS", ("KOP", "SOP", "PS2Stream-like")),
    ),
    sweep=("after", (0, 10_000, 20_000)),
    series={name: (Sharded, way) for name, way in WAYS.items()},
    baseline="DkM-SKS",
    sizes=SIZES,
    tiny={**TINY, "after": (0, 2_000)},
    repeats=3,
    work=WORK,
    together=False,
    since="2026-11-18T15:30:00Z",
)
