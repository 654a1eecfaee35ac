"""One million subscriptions in 20 shards: how evenly work is spread, and how fast the busiest shard is."""

from dataclasses import replace

from bench.cases.sharded import SIZES, WAYS, Sharded
from bench.claims import Ahead
from bench.count_claims import CountAtMost, Fewer
from bench.figures import dkm_table_2

FIGURE = replace(
    dkm_table_2.FIGURE,
    title="DkM-SKS: 1,000,000 subscriptions in 20 shards",
    workload=(
        "any of 1 to 5 words, k 1 to 10, drawn from the data; no window, 300,000 messages before; 100 subscriptions "
        "come and 100 leave with every 1,000 messages"
    ),
    expected="DkM-SKS at most 0.05 apart and below KOP and SOP; its busiest shard at least 5 times as fast as theirs",
    claims=(),
    bars=(
        CountAtMost("spread of counted work", ("DkM-SKS",), "imbalance", 0.05),
        Ahead("DkM-SKS", ("KOP", "SOP"), times=5),
        Fewer("spread of counted work", "DkM-SKS", ("KOP", "SOP"), "imbalance"),
    ),
    because="KOP's lists are long and of all words, which evens its shards out by share, though not by amount of work",
    series={
        name: (Sharded, way) for name, way in {**WAYS, "KOP, boxed": {"method": "keyword", "engine": "boxed"}}.items()
    },
    sizes={**SIZES, "subscriptions": 1_000_000, "before": 300_000, "published": 10_000},
)
