"""AP-Tree figure 18a: matching of boolean expressions, against their number of words."""

from bench.cases.within import LINES, SIZES, TINY, Standing
from bench.claims import Ahead, Level, MarginGrows
from bench.figure import Figure

FIGURE = Figure(
    title="Within, expressions",
    workload="200,000 boxes of 0.01 % to 1 %; the words of each are cut in two parts, joined by AND or OR; tweets",
    expected="no line rises or falls much; AP-Tree gains with many words",
    claims=(
        Level(within=2),
        Ahead("AP-Tree", ("IQ-Tree", "RQ-Tree")),
        MarginGrows("AP-Tree", ("IQ-Tree", "RQ-Tree")),
    ),
    bars=(Ahead("AP-Tree", ("two-level",)),),
    sweep=("n_words", (3, 4, 5, 6, 7)),
    series={name: (Standing, own) for name, own in LINES.items()},
    repeats=3,
    baseline="two-level",
    sizes={**SIZES, "messages": "tweets_2021_2022", "expressions": True},
    tiny={**TINY, "n_words": (4,)},
)
