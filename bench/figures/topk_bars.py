"""TopK at a million subscriptions and a million live messages: sustained arrivals with their expiries."""

from bench.cases.topk import SIZES, TINY, Sliding
from bench.figure import Figure

FIGURE = Figure(
    title="TopK, a million",
    workload="subscriptions of 1 to 5 words, k = 20, alpha at random; the newest 1,000,000 messages; the engine alone",
    expected="at least 2,000 messages per CPU second, none over 250 ms, a mean buffer of at most 40",
    sweep=("subscriptions", (1_000_000,)),
    series={"Skype": (Sliding, {}), "one by one": (Sliding, {"batch": 1})},
    repeats=3,
    sizes=SIZES,
    tiny={**TINY, "subscriptions": (300,)},
    together=False,
)
