"""Parts of the update time: results, subscriptions that come, and that leave."""

from bench.cases.nearest import PLACES
from bench.cases.sharded import SIZES, TINY, WAYS, WORK, Sharded
from bench.figure import Figure

FIGURE = Figure(
    title="DkM-SKS, table 3: parts of the time",
    workload=(
        "any of 1 to 5 words drawn from places, k 1 to 10; no window, 200,000 messages before; "
        "100 subscriptions come and 100 leave with every 1,000 messages; timed is the busiest shard"
    ),
    expected="most of it is updating results; coming costs SOP and DkM-SKS more than KOP",
    sweep=("messages", (PLACES,)),
    series={name: (Sharded, way) for name, way in WAYS.items()},
    baseline="DkM-SKS",
    sizes=SIZES,
    tiny={**TINY, "messages": ("zipf",)},
    repeats=3,
    work=WORK,
    together=False,
)
