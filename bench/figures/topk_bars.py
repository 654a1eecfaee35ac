"""TopK at a million subscriptions and a million live messages: sustained arrivals with their expiries."""

from bench.cases.topk import SIZES, TINY, Sliding
from bench.claims import AtLeast
from bench.count_claims import CountAtMost, LapAtMost
from bench.figure import Figure

FIGURE = Figure(
    title="TopK, a million",
    workload="subscriptions of 1 to 5 words, k = 20, alpha at random; the newest 1,000,000 messages; the engine alone",
    expected="at least 2,000 messages per CPU second, none over 250 ms, a mean buffer of at most 40",
    bars=(
        AtLeast("Skype", 2_000),
        LapAtMost("one by one", "batch of 1", 250),
        CountAtMost("messages kept a subscription", ("Skype",), "mean_buffer", 40),
    ),
    sweep=("subscriptions", (1_000_000,)),
    series={"Skype": (Sliding, {}), "one by one": (Sliding, {"batch": 1})},
    repeats=3,
    sizes=SIZES,
    tiny={**TINY, "subscriptions": (300,)},
    together=False,
)
