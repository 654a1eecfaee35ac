"""The bars of `Similar`: STAMP against scan and rivals at a million subscriptions, in a grid of delta and tau."""

from bench.cases.similar import Standing
from bench.claims import Ahead
from bench.count_claims import CountAtMost
from bench.figure import Figure
from bench.figures.stamp_fig_13 import FIGURE as MATCHING

FIGURE = Figure(
    title="Similar, a million subscriptions",
    workload="1,000,000 subscriptions of 1 to 5 words of tweets, all with the delta and tau of the cell, or drawn from "
    "delta 0 to 1 and tau 0.5 to 1; tweets as messages; ssim is 0 from 50 km on",
    expected="STAMP at least 20 times as fast as the scan on average, in no cell above 1.1 times the scan's time, "
    "and at least 10 times as fast as the better tree; at most 3 candidates an answer and 250 bytes a subscription",
    bars=(
        Ahead("STAMP", ("scan",), times=0.91),
        Ahead("STAMP", ("scan",), times=20, at=("defaults",)),
        Ahead("STAMP", ("R^t++", "100 IR-trees"), times=10, at=("defaults",)),
        CountAtMost("bytes a subscription", ("STAMP",), "subscription_bytes", 250),
        CountAtMost("candidates an answer", ("STAMP",), "candidates", 3, by="answers"),
    ),
    because="R^t++ has places and reaches in its lists here, which the paper does not give it; bytes are above "
    "the bar only where all subscriptions share one delta and tau and all of their words are filed",
    sweep=(
        "varied",
        ("defaults", *(f"delta {delta}, tau {tau}" for delta in (0, 0.25, 0.5, 0.75, 1) for tau in (0.5, 0.7, 0.9))),
    ),
    series={
        "scan": (Standing, {"engine": "scan"}),
        **{name: MATCHING.series[name] for name in ("STAMP", "R^t++", "100 IR-trees")},
    },
    baseline="scan",
    repeats=3,
    average=True,
    work={
        **MATCHING.work,
        "candidates an answer": ("candidates", "answers"),
        "bytes a subscription": ("subscription_bytes", ""),
    },
    sizes={**MATCHING.sizes, "subscriptions": 1_000_000, "published": 100},
    tiny={"varied": ()},
)
