"""AP-Tree figure 19a: what filing messages costs: arrivals with and without it."""

from bench.cases.within_moving import MOVING_LINES, MOVING_SIZES, MOVING_TINY, Arriving
from bench.claims import KeepingCosts
from bench.count_claims import CountAtLeast
from bench.figure import Figure

FIGURE = Figure(
    title="Within, moving: message insertion",
    workload="200,000 boxes of 0.01 % to 1 % with 1 to 5 words on the roads of Oldenburg, the newest 200,000 tweets "
    "live; each line also with no message kept, so that the difference is the insertion",
    expected="insertion costs SS-Index and KK-Index least: the trees file a message several times",
    claims=(KeepingCosts(("SS-Index", "KK-Index"), ("AP+-Tree", "IQ+-Tree", "RQ+-Tree")),),
    bars=(CountAtLeast("rebuilds", ("AP+-Tree",), "rebuilds", 1),),
    because="AP+-Tree files a message with the leaves that matching has found already, so that it costs no more "
    "than in KK-Index",
    sweep=("messages", ("tweets_2021_2022", "places_gnis_us")),
    series={
        **{name: (Arriving, own) for name, own in MOVING_LINES.items()},
        **{f"{name}, none kept": (Arriving, {**own, "kept": False}) for name, own in MOVING_LINES.items()},
    },
    repeats=3,
    sizes={name: value for name, value in MOVING_SIZES.items() if name != "messages"},
    tiny={**MOVING_TINY, "messages": ("zipf",)},
)
