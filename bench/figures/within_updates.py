"""Subscriptions that join and leave a broker with a million of them, in batches of 10,000."""

from bench.cases.within import LINES, TINY
from bench.cases.within_upkeep import Subscribing
from bench.claims import AtLeast
from bench.figure import Figure
from nearcast.workload import s1m

FIGURE = Figure(
    title="Within, joining and leaving",
    workload="s1m: 100,000 more subscriptions join 1,000,000 through subscribe_many in Arrow batches of 10,000, and "
    "leave through unsubscribe_many; no window",
    expected="at least 50,000 a second each; no batch takes much longer than the others",
    bars=(
        AtLeast("AP-Tree, joining", 50_000),
        AtLeast("AP-Tree, leaving", 50_000),
    ),
    sweep=("subscriptions", (1_000_000,)),
    series={
        f"{name}, {what}": (Subscribing, {**LINES[name], "leaving": what == "leaving"})
        for name in ("AP-Tree", "two-level")
        for what in ("joining", "leaving")
    },
    repeats=3,
    sizes={"messages": "s1m", "changed": 100_000, "checked": 100},
    tiny={**TINY, "messages": "s1m", "subscriptions": (1_500,), "changed": 500},
    seed=s1m.SEED,
)
