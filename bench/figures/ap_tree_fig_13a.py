"""AP-Tree figure 13a: matching against the number of words of a subscription, tweets."""

from bench.cases.within import LINES, SIZES, TINY, Standing
from bench.claims import Ahead, MarginGrows, Trend
from bench.figure import Figure

FIGURE = Figure(
    title="Within, number of words: tweets",
    workload="200,000 boxes of 0.01 % to 1 % that ask for exactly x words; the engine alone",
    expected="faster with more words, because less matches; AP-Tree hardly ahead with one word, far with several",
    claims=(
        Trend("faster"),
        Ahead("AP-Tree", ("IQ-Tree", "RQ-Tree")),
        MarginGrows("AP-Tree", ("IQ-Tree", "RQ-Tree")),
    ),
    bars=(Ahead("AP-Tree", ("two-level",)),),
    because="words stand rarest first here, also in the rivals' rows, so that with several words the first one "
    "decides for everybody; with one word only the tree adapts",
    sweep=("n_words", (1, 2, 3, 4, 5)),
    series={name: (Standing, own) for name, own in LINES.items()},
    repeats=3,
    baseline="two-level",
    sizes={**SIZES, "messages": "tweets_2021_2022"},
    tiny={**TINY, "n_words": (1, 3)},
)
