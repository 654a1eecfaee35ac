"""What Spark costs: batches through the shards of a pipeline, and through the same shards without it."""

from bench.cases.pipeline import SHARES, Pipeline
from bench.figure import Figure

FIGURE = Figure(
    title="The pipeline",
    workload="synthetic messages in Parquet files; a million subscriptions in 4 shards, 96 % Within and 1 % "
    "of each other kind, a window of the newest 20,000; 10 batches a run",
    expected="Spark takes at most 1 s a batch, 10 us a message and shard and 1 us an update longer than the shards do",
    sweep=("batch", (2_000, 20_000)),
    series={
        "on Spark": (Pipeline, {"spark": True}),
        "in one process": (Pipeline, {"spark": False}),
    },
    repeats=3,
    baseline="in one process",
    sizes={
        "messages": "zipf",
        "shares": SHARES,
        "subscriptions": 1_000_000,
        "shards": 4,
        "window": 20_000,
        "batches": 10,
        "checked": 1_000,
        "master": None,
    },
    tiny={
        "batch": (100,),
        "subscriptions": 400,
        "shares": None,
        "shards": 2,
        "window": 200,
        "batches": 2,
        "checked": 100,
        "master": "local[1]",
    },
    together=False,
)
