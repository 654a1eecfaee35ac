"""STAMP, figure 9: the filters of STAMP added one by one, by delta and by tau."""

from bench.cases.similar import Standing
from bench.claims import Ahead, Level, Trend
from bench.figure import Figure
from nearcast.engines.similar import FILTERS

FIGURE = Figure(
    title="Filters of STAMP",
    workload="200,000 subscriptions of 1 to 5 words of tweets, delta 0 to 1 and tau 0.5 to 1 unless fixed; tweets as "
    "messages; ssim is 0 from 50 km on",
    expected="SP+RP+ST+HI wins and SP is last; all get faster as tau grows; delta hardly matters to SP+RP+ST+HI",
    claims=(
        Ahead("SP+HI", ("SP",)),
        Ahead("SP+RP+HI", ("SP+HI",)),
        Ahead("SP+RP+ST+HI", ("SP", "SP+HI", "SP+RP+HI", "SP+ST+HI")),
        Trend("faster", at=("tau 0.5", "tau 0.6", "tau 0.7", "tau 0.8", "tau 0.9")),
        Level(("SP+RP+ST+HI",), within=2, at=("delta 0.1", "delta 0.3", "delta 0.5", "delta 0.7", "delta 0.9")),
    ),
    because="the hierarchy of regions is what counts; the other filters lower what is looked at (figure 10), and "
    "the time by less than one repetition on a busy machine shows; with delta 0.5 few answers are left",
    sweep=(
        "varied",
        (
            *("delta 0.1", "delta 0.3", "delta 0.5", "delta 0.7", "delta 0.9"),
            *("tau 0.5", "tau 0.6", "tau 0.7", "tau 0.8", "tau 0.9"),
        ),
    ),
    series={filters: (Standing, {"engine": "stamp", "filters": filters}) for filters in FILTERS},
    baseline="SP",
    repeats=3,
    average=True,
    work={
        "answers a message": ("answers", "messages"),
        "candidates a message": ("candidates", "messages"),
        "accessed a message": ("accessed", "messages"),
    },
    sizes={
        "messages": "tweets_2021_2022",
        "max_distance": 50_000,
        "subscriptions": 200_000,
        "published": 200,
        "checked": 20,
    },
    tiny={
        "varied": ("defaults",),
        "messages": "zipf",
        "max_distance": 0.05,
        "subscriptions": 1_000,
        "published": 100,
        "fanout": 32,
    },
)
