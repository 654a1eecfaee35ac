"""AP-Tree figure 18b: matching of boolean expressions, against the number of subscriptions."""

from dataclasses import replace

from bench.claims import Ahead, GrowsLeast
from bench.figures.ap_tree_fig_18a import FIGURE as WORDS

FIGURE = replace(
    WORDS,
    title="Within, number of expressions",
    workload="boxes of 0.01 % to 1 %; five words of each in two parts, joined by AND or OR; tweets",
    expected="time grows with the matches; AP-Tree grows least",
    claims=(
        GrowsLeast("AP-Tree", ("IQ-Tree", "RQ-Tree")),
        Ahead("AP-Tree", ("IQ-Tree", "RQ-Tree")),
    ),
    bars=(Ahead("AP-Tree", ("two-level",)),),
    sweep=("subscriptions", (100_000, 300_000, 1_000_000)),
    sizes={**WORDS.sizes, "n_words": 5},
    tiny={**WORDS.tiny, "n_words": 5, "subscriptions": (1_500,)},
    together=False,
)
