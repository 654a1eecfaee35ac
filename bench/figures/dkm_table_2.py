"""Load balance: how long the busiest and the idlest shard take for 1,000 messages."""

from bench.cases.nearest import DATA, PLACES
from bench.cases.sharded import SIZES, TINY, WAYS, WORK, Sharded
from bench.count_claims import LapGap
from bench.figure import Figure

FIGURE = Figure(
    title="DkM-SKS, table 2: load balance",
    workload=(
        "any of 1 to 5 words drawn from the data, k 1 to 10; no window, 200,000 messages before; "
        "100 subscriptions come and 100 leave with every 1,000 messages; timed is the busiest shard"
    ),
    expected="DkM-SKS most even, then KOP; SOP and PS2Stream far behind",
    claims=(
        LapGap("DkM-SKS", ("KOP", "SOP", "PS2Stream-like"), ("busiest shard", "idlest shard")),
        LapGap("KOP", ("SOP", "PS2Stream-like"), ("busiest shard", "idlest shard")),
    ),
    sweep=("messages", (PLACES, DATA[0])),
    series={name: (Sharded, way) for name, way in WAYS.items()},
    baseline="DkM-SKS",
    sizes=SIZES,
    tiny={**TINY, "messages": ("zipf",)},
    repeats=3,
    work=WORK,
    together=False,
    since="2026-11-18T15:30:00Z",
)
