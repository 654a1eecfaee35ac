"""How long a pipeline takes to answer again after it was ended, by how much it had processed before."""

from bench.cases.pipeline import SHARES, Restart
from bench.figure import Figure

FIGURE = Figure(
    title="The pipeline, started again",
    workload="synthetic messages in Parquet files, 2,000 a batch; a million subscriptions in 4 shards, "
    "96 % Within and 1 % of each other kind, a window of the newest 20,000; one batch after the "
    "restart, from when Spark is up",
    expected="at most 30 s, whatever the history",
    sweep=("history", (2, 40)),
    series={"on Spark": (Restart, {"spark": True})},
    repeats=2,
    sizes={
        "messages": "zipf",
        "shares": SHARES,
        "subscriptions": 1_000_000,
        "shards": 4,
        "window": 20_000,
        "batch": 2_000,
        "batches": 1,
        "checked": 1_000,
        "master": None,
    },
    tiny={
        "history": (1,),
        "subscriptions": 400,
        "shares": None,
        "shards": 2,
        "window": 200,
        "batch": 100,
        "checked": 100,
        "master": "local[1]",
    },
    together=False,
)
