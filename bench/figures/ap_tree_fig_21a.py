"""AP-Tree figure 21a (and 21c, bytes, among the counters): arrivals on all data sets of moving subscriptions."""

from bench.cases.within_moving import MOVING_LINES, MOVING_SIZES, MOVING_TINY, Arriving
from bench.claims import Ahead
from bench.count_claims import CountAtLeast, Fewer
from bench.figure import Figure

SCENES = tuple(
    f"{messages} on {roads}"
    for messages in ("tweets_2021_2022", "places_gnis_us")
    for roads in ("oldenburg", "sanjoaquin")
)

FIGURE = Figure(
    title="Within, moving: arrivals",
    workload="200,000 boxes of 0.01 % to 1 % with 1 to 5 words on roads, the newest 200,000 messages "
    "live; filing counts",
    expected="AP+-Tree ahead of all everywhere, and smallest",
    claims=(
        Ahead("AP+-Tree", ("IQ+-Tree", "RQ+-Tree", "SS-Index", "KK-Index")),
        Fewer("bytes", "AP+-Tree", ("IQ+-Tree", "RQ+-Tree", "SS-Index", "KK-Index"), "subscription_bytes"),
    ),
    bars=(CountAtLeast("rebuilds", ("AP+-Tree",), "rebuilds", 1),),
    because="SS-Index has one grid and short lists, so that its arrivals are cheap; its moves and its memory are not",
    sweep=("scene", SCENES),
    series={name: (Arriving, own) for name, own in MOVING_LINES.items()},
    repeats=3,
    baseline="RQ+-Tree",
    sizes=MOVING_SIZES,
    tiny={**MOVING_TINY, "scene": ("zipf on ",)},
)
