"""The message index at 100,000 and at 1,000,000 live messages: arrivals with expiries, and questions by words."""

from bench.cases.index import Arrivals, Questions
from bench.claims import AtLeast, GrowthAtMost
from bench.figure import Figure

FIGURE = Figure(
    title="Message index",
    workload="synthetic messages of 4 to 10 Zipf words of 100,000, clustered places, in a full count window; "
    "questions for the best or nearest 20 take their 1 to 5 words and place from messages",
    expected="50,000 arrivals and expiries a second or more; questions well under a millisecond at a million; "
    "ten times the window costs a question far less than ten times the time",
    bars=(
        AtLeast("arrivals", 50_000),
        AtLeast("top 20", 1_000),
        AtLeast("20 nearest, all words", 1_000),
        AtLeast("20 nearest, any word", 1_000),
        GrowthAtMost(("top 20", "20 nearest, all words", "20 nearest, any word"), 5, (100_000, 1_000_000)),
    ),
    sweep=("window", (100_000, 1_000_000)),
    series={
        "arrivals": (Arrivals, {}),
        "top 20": (Questions, {"kind": "topk"}),
        "20 nearest, all words": (Questions, {"kind": "nearest_all"}),
        "20 nearest, any word": (Questions, {"kind": "nearest_any"}),
    },
    repeats=3,
    sizes={"messages": "zipf", "arrivals": 50_000, "questions": 500, "words": (1, 2, 3, 4, 5), "checked": 5},
    tiny={"window": (3_000,), "arrivals": 2_000, "questions": 20, "words": (1, 3), "checked": 5},
)
